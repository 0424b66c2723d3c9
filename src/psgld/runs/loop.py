"""The only loop. A generator: stopping early, progress and Ctrl-C are plain Python around it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, final

from ..samplers import Marks, Room

_SLICE = 0.2
"""Seconds of compiled work between two looks at the outside world."""


@final
@dataclass(frozen=True)
class Plan:
    """`tune` iterations of burn-in, then `draws` draws, `thin` iterations apart."""

    tune: int
    draws: int
    thin: int

    @property
    def iterations(self) -> int:
        """The number of iterations in all."""
        return self.tune + self.draws * self.thin

    @property
    def tune_marks(self) -> int:
        """The number of marks in the burn-in."""
        return self.tune // self._tune_every

    @property
    def _tune_every(self) -> int:
        return max(1, -(-self.tune // 100))

    def fits(self, recorded: int, iteration: int) -> bool:
        """Say whether a chain that has recorded so many marks can be at an iteration: at the last one, or behind it."""
        at = [0, *(mark for marks, _ in self.marks() for mark in marks), self.iterations + 1]
        return at[recorded] <= iteration < at[recorded + 1]

    def marks(self) -> Iterator[tuple[range, bool]]:
        """Yield the iterations at which something is recorded, and whether it is a draw."""
        yield range(self._tune_every, self.tune + 1, self._tune_every), False
        yield range(self.tune + self.thin, self.iterations + 1, self.thin), True


class Sink(Protocol):
    """What takes in the marks of a chain."""

    @property
    def recorded(self) -> int:
        """The number of marks that are behind."""

    def room(self, n: int, keep: bool) -> Room | None:
        """Return where the next n draws of W and H go, perhaps none; None if the chain has to rest at each mark."""

    def record(self, marks: Marks, keep: bool) -> None:
        """Take in marks; with `keep`, as draws."""


def _alone(pace: float) -> float:
    return pace


def run(chain: Any, plan: Plan, recorder: Sink, agree: Callable[[float], float] = _alone) -> Iterator[int]:
    """Run a chain to the end of the plan; yield the number of iterations just done, a few times a second.

    A chain that is resumed goes on at the first mark that its recorder has not seen.
    Processes that run a chain together `agree` on the pace, so that all of them yield at the same iterations.
    """
    pace = 1.0  # iterations a slice
    since, behind = 0, recorder.recorded
    for marks, keep in plan.marks():
        pace = max(1.0, pace / 16)  # how long draws take is not known yet: their memory may be slow to come
        marks, behind = marks[behind:], max(0, behind - len(marks))
        while marks:
            start, before = chain.iteration, time.perf_counter()
            reach = start + max(1, int(pace))
            near = marks[: max(0, (reach - marks[0]) // marks.step + 1)]
            if near:
                room = recorder.room(len(near), keep) if len(near) > 1 and chain.passes else None
                for passed in chain.run(near, room):
                    recorder.record(passed, keep)
                    marks = marks[len(passed.lp) :]
            else:
                chain.advance(reach - start)
            n, seconds = chain.iteration - start, max(time.perf_counter() - before, 1e-9)
            pace = agree(min(16 * pace, max(1.0, n * _SLICE / seconds)))
            since += n
            if since >= pace:
                yield since
                since = 0
    yield since
