"""Rows of different lengths in a few arrays of a fixed shape, by their numbers of entries.

A row of n entries lies in the narrowest bucket of width ≥ n. The widths minimise the number of cells. All parts and
strips share the shapes, so that one program serves all of them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

MOST_BUCKETS, _WIDTHS = 4, 48
"""The most buckets: each costs some kernels per iteration. The number of widths that are tried."""

Ints = NDArray[np.int64]


class Buckets(NamedTuple):
    """The widths of the buckets in increasing order, and the number of rows of each."""

    widths: tuple[int, ...]
    rows: tuple[int, ...]

    @property
    def cells(self) -> int:
        """The number of cells of all buckets."""
        return sum(w * n for w, n in zip(self.widths, self.rows, strict=True))


def buckets_for(lengths: Ints) -> Buckets:
    """Return buckets that hold the rows of each block; `lengths` are numbers of entries, (blocks, rows)."""
    longest = int(lengths.max(initial=1))
    widths = np.unique(np.ceil(np.geomspace(1, max(longest, 1), _WIDTHS)).astype(np.int64))
    # The rows of each block that are longer than 0, w_0, w_1, …
    longer = np.stack([(lengths > w).sum(axis=1) for w in (0, *widths.tolist())], axis=1)

    def cells(first: int, last: int) -> int:
        """Return the cells of a bucket of the rows longer than widths[first - 1] and up to widths[last]."""
        return int(widths[last] * (longer[:, first] - longer[:, last + 1]).max())

    best: dict[tuple[int, int], tuple[int, tuple[int, ...]]] = {(0, 0): (0, ())}
    for n in range(1, MOST_BUCKETS + 1):
        for end in range(1, len(widths) + 1):
            tried = [
                (best[n - 1, start][0] + cells(start, end - 1), (*best[n - 1, start][1], end - 1))
                for start in range(end)
                if (n - 1, start) in best
            ]
            if tried:
                best[n, end] = min(tried)
    _, ends = min(best[key] for key in best if key[1] == len(widths))
    starts = (0, *(end + 1 for end in ends[:-1]))
    rows = [int((longer[:, s] - longer[:, e + 1]).max()) for s, e in zip(starts, ends, strict=True)]
    kept = [(int(widths[e]), n) for e, n in zip(ends, rows, strict=True) if n] or [(1, 1)]
    return Buckets(tuple(w for w, _ in kept), tuple(n for _, n in kept))


class Placed(NamedTuple):
    """The places of the rows and entries of a block in buckets."""

    slot: Ints
    """(rows,): the number of each row among the rows of all buckets; that of the last row + 1 if it has no entry."""
    cell: Ints
    """(entries,): the cell of each entry among the cells of all buckets."""


def placed(lengths: Ints, buckets: Buckets) -> Placed:
    """Return the places of rows with these numbers of entries, whose entries follow each other."""
    widths = np.array(buckets.widths)
    which = np.searchsorted(widths, lengths)
    slot = np.full(len(lengths), sum(buckets.rows), np.int64)
    first_cell = np.zeros(len(lengths), np.int64)
    row, cell = 0, 0
    for n, (width, size) in enumerate(zip(buckets.widths, buckets.rows, strict=True)):
        here = np.flatnonzero((which == n) & (lengths > 0))
        slot[here] = row + np.arange(len(here))
        first_cell[here] = cell + width * np.arange(len(here))
        row, cell = row + size, cell + width * size
    within = np.arange(int(lengths.sum())) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return Placed(slot, np.repeat(first_cell, lengths) + within)
