"""poismf: Poisson factorisation, MAP by conjugate gradients; absent entries are zeros."""

from __future__ import annotations

from typing import Any

import numpy as np
from poismf import PoisMF
from scipy import sparse

from ..record import Problem, Record

PACKAGE = "poismf"


def fit(problem: Problem, settings: dict[str, Any], record: Record) -> None:
    """Run each number of `iterations`; `penalty` is the L2 penalty, or None for the default."""
    about, penalty = problem.about, settings["penalty"]
    i, j, v = problem.train
    cells = sparse.coo_matrix((v.astype(float), (i, j)), problem.shape)
    options = {} if penalty is None else {"l2_reg": penalty}
    for iterations in settings["iterations"]:
        record.again()
        model = PoisMF(
            k=about["rank"],
            niter=iterations,
            nthreads=about["threads"],
            random_state=about["seed"],
            **options,
        )
        model.fit(cells)
        with record.aside():
            W, H = np.asarray(model.A, float), np.asarray(model.B, float)
            mu = np.einsum("nk,nk->n", W[problem.test.rows], H[problem.test.cols])
            record.estimate(iterations, mu, float(W.sum(axis=0) @ H.sum(axis=0)))
