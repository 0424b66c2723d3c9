"""Partitions of the rows and columns of V into B strips each.

A *block* is a row strip times a column strip. A *part* is B blocks that share no strip, so they can be updated in
parallel. Part p consists of the blocks (row strip b, column strip (b + p) mod B).
"""

from __future__ import annotations

import reprlib
import zlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..checks import is_integer
from ..errors import ModelError
from ..system import cost
from ..system.record import Recorded, from_record
from .source import Source

IntArray = NDArray[np.int64]


@final
@dataclass(frozen=True, eq=False)
class Strips:
    """The strips of the rows or of the columns.

    `order` lists the indices strip by strip; strip b is `order[bounds[b]:bounds[b + 1]]`.
    """

    order: IntArray
    bounds: IntArray

    @property
    def number(self) -> int:
        """B, the number of strips."""
        return len(self.bounds) - 1

    def strip(self, b: int) -> IntArray:
        """Return the indices of a strip."""
        return self.order[self.bounds[b] : self.bounds[b + 1]]


ModeStrips = tuple[Strips, ...]
"""The strips of each mode of V: of the rows and of the columns of a matrix."""


class Partition(Recorded, ABC):
    """Base class of the ways to partition rows and columns into strips."""

    @abstractmethod
    def cut(self, observations: Source, blocks: int) -> ModeStrips:
        """Return the strips of each mode."""


@final
@dataclass(frozen=True)
class Shuffled(Partition):
    """Shuffles rows and columns, then cuts strips with about the same number of entries each (the default).

    The shuffle distributes neighbouring rows, such as users of one country, over all parts.
    """

    seed: int = 0

    def __post_init__(self) -> None:
        if not is_integer(self.seed) or self.seed < 0:
            raise ModelError(f"seed must be an integer >= 0, got {self.seed!r}")

    def cut(self, observations: Source, blocks: int) -> ModeStrips:
        """Return the strips of each mode."""
        check_blocks(blocks, observations.shape)
        return tuple(
            balanced(
                np.random.default_rng([self.seed, axis]).permutation(n), observations.counts(axis), blocks
            )
            for axis, n in enumerate(observations.shape)
        )


@final
@dataclass(frozen=True)
class InOrder(Partition):
    """Cuts rows and columns in their given order into strips with about the same number of entries each."""

    def cut(self, observations: Source, blocks: int) -> ModeStrips:
        """Return the strips of each mode."""
        check_blocks(blocks, observations.shape)
        return tuple(
            balanced(np.arange(n), observations.counts(axis), blocks)
            for axis, n in enumerate(observations.shape)
        )


@final
@dataclass(frozen=True, eq=False)
class Assigned(Partition):
    """Strips given by the user: the strip number, 0 to B - 1, of each row and of each column."""

    rows: ArrayLike
    cols: ArrayLike

    def __post_init__(self) -> None:
        for name, given in (("rows", self.rows), ("cols", self.cols)):
            try:
                strip = np.asarray(given)
            except ValueError:  # lists of different lengths
                strip = np.empty(0)
            if not strip.size or strip.dtype.kind not in "iuf" or not np.isfinite(strip).all():
                raise ModelError(f"{name} must be strip numbers, 0 to B - 1, got {reprlib.repr(given)}")

    def __repr__(self) -> str:
        # Runs are compared by this text, so it depends on all elements: NumPy would omit the middle of a long array.
        digest = zlib.crc32(
            np.asarray(self.cols, np.int64).tobytes(), zlib.crc32(np.asarray(self.rows, np.int64).tobytes())
        )
        return f"Assigned({self.blocks} strips, {digest:08x})"

    def to_dict(self) -> dict[str, Any]:
        """Return a record with a digest of the strips; the strips themselves cannot be restored from it."""
        return {"name": None, "text": repr(self)}

    @property
    def blocks(self) -> int:
        """The number of strips."""
        return int(np.max(self.rows)) + 1

    def cut(self, observations: Source, blocks: int) -> ModeStrips:
        """Return the strips of each mode."""
        check_blocks(blocks, observations.shape)
        sides = zip((self.rows, self.cols), ("rows", "columns"), strict=True)
        return tuple(
            _assigned(np.asarray(strip), observations.counts(axis), blocks, name)
            for axis, (strip, name) in enumerate(sides)
        )


PARTITIONS: dict[str, type[Partition]] = {"shuffled": Shuffled, "in-order": InOrder, "assigned": Assigned}
"""Partitions by name."""


def partition_from_dict(record: Mapping[str, Any]) -> Partition:
    """Return the partition that `to_dict` described; raise SamplingError if it was `Assigned`."""
    found: Partition = from_record(record, PARTITIONS.values())
    return found


def choose_blocks(observations: Source, most: int = 64) -> int:
    """Return a B at which an iteration takes about as long for the gradient as for the noise.

    The gradient of a part visits N / B entries. The noise and step of a row cost as much as `cost.BALANCED` entries.
    B is at most `most`, unless strips of the shorter side would be too long for a cache.
    B depends on the data only, so the same data give the same chain on every machine.
    """
    rows, cols = observations.shape
    most = min(64, max(most, min(rows, cols) // cost.CACHED_ROWS))
    work = observations.stored if observations.is_sparse else rows * cols
    return int(np.clip(work / (cost.BALANCED * (rows + cols)), 1, min(rows, cols, most)))


def check_blocks(blocks: int, shape: tuple[int, int]) -> None:
    """Raise ModelError if there are more strips than rows or columns."""
    n, name = min(zip(shape, ("rows", "columns"), strict=True), key=lambda side: side[0])
    if blocks > n:
        raise ModelError(f"{blocks} blocks cannot be cut from {n} {name}; choose blocks <= {n}")


def balanced(order: IntArray, counts: IntArray, blocks: int) -> Strips:
    """Return strips with about the same number of entries each, and at least one row each."""
    n = len(order)
    # The noise of a row takes time even if it has no entries, so each row counts as one entry more.
    weight = np.cumsum(counts[order] + 1.0)
    bounds = np.searchsorted(weight, weight[-1] * np.arange(1, blocks) / blocks, side="left") + 1
    # A row with more entries than an average strip could leave the next strip empty; each gets at least one row.
    steps = np.arange(1, blocks)
    bounds = np.maximum.accumulate(bounds - steps) + steps
    bounds = np.minimum(bounds, n - blocks + steps)
    bounds = np.concatenate([[0], bounds, [n]]).astype(np.int64)
    return Strips(_empty_last(order.astype(np.int64), counts, bounds), bounds)


def _empty_last(order: IntArray, counts: IntArray, bounds: IntArray) -> IntArray:
    """Return the order with the rows that have no entries at the ends of the strips, where iterations omit them."""
    strip = np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))
    return order[np.lexsort((counts[order] == 0, strip))]


def _assigned(strip: NDArray[np.generic], counts: IntArray, blocks: int, name: str) -> Strips:
    n = len(counts)
    if strip.shape != (n,):
        raise ModelError(
            f"a strip number is needed for each of the {n} {name}, got an array of shape {strip.shape}"
        )
    present = np.unique(strip)
    if not np.array_equal(present, np.arange(blocks)):
        raise ModelError(
            f"strip numbers of the {name} must be 0 to {blocks - 1}, each used at least once; "
            f"got {present[:5].tolist()}…"
        )
    order = np.argsort(strip, kind="stable").astype(np.int64)
    bounds = np.searchsorted(strip[order], np.arange(blocks + 1)).astype(np.int64)
    return Strips(_empty_last(order, counts, bounds), bounds)
