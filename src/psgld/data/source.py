"""The interface between a run and its data, in memory (`Observations`) or on disk (`Shards`)."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from ..errors import DataError
from .labels import Csr, FloatArray, IntArray, LabelArray, find_labels, named

Entries = tuple[IntArray, IntArray, FloatArray]
"""Row indices, column indices and values."""

LabelledEntries = tuple[LabelArray, LabelArray, FloatArray]
"""Row labels (or indices, if there are none), column labels and values."""


class Share(NamedTuple):
    """The strips that each of several processes reads, and the collective operations between them."""

    strips: list[range]
    """The strips of each process."""
    here: int
    """The rank of this process."""
    total: Callable[[NDArray[Any]], NDArray[Any]]
    """Sums an array over all processes."""
    exchange: Callable[[list[NDArray[Any]]], list[NDArray[Any]]]
    """Sends the i-th array to process i, and returns the arrays that the processes sent to this one (all-to-all)."""

    @property
    def own(self) -> range:
        """The strips that this process reads."""
        return self.strips[self.here]


class Strip(NamedTuple):
    """The rows of a strip: their indices in V, and their entries in CSR format as in `Csr`."""

    rows: IntArray
    indptr: IntArray
    indices: NDArray[np.int32]
    values: FloatArray


class OnDisk(Protocol):
    """Data that stay on disk, in B strips: what an engine needs to read its blocks from there."""

    @property
    def shape(self) -> tuple[int, int]:
        """(I, J)."""

    @property
    def path(self) -> Any:
        """Where the data are, for messages."""

    @property
    def folder(self) -> Path | None:
        """The directory of the data, or None if they are not in the local file system."""

    @property
    def blocks(self) -> int:
        """B, the number of strips."""

    @property
    def block_entries(self) -> IntArray:
        """Number of entries of each block, (row strip, column strip)."""

    def counts(self, axis: int) -> IntArray:
        """Return the number of observed entries of each row (axis 0) or of each column (axis 1)."""

    def strip(self, b: int) -> Strip:
        """Return a strip; raise DataError if a checksum is wrong or an entry is invalid."""

    def load(self, strips: range | None = None) -> Source:
        """Return the data in memory; with `strips`, only their rows."""

    def check_totals(
        self, strips: range | None = None, total: Callable[[NDArray[Any]], NDArray[Any]] | None = None
    ) -> None:
        """Raise DataError if the sums over the strips that were read are not those of the data."""

    def fingerprint(self, exact: bool = True) -> str:
        """Return a SHA-256 of the data in hexadecimal."""


class Source(ABC):
    """The observed entries of an I × J matrix: base class of the data in memory and on disk.

    Attributes
    ----------
    shape : (I, J).
    stored : number of stored entries.
    absent : meaning of an entry that is not stored, "unobserved" or "zero".
    absent_chosen : whether the caller chose it.
    row_labels, col_labels : int64 or str arrays, or None if the indices are the labels.
    dense, csr : the entries if they are in memory, else None.
    """

    if TYPE_CHECKING:  # fields of the dataclasses below
        shape: tuple[int, int]
        stored: int
        absent: str
        absent_chosen: bool
        row_labels: LabelArray | None
        col_labels: LabelArray | None
        dense: FloatArray | None
        csr: Csr | None

    weights: FloatArray | None = None
    zero_weight: float = 1.0

    # -- shared by all sources ---------------------------------------------------------------------------

    @property
    def size(self) -> int:
        """Number of observed entries: `stored`, or I · J if absent entries are zeros."""
        return self.shape[0] * self.shape[1] if self.absent == "zero" else self.stored

    @property
    def weighted(self) -> bool:
        """Whether entries have weights: an entry of weight w counts w times in the likelihood."""
        return self.weights is not None

    @property
    def total_weight(self) -> float:
        """The sum of the weights of the observed entries: `size`, if each counts once."""
        if not self.weighted:
            return self.size
        return self._stored_weight() + self.zero_weight * (self.size - self.stored)

    @property
    def entry_weights(self) -> FloatArray | None:
        """The weights of the stored values in row-major order; None if each entry counts once."""
        return None

    @property
    def labels(self) -> tuple[LabelArray | None, LabelArray | None]:
        """The labels of each mode: rows, columns."""
        return self.row_labels, self.col_labels

    @property
    def before_filling(self) -> Source | None:
        """The sparse data that these were made from, if `filled` made them; else None."""
        return None

    @property
    def held_out(self) -> Source | None:
        """The entries that `split` held out of these data, if it did."""
        return None

    @property
    def strips(self) -> int | None:
        """B, if the data are stored in strips; None if any partition is possible."""
        return None

    @property
    def on_disk(self) -> OnDisk | None:
        """The strips on disk, if the data stay there; None if they are in memory."""
        return None

    @property
    def cut(self) -> tuple[NDArray[Any], ...] | None:
        """The strip numbers of each mode: of each row, of each column, if the data are stored in strips; else None."""
        return None

    def shared(self, share: Share) -> Source:
        """Return the data as seen by one of several processes: all of them, unless they are stored in strips."""
        return self

    def meaning(self, absent: str | None) -> Self:
        """Return the data with this meaning of absent entries, unless they are dense or the caller chose another."""
        if absent is None or not self.is_sparse or self.absent_chosen:
            return self
        found: Any = self
        return replace(found, absent=absent, absent_chosen=True)  # type: ignore[no-any-return]

    def counts(self, axis: int) -> IntArray:
        """Return the number of observed entries of each row (axis 0) or of each column (axis 1)."""
        cells = math.prod(self.shape)
        if self.size == cells:
            return np.full(self.shape[axis], cells // self.shape[axis], np.int64)
        return self._stored_counts(axis)

    def weight_sums(self, axis: int) -> NDArray[Any]:
        """Return the total weight of each row (axis 0) or column (axis 1): `counts`, if each entry counts once."""
        return self._weight_sums(axis) if self.weighted else self.counts(axis)

    def row_counts(self) -> IntArray:
        """Return the number of observed entries of each row."""
        return self.counts(0)

    def col_counts(self) -> IntArray:
        """Return the number of observed entries of each column."""
        return self.counts(1)

    def mean(self) -> float:
        """Return the weighted mean of the observed entries."""
        return self._total() / self.total_weight

    def variance(self) -> float:
        """Return the weighted variance (mean squared deviation) of the observed entries; inf if it overflows."""
        mean = self.mean()
        among, own = self._among()
        among += (own - mean) * (own - mean)  # a product, because a power raises OverflowError
        share = self._stored_weight() / self.total_weight
        return share * among + (1 - share) * (mean * mean)

    def min(self) -> float:
        """Return the smallest observed value."""
        least = self._least()
        return min(least, 0.0) if self.size > self.stored else least

    def max(self) -> float:
        """Return the largest observed value."""
        most = self._largest()
        return max(most, 0.0) if self.size > self.stored else most

    def entries(self, index: Any) -> Entries:
        """Return the stored entries at the given positions in row-major order."""
        index = np.asarray(index, dtype=np.int64)
        if index.size and (index.min() < 0 or index.max() >= self.stored):
            raise DataError(
                f"entries are numbered 0 to {self.stored - 1}, got {index.min()} to {index.max()}"
            )
        return self._entries(index)

    def labelled_entries(self) -> LabelledEntries:
        """Return all stored entries as (rows, columns, values), in labels if there are any."""
        rows, cols, values = self.entries(np.arange(self.stored))
        return named(self.row_labels, rows), named(self.col_labels, cols), values

    def sample_entries(self, n: int, seed: Any = 0) -> Entries:
        """Draw n observed entries without replacement (all of them if n is larger), in row-major order.

        If absent entries are zeros, they are drawn like the others, with the value 0.
        """
        chosen = self._chosen(n, seed)
        return self.entries(chosen) if self.absent != "zero" else self._cells(chosen)

    def sample_weights(self, n: int, seed: Any = 0) -> FloatArray | None:
        """Return the weights of the entries of `sample_entries`; None if each entry counts once."""
        weights = self.entry_weights
        if weights is None:
            return None
        chosen = self._chosen(n, seed)
        return weights[chosen] if self.absent != "zero" else self._cell_weights(chosen)

    def _chosen(self, n: int, seed: Any) -> IntArray:
        if n >= self.size:
            return np.arange(self.size)
        return np.sort(np.random.default_rng(seed).choice(self.size, n, replace=False, shuffle=False))

    def row_index(self, labels: Any) -> IntArray:
        """Return the row indices of labels. Without row labels, the labels are indices, and are checked."""
        return find_labels(self.row_labels, labels, self.shape[0], "row")

    def col_index(self, labels: Any) -> IntArray:
        """Return the column indices of labels. Without column labels, the labels are indices, and are checked."""
        return find_labels(self.col_labels, labels, self.shape[1], "column")

    # -- implemented by each source ----------------------------------------------------------------------

    @property
    @abstractmethod
    def is_sparse(self) -> bool:
        """Whether the entries are stored as compressed rows."""

    @property
    @abstractmethod
    def indptr(self) -> IntArray:
        """Start of each row among the stored entries, shape (I + 1,)."""

    @property
    @abstractmethod
    def indices(self) -> NDArray[np.int32]:
        """Columns of the stored entries in row-major order. If processes share the data, only the first has them."""

    @property
    @abstractmethod
    def values(self) -> FloatArray:
        """The stored values in row-major order, all in memory."""

    @abstractmethod
    def value_parts(self) -> Iterator[FloatArray]:
        """Yield the stored values in pieces."""

    @abstractmethod
    def load(self) -> Source:
        """Return the data in memory."""

    @abstractmethod
    def filled(self) -> Source:
        """Return the data in memory: as a dense matrix if absent entries are zeros."""

    @abstractmethod
    def fingerprint(self, exact: bool = False) -> str:
        """Return a SHA-256 of the data in hexadecimal; with `exact`, values are not rounded to float32."""

    @abstractmethod
    def _stored_counts(self, axis: int) -> IntArray:
        """Return the number of stored entries of each row (axis 0) or of each column (axis 1)."""

    @abstractmethod
    def _total(self) -> float:
        """Return Σ w v of the stored values."""

    def _stored_weight(self) -> float:
        """Return the sum of the weights of the stored entries."""
        return self.stored

    def _weight_sums(self, axis: int) -> NDArray[np.float64]:
        """Return `weight_sums` of weighted data."""
        raise NotImplementedError

    def _cell_weights(self, chosen: IntArray) -> FloatArray:
        """Return the weights of `_cells` of weighted data."""
        raise NotImplementedError

    @abstractmethod
    def _among(self) -> tuple[float, float]:
        """Return the variance and the mean of the stored values."""

    @abstractmethod
    def _least(self) -> float:
        """Return the smallest stored value."""

    @abstractmethod
    def _largest(self) -> float:
        """Return the largest stored value."""

    @abstractmethod
    def _entries(self, index: IntArray) -> Entries:
        """Return the stored entries at valid positions in row-major order."""

    @abstractmethod
    def _cells(self, chosen: IntArray) -> Entries:
        """Return cells of V, given their row-major positions; cells that are not stored are zeros."""
