"""The matrix V: which of its entries were observed, their values, and the labels of its rows and columns."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..checks import as_path, is_integer, is_number
from ..errors import DataError
from ..system.atomic import write_arrays
from .construct import ABSENT as ABSENT
from .construct import Constructors, from_any
from .labels import Csr, FloatArray, IntArray, LabelArray
from .source import Entries, LabelledEntries, Source
from .tables import Column, is_frame

MOST_CELLS = 250_000_000
"""The largest number of cells of a matrix that is filled with its zeros."""


@dataclass(frozen=True, eq=False, repr=False)
class Observations(Constructors, Source):
    """The observed entries of an I × J matrix, in memory.

    Made by `from_dense`, `from_sparse`, `from_coo`, `from_frame`, `from_file`, `from_chunks`, or by
    `observations` from any of those. Exactly one of `dense` and `csr` is not None.

    Attributes
    ----------
    shape : (I, J).
    dense : 2-D array of float32 or float64, NaN = unobserved; None for sparse data.
    csr : compressed rows (`indptr`, `indices`, `values`); None for dense data.
    stored : number of stored entries (for dense data, of those that are not NaN).
    absent : meaning of an entry that is not stored, "unobserved" or "zero"; dense data: "unobserved".
    absent_chosen : whether the caller chose it; True for dense data.
    row_labels, col_labels : int64 or str arrays, or None if the indices are the labels.

    Examples
    --------
    >>> from psgld.data import Observations
    >>> Observations.from_coo([0, 0, 2], [1, 3, 0], [5.0, 3.0, 4.0])
    Observations(3 × 4, 3 stored (25 %), absent='unobserved', float64)
    """

    shape: tuple[int, int]
    dense: FloatArray | None
    csr: Csr | None
    stored: int
    absent: str = "unobserved"
    absent_chosen: bool = True
    row_labels: LabelArray | None = None
    col_labels: LabelArray | None = None
    totals: tuple[float, float] | None = None
    """Σv and Σ(v - mean)² of the stored values, where they are known: for shards that were loaded."""
    weights: FloatArray | None = None
    """How often each entry counts in the likelihood: of the shape of `dense`, or one per value of `csr`; None: once."""
    zero_weight: float = 1.0
    """The weight of each entry that is not stored, if these are zeros."""
    before_filling: Observations | None = None
    """The sparse data that these were made from, if `filled` made them."""
    held_out: Observations | None = None
    """The entries that `split` held out of these data; results of `sample` keep them."""

    def load(self) -> Observations:
        """Return self: the data are in memory."""
        return self

    @property
    def is_sparse(self) -> bool:
        """Whether the entries are kept as compressed rows."""
        return self.csr is not None

    @property
    def indptr(self) -> IntArray:
        """Where each row starts among the stored entries, I + 1 numbers (computed for dense data)."""
        if self.csr is not None:
            return self.csr.indptr
        return np.concatenate([np.zeros(1, np.int64), np.cumsum(self._seen().sum(axis=1), dtype=np.int64)])

    @property
    def indices(self) -> NDArray[np.int32]:
        """The columns of the stored entries, row by row (computed for dense data)."""
        return self.csr.indices if self.csr is not None else np.nonzero(self._seen())[1].astype(np.int32)

    @property
    def values(self) -> FloatArray:
        """The stored values, row by row (for dense data those that are not NaN)."""
        if self.csr is not None:
            return self.csr.values
        assert self.dense is not None
        return self.dense.ravel() if self.dense.size == self.stored else self.dense[self._seen()]

    @property
    def entry_weights(self) -> FloatArray | None:
        """The weights of the stored values, row by row; None if each entry counts once."""
        if self.weights is None or self.csr is not None:
            return self.weights
        return self.weights.ravel() if self.weights.size == self.stored else self.weights[self._seen()]

    def value_parts(self) -> Iterator[FloatArray]:
        """Yield the stored values: all at once in memory, strip by strip from disk."""
        yield self.values

    def _seen(self) -> NDArray[np.bool_]:
        assert self.dense is not None
        return ~np.isnan(self.dense)

    def _stored_counts(self, axis: int) -> IntArray:
        if axis == 0:
            return np.diff(self.indptr)
        return np.bincount(self.indices, minlength=self.shape[1]).astype(np.int64, copy=False)

    def _weight_sums(self, axis: int) -> NDArray[np.float64]:
        weights, (rows, cols) = self.entry_weights, self.shape
        assert weights is not None
        extra = weights - self.zero_weight if self.absent == "zero" else weights
        index = self.indices if axis else np.repeat(np.arange(rows), np.diff(self.indptr))
        sums = np.bincount(index, extra.astype(np.float64), minlength=self.shape[axis])
        return np.asarray(
            sums + (self.zero_weight * (rows, cols)[1 - axis] if self.absent == "zero" else 0.0)
        )

    def _stored_weight(self) -> float:
        weights = self.entry_weights
        return self.stored if weights is None else float(weights.sum(dtype=np.float64))

    def _total(self) -> float:
        if (weights := self.entry_weights) is not None:
            return float((weights * self.values.astype(np.float64)).sum())
        return float(self.values.sum(dtype=np.float64)) if self.totals is None else self.totals[0]

    def _among(self) -> tuple[float, float]:
        if self.totals is not None:
            return self.totals[1] / self.stored, self.totals[0] / self.stored
        values, weights = self.values, self.entry_weights
        if weights is not None:
            mean = float(np.average(values.astype(np.float64), weights=weights))
            return float(np.average(np.square(values - mean), weights=weights)), mean
        return float(values.var(dtype=np.float64)), float(values.mean(dtype=np.float64))

    def _least(self) -> float:
        return float(self.values.min())

    def _largest(self) -> float:
        return float(self.values.max())

    def fingerprint(self, exact: bool = False) -> str:
        """Return a SHA-256 of the data in hexadecimal.

        It depends on the shape, `absent`, the entries, their weights and the labels, but not on the order of the
        entries or on how they are stored. Values are rounded to float32, unless `exact`.
        """
        digest = hashlib.sha256(json.dumps([self.shape, self.absent]).encode())
        with np.errstate(over="ignore"):
            dtype = "<f8" if exact else "<f4"
            values = self.values.astype(dtype) + 0  # -0.0 is 0.0
            weights = self.entry_weights
        for array in (self.indptr.astype("<i8"), self.indices.astype("<i4"), values):
            digest.update(array.data)
        if weights is not None:
            digest.update(weights.astype(dtype).data)
            digest.update(repr(self.zero_weight).encode())
        for labels in self.labels:
            if (
                labels is not None
                and labels.dtype.kind == "i"
                and np.array_equal(labels, np.arange(len(labels)))
            ):
                labels = None  # as older versions had it
            digest.update(json.dumps(labels if labels is None else labels.tolist()).encode())
        return digest.hexdigest()

    def _entries(self, index: IntArray) -> Entries:
        if self.stored == self.shape[0] * self.shape[1]:
            return *np.divmod(index, self.shape[1]), self.values[index]
        rows = np.searchsorted(self.indptr, index, side="right") - 1
        return rows, self.indices[index].astype(np.int64), self.values[index]

    def _cells(self, chosen: IntArray) -> Entries:
        rows, cols = np.divmod(chosen, self.shape[1])
        at, stored = self._stored_at(chosen)
        return rows, cols, np.where(stored, self.values[at], self.values.dtype.type(0))

    def _stored_at(self, chosen: IntArray) -> tuple[IntArray, NDArray[np.bool_]]:
        """Return the position of each cell among the stored entries, and whether it is one of them."""
        cells = np.repeat(np.arange(self.shape[0]), np.diff(self.indptr)) * self.shape[1] + self.indices
        at = np.minimum(np.searchsorted(cells, chosen), self.stored - 1)
        return at, cells[at] == chosen

    def _cell_weights(self, chosen: IntArray) -> FloatArray:
        weights = self.entry_weights
        assert weights is not None
        at, stored = self._stored_at(chosen)
        return np.where(stored, weights[at], weights.dtype.type(self.zero_weight))

    def filled(self) -> Observations:
        """Return the data as a dense matrix if absent entries are zeros, else the data themselves."""
        if self.absent != "zero" or self.csr is None:
            return self
        if self.shape[0] * self.shape[1] > MOST_CELLS:
            raise DataError(
                f"{self.shape[0]:,} × {self.shape[1]:,} cells are too many to store their zeros, at most "
                f"{MOST_CELLS:,} can be; give some of the cells, zeros among them, as (rows, cols, values)"
            )
        dense, at = np.zeros(self.shape, self.values.dtype), self._places()
        dense[at] = self.values
        weights = None
        if self.weights is not None:
            weights = np.full(self.shape, self.zero_weight, dense.dtype)
            weights[at] = self.weights
        filled = Observations.from_dense(dense, weights=weights)
        return replace(
            filled,
            row_labels=self.row_labels,
            col_labels=self.col_labels,
            before_filling=self,
            held_out=self.held_out,
        )

    def _places(self) -> tuple[IntArray, NDArray[np.int32]]:
        """Return the row and the column of each stored entry."""
        return np.repeat(np.arange(self.shape[0]), np.diff(self.indptr)), self.indices

    def split(self, fraction: float = 0.1, seed: Any = 0) -> tuple[Observations, LabelledEntries]:
        """Hold out a random fraction of the stored entries; return the rest and the held-out (rows, cols, values).

        Held-out rows and columns are labels if the data has any, as `Posterior.predict` takes them. Shape and labels
        stay the same. If absent entries are zeros, held-out entries count as zeros in the training data: the usual
        protocol for implicit feedback. The rest keeps its weights, and has what was held out, with its weights, as
        `held_out`.
        """
        if not is_number(fraction) or not 0 < fraction < 1 or self.stored < 2:
            raise DataError(
                f"fraction must lie between 0 and 1, with 2 entries or more; got {fraction!r} of {self.stored}"
            )
        n_test = min(max(round(fraction * self.stored), 1), self.stored - 1)
        chosen = np.sort(
            np.random.default_rng(seed).choice(self.stored, n_test, replace=False, shuffle=False)
        )
        keep = np.ones(self.stored, bool)
        keep[chosen] = False
        held_out = replace(
            self._part(~keep), absent="unobserved", absent_chosen=True, zero_weight=1.0, held_out=None
        )
        return replace(self._only(keep), held_out=held_out), held_out.labelled_entries()

    def _only(self, keep: NDArray[np.bool_]) -> Observations:
        """Return the data with some of the stored entries."""
        if self.dense is None:
            return self._part(keep)
        dense = self.dense.copy()
        at = np.arange(dense.size) if dense.size == self.stored else np.flatnonzero(self._seen())
        dense.reshape(-1)[at[~keep]] = np.nan
        left = int(np.count_nonzero(keep))
        # Weights of NaN do not matter. Zeros that were written out are now observed here and there.
        return replace(self, dense=dense, stored=left, totals=None, before_filling=None)

    def _part(self, keep: NDArray[np.bool_]) -> Observations:
        """Return some of the stored entries as sparse data."""
        start = np.concatenate([np.zeros(1, np.int64), np.cumsum(keep, dtype=np.int64)])[self.indptr]
        weights = self.entry_weights
        return replace(
            self,
            dense=None,
            csr=Csr(start, self.indices[keep], self.values[keep]),
            stored=int(start[-1]),
            totals=None,
            weights=None if weights is None else weights[keep],
            before_filling=None,
        )

    def save(self, path: str | PathLike[str]) -> None:
        """Write to an .npz file that `from_file` reads back."""
        if as_path(path).suffix.lower() != ".npz":
            raise DataError(f"cannot write {path}: give a name that ends in .npz, or nothing reads it back")
        labels = {"row_labels": self.row_labels, "col_labels": self.col_labels}
        arrays: dict[str, Any] = {name: array for name, array in labels.items() if array is not None}
        if self.csr is None:
            arrays["dense"] = self.dense
        else:
            arrays |= {**self.csr._asdict(), "shape": self.shape, "absent": self.absent}
            arrays["absent_chosen"] = self.absent_chosen
        if self.weights is not None:
            arrays |= {"weights": self.weights, "zero_weight": self.zero_weight}
        try:
            write_arrays(as_path(path), {"psgld": 1, **arrays})
        except OSError as error:
            raise DataError(f"cannot write {path}: {error.strerror or error}") from error

    def __repr__(self) -> str:
        percent = 100 * self.stored / (self.shape[0] * self.shape[1])
        labels = [
            f"{axis} labels: {'int' if given.dtype.kind == 'i' else 'str'}"
            for axis, given in (("row", self.row_labels), ("column", self.col_labels))
            if given is not None
        ]
        form = f"absent={self.absent!r}" if self.is_sparse else "dense"
        parts = [
            f"{self.shape[0]} × {self.shape[1]}",
            f"{self.stored} stored ({percent:.3g} %)",
            form,
            str(self.values.dtype),
        ]
        if self.weights is not None:
            parts.append("weighted")
        return f"Observations({', '.join(parts + labels)})"


def observations(
    V: Any,
    absent: str | None = None,
    duplicates: str = "error",
    weights: Any = None,
    zero_weight: float = 1.0,
    *,
    row: Column = None,
    column: Column = None,
    value: Column = None,
) -> Source:
    """Convert a matrix in any supported form to `Observations`; shards to `Shards`.

    Parameters
    ----------
    V : array or nested list (NaN = unobserved), masked array, scipy.sparse matrix, data frame (row, column,
        value) of pandas, polars or pyarrow, path of a file or of shards (which stay on disk), generator of
        chunks, or Observations.
    absent : meaning of the entries that sparse data does not store, "unobserved" (default) or "zero".
    duplicates : "error", "sum", "mean" or "last", for several entries of the same pair.
    weights : how often each entry counts in the likelihood, Σ w_ij log p(v_ij | μ_ij): numbers > 0 in the form of V
        (an array of its shape, a sparse matrix with the same stored entries, or one per stored entry or line); or
        the column of a table or a text file. By default each entry counts once.
    zero_weight : with absent="zero", the weight of each entry that is not stored.
    row, column, value : the columns of a table or a text file, by name or by position from 0; by default those called
        row, col (or column) and value, else the first ones. If others are left over, a warning says which were read.
    """
    columns = row, column, value
    if columns != (None, None, None):
        return _from_columns(V, columns, absent, duplicates, weights, zero_weight)
    if isinstance(V, (str, PathLike)):
        if Path(V).is_dir() or "://" in str(V):
            V = Observations.open_folder(V)
        elif weights is None or isinstance(weights, str) or is_integer(weights):
            return Observations.from_file(
                V, absent=absent, duplicates=duplicates, weight=weights, zero_weight=zero_weight
            )
        else:
            V = Observations.from_file(V, absent=absent, duplicates=duplicates)
    return from_any(Observations, V, absent, duplicates, weights, zero_weight)


def _from_columns(
    V: Any,
    columns: tuple[Column, Column, Column],
    absent: str | None,
    duplicates: str,
    weights: Any,
    zero: float,
) -> Observations:
    """Return the entries in the named columns of a table, of chunks of it, or of a file."""
    file = isinstance(V, (str, PathLike)) and not (Path(V).is_dir() or "://" in str(V))
    if not (file or is_frame(V) or isinstance(V, Iterator)):
        raise DataError(
            f"row=, column= and value= name columns of a table, but V is a {type(V).__name__}; omit them"
        )
    if not (weights is None or isinstance(weights, str) or is_integer(weights)):
        raise DataError("with row=, column= or value=, weights must name a column of the table")
    if file:
        return Observations.from_file(V, *columns, absent, duplicates, weights, zero)
    chunks = [V] if is_frame(V) else V
    return Observations.from_chunks(chunks, *columns, absent, duplicates, weights, zero)
