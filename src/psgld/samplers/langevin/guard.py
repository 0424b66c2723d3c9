"""The check for divergence: with too large a step size, the factors grow within a few cycles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import numpy as np
from numpy.typing import NDArray

from ...dynamics.probes import PlacedProbes
from ...engines import H, W
from .shared import Shared

_DIVERGED = 100.0
"""A chain has diverged if its typical μ exceeds that of the data, and that at the start, by this factor."""

_INFLATED, _RECOVERY_CYCLES, _RECOVERY_ITERATIONS, _MOST_INFLATIONS = 1.2, 20, 100, 5
"""After a divergence, the step size is still too large if μ exceeds the data by the factor `_INFLATED`. It is then
halved again, at most `_MOST_INFLATIONS` times: if that does not help, a large μ is a property of the data. The chain
first gets some time to recover, twice as much after each halving, since it moves more slowly."""

_SWOLLEN, _ABOVE_DATA = 3.0, 2.0
"""A chain that has not diverged is inflated if its typical μ exceeds the scale by the first factor, and the root mean
square of μ at the monitored entries that of v by the second: a step size that is too large can be stationary there."""

_CONTRADICTION = 10.0
"""Log likelihood of all entries that a constant μ must gain, for a larger μ to contradict the data."""

_TOO_LARGE_TO_SAVE = 3.0
"""A chain is about to diverge if its typical μ exceeds that of the data, and that at the start, by this factor."""

MOST_DIVERGENCES = 30
"""Number of halvings of the step size after which a chain stops with an error."""


@final
class Guard:
    """Decides from the size of μ whether a chain has diverged, and whether its step size is still too large."""

    def __init__(self, setup: Shared, probes: PlacedProbes) -> None:
        self._setup, self._probes = setup, probes
        self.scale = 1.0
        """The typical size of μ in the data, or at the start of the chain if that is larger."""
        self.inflations = 0
        """How often the step size was halved because μ was inflated, without a divergence."""

    def begin(self, sums: NDArray[np.float64]) -> None:
        """Set the scale, given the sums over the factors at the start of a chain."""
        m = self._setup.moments
        data = float(np.sqrt(m.variance + m.mean**2)) or 1.0
        self.scale = max(float(self._typical_mean(sums)), data)

    def is_sound(self, sums: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Return, from sums over the factors, whether a chain has not diverged; False for NaN."""
        return np.asarray(self._typical_mean(sums) <= _DIVERGED * self.scale)

    def is_too_large_to_save(self, sums: NDArray[np.float64]) -> bool:
        """Return whether W H is well above V (W, H ≥ 0 do not cancel), so that a reset should not return here."""
        typical = self._typical_mean(sums)
        return self._setup.model.nonnegative and bool(typical > _TOO_LARGE_TO_SAVE * self.scale)

    def is_inflated(self, iteration: int, divergences: Sequence[int], step_factor: float) -> bool:
        """Return whether μ is too large for the data, in a chain that has diverged before.

        Step sizes just below those that diverge are stable, but inflate the posterior: E[μ²] ≤ E[v²] is violated.
        """
        recovered = self._has_recovered(iteration, divergences, step_factor)
        return self.checks_inflation(divergences) and recovered and self._exceeds_data(_INFLATED)

    def is_swollen(
        self, iteration: int, sums: NDArray[np.float64], step_factor: float, theta: tuple[float, ...]
    ) -> bool:
        """Return whether μ is several times too large for the data, in a chain that has not diverged."""
        if not self._compares() or self._typical_mean(sums) <= _SWOLLEN * self.scale:
            return False
        recovered = self._has_recovered(iteration, (), step_factor)
        return recovered and self._exceeds_data(_ABOVE_DATA) and self._contradicts_data(theta)

    def _contradicts_data(self, theta: tuple[float, ...]) -> bool:
        """Return whether the mean of V is far more likely than μ: not if there are too few data to tell."""
        likelihood, probes = self._setup.model.likelihood, self._probes
        mean = np.full_like(probes.values, probes.values.mean())
        if likelihood.nonnegative_mean:
            mean = np.maximum(mean, self._setup.floor)
        logs = likelihood.logpdf(probes.values, mean, *theta)
        return probes.scaled(logs) - float(probes.log_likelihood(likelihood, theta)) > _CONTRADICTION

    def _has_recovered(self, iteration: int, divergences: Sequence[int], step_factor: float) -> bool:
        """Return whether the chain had time to forget its start, or its last divergence."""
        recovery = max(_RECOVERY_CYCLES * self._setup.cycle, _RECOVERY_ITERATIONS) / (2 * step_factor)
        return iteration - (divergences[-1] if divergences else 0) >= recovery

    def _exceeds_data(self, factor: float) -> bool:
        """Return whether the root mean square of μ at the monitored entries exceeds that of v by a factor."""
        return float(np.square(self._probes.means()).mean()) > factor**2 * self._probes.mean_square

    def checks_inflation(self, divergences: Sequence[int]) -> bool:
        """Return whether to compare μ with the data all the time: only after a divergence, and not too often."""
        return bool(divergences) and self._compares()

    def _compares(self) -> bool:
        """Return whether μ and v can be compared, and have not been found different too often."""
        return self._setup.model.likelihood.identity and self.inflations < _MOST_INFLATIONS

    def _typical_mean(self, sums: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return a typical size of μ, from sums over the columns of W and H: it grows when a chain diverges.

        It is sqrt(Σ_k mean(w_k²) mean(h_k²)), or, if that is larger, the mean of the μ of non-negative factors,
        Σ_k mean(w_k) mean(h_k). For one state, or for several: (…, 2, 2 or 3, K).
        """
        rows, cols = self._setup.grid.shape
        total, square = np.moveaxis(
            np.einsum("...nk,...nk->...n", sums[..., W, :2, :], sums[..., H, :2, :]), -1, 0
        )
        root = np.sqrt(square / rows / cols)
        return np.asarray(np.maximum(root, total / rows / cols) if self._setup.model.nonnegative else root)
