"""Traces: log posterior, step size and divergences of a chain, per recorded iteration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np
from numpy.typing import NDArray


@final
@dataclass(eq=False)
class Trace:
    """One row per recorded iteration."""

    iteration: list[int] = field(default_factory=list)
    lp: list[float] = field(default_factory=list)
    step_size: list[float] = field(default_factory=list)
    diverging: list[bool] = field(default_factory=list)

    def record(
        self, iterations: Sequence[int], lp: list[float], step_sizes: Sequence[float], diverged: bool
    ) -> None:
        """Add one row per mark. `diverged` is True if the chain diverged just before the first of them."""
        self.iteration.extend(iterations)
        self.lp.extend(lp)
        self.step_size.extend(step_sizes)
        self.diverging.extend([diverged, *[False] * (len(lp) - 1)])

    @classmethod
    def of(cls, table: dict[str, NDArray[Any]]) -> Trace:
        """Return a trace from the columns that `table` returned."""
        return cls(**{name: column.tolist() for name, column in table.items()})

    def table(self) -> dict[str, NDArray[np.generic]]:
        """Return the columns as arrays."""
        return {name: np.asarray(column) for name, column in vars(self).items()}
