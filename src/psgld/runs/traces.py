"""Traces: the log posterior, step size and divergences along a chain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np
from numpy.typing import NDArray


@final
@dataclass(eq=False)
class Trace:
    """One row a recorded iteration."""

    iteration: list[int] = field(default_factory=list)
    lp: list[float] = field(default_factory=list)
    step_size: list[float] = field(default_factory=list)
    diverging: list[bool] = field(default_factory=list)

    def record(self, iteration: int, lp: float, step_size: float, diverging: bool) -> None:
        """Add a row."""
        self.iteration.append(iteration)
        self.lp.append(lp)
        self.step_size.append(step_size)
        self.diverging.append(diverging)

    def record_all(
        self, iterations: Sequence[int], lp: list[float], step_sizes: Sequence[float], diverged: bool
    ) -> None:
        """Add a row a mark; `diverged` tells whether a chain did before the first of them, it did at none."""
        self.iteration.extend(iterations)
        self.lp.extend(lp)
        self.step_size.extend(step_sizes)
        self.diverging.extend([diverged, *[False] * (len(lp) - 1)])

    @classmethod
    def of(cls, table: dict[str, NDArray[Any]]) -> Trace:
        """Return the trace of which `table` returned the columns."""
        return cls(**{name: column.tolist() for name, column in table.items()})

    def table(self) -> dict[str, NDArray[np.generic]]:
        """Return the columns as arrays."""
        return {name: np.asarray(column) for name, column in vars(self).items()}
