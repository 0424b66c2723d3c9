"""Progress: a bar on a terminal, nothing in pipes and under CI, or a callback of the user."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final


@final
@dataclass(frozen=True)
class Progress:
    """The progress of a run: iterations of all chains, the last log posterior, divergences so far."""

    done: int
    total: int
    lp: float
    divergences: int


ProgressOption = bool | None | Callable[[Progress], None]


class Meter:
    """Counts the iterations of all chains and displays them."""

    def __init__(self, option: ProgressOption, total: int) -> None:
        self._lock = threading.Lock()
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
            if self._report is not None:
                self._report(Progress(self._done, self._total, lp, divergences))
            if self._bar is not None:
                self._bar.set_postfix_str(
                    f"lp={lp:,.6g}" + (f" halved={divergences}" if divergences else ""), False
                )
                self._bar.update(n)

    def close(self) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar.close()


def _terminal() -> bool:
    notebook = "ipykernel" in sys.modules
    return (notebook or sys.stderr.isatty()) and not os.environ.get("CI")
