"""What the benchmarks share: settings, a row of the table, and measuring in turns."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import final

Case = Callable[[], float]
"""Runs once and returns the seconds that count."""


@final
@dataclass(frozen=True)
class Settings:
    """`quick`: tiny sizes, to see that it runs; `prototypes`: folder of the throw-away kernels, if any."""

    quick: bool = False
    prototypes: Path | None = None

    def choose(self, full: int, quick: int) -> int:
        """Return the size to run at."""
        return quick if self.quick else full


@final
@dataclass(frozen=True)
class Row:
    """One bar: what was measured, and the most (or, with `least`, the least) it may be. No bar: for information."""

    name: str
    measured: float
    bar: float | None = None
    least: bool = False
    note: str = ""

    @property
    def ok(self) -> bool:
        """Whether the bar is reached."""
        if self.bar is None:
            return True
        return self.measured >= self.bar if self.least else self.measured <= self.bar

    def __str__(self) -> str:
        bar = "-" if self.bar is None else f"{'>=' if self.least else '<='} {self.bar:g}"
        verdict = "" if self.bar is None else "ok" if self.ok else "MISSED"
        return f"{self.name:<58} {self.measured:>10.4g}  {bar:>9}  {verdict:<6}  {self.note}".rstrip()


def in_turns(cases: dict[str, Case], rounds: int) -> dict[str, float]:
    """Run the cases in turns, and return the least time of each."""
    best = dict.fromkeys(cases, float("inf"))
    for _ in range(rounds):
        for name, case in cases.items():
            best[name] = min(best[name], case())
    return best


def timed(work: Callable[[], object]) -> Case:
    """Return a case that takes as long as the work."""

    def case() -> float:
        start = time.perf_counter()
        work()
        return time.perf_counter() - start

    return case
