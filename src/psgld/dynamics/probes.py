"""A fixed set of observed entries at which a chain is watched.

The log likelihood of all of V would cost more than the iterations between two draws. So it is taken over M entries
and scaled by N / M: always the same entries, so that its changes are those of the state. M = N if V is small.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from ..data.source import Source
from ..engines import H, ReadableFactors, W
from ..engines.base import Entries
from ..models import Likelihood

_FEWEST, _ALL = 512, 4096


@final
@dataclass(frozen=True, eq=False)
class Probes:
    """M of the N observed entries."""

    rows: NDArray[np.int64]
    cols: NDArray[np.int64]
    values: NDArray[np.float64]
    size: int
    """N."""

    @classmethod
    def of(cls, data: Source, entries_between_draws: int) -> Probes:
        """Choose about one entry in 1,000 of those that are read between two draws, but not too few.

        One of them, which a core may have to fetch from another's cache, costs as much as some ten of a block.
        """
        number = max(_FEWEST, entries_between_draws // 1000)
        return cls.some(data, data.size if data.size <= max(_ALL, number) else number)

    @classmethod
    def some(cls, data: Source, number: int) -> Probes:
        """Choose that many entries, at random but always the same."""
        rows, cols, values = data.sample_entries(number, seed=0)
        return cls(
            np.asarray(rows, np.int64), np.asarray(cols, np.int64), np.asarray(values, np.float64), data.size
        )

    def placed(self, factors: ReadableFactors, shift: float) -> PlacedProbes:
        """Return the same entries as a chain finds them, in the order in which it keeps them."""
        order = factors.order(self.rows, self.cols)
        rows, cols = factors.positions(W, self.rows[order]), factors.positions(H, self.cols[order])
        scale = self.size / max(len(self.rows), 1)
        return PlacedProbes(factors, rows, cols, self.values[order] - shift, scale)


@final
class PlacedProbes:
    """The probe entries of one chain."""

    def __init__(
        self,
        factors: ReadableFactors,
        rows: NDArray[np.int64],
        cols: NDArray[np.int64],
        values: NDArray[np.float64],
        scale: float,
    ) -> None:
        self.values = values
        self.mean_square = float(np.square(values).mean()) if len(values) else 0.0
        self._factors, self._rows, self._cols, self._scale = factors, rows, cols, scale
        self._core_values: NDArray[Any] = values.astype(factors.dtype)
        self._normaliser: tuple[tuple[float, ...], float] | None = None

    def means(self) -> NDArray[Any]:
        """Return μ at the probe entries."""
        return np.asarray(self._factors.mu(self._rows, self._cols))

    @property
    def entries(self) -> Entries:
        """Where they are in W and H, and their values, as the core takes them."""
        return self._rows, self._cols, self._core_values

    def log_likelihood(self, likelihood: Likelihood, theta: tuple[float, ...], kernel: Any = None) -> Any:
        """Return (N / M) Σ log p(v | μ, θ) over the probe entries; at states whose log kernels are known, or now."""
        if self._normaliser is None or self._normaliser[0] != theta:
            self._normaliser = theta, float(np.sum(likelihood.log_normaliser(self.values, *theta)))
        if kernel is None:
            kernel = float(self._factors.log_kernel(*self.entries))
        phi, _ = likelihood.split(theta)
        return self._scale * (kernel / phi + self._normaliser[1])
