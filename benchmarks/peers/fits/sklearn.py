"""scikit-learn: NMF with the Kullback–Leibler loss, multiplicative updates; absent entries are zeros.

The updates continue from the factors that a call returned, so one fit gives the whole curve.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.decomposition import NMF

from ..record import Array, Problem, Record

PACKAGE = "scikit-learn"
_SLICE = 500
"""Rows whose means are computed at a time."""


def fit(problem: Problem, settings: dict[str, Any], record: Record) -> None:
    """Run to each number of `iterations`; `init` as in NMF, means at least `floor` in predictions."""
    warnings.simplefilter("ignore")  # of convergence: the number of iterations is given
    about, done = problem.about, 0
    i, j, v = problem.train
    X = sparse.csr_matrix((v.astype(np.float64), (i, j)), problem.shape)
    options: dict[str, Any] = {"solver": "mu", "beta_loss": "kullback-leibler", "random_state": about["seed"]}
    W = H = None
    for iterations in settings["iterations"]:
        init = settings["init"] if W is None else "custom"
        model = NMF(about["rank"], init=init, max_iter=iterations - done, tol=0.0, **options)
        W = model.fit_transform(X) if W is None else model.fit_transform(X, W=W, H=H)
        H, done = model.components_, iterations
        with record.aside():
            mu = np.einsum("nk,kn->n", W[problem.test.rows], H[:, problem.test.cols])
            floor = settings["floor"]
            record.estimate(done, np.maximum(mu, floor), _total(W, H, floor))


def _total(W: Array, H: Array, floor: float) -> float:
    """Return the sum of the means; the floor lifts every cell, and those without a count pay for it."""
    if floor == 0.0:
        return float(W.sum(axis=0) @ H.sum(axis=1))
    parts = (W[n : n + _SLICE] @ H for n in range(0, len(W), _SLICE))
    return sum(float(np.maximum(part, floor).sum()) for part in parts)
