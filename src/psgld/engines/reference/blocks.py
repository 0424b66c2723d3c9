"""V as one array, with the chunks of rows from which the core draws entries."""

from __future__ import annotations

from typing import NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from ... import _core
from ...data.partition import IntArray, ModeStrips
from ...data.source import Source
from .philox import uniform_words

_TILE = _core.panel_rows
"""A chunk has a multiple of this number of rows."""


class Chunk(NamedTuple):
    """Consecutive rows of a block: indices of V on the outer and the inner side, and the number of the chunk."""

    rows: IntArray
    cols: IntArray
    place: int


@final
class ReferenceGrid:
    """V - shift, (I, J): NaN where it was not observed, zeros where absent entries are zeros."""

    hopping = False

    def __init__(self, data: Source, strips: ModeStrips, shift: float) -> None:
        self.shape, self.zeros, self.sides = data.shape, data.absent == "zero", strips
        self.blocks = strips[0].number
        self.swapped = data.shape[1] > data.shape[0]
        self._dense = data.csr is None
        if data.dense is not None:
            self.V = np.array(data.dense, np.float64) - shift
            self._stored = ~np.isnan(self.V)
        else:
            self.V = np.full(data.shape, 0.0 if self.zeros else np.nan) - shift
            self._stored = np.zeros(data.shape, bool)
            i = np.repeat(np.arange(data.shape[0]), np.diff(data.indptr))
            self.V[i, data.indices] = np.asarray(data.values, np.float64) - shift
            self._stored[i, data.indices] = True
        self.observed = ~np.isnan(self.V)
        self.weights = self._weights(data)
        self.part_sizes = np.array([self._part_size(p) for p in range(self.blocks)], np.int64)
        self._cut(0.0)

    def _weights(self, data: Source) -> NDArray[np.float64] | None:
        """Return how often each cell counts; None if each observed one counts once."""
        if data.weights is None:
            return None
        weights = np.where(self.observed, data.zero_weight, 0.0)
        weights[self._stored] = np.asarray(data.entry_weights, np.float64)
        return weights

    @property
    def counted(self) -> NDArray[np.float64]:
        """How often each cell counts: its weight, 1 by default, if it was observed, else 0."""
        return self.observed.astype(np.float64) if self.weights is None else self.weights

    def block(self, b: int, part: int) -> tuple[IntArray, ...]:
        """Return the indices, by mode, of the block of a part that lies in row strip b."""
        numbers = b, (b + part) % self.blocks
        return tuple(s.strip(n) for s, n in zip(self.sides, numbers, strict=True))

    def cells(self, part: int) -> NDArray[np.bool_]:
        """Return which cells of V are in a part."""
        inside = np.zeros(self.shape, bool)
        for b in range(self.blocks):
            inside[np.ix_(*self.block(b, part))] = True
        return inside

    def _part_size(self, part: int) -> int:
        return int(np.count_nonzero(self.observed & self.cells(part)))

    # -- chunks ------------------------------------------------------------------------------------------

    def cut_for_draws(self, share: float) -> NDArray[np.int64]:
        """Cut the work for iterations that draw a share of the entries; return the entries per chunk of each part."""
        self._cut(share)
        held = np.zeros((self.blocks, max(map(len, self.chunks))), np.int64)
        for part, chunks in enumerate(self.chunks):
            held[part, : len(chunks)] = [len(self._pairs(chunk)) for chunk in chunks]
        return held

    def _cut(self, drawn: float) -> None:
        """Cut the blocks into chunks as the core does (`cut_chunks` in grid.hpp)."""
        outer, inner = self.sides[::-1] if self.swapped else self.sides
        runs: dict[tuple[int, int], list[slice]] = {}
        for b in range(self.blocks):
            for c in range(self.blocks):
                o, n = outer.strip(b), inner.strip(c)
                runs[b, c] = runs_of_rows(self._entries_before(o, n, drawn), len(o), len(n))
        starts = dict(zip(runs, np.cumsum([0, *map(len, runs.values())]).tolist(), strict=False))
        self.places = sum(map(len, runs.values()))
        self.chunks: list[list[Chunk]] = []
        for part in range(self.blocks):
            turn = -part if self.swapped else part
            chunks = []
            for b in range(self.blocks):
                c = (b + turn) % self.blocks
                o, n = outer.strip(b), inner.strip(c)
                chunks += [Chunk(o[run], n, starts[b, c] + q) for q, run in enumerate(runs[b, c])]
            self.chunks.append(chunks)

    def _entries_before(self, outer: IntArray, inner: IntArray, drawn: float) -> NDArray[np.float64]:
        """Return, for each row of a block, the cost of the entries of all rows before it."""
        if self._dense:
            return np.asarray((drawn or 1.0 / 8.0) * np.arange(len(outer) + 1) * len(inner), np.float64)
        stored = (self._stored.T if self.swapped else self._stored)[np.ix_(outer, inner)]
        return (drawn or 1.0) * np.concatenate([[0.0], np.cumsum(stored.sum(axis=1))])

    # -- draws -------------------------------------------------------------------------------------------

    def times_drawn(self, part: int, draws: NDArray[np.int32], t: int, key: int) -> NDArray[np.float64]:
        """Return how often each entry of V is drawn in iteration t, given the number of draws per chunk of the part."""
        times = np.zeros(self.shape)
        for chunk, n in zip(self.chunks[part], draws.tolist(), strict=False):
            if n:
                pairs = self._pairs(chunk)
                which = [word * len(pairs) >> 64 for word in uniform_words(chunk.place, t, key, n)]
                np.add.at(times, tuple(pairs[which].T), 1.0)
        return times

    def _pairs(self, chunk: Chunk) -> IntArray:
        """Return the entries of a chunk, (n, 2): rows and columns of V, in the order of the core."""
        cells = self._dense or self.zeros
        inner = chunk.cols if cells else np.sort(chunk.cols)
        o, n = np.repeat(chunk.rows, len(inner)), np.tile(inner, len(chunk.rows))
        pairs = np.stack([n, o] if self.swapped else [o, n], axis=1)
        return pairs if cells else pairs[self._stored[pairs[:, 0], pairs[:, 1]]]


def runs_of_rows(entries_before: NDArray[np.float64], rows: int, columns: int) -> list[slice]:
    """Return the row ranges of chunks of about equal cost."""
    tiles = -(-rows // _TILE)
    ends = np.minimum(np.arange(tiles + 1) * _TILE, rows)
    cost = 8.0 * ends + entries_before[ends]
    n = int(np.clip(int(cost[-1] / max(24576.0, 36.0 * columns)), 1, min(16, tiles)))
    runs, start = [], 0
    for q in range(n):
        end = start + 1
        while end < tiles - (n - 1 - q) and (q == n - 1 or cost[end] < cost[-1] * (q + 1) / n):
            end += 1
        runs.append(slice(int(ends[start]), int(ends[end])))
        start = end
    return runs
