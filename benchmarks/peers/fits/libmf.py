"""LIBMF: parallel SGD. It reports nothing on the way, so each point of the curve is a fit of its own.

Its `predict` is wrong for C-ordered arrays; predictions are products of `p_factors` and `q_factors`. Unseen ids have
no factors there, and get the mean.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from libmf import mf

from ..record import Array, Problem, Record

PACKAGE = "libmf"


def fit(problem: Problem, settings: dict[str, Any], record: Record) -> None:
    """Run each number of `epochs`; `penalty` is the L2 penalty of both factors, or None for the defaults."""
    about, penalty = problem.about, settings["penalty"]
    options = (
        {}
        if penalty is None
        else {"lambda_p1": 0, "lambda_q1": 0, "lambda_p2": penalty, "lambda_q2": penalty}
    )
    table = np.ascontiguousarray(np.stack(problem.train, axis=1), np.float32)
    i, j, _ = problem.test
    for epochs in settings["epochs"]:
        record.again()
        model = mf.MF(k=about["rank"], nr_threads=about["threads"], nr_iters=epochs, quiet=True, **options)
        model.fit(table)
        with record.aside():
            P, Q = model.p_factors(), model.q_factors()
            mu = np.full(len(i), problem.train.values.mean())
            known = (i < len(P)) & (j < len(Q))
            mu[known] = _products(P, Q, i[known], j[known])
            record.estimate(epochs, np.where(np.isfinite(mu), mu, problem.train.values.mean()))


def _products(P: Array, Q: Array, i: Array, j: Array) -> Array:
    return np.asarray((P[i] * Q[j]).sum(axis=1))
