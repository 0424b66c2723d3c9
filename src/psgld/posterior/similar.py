"""Similar rows (or columns).

    cos(μ_i, μ_i') = w_i G w_i'ᵀ / sqrt(w_i G w_iᵀ · w_i' G w_i'ᵀ),   G = H Hᵀ,

the cosine between two rows of W H within each draw, and its mean and sd over the draws. It is invariant to permutation,
rotation and rescaling of the components, unlike any similarity of the w themselves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from ..checks import is_integer
from ..data.labels import LabelArray, find_labels, frame, named
from ..errors import DataError
from ..runs.draws import check_factors
from ..runs.result import Result
from .predict import Floats


@final
@dataclass(frozen=True, eq=False)
class Similar:
    """The most similar rows or columns, best first: labels, mean and sd of the cosine."""

    labels: LabelArray
    score: Floats
    sd: Floats

    def to_frame(self) -> Any:
        """Return the same as a pandas DataFrame, one line per label."""
        return frame(vars(self))


def similar(posterior: Result, label: Any, n: int, side: str) -> Similar:
    """Return the n rows (side "rows") or columns most similar to one of them, itself left out."""
    if not is_integer(n) or n < 1:
        raise DataError(f"n must be an integer >= 1, got {n!r}")
    d = posterior.draws
    check_factors(d)
    rows = side == "rows"
    X, Y = (d.W, d.H) if rows else (d.H, d.W)
    labels = posterior.row_labels if rows else posterior.col_labels
    at = find_labels(labels, label, X.shape[2], "row" if rows else "column")
    if len(at) != 1:
        raise DataError(f"one label is needed, got {len(at)}")
    total, squares, count = np.zeros(X.shape[2]), np.zeros(X.shape[2]), X.shape[0] * X.shape[1]
    for c, s in np.ndindex(X.shape[:2]):
        cosine = _cosines(X[c, s], Y[c, s], int(at[0]))
        total += cosine
        squares += cosine**2
    mean = total / count
    sd = np.sqrt(np.maximum(squares - count * mean**2, 0.0) / max(count - 1, 1))
    order = np.argsort(-mean, kind="stable")
    order = order[order != at[0]][: int(n)]
    return Similar(named(labels, order), mean[order], sd[order])


def _cosines(X: NDArray[Any], Y: NDArray[Any], i: int) -> Floats:
    X, Y = X.astype(np.float64), Y.astype(np.float64)
    XG = X @ (Y.T @ Y)
    size = np.sqrt(np.maximum(np.einsum("ik,ik->i", XG, X), 1e-300))
    return np.asarray((XG @ X[i]) / (size * size[i]))
