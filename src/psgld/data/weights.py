"""Weights of entries: an entry of weight w counts w times in the likelihood, Σ w_ij log p(v_ij | μ_ij)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _core
from ..checks import is_number
from ..errors import DataError
from .labels import Csr, FloatArray, missing_as_nan, real
from .sparse import sparse_entries

_LEAST, _MOST = 1e-12, 1e12
_ALLOWED = f"from {_LEAST:g} to {_MOST:g}"


def checked_zero_weight(zero_weight: Any, absent: str | None) -> float:
    """Return the weight of each implicit zero; raise DataError if it is not valid, or there are none."""
    if not is_number(zero_weight) or not _LEAST <= zero_weight <= _MOST:
        raise DataError(f"zero_weight must be a number {_ALLOWED}, got {zero_weight!r}")
    if zero_weight != 1.0 and absent != "zero":
        raise DataError(
            f"zero_weight = {zero_weight!r} is for sparse data with absent='zero', got absent={absent!r}"
        )
    return float(zero_weight)


def tidy(weights: FloatArray | None, zero_weight: float, like: FloatArray) -> FloatArray | None:
    """Return the weights, None if all are 1; ones if only the implicit zeros have another weight."""
    if weights is None:
        return None if zero_weight == 1.0 else np.ones_like(like)
    if zero_weight == 1.0 and bool((weights[like == like] == 1.0).all()):
        return None
    return np.ascontiguousarray(weights, like.dtype)


def cell_weights(weights: Any, values: FloatArray) -> FloatArray | None:
    """Return the weights of a dense matrix, (I, J): 0 where it was not observed; None if all are 1."""
    if weights is None:
        return None
    array = real(missing_as_nan(weights), ndim=2)
    if array.shape != values.shape:
        raise DataError(f"weights have shape {array.shape}, the values {values.shape}; give one per cell")
    seen = ~np.isnan(values)
    _check(array[seen])
    return tidy(np.where(seen, array, 0), 1.0, values)


def list_weights(weights: Any, entries: int) -> FloatArray:
    """Return one weight per entry, in the order of the entries."""
    array = np.ascontiguousarray(real(missing_as_nan(weights)))
    if len(array) != entries:
        raise DataError(f"{len(array)} weights for {entries} entries; give one per entry, in their order")
    _check(array)
    return array


def merged_weights(
    rows: Any, cols: Any, weights: FloatArray, shape: tuple[int, int], duplicates: str
) -> FloatArray:
    """Return weights in the order of compressed rows."""
    if duplicates in ("sum", "mean"):
        raise DataError(
            f"duplicates={duplicates!r} does not say which weight a merged entry has; merge the entries first, or "
            "choose duplicates='last'"
        )
    if rows.dtype != cols.dtype:
        rows, cols = rows.astype(np.int64), cols.astype(np.int64)
    merged: FloatArray = _core.canonical_csr(rows, cols, weights, *shape, duplicates)[2]
    return merged


def sparse_weights(weights: Any, rows: NDArray[Any], cols: NDArray[Any], shape: tuple[int, int]) -> Any:
    """Return the weights of the entries of a sparse matrix in their order; they may be a matrix of the same pattern."""
    if not hasattr(weights, "tocoo"):
        return weights
    found = sparse_entries(weights)
    if found.shape != shape:
        raise DataError(f"weights have shape {found.shape}, the values {shape}; give one per entry")
    at, of = (np.asarray(i, np.int64) * shape[1] + j for i, j in ((rows, cols), (found.rows, found.cols)))
    order = np.argsort(of, kind="stable")
    place = order[np.minimum(np.searchsorted(of, at, sorter=order), max(len(of) - 1, 0))] if len(of) else of
    if len(of) != len(at) or not np.array_equal(of[place], at):
        raise DataError(
            f"weights have {len(of)} entries, the values {len(at)}, and not all at the same places; "
            "give one weight per stored entry"
        )
    return np.asarray(found.values)[place]


def of_stored(weights: Any, csr: Csr, shape: tuple[int, int]) -> FloatArray:
    """Return the weights of compressed rows: one per stored entry, row by row, or a matrix of the same pattern."""
    rows = np.repeat(np.arange(shape[0]), np.diff(csr.indptr))
    return list_weights(sparse_weights(weights, rows, csr.indices, shape), len(csr.values))


def _check(weights: FloatArray) -> None:
    bad = ~((weights >= _LEAST) & (weights <= _MOST))
    if bad.any():
        raise DataError(
            f"weights must be numbers {_ALLOWED}; {int(bad.sum())} of {len(weights)} are not, the first is "
            f"{weights[bad][0]:g}; an entry that should not count is unobserved: leave it out, or set it to NaN"
        )
