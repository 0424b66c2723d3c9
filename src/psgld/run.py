"""The only loop. A generator: stopping early, progress and Ctrl-C are plain Python around it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, final

from .record import Recorder

_SLICE = 0.1
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

    def marks(self) -> Iterator[tuple[int, bool]]:
        """Yield the iterations at which something is recorded, and whether it is a draw."""
        for t in range(self._tune_every, self.tune + 1, self._tune_every):
            yield t, False
        for d in range(1, self.draws + 1):
            yield self.tune + d * self.thin, True


def _alone(pace: float) -> float:
    return pace


def run(
    chain: Any, plan: Plan, recorder: Recorder, agree: Callable[[float], float] = _alone
) -> Iterator[int]:
    """Run a chain to the end of the plan; yield the number of iterations just done, every tenth of a second or so.

    A chain that is resumed goes on at the first mark that its recorder has not seen.
    Processes that run a chain together `agree` on the pace, so that all of them yield at the same iterations.
    """
    pace = 1.0  # iterations a slice
    since = 0
    for mark, keep in islice(plan.marks(), recorder.recorded, None):
        while chain.iteration < mark:
            n = min(mark - chain.iteration, max(1, int(pace)))
            before = time.perf_counter()
            chain.advance(n)
            pace = agree(min(4 * pace, max(1.0, n * _SLICE / max(time.perf_counter() - before, 1e-9))))
            since += n
            if since >= pace:
                yield since
                since = 0
        recorder.record(keep)
    yield since
