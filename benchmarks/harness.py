"""What the benchmarks share: settings, a row of the table, and measuring in turns."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np

Case = Callable[[], float]
"""Runs once and returns the seconds that count."""

_PATIENCE = 6
"""A disturbed measurement is repeated up to this many times."""

_MOST, _TICK = 0.05, 0.03
"""What others may take of a core, and the resolution of the system's clocks in seconds."""


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
    """Run the cases in turns, and return the least time of each.

    On a shared machine runs during which others took more than a twentieth of a core are repeated, for a while; not
    where one round will do.
    """
    most = rounds if rounds == 1 else _PATIENCE * rounds
    calm: dict[str, list[float]] = {name: [] for name in cases}
    every: dict[str, list[float]] = {name: [] for name in cases}
    for done in range(most):
        if done >= rounds and all(len(times) >= max(1, rounds // 2) for times in calm.values()):
            break
        for name, case in cases.items():
            if done >= rounds and len(calm[name]) >= rounds:
                continue
            start, before = time.perf_counter(), others()
            every[name].append(case())
            if others() - before <= _MOST * (time.perf_counter() - start) + _TICK:
                calm[name].append(every[name][-1])
    restless = [name for name in cases if not calm[name]]
    if restless:
        print(f"  (others kept the machine busy; doubtful: {', '.join(restless)})", file=sys.stderr)
    return {name: min(calm[name] or every[name]) for name in cases}


def in_pairs(cases: dict[str, Case], rounds: int) -> dict[str, tuple[float, float]]:
    """Run the cases in turns; of each, return its time by that of the first in the same round: median, and its error.

    For ratios that are close to 1: on a shared machine the least times differ by more than a few hundredths from one
    minute to the next, but neighbours in time suffer alike.
    """
    times, order = np.empty((rounds, len(cases))), np.random.default_rng(0)
    for done in range(rounds):
        for c in order.permutation(len(cases)):  # nobody always follows the same one
            times[done, c] = list(cases.values())[c]()
    ratios = times / times[:, :1]
    middle = np.median(ratios, axis=0)
    error = 1.25 * 1.48 * np.median(np.abs(ratios - middle), axis=0) / np.sqrt(rounds)  # of a median, about
    return {name: (float(m), float(e)) for name, m, e in zip(cases, middle, error, strict=True)}


def others() -> float:
    """Return the seconds of processor time that others have used so far; 0 where the system does not tell."""
    try:
        user, nice, system, _, _, irq, softirq, steal = map(int, Path("/proc/stat").read_text().split()[1:9])
    except (OSError, ValueError):
        return 0.0
    used = os.times()
    busy = (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")
    return busy - sum(used[:4])


def timed(work: Callable[[], object]) -> Case:
    """Return a case that takes as long as the work."""

    def case() -> float:
        start = time.perf_counter()
        work()
        return time.perf_counter() - start

    return case
