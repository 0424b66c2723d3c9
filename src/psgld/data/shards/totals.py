"""Count, sum, sum of squared deviations, min and max of stored values, merged over batches or strips."""

from __future__ import annotations

import math
from dataclasses import astuple, dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray


@final
@dataclass(eq=False)
class Totals:
    """Number n, total Σv, deviation Σ(v - mean)², smallest and largest value."""

    n: int = 0
    total: float = 0.0
    deviation: float = 0.0
    least: float = math.inf
    largest: float = -math.inf

    @classmethod
    def of(cls, values: Any) -> Totals:
        """Return the sums over an array."""
        if len(values) == 0:
            return cls()
        return cls(
            len(values),
            float(values.sum(dtype=np.float64)),
            float(values.var(dtype=np.float64)) * len(values),
            float(values.min()),
            float(values.max()),
        )

    def add(self, other: Totals) -> None:
        """Add the sums over other values."""
        m, total = other.n, other.total
        if m == 0:
            return
        between = (total / m - self.total / self.n) ** 2 * self.n * m / (self.n + m) if self.n else 0.0
        self.deviation += other.deviation + between
        self.n, self.total = self.n + m, self.total + total
        self.least, self.largest = min(self.least, other.least), max(self.largest, other.largest)

    def row(self) -> NDArray[np.float64]:
        """Return the five numbers as an array, which processes can send to each other."""
        return np.array(astuple(self))
