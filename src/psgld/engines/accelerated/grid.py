"""V in blocks on the devices, shared by all chains."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, final

import jax
import numpy as np
from jax.sharding import Mesh
from numpy.typing import NDArray

from ...data.partition import ModeStrips
from ...data.source import Source
from ...errors import ModelError
from ..reference.blocks import runs_of_rows
from .dense import dense_blocks
from .devices import placement, precision
from .sides import Side
from .sparse import Entries, sparse_blocks

_MOST_DRAWN_CELLS = 4_000_000


@final
@dataclass(eq=False)
class AcceleratedGrid:
    """V - shift in blocks. The longer mode is the outer side: its strips stay on their device."""

    data: Source
    strips: ModeStrips
    shift: float
    dtype: np.dtype[Any]
    mesh: Mesh | None
    hopping: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self.shape, self.blocks = self.data.shape, self.strips[0].number
        self.zeros = self.data.absent == "zero"
        self.implicit = self.zeros and self.data.csr is not None
        """Whether zeros are not stored."""
        self.factors = (1, 0) if self.shape[1] > self.shape[0] else (0, 1)
        self.sign = -1 if self.factors[0] else 1
        self.sides = Side.of(self.strips[self.factors[0]]), Side.of(self.strips[self.factors[1]])
        self.counts = [self.data.weight_sums(axis).astype(np.float64) for axis in range(2)]
        self._entries = self._outer_major()
        self._stored = self._entries_by_row()
        self.part_sizes = self._sizes_of_parts()
        self._cut(0.0)
        self._arrays: Any = None
        self._cells: NDArray[np.int64] | None = None

    @property
    def arrays(self) -> Any:
        """The blocks on the devices."""
        if self._arrays is None:
            made = self.cut()
            with precision(self.dtype):
                self._arrays = jax.device_put(made, placement(self.mesh))
        return self._arrays

    def cells_of(self, drawn: NDArray[np.int64]) -> NDArray[np.int32]:
        """Return the cells of entries, given their numbers in outer-major order."""
        if self._cells is not None:
            return self._cells[drawn].astype(np.int32)
        row, column = np.divmod(drawn, self.shape[self.factors[1]])
        return (row * self.sides[1].length + column).astype(np.int32)

    def cut(self) -> Any:
        """Return the blocks as NumPy arrays."""
        if self._entries is not None:
            made, self._cells = sparse_blocks(self._entries, self.sides, self.sign, self.dtype)
            return made
        V = np.asarray(self.data.dense, np.float64).transpose(self.factors) - self.shift
        weights = self.data.weights
        if weights is not None:
            weights = np.asarray(weights).transpose(self.factors)
        return dense_blocks(V, weights, self.sides, self.sign, self.dtype)

    def _outer_major(self) -> Entries | None:
        """Return the entries of sparse data by row of the outer side, then by row of the inner side."""
        if self.data.csr is None:
            return None
        indptr, indices, values = self.data.csr
        at = np.repeat(np.arange(self.shape[0]), np.diff(indptr)), indices.astype(np.int64)
        outer, inner = at[self.factors[0]], at[self.factors[1]]
        values, weights = np.asarray(values, np.float64) - self.shift, self.data.entry_weights
        if not self.factors[0]:
            return Entries(outer, inner, values, weights)
        order = np.lexsort((inner, outer))
        weights = None if weights is None else weights[order]
        return Entries(outer[order], inner[order], values[order], weights)

    # -- chunks, from which entries are drawn, and which have the squared residuals in a checkpoint ---------

    def _entries_by_row(self) -> NDArray[np.int64]:
        """Return the number of stored entries of each outer row in each inner strip, (outer rows, B)."""
        outer, inner = self.sides
        n = len(outer.place)
        if self._entries is None:
            sizes = np.diff(self.strips[self.factors[1]].bounds)
            return np.broadcast_to(sizes, (n, self.blocks))
        key = self._entries.outer * self.blocks + inner.strip[self._entries.inner]
        return np.bincount(key, minlength=n * self.blocks).reshape(n, self.blocks)

    def _sizes_of_parts(self) -> NDArray[np.int64]:
        """Return the number of observed entries of each part."""
        outer, inner = (self.strips[which] for which in self.factors)
        if self.zeros:
            sizes = np.multiply.outer(np.diff(outer.bounds), np.diff(inner.bounds))
        elif self._entries is None:
            seen = ~np.isnan(np.asarray(self.data.dense)).transpose(self.factors)
            by_row = np.add.reduceat(seen[:, inner.order].astype(np.int64), inner.bounds[:-1], axis=1)
            sizes = np.add.reduceat(by_row[outer.order], outer.bounds[:-1], axis=0)
        else:
            sizes = np.add.reduceat(self._stored[outer.order], outer.bounds[:-1], axis=0)
        b = np.arange(self.blocks)
        return np.array([sizes[b, (b + self.sign * p) % self.blocks].sum() for p in b], np.int64)

    def _cut(self, drawn: float) -> None:
        """Cut the blocks into chunks as the core does; remember the first chunk and the chunks of each block."""
        outer, inner = (self.strips[which] for which in self.factors)
        self.runs, number = {}, 0
        for b in range(self.blocks):
            rows = outer.strip(b)
            for c in range(self.blocks):
                columns = len(inner.strip(c))
                if self._entries is None:
                    before = (drawn or 1.0 / 8.0) * np.arange(len(rows) + 1) * columns
                else:
                    before = (drawn or 1.0) * np.concatenate([[0.0], np.cumsum(self._stored[rows, c])])
                runs = runs_of_rows(np.asarray(before, np.float64), len(rows), columns)
                self.runs[b, c], number = (number, runs), number + len(runs)
        self.chunks = number

    @property
    def first_chunks(self) -> NDArray[np.int64]:
        """The first chunk of each block, (outer strips, parts)."""
        b = range(self.blocks)
        return np.array([[self.runs[o, (o + self.sign * p) % self.blocks][0] for p in b] for o in b])

    def block_of_chunk(self) -> NDArray[np.int64]:
        """Return the block of each chunk, numbered as in `first_chunks`."""
        firsts = self.first_chunks.ravel()
        order = np.argsort(firsts)
        return order[np.searchsorted(firsts[order], np.arange(self.chunks), side="right") - 1]

    def cut_for_draws(self, share: float) -> NDArray[np.int64]:
        """Cut the work for iterations that draw a share of the entries; return the entries per chunk, (1, chunks)."""
        if self.implicit:
            self._store_zeros()
        self._cut(share)
        before = np.concatenate([[0], np.cumsum(self._stored[:, 0])])
        _, runs = self.runs[0, 0]
        self.chunk_entries = np.array([before[run.stop] - before[run.start] for run in runs], np.int64)
        return self.chunk_entries[None]

    def _store_zeros(self) -> None:
        """Store all zeros, as they are drawn, too."""
        cells = self.shape[0] * self.shape[1]
        if cells > _MOST_DRAWN_CELLS:
            raise ModelError(
                f"JAX() stores the zeros that SGLD draws: {cells:,} cells, at most {_MOST_DRAWN_CELLS:,} are allowed; "
                "use PSGLD(), or Threads()"
            )
        self.data, self._entries, self.implicit = self.data.filled(), None, False
        self._stored = self._entries_by_row()
