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
        if not self.checks_inflation(divergences):
            return False
        recovery = max(_RECOVERY_CYCLES * self._setup.cycle, _RECOVERY_ITERATIONS) / (2 * step_factor)
        if iteration - divergences[-1] < recovery:
            return False
        return float(np.square(self._probes.means()).mean()) > _INFLATED**2 * self._probes.mean_square

    def checks_inflation(self, divergences: Sequence[int]) -> bool:
        """Return whether to compare μ with the data: only after a divergence, and not too often."""
        if not self._setup.model.likelihood.identity:  # η and v cannot be compared
            return False
        return bool(divergences) and self.inflations < _MOST_INFLATIONS

    def _typical_mean(self, sums: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return a typical size of μ, from the norms of the columns of W and H: it grows when a chain diverges.

        For one state, or for several: (…, 2, 2 or 3, K).
        """
        rows, cols = self._setup.grid.shape
        products = np.einsum("...k,...k->...", sums[..., W, 1, :], sums[..., H, 1, :])
        return np.asarray(np.sqrt(products / rows / cols))
