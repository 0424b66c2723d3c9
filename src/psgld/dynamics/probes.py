"""A fixed subset of the observed entries, at which a chain is monitored.

The log likelihood over all of V would cost more than the iterations between two draws. So it is computed over M entries
and scaled by N / M. The entries are always the same, so that it changes only with the state. M = N if V is small.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from ..data.source import Source
from ..engines import ReadableFactors
from ..engines.base import Entries, Places
from ..models import Likelihood

_FEWEST, _ALL = 512, 4096


@final
@dataclass(frozen=True, eq=False)
class Probes:
    """M of the N observed entries."""

    index: Places
    """The indices of the entries, by mode: rows, columns."""
    values: NDArray[np.float64]
    size: int
    """N."""
    weights: NDArray[np.float64] | None = None
    """The weights of the entries; None if each counts once."""

    @classmethod
    def of(cls, data: Source, entries_between_draws: int) -> Probes:
        """Choose about 1/1000 as many entries as are visited between two draws, but at least 512.

        A monitored entry, which a core may have to fetch from another's cache, costs as much as some ten of a block.
        """
        number = max(_FEWEST, entries_between_draws // 1000)
        return cls.some(data, data.size if data.size <= max(_ALL, number) else number)

    @classmethod
    def some(cls, data: Source, number: int) -> Probes:
        """Choose that many entries at random, with a fixed seed."""
        *index, values = data.sample_entries(number, seed=0)
        weights = data.sample_weights(number, seed=0)
        return cls(
            tuple(np.asarray(i, np.int64) for i in index),
            np.asarray(values, np.float64),
            data.size,
            None if weights is None else np.asarray(weights, np.float64),
        )

    def placed(self, factors: ReadableFactors, shift: float) -> PlacedProbes:
        """Return these entries with the positions of their rows and columns in a chain, in the order of its memory."""
        order = factors.order(self.index)
        places = tuple(factors.positions(which, i[order]) for which, i in enumerate(self.index))
        scale = self.size / max(len(self.values), 1)
        weights = None if self.weights is None else self.weights[order]
        return PlacedProbes(factors, places, self.values[order] - shift, scale, weights)


@final
class PlacedProbes:
    """The monitored entries of one chain."""

    def __init__(
        self,
        factors: ReadableFactors,
        places: Places,
        values: NDArray[np.float64],
        scale: float,
        weights: NDArray[np.float64] | None = None,
    ) -> None:
        self.values, self.weights = values, weights
        self.mean_square = float(np.square(values).mean()) if len(values) else 0.0
        self._factors, self._scale = factors, scale
        weighing = None if weights is None else weights.astype(factors.dtype)
        self.entries = Entries(places, values.astype(factors.dtype), weighing)
        """Positions in the factors, and values and weights in the dtype of the core."""
        self._normaliser: tuple[tuple[float, ...], float] | None = None

    def means(self) -> NDArray[Any]:
        """Return μ at the monitored entries."""
        return np.asarray(self._factors.mu(self.entries.places))

    def scaled(self, logs: NDArray[np.float64]) -> float:
        """Return (N / M) Σ w log p of log densities at the monitored entries, of weight w."""
        return self._scale * float(np.sum(logs if self.weights is None else self.weights * logs))

    def log_likelihood(self, likelihood: Likelihood, theta: tuple[float, ...], kernel: Any = None) -> Any:
        """Return (N / M) Σ w log p(v | μ, θ) over the monitored entries, of weight w.

        `kernel` is the sum of the log kernels, of one state or of several; by default that of the current state.
        """
        if self._normaliser is None or self._normaliser[0] != theta:
            terms = likelihood.log_normaliser(self.values, *theta)
            self._normaliser = theta, float(np.sum(terms if self.weights is None else self.weights * terms))
        if kernel is None:
            kernel = float(self._factors.log_kernel(*self.entries))
        phi, _ = likelihood.split(theta)
        return self._scale * (kernel / phi + self._normaliser[1])
