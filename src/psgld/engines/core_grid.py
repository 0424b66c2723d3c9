"""V in blocks, in the data structure of the compiled core; shared by all chains."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from .. import _core
from ..data.partition import ModeStrips, Strips
from ..data.source import Source
from .base import H, W
from .mapped import mapped_grid

_FEW = 3
"""Up to this number of entries per row of a block, the core processes them one by one (`few` in sparse_block.hpp)."""


@final
@dataclass(frozen=True, eq=False)
class CoreGrid:
    """V in blocks, in the data structure of the core; shared by all chains."""

    core: Any  # all outer strips, or those that this process keeps
    shape: tuple[int, ...]
    blocks: int
    swapped: bool  # whether the columns of V are the outer side
    zeros: bool
    part_sizes: NDArray[np.int64]
    """The number of entries of each part."""
    zero_weight: float = 1.0
    """The weight of each implicit zero."""
    hopping: bool = False
    """Whether each rank owns parts, and chains move from rank to rank; otherwise each rank owns strips."""

    def cut_for_draws(self, share: float) -> NDArray[np.int64]:
        """Cut the work for iterations that draw a share of the entries; return the entries per chunk of each part."""
        self.core.cut_chunks(share)
        return np.asarray(self.core.chunk_entries(self.zeros))

    @property
    def thin(self) -> bool:
        """Whether a row of the outer factor has few entries per block: its rows are then stored with a small stride."""
        return bool(self.part_sizes.sum() < _FEW * self.blocks * max(self.shape))

    @property
    def outer(self) -> int:
        """The factor whose strips stay with their worker: the longer one."""
        return H if self.swapped else W

    @property
    def inner(self) -> int:
        """The factor whose strips are paired with all strips of the outer one in turn: the shorter one."""
        return W if self.swapped else H


def core_grid(
    data: Source,
    strips: ModeStrips,
    shift: float,
    dtype: np.dtype[Any],
    own: tuple[int, int] | None = None,
) -> Any:
    """Cut V - shift into blocks of the core; with `own` = (first, end), only those outer strips."""
    # The inner side is accessed in random order, so it is the shorter one, which stays in cache.
    swapped = columns_are_outer(data)
    outer, inner = outer_first(strips, swapped)
    first, last = own or (0, outer.number)
    bounds = outer.bounds[first : last + 1]
    order = np.ascontiguousarray(outer.order[bounds[0] : bounds[-1]])
    sides = (first, len(outer.order), order, bounds - bounds[0], inner.order, inner.bounds)
    make = _core.Grid32 if dtype == np.float32 else _core.Grid64
    if data.on_disk is not None:
        return mapped_grid(data.on_disk, (outer, inner), shift, dtype, swapped)
    if data.csr is None:
        weights = np.empty((0, 0)) if data.weights is None else np.ascontiguousarray(data.weights)
        grid = make(np.ascontiguousarray(data.dense), weights, swapped, shift, *sides)
    else:
        indptr, indices, values = data.csr
        weights = np.empty(0) if data.weights is None else data.weights
        zeros = data.absent == "zero"
        grid = make(indptr, indices, values, weights, swapped, zeros, shift, *sides)
    if data.weighted:
        counts = [np.asarray(data.weight_sums(axis), np.float64) for axis in range(len(data.shape))]
        grid.set_counts(*(counts[::-1] if swapped else counts))
    return grid


def whole_grid(
    data: Source, strips: ModeStrips, shift: float, dtype: np.dtype[Any], hopping: bool = False
) -> CoreGrid:
    """Cut V - shift into blocks, all of them in this process."""
    core = core_grid(data, strips, shift, dtype)
    swapped, zeros = columns_are_outer(data), data.absent == "zero"
    entries = core.entries().T if swapped else core.entries()
    sizes = part_sizes(entries, strips, zeros)
    return CoreGrid(core, data.shape, strips[W].number, swapped, zeros, sizes, data.zero_weight, hopping)


def outer_first(strips: ModeStrips, swapped: bool) -> tuple[Strips, Strips]:
    """Return the strips of the outer and of the inner side."""
    rows, cols = strips
    return (cols, rows) if swapped else (rows, cols)


def columns_are_outer(data: Source) -> bool:
    """Return whether the columns of V are the outer side."""
    return data.shape[1] > data.shape[0]


def part_sizes(entries: NDArray[np.int64], strips: ModeStrips, zeros: bool) -> NDArray[np.int64]:
    """Return the number of entries of each part, given those of the blocks (row strips × column strips)."""
    if zeros:
        entries = np.multiply.outer(*(np.diff(side.bounds) for side in strips))
    strip = np.arange(len(entries))
    return np.array([entries[strip, (strip + p) % len(entries)].sum() for p in strip], dtype=np.int64)
