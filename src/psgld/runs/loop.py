"""The sampling loop, used by all samplers. It is a generator: early stopping and progress are handled by its caller."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol, final

from ..samplers import DrawBuffers, Marks
from .clock import Clock

_SLICE = 0.2
"""Seconds of compiled work between two yields, at which Ctrl-C, progress and checkpoints are handled."""


@final
@dataclass(frozen=True)
class Plan:
    """`tune` iterations of burn-in, then `draws` draws, `thin` iterations apart."""

    tune: int
    draws: int
    thin: int

    @property
    def iterations(self) -> int:
        """The total number of iterations."""
        return self.tune + self.draws * self.thin

    @property
    def tune_marks(self) -> int:
        """The number of marks in the burn-in."""
        return self.tune // self._tune_every

    @property
    def _tune_every(self) -> int:
        return max(1, -(-self.tune // 100))

    def fits(self, recorded: int, iteration: int) -> bool:
        """Return whether a chain with `recorded` marks can be at `iteration`: from its last mark up to the next."""
        at = [0, *(mark for marks, _ in self.marks() for mark in marks), self.iterations + 1]
        return at[recorded] <= iteration < at[recorded + 1]

    def marks(self) -> Iterator[tuple[range, bool]]:
        """Yield the iterations (marks) at which the trace is recorded, and whether a draw is kept there."""
        yield range(self._tune_every, self.tune + 1, self._tune_every), False
        yield range(self.tune + self.thin, self.iterations + 1, self.thin), True


class Runnable(Protocol):
    """A chain, or several in lockstep: the part of `Chain` that the loop uses."""

    @property
    def iteration(self) -> int:
        """The number of completed iterations."""

    @property
    def passes(self) -> bool:
        """Whether it can run through several marks in one call, given buffers for their draws."""

    def advance(self, n: int) -> None:
        """Run n iterations."""

    def run(self, marks: range, buffers: DrawBuffers | None = None) -> Iterator[Marks]:
        """Run to the last of these iterations, and yield the marks; or run to the first one only, and yield it."""


class Sink(Protocol):
    """Records the marks of a chain."""

    @property
    def clock(self) -> Clock:
        """Counts the time in which the chain is advanced."""

    @property
    def recorded(self) -> int:
        """The number of marks recorded so far."""

    def buffers(self, n: int, keep: bool) -> DrawBuffers | None:
        """Return arrays for the next n draws of W and H (maybe empty); None if the chain must pause at each mark."""

    def record(self, marks: Marks, keep: bool) -> None:
        """Record marks; with `keep`, as draws."""


def _alone(pace: float) -> float:
    return pace


def run(
    chain: Runnable, plan: Plan, recorder: Sink, agree: Callable[[float], float] = _alone
) -> Iterator[int]:
    """Run a chain to the end of the plan; yield the number of iterations since the last yield, a few times per second.

    A resumed chain continues at the first mark that is not recorded. Where several processes run a chain, `agree`
    returns the pace of rank 0, so that all of them yield at the same iterations.
    """
    pace = 1.0  # iterations per slice
    since, behind = 0, recorder.recorded
    for marks, keep in plan.marks():
        pace = max(1.0, pace / 16)  # draws may take longer: the system has to provide their memory
        marks, behind = marks[behind:], max(0, behind - len(marks))
        while marks:
            start, before = chain.iteration, time.perf_counter()
            reach = start + max(1, int(pace))
            near = marks[: max(0, (reach - marks[0]) // marks.step + 1)]
            if near:
                buffers = recorder.buffers(len(near), keep) if len(near) > 1 and chain.passes else None
                for passed in _timed(recorder.clock, chain, chain.run(near, buffers)):
                    recorder.record(passed, keep)
                    marks = marks[len(passed.lp) :]
            else:
                with recorder.clock.running(chain):
                    chain.advance(reach - start)
            n, seconds = chain.iteration - start, max(time.perf_counter() - before, 1e-9)
            pace = agree(min(16 * pace, max(1.0, n * _SLICE / seconds)))
            since += n
            if since >= pace:
                yield since
                since = 0
    yield since


def _timed(clock: Clock, chain: Runnable, steps: Iterator[Marks]) -> Iterator[Marks]:
    """Yield the marks of a chain, and count the time in which it is advanced, not that of the caller."""
    while True:
        with clock.running(chain):
            marks = next(steps, None)
        if marks is None:
            return
        yield marks
