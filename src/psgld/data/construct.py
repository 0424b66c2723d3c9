"""Constructors of `Observations`: from arrays, sparse matrices, tables, files, chunks, shards."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from os import PathLike
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..checks import as_path, is_integer
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
from .weights import (
    cell_weights,
    checked_zero_weight,
    list_weights,
    merged_weights,
    of_stored,
    sparse_weights,
    tidy,
)

ABSENT = ("unobserved", "zero")


class Constructors:
    """Class methods that construct `Observations`, one per form of input."""

    open_folder: ClassVar[Callable[[Any], Any]]
    """The function that opens shards. The package `shards` sets it, because it imports this module."""

    def __init__(self, *_: Any, **__: Any) -> None:
        raise NotImplementedError

    @classmethod
    def from_dense(cls, X: Any, row_labels: Any = None, col_labels: Any = None, weights: Any = None) -> Self:
        """Convert a 2-D array in which NaN (or the mask of a masked array) marks unobserved entries.

        `row_labels` and `col_labels` are the labels of the rows and columns, in their order. `weights` is an array of
        the same shape; where X is unobserved they do not matter.
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
        weighing = cell_weights(weights, array)
        return cls(shape, array, None, stored, row_labels=labels[0], col_labels=labels[1], weights=weighing)

    @classmethod
    def from_sparse(
        cls,
        X: Any,
        absent: str | None = None,
        duplicates: str = "error",
        weights: Any = None,
        zero_weight: float = 1.0,
    ) -> Self:
        """Convert a scipy.sparse matrix or array of any format; explicit zeros are observed zeros.

        `weights` is a sparse matrix with the same stored entries, or an array in the order of `X.tocoo()`.
        """
        if not hasattr(X, "tocoo"):
            raise DataError(f"X must be a scipy.sparse matrix or array, got {type(X).__name__}")
        loose = sparse_entries(X)
        weights = sparse_weights(weights, loose.rows, loose.cols, loose.shape)
        return cls.from_coo(*loose, absent, duplicates, weights=weights, zero_weight=zero_weight)

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
        weights: Any = None,
        zero_weight: float = 1.0,
    ) -> Self:
        """Convert entries given by index: ``V[rows[n], cols[n]] = values[n]``.

        Parameters
        ----------
        rows, cols, values : arrays of the same length; indices start at 0.
        shape : (I, J); by default from the labels, else from the largest indices.
        absent : "unobserved" (the default) or "zero", the meaning of entries that are not given.
        duplicates : "error", "sum", "mean" or "last", for several entries of the same pair.
        row_labels, col_labels : the labels of the rows and columns, in the order of the indices.
        weights : one per entry; by default 1. An entry of weight w counts w times in the likelihood.
        zero_weight : with absent="zero", the weight of each entry that is not given.
        """
        _check_absent(absent)
        zero_weight = checked_zero_weight(zero_weight, absent)
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
        if weights is not None:
            weights = merged_weights(rows, cols, list_weights(weights, len(values)), shape, duplicates)
        made = cls(shape, None, csr, len(csr.values), absent or "unobserved", absent is not None, *labels)
        weighed: Self = _weighed(made, weights, zero_weight)
        return weighed

    @classmethod
    def from_frame(
        cls,
        df: Any,
        row: Column = None,
        col: Column = None,
        value: Column = None,
        absent: str | None = None,
        duplicates: str = "error",
        weight: Column = None,
        zero_weight: float = 1.0,
    ) -> Self:
        """Convert three columns of a pandas or polars DataFrame or a pyarrow Table.

        Columns are chosen by name or position; by default those called row, col (or column) and value, else
        the first ones. Row and column labels may be integers, strings or categories. `weight` is a fourth column, of
        weights; by default there is none.
        """
        return cls.from_chunks([df], row, col, value, absent, duplicates, weight, zero_weight)

    @classmethod
    def from_file(
        cls,
        path: str | PathLike[str],
        row: Column = None,
        col: Column = None,
        value: Column = None,
        absent: str | None = None,
        duplicates: str = "error",
        weight: Column = None,
        zero_weight: float = 1.0,
    ) -> Self:
        """Read delimited text, Parquet, Matrix Market, .npy (dense) or .npz (scipy.sparse, or `save`).

        `weight` is the column of the weights in text or Parquet; by default there is none.
        """
        source = as_path(path)
        with naming(source):
            found = read_file(source, row, col, value, weight)
            return from_any(cls, found, absent, duplicates, zero_weight=zero_weight)

    @classmethod
    def from_chunks(
        cls,
        chunks: Iterable[Any],
        row: Column = None,
        col: Column = None,
        value: Column = None,
        absent: str | None = None,
        duplicates: str = "error",
        weight: Column = None,
        zero_weight: float = 1.0,
    ) -> Self:
        """Concatenate chunks, each a tuple (row labels, column labels, values[, weights]) or a data frame."""
        parts = [_chunk(chunk, row, col, value, weight) for chunk in chunks]
        if not parts:
            raise DataError("empty: there are no chunks")
        rows, cols = merge([part.rows for part in parts]), merge([part.cols for part in parts])
        values = np.concatenate([part.values for part in parts])
        weights = _all_weights(parts)
        del parts
        shape = (len(rows.labels), len(cols.labels))
        labels = rows.labels, cols.labels
        return cls.from_coo(
            rows.codes, cols.codes, values, shape, absent, duplicates, *labels, weights, zero_weight
        )

    @classmethod
    def from_shards(cls, path: str | PathLike[str] | Any) -> Self:
        """Read shards that `psgld.shard` wrote into memory; `Shards.open` leaves them on disk."""
        loaded: Self = cls.open_folder(path).load()
        return loaded


Made = TypeVar("Made", bound=Constructors)


def from_any(
    cls: type[Made],
    V: Any,
    absent: str | None,
    duplicates: str,
    weights: Any = None,
    zero_weight: float = 1.0,
) -> Made:
    """Return the observations in V, dispatching on its type. V is not a path: the caller reads files."""
    _check_absent(absent)
    check_duplicates(duplicates)
    column = weights if isinstance(weights, str) or is_integer(weights) else None
    found: Any = V if isinstance(V, Source) else _construct(cls, V, absent, duplicates, column, weights)
    if absent is not None:
        found = _meant(found, absent)
    own = weights if isinstance(V, Source) else None
    return found if own is None and zero_weight == 1.0 else _weighed(found, own, zero_weight)  # type: ignore[no-any-return]


def _meant(found: Any, absent: str) -> Any:
    if absent == "zero" and not found.is_sparse:
        raise DataError(
            "absent='zero' is for sparse data; in a dense array zeros are 0 and NaN is unobserved"
        )
    checked_zero_weight(found.zero_weight, absent)
    return replace(found, absent=absent, absent_chosen=True)


def _construct(
    cls: type[Made], V: Any, absent: str | None, duplicates: str, column: Column, weights: Any
) -> Made:
    if is_frame(V) and (weights is None or column is not None):
        return cls.from_frame(V, absent=absent, duplicates=duplicates, weight=column)
    if is_frame(V):
        rows, cols, values, _ = frame_triples(V)
        V = iter([Triples(rows, cols, values, list_weights(weights, len(values)))])
        return cls.from_chunks(V, absent=absent, duplicates=duplicates)
    if isinstance(V, Iterator) or (isinstance(V, list) and all(isinstance(x, Triples) for x in V)):
        if weights is not None and column is None:
            raise DataError("chunks bring their weights: (rows, columns, values, weights), or name a column")
        return cls.from_chunks(V, absent=absent, duplicates=duplicates, weight=column)
    if column is not None:
        raise DataError(f"weights={column!r} names a column, but V is not a table; give an array of weights")
    if isinstance(V, Mapping) and "psgld" in V:
        return _restore(cls, V)
    if isinstance(V, Loose):
        return cls.from_coo(*V, absent, duplicates, weights=weights)
    if hasattr(V, "tocoo"):
        return cls.from_sparse(V, absent, duplicates, weights)
    if isinstance(V, list) or hasattr(V, "__array__"):
        return cls.from_dense(V, weights=weights)
    raise DataError(
        "V must be a 2-D array or nested list, a masked array, a scipy.sparse matrix, a table (row, column, "
        "value) of pandas, polars or pyarrow, the path of a file, a generator of chunks, or Observations; "
        f"got {type(V).__name__}"
    )


def _weighed(found: Any, weights: Any, zero_weight: float) -> Any:
    """Return the data with weights of the stored entries, in their form, and of the implicit zeros."""
    if not isinstance(found, Constructors):
        raise DataError("shards have no weights; load them into memory first: psgld.Observations.from_shards")
    data: Any = found
    zero_weight = checked_zero_weight(data.zero_weight if zero_weight == 1.0 else zero_weight, data.absent)
    if data.csr is None:
        return replace(data, weights=data.weights if weights is None else cell_weights(weights, data.dense))
    weights = data.weights if weights is None else of_stored(weights, data.csr, data.shape)
    return replace(data, weights=tidy(weights, zero_weight, data.csr.values), zero_weight=zero_weight)


def _all_weights(parts: list[Triples]) -> NDArray[Any] | None:
    """Return the weights of all chunks; None if no chunk has any."""
    given = [part.weights for part in parts if part.weights is not None]
    if given and len(given) < len(parts):
        raise DataError(
            f"{len(parts) - len(given)} of {len(parts)} chunks have no weights; give them to all or none"
        )
    return np.concatenate(given) if given else None


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
        return cls.from_dense(saved["dense"], **labels, weights=saved.get("weights"))
    rows, cols = saved["shape"].tolist()
    arrays = {"format": np.array("csr"), "shape": np.array([rows, cols]), "data": saved["values"]}
    loose = saved_entries(arrays | {name: saved[name] for name in ("indices", "indptr")})
    zero_weight = float(saved.get("zero_weight", 1.0))
    labels |= {"weights": saved.get("weights"), "zero_weight": zero_weight}
    found: Any = cls.from_coo(*loose, str(saved["absent"]), **labels)
    return replace(found, absent_chosen=bool(saved["absent_chosen"]))  # type: ignore[no-any-return]


def _chunk(chunk: Any, row: Column, col: Column, value: Column, weight: Column) -> Triples:
    if isinstance(chunk, Triples):
        return chunk
    if is_frame(chunk):
        return frame_triples(chunk, row, col, value, weight)
    if isinstance(chunk, (tuple, list)) and len(chunk) in (3, 4):
        return triples(*chunk)
    raise DataError(
        f"a chunk must be (rows, columns, values[, weights]) or a data frame, got {type(chunk).__name__}"
    )


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
