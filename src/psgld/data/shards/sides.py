"""Encodes row and column labels of a stream of entries, and assigns the codes to strips.

Codes number the labels in the order of first appearance. At the end of the stream, when all labels are known, they are
sorted, and their positions are the indices.
"""

from __future__ import annotations

from typing import Any, Protocol, final

import numpy as np
from numpy.typing import NDArray

from ... import _core
from ...errors import DataError
from ..labels import Coded, LabelArray

Codes = NDArray[np.int32]
Column = NDArray[np.int64] | Coded
"""Labels of entries: integers, or encoded."""


class Side(Protocol):
    """Labels of the rows, or of the columns, of V."""

    def __len__(self) -> int:
        """Return the number of codes so far."""

    def codes(self, column: Column) -> Codes:
        """Return the codes of a batch of labels."""

    def finish(self) -> tuple[NDArray[np.int32], LabelArray | None]:
        """Return the index of each code, and the labels in the order of the indices (None: 0, 1, 2, …)."""


@final
class Numbered:
    """Rows (or columns) of known number: the labels are the indices 0 to size - 1."""

    def __init__(self, size: int, axis: str, labels: LabelArray | None = None) -> None:
        self._size, self._axis, self._labels = size, axis, labels

    def __len__(self) -> int:
        return self._size

    def codes(self, column: Column) -> Codes:
        """Return the indices unchanged; raise DataError if some are out of range."""
        index = column.labels[column.codes] if isinstance(column, Coded) else column
        if index.dtype.kind != "i":
            raise DataError(f"{self._axis} indices must be integers where the shape is given")
        low, high = (int(index.min()), int(index.max())) if len(index) else (0, 0)
        if low < 0 or high >= self._size:
            raise DataError(f"{self._axis} indices must lie in 0 to {self._size - 1}, got {low} to {high}")
        return np.ascontiguousarray(index, np.int32)

    def finish(self) -> tuple[NDArray[np.int32], LabelArray | None]:
        """Return 0, 1, 2, … and the labels that were given."""
        return np.arange(self._size, dtype=np.int32), self._labels


@final
class Named:
    """Rows (or columns) whose labels are collected from the stream: integers if all labels are, else strings."""

    def __init__(self) -> None:
        self._integers: Any = _core.LabelIndex()
        self._strings: dict[str, int] | None = None

    def __len__(self) -> int:
        return len(self._integers if self._strings is None else self._strings)

    def codes(self, column: Column) -> Codes:
        """Return the codes of a batch of labels; new labels get the next numbers."""
        if isinstance(column, Coded):
            return self._known(column.labels)[column.codes]
        return self._known(column)

    def _known(self, labels: LabelArray) -> Codes:
        if self._strings is None and labels.dtype.kind == "i":
            codes: Codes = self._integers.encode(np.ascontiguousarray(labels, np.int64))
            return codes
        if self._strings is None:
            self._strings = {str(x): code for code, x in enumerate(self._integers.labels().tolist())}
            self._integers = None
        known = self._strings
        return np.fromiter(
            (known.setdefault(str(x), len(known)) for x in labels.tolist()), np.int32, len(labels)
        )

    def finish(self) -> tuple[NDArray[np.int32], LabelArray | None]:
        """Return the index of each code, its position among the sorted labels, and these labels."""
        labels = (
            self._integers.labels() if self._strings is None else np.array(list(self._strings), dtype=str)
        )
        order = np.argsort(labels, kind="stable")
        index = np.empty(len(labels), np.int32)
        index[order] = np.arange(len(labels), dtype=np.int32)
        return index, labels[order]


_DEALT = 1024


@final
class Dealer:
    """Assigns codes to B strips: each B successive codes in random order, so sizes of strips differ by at most 1."""

    def __init__(self, blocks: int, seed: int) -> None:
        self.blocks, self._seed = blocks, seed
        self._strips = np.empty(0, np.uint16)
        self._rounds = 0

    def strips(self, codes: int) -> NDArray[np.uint16]:
        """Return the strip of each of the first `codes` codes."""
        while len(self._strips) < codes:
            # The array doubles each time. The order depends on the seed and the number of the round only.
            rounds = range(self._rounds, max(1, 2 * self._rounds))
            dealt = [self._round(number) for number in rounds]
            self._strips = np.concatenate([self._strips, *dealt])
            self._rounds = rounds.stop
        return self._strips[:codes]

    def _round(self, number: int) -> NDArray[np.uint16]:
        keys = np.random.default_rng([self._seed, 2, number]).random((_DEALT, self.blocks), np.float32)
        return np.argsort(keys, axis=1).astype(np.uint16).ravel()
