"""implicit: alternating least squares, weighted by confidence. Clicks are ranked, not predicted."""

from __future__ import annotations

from typing import Any

import numpy as np
from implicit.als import AlternatingLeastSquares
from scipy import sparse

from ..record import Array, Problem, Record

PACKAGE = "implicit"


def best_items(cells: Any, rank: int, weight: float, seed: int, n: int) -> Array:
    """Return the n best items of each user, without those clicked."""
    model = AlternatingLeastSquares(factors=rank, alpha=weight, random_state=seed)
    model.fit(cells, show_progress=False)
    return np.asarray(model.recommend(np.arange(cells.shape[0]), cells, N=n)[0])


def fit(problem: Problem, settings: dict[str, Any], record: Record) -> None:
    """Rank the items at a `weight` of clicks, by a model from each of `seeds`; record hits at the test items."""
    about = problem.about
    i, j, _ = problem.train
    cells = sparse.csr_matrix((np.ones(len(i), np.float32), (i, j)), problem.shape)
    found = []
    for seed in range(settings["seeds"]):
        best = best_items(cells, about["rank"], settings["weight"], seed, about["best"])
        found.append((best[problem.test.rows] == problem.test.cols[:, None]).any(axis=1))
    with record.aside():
        record.hits(np.mean(found, axis=0))
