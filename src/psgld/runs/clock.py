"""The wall time of a chain: that of its iterations, without recording, checkpoints and interruptions."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol, final


class Iterated(Protocol):
    """Counts its iterations."""

    @property
    def iteration(self) -> int: ...  # noqa: D102


@final
class Clock:
    """Seconds of sampling so far. Where one call ran through several marks, they are interpolated between them."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds = seconds
        self._before, self._reached = (0, seconds), 0

    @contextmanager
    def running(self, chain: Iterated) -> Iterator[None]:
        """Count the time in this context, in which a chain is advanced."""
        self._before = chain.iteration, self.seconds
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds += time.perf_counter() - start
            self._reached = chain.iteration

    def at(self, iterations: Sequence[int]) -> list[float]:
        """Return the seconds at iterations of the last context, in proportion to their number."""
        first, seconds = self._before
        rate = (self.seconds - seconds) / max(1, self._reached - first)
        return [seconds + rate * (t - first) for t in iterations]
