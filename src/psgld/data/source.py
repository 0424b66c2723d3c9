"""What a run asks of its data, wherever they are kept: in memory (`Observations`) or on disk (`Shards`)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from ..errors import DataError
from .labels import Csr, FloatArray, IntArray, LabelArray, find_labels

Entries = tuple[IntArray, IntArray, FloatArray]
"""Row indices, column indices and values."""

LabelledEntries = tuple[LabelArray, LabelArray, FloatArray]
"""Row labels (or indices, if there are none), column labels and values."""


class Share(NamedTuple):
    """Who reads what, where several processes read the strips of a source together, and how they tell each other."""

    strips: list[range]
    """Of each process."""
    here: int
    """The number of this one."""
    total: Callable[[NDArray[Any]], NDArray[Any]]
    """Adds up an array over the processes."""
    exchange: Callable[[list[NDArray[Any]]], list[NDArray[Any]]]
    """Gives every process its part, and returns what each has for this one."""

    @property
    def own(self) -> range:
        """The strips that this process reads."""
        return self.strips[self.here]


class Source(ABC):
    """The observed entries of an I × J matrix. What is the same for all sources is here; the rest is asked of them.

    Attributes
    ----------
    shape : (I, J).
    stored : number of stored entries.
    absent : what an entry that is not stored means, "unobserved" or "zero".
    absent_chosen : whether the caller said so.
    row_labels, col_labels : int64 or str arrays, or None where the indices are the labels.
    dense, csr : the entries, where they are in memory; else None.
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

    # -- what all sources share --------------------------------------------------------------------------

    @property
    def size(self) -> int:
        """Number of observed entries: the stored ones, or I · J when the absent ones are zeros."""
        return self.shape[0] * self.shape[1] if self.absent == "zero" else self.stored

    @property
    def labels(self) -> tuple[LabelArray | None, LabelArray | None]:
        """The labels of each mode: rows, columns."""
        return self.row_labels, self.col_labels

    @property
    def before_filling(self) -> Source | None:
        """The sparse data, where these are the same with their zeros written out."""
        return None

    @property
    def strips(self) -> int | None:
        """B, where the data are cut into strips already; None where they can be cut in any way."""
        return None

    @property
    def cut(self) -> tuple[NDArray[Any], NDArray[Any]] | None:
        """The strip of each row and of each column, where the data are cut already."""
        return None

    def shared(self, share: Share) -> Source:
        """Return the data as one of several processes sees them: all of them, unless they are cut into strips."""
        return self

    def meaning(self, absent: str | None) -> Self:
        """Return sparse data whose absent entries mean what they meant before, unless the caller has said."""
        if absent is None or not self.is_sparse or self.absent_chosen:
            return self
        found: Any = self
        return replace(found, absent=absent, absent_chosen=True)  # type: ignore[no-any-return]

    def row_counts(self) -> IntArray:
        """Count the observed entries of each row."""
        if self.size == self.shape[0] * self.shape[1]:
            return np.full(self.shape[0], self.shape[1], np.int64)
        return self._stored_counts(0)

    def col_counts(self) -> IntArray:
        """Count the observed entries of each column."""
        if self.size == self.shape[0] * self.shape[1]:
            return np.full(self.shape[1], self.shape[0], np.int64)
        return self._stored_counts(1)

    def mean(self) -> float:
        """Mean of the observed entries."""
        return self._total() / self.size

    def variance(self) -> float:
        """Variance (mean squared deviation) of the observed entries; inf where it leaves the range of floats."""
        mean = self.mean()
        among, own = self._among()
        among += (own - mean) * (own - mean)  # a product: a power that overflows raises
        share = self.stored / self.size
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
        """Return the stored entries at the given positions; they are numbered row by row."""
        index = np.asarray(index, dtype=np.int64)
        if index.size and (index.min() < 0 or index.max() >= self.stored):
            raise DataError(
                f"entries are numbered 0 to {self.stored - 1}, got {index.min()} to {index.max()}"
            )
        return self._entries(index)

    def sample_entries(self, n: int, seed: Any = 0) -> Entries:
        """Draw n observed entries without replacement (all of them if n is larger), in row-major order.

        When the absent entries are zeros they are drawn like the others, with the value 0.
        """
        if n >= self.size:
            chosen = np.arange(self.size)
        else:
            chosen = np.sort(np.random.default_rng(seed).choice(self.size, n, replace=False, shuffle=False))
        return self.entries(chosen) if self.absent != "zero" else self._cells(chosen)

    def row_index(self, labels: Any) -> IntArray:
        """Return the row indices of labels; without row labels, check that they are indices."""
        return find_labels(self.row_labels, labels, self.shape[0], "row")

    def col_index(self, labels: Any) -> IntArray:
        """Return the column indices of labels; without column labels, check that they are indices."""
        return find_labels(self.col_labels, labels, self.shape[1], "column")

    # -- what each source says ---------------------------------------------------------------------------

    @property
    @abstractmethod
    def is_sparse(self) -> bool:
        """Whether the entries are kept as compressed rows."""

    @property
    @abstractmethod
    def indptr(self) -> IntArray:
        """Where each row starts among the stored entries, I + 1 numbers."""

    @property
    @abstractmethod
    def indices(self) -> NDArray[np.int32]:
        """The columns of the stored entries, row by row; of several processes that share them, in the first."""

    @property
    @abstractmethod
    def values(self) -> FloatArray:
        """The stored values, row by row: all of them, in memory."""

    @abstractmethod
    def value_parts(self) -> Iterator[FloatArray]:
        """Give out the stored values piece by piece."""

    @abstractmethod
    def load(self) -> Source:
        """Return the same in memory."""

    @abstractmethod
    def filled(self) -> Source:
        """Return the same with absent zeros written out, in memory."""

    @abstractmethod
    def fingerprint(self, exact: bool = False) -> str:
        """Return a SHA-256 of the data in hexadecimal, with `exact` of all digits of the values."""

    @abstractmethod
    def _stored_counts(self, axis: int) -> IntArray:
        """Count the stored entries of each row (axis 0) or of each column (axis 1)."""

    @abstractmethod
    def _total(self) -> float:
        """Return Σv of the stored values."""

    @abstractmethod
    def _among(self) -> tuple[float, float]:
        """Return the variance and the mean of the stored values."""

    @abstractmethod
    def _least(self) -> float:
        """Return the least stored value."""

    @abstractmethod
    def _largest(self) -> float:
        """Return the largest stored value."""

    @abstractmethod
    def _entries(self, index: IntArray) -> Entries:
        """Return the stored entries at positions that are there."""

    @abstractmethod
    def _cells(self, chosen: IntArray) -> Entries:
        """Return cells of V, numbered row by row, of which those that are not stored are zeros."""
