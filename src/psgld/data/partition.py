"""Rows and columns cut into B strips.

A *block* is a row strip times a column strip; a *part* is B blocks that share no strip, so that all of them
can be updated at once. Part p joins row strip b to column strip (b + p) mod B.
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
    """One side of the grid: `order` lists the indices strip after strip, `bounds` (B + 1) where strips begin."""

    order: IntArray
    bounds: IntArray

    @property
    def number(self) -> int:
        """B, the number of strips."""
        return len(self.bounds) - 1


class Partition(Recorded, ABC):
    """How the two sides are cut."""

    @abstractmethod
    def cut(self, observations: Source, blocks: int) -> tuple[Strips, Strips]:
        """Return the strips of the rows and of the columns."""


@final
@dataclass(frozen=True)
class Shuffled(Partition):
    """Shuffle, then cut into strips of about equally many entries (the default).

    The shuffle spreads what is neighbouring in the data, such as users of one country, over all parts.
    """

    seed: int = 0

    def __post_init__(self) -> None:
        if not is_integer(self.seed) or self.seed < 0:
            raise ModelError(f"seed must be an integer >= 0, got {self.seed!r}")

    def cut(self, observations: Source, blocks: int) -> tuple[Strips, Strips]:
        """Return the strips of the rows and of the columns."""
        check_blocks(blocks, observations.shape)
        rows, cols = (
            np.random.default_rng([self.seed, side]).permutation(n)
            for side, n in enumerate(observations.shape)
        )
        return (
            balanced(rows, observations.row_counts(), blocks),
            balanced(cols, observations.col_counts(), blocks),
        )


@final
@dataclass(frozen=True)
class InOrder(Partition):
    """Cut the rows and columns as they come into strips of about equally many entries."""

    def cut(self, observations: Source, blocks: int) -> tuple[Strips, Strips]:
        """Return the strips of the rows and of the columns."""
        check_blocks(blocks, observations.shape)
        rows, cols = (np.arange(n) for n in observations.shape)
        return (
            balanced(rows, observations.row_counts(), blocks),
            balanced(cols, observations.col_counts(), blocks),
        )


@final
@dataclass(frozen=True, eq=False)
class Assigned(Partition):
    """Strips given by the user: for each row and for each column, the number of its strip, 0 to B - 1."""

    rows: ArrayLike
    cols: ArrayLike

    def __post_init__(self) -> None:
        for name, given in (("rows", self.rows), ("cols", self.cols)):
            try:
                strip = np.asarray(given)
            except ValueError:  # lists of several lengths
                strip = np.empty(0)
            if not strip.size or strip.dtype.kind not in "iuf" or not np.isfinite(strip).all():
                raise ModelError(
                    f"{name} must be the numbers of the strips, 0 to B - 1, got {reprlib.repr(given)}"
                )

    def __repr__(self) -> str:
        # Two runs are the same if this is: NumPy would leave out the middle of a long array.
        digest = zlib.crc32(
            np.asarray(self.cols, np.int64).tobytes(), zlib.crc32(np.asarray(self.rows, np.int64).tobytes())
        )
        return f"Assigned({self.blocks} strips, {digest:08x})"

    def to_dict(self) -> dict[str, Any]:
        """Return what tells these strips from others; too many numbers to be made again from their record."""
        return {"name": None, "text": repr(self)}

    @property
    def blocks(self) -> int:
        """The number of strips."""
        return int(np.max(self.rows)) + 1

    def cut(self, observations: Source, blocks: int) -> tuple[Strips, Strips]:
        """Return the strips of the rows and of the columns."""
        check_blocks(blocks, observations.shape)
        sides = zip((self.rows, self.cols), observations.shape, ("rows", "columns"), strict=True)
        rows, cols = (_assigned(np.asarray(strip), n, blocks, name) for strip, n, name in sides)
        return rows, cols


PARTITIONS: dict[str, type[Partition]] = {"shuffled": Shuffled, "in-order": InOrder, "assigned": Assigned}
"""Partitions by name."""


def partition_from_dict(record: Mapping[str, Any]) -> Partition:
    """Return the partition that `to_dict` described; raise SamplingError of one that was assigned."""
    found: Partition = from_record(record, PARTITIONS.values())
    return found


def choose_blocks(observations: Source, most: int = 64) -> int:
    """Return a B at which an iteration spends about as much on the gradient as on the noise.

    The gradient of a part costs about N / B entries, the noise and step of a row as much as `cost.BALANCED` of them.
    It is at most `most`, unless strips of the shorter side would be too long for a cache.
    B depends on the data alone: the same data give the same chain on every machine.
    """
    rows, cols = observations.shape
    most = min(64, max(most, min(rows, cols) // cost.CACHED_ROWS))
    work = observations.stored if observations.is_sparse else rows * cols
    return int(np.clip(work / (cost.BALANCED * (rows + cols)), 1, min(rows, cols, most)))


def check_blocks(blocks: int, shape: tuple[int, int]) -> None:
    """Refuse more strips than the shorter side has rows or columns."""
    n, name = min(zip(shape, ("rows", "columns"), strict=True), key=lambda side: side[0])
    if blocks > n:
        raise ModelError(f"{blocks} blocks cannot be cut from {n} {name}; choose blocks <= {n}")


def balanced(order: IntArray, counts: IntArray, blocks: int) -> Strips:
    """Cut so that strips hold about equally many entries, and each at least one row."""
    n = len(order)
    # A row without entries still costs its noise, so it counts for a little.
    weight = np.cumsum(counts[order] + 1.0)
    bounds = np.searchsorted(weight, weight[-1] * np.arange(1, blocks) / blocks, side="left") + 1
    # Rows that hold more than a strip's share would leave their neighbours empty: one row each at least.
    steps = np.arange(1, blocks)
    bounds = np.maximum.accumulate(bounds - steps) + steps
    bounds = np.minimum(bounds, n - blocks + steps)
    return Strips(order.astype(np.int64), np.concatenate([[0], bounds, [n]]).astype(np.int64))


def _assigned(strip: NDArray[np.generic], n: int, blocks: int, name: str) -> Strips:
    if strip.shape != (n,):
        raise ModelError(
            f"one strip for each of the {n} {name} is needed, got an array of shape {strip.shape}"
        )
    present = np.unique(strip)
    if not np.array_equal(present, np.arange(blocks)):
        raise ModelError(
            f"strips of the {name} must be 0 to {blocks - 1}, each used at least once; got {present[:5].tolist()}…"
        )
    order = np.argsort(strip, kind="stable").astype(np.int64)
    return Strips(order, np.searchsorted(strip[order], np.arange(blocks + 1)).astype(np.int64))
