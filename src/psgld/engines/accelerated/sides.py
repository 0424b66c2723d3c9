"""Rows and columns of V in strips of equal length, as arrays of a fixed shape need them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from ...data.partition import Strips

GROUP = 64
"""Rows that are added in the precision of the factors; the sums of these groups are added in float64."""

Ints = NDArray[np.int32]


@final
@dataclass(frozen=True, eq=False)
class Side:
    """The strips of one mode, each filled up to the same number of rows."""

    rows: Ints
    """(B, R): the indices of the rows in V, -1 for rows that fill up a strip."""
    place: NDArray[np.int64]
    """The position of each row of V among the B R rows."""
    strip: NDArray[np.int64]
    """The strip of each row of V."""

    @classmethod
    def of(cls, strips: Strips) -> Side:
        """Fill up the strips; long ones to complete groups."""
        lengths = np.diff(strips.bounds)
        longest = int(lengths.max())
        rows = longest if longest <= GROUP else -(-longest // GROUP) * GROUP
        filled = np.full((strips.number, rows), -1, np.int32)
        place = np.empty(len(strips.order), np.int64)
        strip = np.repeat(np.arange(strips.number), lengths)
        within = np.arange(len(strips.order)) - strips.bounds[strip]
        filled[strip, within] = strips.order
        place[strips.order] = strip * rows + within
        return cls(filled, place, place // rows)

    @property
    def length(self) -> int:
        """R, the number of rows per strip."""
        return int(self.rows.shape[1])

    def spread(self, x: NDArray[Any], dtype: Any, empty: float = 0.0) -> NDArray[Any]:
        """Return values of the rows of V, (n, …), by strip: (B, R, …)."""
        out = np.full((self.rows.size, *x.shape[1:]), empty, dtype)
        out[self.place] = x
        return out.reshape(*self.rows.shape, *x.shape[1:])

    def gather(self, x: NDArray[Any]) -> NDArray[Any]:
        """Return values by strip, (B, R, …), in the order of V."""
        return np.asarray(x.reshape(self.rows.size, *x.shape[2:])[self.place])
