"""Constructors of `Observations`: from arrays, sparse matrices, tables, files, chunks, shards."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from os import PathLike
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..checks import as_path
from ..errors import DataError
from .labels import (
    LabelArray,
    as_shape,
    canonical,
    check_duplicates,
    check_labels,
    check_shape,
    indices,
    merge,
    missing_as_nan,
    real,
)
from .readers import naming, read_file
from .source import Source
from .sparse import Loose, saved_entries, sparse_entries
from .tables import Column, Triples, frame_triples, is_frame, triples

ABSENT = ("unobserved", "zero")


class Constructors:
    """Class methods that construct `Observations`, one per form of input."""

    open_folder: ClassVar[Callable[[Any], Any]]
    """The function that opens shards. The package `shards` sets it, because it imports this module."""

    def __init__(self, *_: Any, **__: Any) -> None:
        raise NotImplementedError

    @classmethod
    def from_dense(cls, X: Any, row_labels: Any = None, col_labels: Any = None) -> Self:
        """Convert a 2-D array in which NaN (or the mask of a masked array) marks unobserved entries.

        `row_labels` and `col_labels` are the labels of the rows and columns, in their order.
        """
        array = real(missing_as_nan(X), ndim=2)
        infinite = np.isinf(array)
        if infinite.any():
            i, j = np.argwhere(infinite)[0]
            count = np.count_nonzero(infinite)
            raise DataError(
                f"{count} infinite value(s), the first at row {i}, column {j}; use NaN for unobserved"
            )
        stored = array.size - int(np.count_nonzero(np.isnan(array)))
        check_shape(array.shape, stored)
        shape = (array.shape[0], array.shape[1])
        labels = _labels(shape, row_labels, col_labels)
        return cls(shape, array, None, stored, row_labels=labels[0], col_labels=labels[1])

    @classmethod
    def from_sparse(cls, X: Any, absent: str | None = None, duplicates: str = "error") -> Self:
        """Convert a scipy.sparse matrix or array of any format; explicit zeros are observed zeros."""
        if not hasattr(X, "tocoo"):
            raise DataError(f"X must be a scipy.sparse matrix or array, got {type(X).__name__}")
        return cls.from_coo(*sparse_entries(X), absent, duplicates)

    @classmethod
    def from_coo(
        cls,
        rows: Any,
        cols: Any,
        values: Any,
        shape: tuple[int, int] | None = None,
        absent: str | None = None,
        duplicates: str = "error",
        row_labels: Any = None,
        col_labels: Any = None,
    ) -> Self:
        """Convert entries given by index: ``V[rows[n], cols[n]] = values[n]``.

        Parameters
        ----------
        rows, cols, values : arrays of the same length; indices start at 0.
        shape : (I, J); by default from the labels, else from the largest indices.
        absent : "unobserved" (the default) or "zero", the meaning of entries that are not given.
        duplicates : "error", "sum", "mean" or "last", for several entries of the same pair.
        row_labels, col_labels : the labels of the rows and columns, in the order of the indices.
        """
        _check_absent(absent)
        rows, cols = indices(rows, "row"), indices(cols, "column")
        values = np.ascontiguousarray(real(values))
        if not len(rows) == len(cols) == len(values):
            raise DataError(
                f"rows, cols and values must have the same length, got {len(rows)}, {len(cols)} and {len(values)}"
            )
        if shape is None:
            shape = _extent(rows, row_labels, "row"), _extent(cols, col_labels, "column")
        shape = as_shape(shape)
        labels = _labels(shape, row_labels, col_labels)
        csr = canonical(rows, cols, values, shape, duplicates, labels)
        return cls(shape, None, csr, len(csr.values), absent or "unobserved", absent is not None, *labels)

    @classmethod
    def from_frame(
        cls,
        df: Any,
        row: Column = None,
        col: Column = None,
        value: Column = None,
        absent: str | None = None,
        duplicates: str = "error",
    ) -> Self:
        """Convert three columns of a pandas or polars DataFrame or a pyarrow Table.

        Columns are chosen by name or position; by default those called row, col (or column) and value, else
        the first ones. Row and column labels may be integers, strings or categories.
        """
        return cls.from_chunks([df], row, col, value, absent, duplicates)

    @classmethod
    def from_file(
        cls,
        path: str | PathLike[str],
        row: Column = None,
        col: Column = None,
        value: Column = None,
        absent: str | None = None,
        duplicates: str = "error",
    ) -> Self:
        """Read delimited text, Parquet, Matrix Market, .npy (dense) or .npz (scipy.sparse, or `save`)."""
        source = as_path(path)
        with naming(source):
            return from_any(cls, read_file(source, row, col, value), absent, duplicates)

    @classmethod
    def from_chunks(
        cls,
        chunks: Iterable[Any],
        row: Column = None,
        col: Column = None,
        value: Column = None,
        absent: str | None = None,
        duplicates: str = "error",
    ) -> Self:
        """Concatenate chunks, each a tuple (row labels, column labels, values) or a data frame."""
        parts = [_chunk(chunk, row, col, value) for chunk in chunks]
        if not parts:
            raise DataError("empty: there are no chunks")
        rows, cols = merge([part.rows for part in parts]), merge([part.cols for part in parts])
        values = np.concatenate([part.values for part in parts])
        del parts
        shape = (len(rows.labels), len(cols.labels))
        labels = rows.labels, cols.labels
        return cls.from_coo(rows.codes, cols.codes, values, shape, absent, duplicates, *labels)

    @classmethod
    def from_shards(cls, path: str | PathLike[str] | Any) -> Self:
        """Read shards that `psgld.shard` wrote into memory; `Shards.open` leaves them on disk."""
        loaded: Self = cls.open_folder(path).load()
        return loaded


Made = TypeVar("Made", bound=Constructors)


def from_any(cls: type[Made], V: Any, absent: str | None, duplicates: str) -> Made:
    """Return the observations in V, dispatching on its type. V is not a path: the caller reads files."""
    _check_absent(absent)
    check_duplicates(duplicates)
    found: Any = V if isinstance(V, Source) else _construct(cls, V, absent, duplicates)
    if absent is None:
        return found  # type: ignore[no-any-return]
    if absent == "zero" and not found.is_sparse:
        raise DataError(
            "absent='zero' is for sparse data; in a dense array zeros are 0 and NaN is unobserved"
        )
    return replace(found, absent=absent, absent_chosen=True)  # type: ignore[no-any-return]


def _construct(cls: type[Made], V: Any, absent: str | None, duplicates: str) -> Made:
    if isinstance(V, Mapping) and "psgld" in V:
        return _restore(cls, V)
    if is_frame(V):
        return cls.from_frame(V, absent=absent, duplicates=duplicates)
    if isinstance(V, Loose):
        return cls.from_coo(*V, absent, duplicates)
    if hasattr(V, "tocoo"):
        return cls.from_sparse(V, absent, duplicates)
    if isinstance(V, Iterator) or (isinstance(V, list) and all(isinstance(x, Triples) for x in V)):
        return cls.from_chunks(V, absent=absent, duplicates=duplicates)
    if isinstance(V, list) or hasattr(V, "__array__"):
        return cls.from_dense(V)
    raise DataError(
        "V must be a 2-D array or nested list, a masked array, a scipy.sparse matrix, a table (row, column, "
        "value) of pandas, polars or pyarrow, the path of a file, a generator of chunks, or Observations; "
        f"got {type(V).__name__}"
    )


def _restore(cls: type[Made], saved: Mapping[str, Any]) -> Made:
    """Return what `Observations.save` wrote. The file is untrusted, so all checks are run again."""
    try:
        return _restored(cls, saved)
    except DataError:
        raise
    except (KeyError, ValueError, TypeError, IndexError) as error:
        raise DataError(f"not saved by psgld, or damaged: {' '.join(str(error).split())[:300]}") from error


def _restored(cls: type[Made], saved: Mapping[str, Any]) -> Made:
    labels: dict[str, Any] = {name: saved.get(name) for name in ("row_labels", "col_labels")}
    if "dense" in saved:
        return cls.from_dense(saved["dense"], **labels)
    rows, cols = saved["shape"].tolist()
    arrays = {"format": np.array("csr"), "shape": np.array([rows, cols]), "data": saved["values"]}
    loose = saved_entries(arrays | {name: saved[name] for name in ("indices", "indptr")})
    found: Any = cls.from_coo(*loose, str(saved["absent"]), **labels)
    return replace(found, absent_chosen=bool(saved["absent_chosen"]))  # type: ignore[no-any-return]


def _chunk(chunk: Any, row: Column, col: Column, value: Column) -> Triples:
    if isinstance(chunk, Triples):
        return chunk
    if is_frame(chunk):
        return frame_triples(chunk, row, col, value)
    if isinstance(chunk, (tuple, list)) and len(chunk) == 3:
        return triples(*chunk)
    raise DataError(f"a chunk must be (rows, columns, values) or a data frame, got {type(chunk).__name__}")


def _check_absent(absent: str | None) -> None:
    if absent not in (None, *ABSENT):
        raise DataError(f"absent must be 'unobserved' or 'zero', got {absent!r}")


def _labels(shape: tuple[int, int], row: Any, col: Any) -> tuple[LabelArray | None, LabelArray | None]:
    """Check that there are as many labels as rows and columns, and that they are distinct."""
    for axis, size, given in zip(("row", "column"), shape, (row, col), strict=True):
        if given is not None and len(given) != size:
            raise DataError(f"{len(given)} {axis} labels for {size} {axis}s")
    return check_labels(row, "row"), check_labels(col, "column")


def _extent(index: NDArray[Any], labels: Any, axis: str) -> int:
    if labels is not None:
        return len(labels)
    if len(index) and index.min() < 0:
        raise DataError(f"{axis} indices must be >= 0, got {index.min()}; from_chunks takes labels")
    return int(index.max(initial=-1)) + 1
