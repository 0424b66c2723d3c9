"""Progress: a bar on a terminal, one line about a long run elsewhere, or a callback of the user."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

from ..errors import in_bytes, warn


@final
@dataclass(frozen=True)
class Progress:
    """The progress of a run: iterations of all chains, the last log posterior, divergences so far."""

    done: int
    total: int
    lp: float
    divergences: int


_LONG, _OBSERVED = 30.0, 1.0
"""Seconds from which a run is announced, and seconds that it is observed for before."""

ProgressOption = bool | None | Callable[[Progress], None]


class Meter:
    """Counts the iterations of all chains and displays them; announces the time and memory of a long run once.

    `memory` are the bytes that the run will have, beside those of the data.
    """

    def __init__(self, option: ProgressOption, total: int, memory: float = 0.0) -> None:
        self._lock = threading.Lock()
        self._memory = memory
        self._announces = option is None or option is True
        self._first: tuple[float, int] | None = None  # when iterations were first counted, and how many
        self._done, self._total = 0, total
        self._report = option if callable(option) else None
        self._bar: Any = None
        if option is True or (option is None and _terminal()):
            from tqdm.auto import tqdm

            self._bar = tqdm(
                total=total, unit="it", unit_scale=True, dynamic_ncols=True, leave=False, mininterval=0.25
            )

    def update(self, n: int, lp: float, divergences: int) -> None:
        """Count n more iterations."""
        with self._lock:
            self._done += n
            self._announce(time.perf_counter())
            if self._report is not None:
                self._report(Progress(self._done, self._total, lp, divergences))
            if self._bar is not None:
                self._bar.set_postfix_str(
                    f"lp={lp:,.6g}" + (f" halved={divergences}" if divergences else ""), False
                )
                self._bar.update(n)

    def _announce(self, now: float) -> None:
        """Say how long the run will take, if it is long, as soon as its pace is known."""
        if not self._announces:
            return
        if self._first is None:
            self._first = now, self._done
            return
        begun, before = self._first
        if now - begun < _OBSERVED:
            return
        self._announces = False
        left = (now - begun) / (self._done - before) * (self._total - self._done)
        if now - begun + left > _LONG:
            warn(
                f"{self._total:,} iterations will take about {in_time(left)}, and {in_bytes(self._memory)} of memory "
                "for draws and chains; fewer draws, or shorter tune and thin, take less"
            )

    def close(self) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar.close()


def in_time(seconds: float) -> str:
    """Return seconds as text with a unit.

    Examples
    --------
    >>> in_time(45.2), in_time(5400)
    ('45 s', '1.5 hours')
    """
    for unit, scale in (("days", 86400.0), ("hours", 3600.0), ("minutes", 60.0)):
        if seconds >= 1.5 * scale:
            return f"{seconds / scale:.2g} {unit}"
    return f"{seconds:.0f} s"


def _terminal() -> bool:
    notebook = "ipykernel" in sys.modules
    return (notebook or sys.stderr.isatty()) and not os.environ.get("CI")
