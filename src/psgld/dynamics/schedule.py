"""Schedules: the part that is visited at iteration t = 1, 2, …, and the scale s of its gradient.

The scale is s = 1 / P(an entry is in the part), so that the average of s × (gradient of the part) over the
schedule is exactly the full gradient, even if parts differ in size.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from ..system.record import Recorded, from_record

Parts = NDArray[np.int32]
Scales = NDArray[np.float64]


class Schedule(Recorded, ABC):
    """An order of the parts."""

    @abstractmethod
    def parts(self, t: int, n: int, sizes: NDArray[np.int64], key: int) -> tuple[Parts, Scales]:
        """Return the parts and scales of iterations t … t + n - 1.

        `sizes` are the numbers of entries of the B parts; `key` is the random key of the chain.
        The result depends on t and the key only: a chain that is interrupted and resumed visits the same parts.
        """


@final
@dataclass(frozen=True)
class Cyclic(Schedule):
    """Parts 0, 1, …, B - 1, repeated, each once per cycle: s = B. The ring of the paper."""

    def parts(self, t: int, n: int, sizes: NDArray[np.int64], key: int) -> tuple[Parts, Scales]:
        """Return the parts and scales of iterations t … t + n - 1."""
        blocks = len(sizes)
        return ((np.arange(t - 1, t - 1 + n)) % blocks).astype(np.int32), np.full(n, float(blocks))


@final
@dataclass(frozen=True)
class Reshuffled(Schedule):
    """All parts in a new random order per cycle: s = B."""

    def parts(self, t: int, n: int, sizes: NDArray[np.int64], key: int) -> tuple[Parts, Scales]:
        """Return the parts and scales of iterations t … t + n - 1."""
        blocks = len(sizes)
        cycles = range((t - 1) // blocks, (t - 2 + n) // blocks + 1)
        orders = [_generator(key, cycle).permutation(blocks) for cycle in cycles]
        first = (t - 1) % blocks
        return np.concatenate(orders)[first : first + n].astype(np.int32), np.full(n, float(blocks))


@final
@dataclass(frozen=True)
class Proportional(Schedule):
    """Parts drawn independently with probability |Π| / N: s = N / |Π|."""

    def parts(self, t: int, n: int, sizes: NDArray[np.int64], key: int) -> tuple[Parts, Scales]:
        """Return the parts and scales of iterations t … t + n - 1."""
        blocks, share = len(sizes), sizes / sizes.sum()
        cycles = range((t - 1) // blocks, (t - 2 + n) // blocks + 1)
        drawn = [_generator(key, cycle).choice(blocks, size=blocks, p=share) for cycle in cycles]
        first = (t - 1) % blocks
        parts = np.concatenate(drawn)[first : first + n].astype(np.int32)
        return parts, 1.0 / share[parts]


@final
@dataclass(frozen=True)
class Hopping(Schedule):
    """One part for `stay` iterations, then the next one, cyclically, from a random start per chain: s = B.

    The parts are the shards of B workers, and a chain moves from one worker to the next (`DSGLD`).
    """

    stay: int

    def parts(self, t: int, n: int, sizes: NDArray[np.int64], key: int) -> tuple[Parts, Scales]:
        """Return the parts and scales of iterations t … t + n - 1."""
        blocks = len(sizes)
        hops = np.arange(t - 1, t - 1 + n) // self.stay + key % blocks
        return (hops % blocks).astype(np.int32), np.full(n, float(blocks))


SCHEDULES: dict[str, type[Schedule]] = {
    "cyclic": Cyclic,
    "reshuffled": Reshuffled,
    "proportional": Proportional,
    "hopping": Hopping,
}
"""Schedules that can be restored from a record, by name."""


def schedule_from_dict(record: Mapping[str, Any]) -> Schedule:
    """Return the schedule that `to_dict` described."""
    found: Schedule = from_record(record, SCHEDULES.values())
    return found


def _generator(key: int, cycle: int) -> np.random.Generator:
    # The cycle is a high word of the counter, so that the streams of successive cycles do not overlap.
    return np.random.Generator(np.random.Philox(key=np.array([key, 1], np.uint64), counter=[0, cycle, 0, 0]))
