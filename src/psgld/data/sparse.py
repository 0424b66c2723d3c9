"""Converts matrices of `scipy.sparse`, in memory or in a file, to entries, checking every index.

SciPy's own conversions do not check their arrays: with a wrong offset they write out of bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import DataError

Indices = NDArray[Any]


class Loose(NamedTuple):
    """Entries in coordinate format, and the shape of their matrix."""

    rows: Indices
    cols: Indices
    values: NDArray[Any]
    shape: tuple[int, int]


def sparse_entries(X: Any) -> Loose:
    """Return the stored entries, explicit zeros included, of a matrix or array of any format."""
    if len(X.shape) != 2:
        raise DataError(f"a sparse matrix must have 2 dimensions, got {len(X.shape)}")
    form = getattr(X, "format", None)
    if form not in _FORMATS:  # lil and dok: lists and dictionaries
        X, form = X.tocoo(), "coo"
    return _taken_apart(form, {name: getattr(X, name) for name in _FORMATS[form][0]}, X.shape)


def saved_entries(arrays: Mapping[str, NDArray[Any]]) -> Loose:
    """Return the entries of a matrix that `scipy.sparse.save_npz` wrote, given its arrays by name."""
    found = dict(arrays)
    form = found.pop("format").item()
    form = form.decode("ascii") if isinstance(form, bytes) else form
    if form not in _FORMATS:
        raise ValueError(f"the format is {form!r}, expected one of {', '.join(_FORMATS)}")
    if "coords" in found:
        found["row"], found["col"] = found["coords"]
    shape = _one_dimensional("shape", found["shape"], "iu").tolist()
    if len(shape) != 2 or min(shape) < 0:
        raise ValueError(f"the shape is {shape}, expected rows and columns")
    return _taken_apart(form, {name: found[name] for name in _FORMATS[form][0]}, (shape[0], shape[1]))


def _taken_apart(form: str, arrays: dict[str, NDArray[Any]], shape: tuple[int, int]) -> Loose:
    rows, cols, values = _FORMATS[form][1](**arrays, shape=shape)
    return Loose(rows, cols, values, (int(shape[0]), int(shape[1])))


Parts = tuple[Indices, Indices, NDArray[Any]]


def _coordinates(data: Any, row: Any, col: Any, shape: tuple[int, int]) -> Parts:
    return _one_dimensional("row", row, "iu"), _one_dimensional("col", col, "iu"), data


def _rows(data: Any, indices: Any, indptr: Any, shape: tuple[int, int]) -> Parts:
    return _compressed(indices, indptr, shape[0]), _stored(indices, indptr), _stored(data, indptr)


def _columns(data: Any, indices: Any, indptr: Any, shape: tuple[int, int]) -> Parts:
    return _stored(indices, indptr), _compressed(indices, indptr, shape[1]), _stored(data, indptr)


def _blocks(data: Any, indices: Any, indptr: Any, shape: tuple[int, int]) -> Parts:
    data = np.asarray(data)
    if data.ndim != 3 or 0 in data.shape[1:] or shape[0] % data.shape[1] or shape[1] % data.shape[2]:
        raise DataError(f"blocks of shape {data.shape[1:]} do not fill a matrix of {shape[0]} × {shape[1]}")
    _, height, width = data.shape
    block_rows = _compressed(indices, indptr, shape[0] // height)
    block_cols, data = _stored(indices, indptr).astype(np.int64), _stored(data, indptr)
    rows = block_rows[:, None, None] * height + np.arange(height)[:, None]
    cols = block_cols[:, None, None] * width + np.arange(width)
    return tuple(np.broadcast_to(x, data.shape).reshape(-1) for x in (rows, cols, data))  # type: ignore[return-value]


def _diagonals(data: Any, offsets: Any, shape: tuple[int, int]) -> Parts:
    """Return all entries on the stored diagonals, including zeros. (SciPy's `tocoo` drops them.)"""
    data, offsets = np.asarray(data), _one_dimensional("offsets", offsets, "iu").astype(np.int64)
    if data.ndim != 2 or len(offsets) != len(data):
        raise DataError(f"{len(offsets)} diagonals, but data of shape {data.shape}")
    if len(np.unique(offsets)) < len(offsets):
        raise DataError("a diagonal is stored twice")
    cols = np.broadcast_to(np.arange(data.shape[1]), data.shape)
    rows = cols - offsets[:, None]
    inside = (rows >= 0) & (rows < shape[0]) & (cols < shape[1])
    return rows[inside], cols[inside], data[inside]


_FORMATS: dict[str, tuple[tuple[str, ...], Callable[..., Parts]]] = {
    "coo": (("data", "row", "col"), _coordinates),
    "csr": (("data", "indices", "indptr"), _rows),
    "csc": (("data", "indices", "indptr"), _columns),
    "bsr": (("data", "indices", "indptr"), _blocks),
    "dia": (("data", "offsets"), _diagonals),
}
"""The arrays of each format, and the function that converts them to entries."""


def _compressed(indices: Any, indptr: Any, size: int) -> Indices:
    """Return the row (or column) of each entry, given the compressed pointers of `size` rows."""
    start = _one_dimensional("indptr", indptr, "iu").astype(np.int64)
    _one_dimensional("indices", indices, "iu")
    if len(start) != size + 1 or start[0] != 0 or (np.diff(start) < 0).any() or start[-1] > len(indices):
        raise DataError(
            f"indptr of a sparse matrix must be {size + 1} numbers that increase from 0 to {len(indices)} at most, got "
            f"{len(start)} from {start.min(initial=0)} to {start.max(initial=0)}; the matrix is damaged"
        )
    return np.repeat(np.arange(size, dtype=np.int32 if size < 2**31 else np.int64), np.diff(start))


def _stored(x: Any, indptr: Any) -> NDArray[Any]:
    """Return the elements in use; SciPy's arrays may be longer."""
    x, used = np.asarray(x), int(indptr[-1])
    if len(x) < used:
        raise DataError(f"a sparse matrix of {used} entries has {len(x)} indices or values; it is damaged")
    return np.asarray(x[:used])


def _one_dimensional(name: str, x: Any, kinds: str) -> Indices:
    array: Indices = np.asarray(x)
    if array.ndim != 1 or array.dtype.kind not in kinds:
        raise DataError(
            f"{name} of a sparse matrix must be 1-D integers, got {array.dtype} of shape {array.shape}"
        )
    return array
