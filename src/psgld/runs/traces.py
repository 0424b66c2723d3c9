"""Traces: log posterior, step size, divergences and wall time of a chain, per recorded iteration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

FULL = ("log_likelihood", "log_posterior")
"""The columns that need a pass over all entries."""


@final
@dataclass(eq=False)
class Trace:
    """One row per recorded iteration. The columns of `FULL` stay empty if they are not computed."""

    iteration: list[int] = field(default_factory=list)
    lp: list[float] = field(default_factory=list)
    step_size: list[float] = field(default_factory=list)
    diverging: list[bool] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    log_likelihood: list[float] = field(default_factory=list)
    log_posterior: list[float] = field(default_factory=list)

    def record(
        self,
        iterations: Sequence[int],
        lp: list[float],
        step_sizes: Sequence[float],
        diverged: bool,
        seconds: Sequence[float],
        full: tuple[float, float] | None = None,
    ) -> None:
        """Add one row per mark. `diverged` is True if the chain diverged just before the first of them.

        `full` has the columns of `FULL` at a single mark.
        """
        self.iteration.extend(iterations)
        self.lp.extend(lp)
        self.step_size.extend(step_sizes)
        self.diverging.extend([diverged, *[False] * (len(lp) - 1)])
        self.seconds.extend(seconds)
        if full is not None:
            self.log_likelihood.append(full[0])
            self.log_posterior.append(full[1])

    @classmethod
    def of(cls, table: dict[str, NDArray[Any]]) -> Trace:
        """Return a trace from the columns that `table` returned; older versions had no `seconds`."""
        columns = {name: column.tolist() for name, column in table.items()}
        return cls(**{"seconds": [float("nan")] * len(columns["lp"]), **columns})

    def columns(self, full: bool) -> dict[str, list[Any]]:
        """Return the columns; those of `FULL` if they are computed."""
        return {name: column for name, column in vars(self).items() if full or name not in FULL}

    def table(self, full: bool) -> dict[str, NDArray[np.generic]]:
        """Return the columns as arrays."""
        return {name: np.asarray(column) for name, column in self.columns(full).items()}
