"""myFM: a Bayesian factorisation machine by Gibbs sampling; users and items as two groups of indicators."""

from __future__ import annotations

from typing import Any

import myfm
import numpy as np
from scipy import sparse

from ..record import Array, Problem, Record

PACKAGE = "myfm"


def fit(problem: Problem, settings: dict[str, Any], record: Record) -> None:
    """Run `burnin` + `nsamples` sweeps with all settings at their defaults."""
    rows, cols = problem.shape
    i, j, _ = problem.test

    def each(sweep: int, fm: Any, hyper: Any, history: Any) -> tuple[bool, str]:
        with record.aside():
            V, w = np.asarray(fm.V), np.asarray(fm.w)
            mu = fm.w0 + w[i] + w[rows + j] + (V[i] * V[rows + j]).sum(axis=1)
            record.draw(sweep + 1, mu, hyper.alpha**-0.5, keep=sweep >= settings["burnin"])
        return False, ""

    model = myfm.MyFMGibbsRegressor(rank=problem.about["rank"], random_seed=problem.about["seed"])
    model.fit(
        _indicators(problem.train.rows, problem.train.cols, problem.shape), problem.train.values,
        n_iter=settings["burnin"] + settings["nsamples"], n_kept_samples=settings["nsamples"],
        group_shapes=[rows, cols], callback=each,
    )  # fmt: skip


def _indicators(i: Array, j: Array, shape: tuple[int, int]) -> Any:
    n = len(i)
    columns = np.stack([i, shape[0] + j], axis=1).ravel()
    return sparse.csr_matrix((np.ones(2 * n), columns, np.arange(0, 2 * n + 1, 2)), (n, sum(shape)))
