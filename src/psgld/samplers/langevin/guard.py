"""The check that a chain has not diverged: too large a step shows as growth within a few cycles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import numpy as np
from numpy.typing import NDArray

from ...dynamics.probes import PlacedProbes
from ...engines import H, W
from .shared import Shared

_DIVERGED = 100.0
"""A typical μ this many times larger than the data, or than at the start, is that of a chain that diverges."""

_SWOLLEN, _SETTLING_CYCLES, _SETTLING_ITERATIONS, _MOST_SWELLINGS = 1.2, 20, 100, 5
"""After it diverged, a chain whose μ is still this many times larger than the data has too large a step, too; unless
halving it a few times has not helped: then it is the data that say so. It is left some time to come back, twice as
much after each halving: so much slower it is."""

_INFLATED = 3.0
"""A typical μ this many times larger than the data, or than at the start, is on its way to diverge."""

MOST_DIVERGENCES = 30
"""Halvings of the step size after which a chain gives up."""


@final
class Guard:
    """What size of μ is sound, and whether a chain that has diverged before has too large a step still."""

    def __init__(self, setup: Shared, probes: PlacedProbes) -> None:
        self._setup, self._probes = setup, probes
        self.scale = 1.0
        """The size of μ in the data, or at the start of the chain if that is more."""
        self.swellings = 0
        """How often the step was halved because μ was too large, without having diverged."""

    def begin(self, sums: NDArray[np.float64]) -> None:
        """Take the scale of a chain that starts with these sums over its factors."""
        m = self._setup.moments
        data = float(np.sqrt(m.variance + m.mean**2)) or 1.0
        self.scale = max(float(self._typical_mean(sums)), data)

    def is_sound(self, sums: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Return whether these are sums over the factors of a chain that has not diverged; False for NaN."""
        return np.asarray(self._typical_mean(sums) <= _DIVERGED * self.scale)

    def is_inflated(self, sums: NDArray[np.float64]) -> bool:
        """Return whether this is no state to go back to: W H is well above V (W, H ≥ 0 do not cancel)."""
        typical = self._typical_mean(sums)
        return self._setup.model.nonnegative and bool(typical > _INFLATED * self.scale)

    def is_swollen(self, iteration: int, divergences: Sequence[int], step_factor: float) -> bool:
        """Return whether μ is too large for the data, in a chain that has diverged before.

        Just below the step that diverges there are steps that hold, but inflate the posterior: E[μ²] ≤ E[v²] fails.
        """
        if not self.may_swell(divergences):
            return False
        settling = max(_SETTLING_CYCLES * self._setup.cycle, _SETTLING_ITERATIONS) / (2 * step_factor)
        if iteration - divergences[-1] < settling:
            return False
        return float(np.square(self._probes.means()).mean()) > _SWOLLEN**2 * self._probes.mean_square

    def may_swell(self, divergences: Sequence[int]) -> bool:
        """Return whether the size of μ itself is to be looked at."""
        if not self._setup.model.likelihood.identity:  # η and v cannot be compared
            return False
        return bool(divergences) and self.swellings < _MOST_SWELLINGS

    def _typical_mean(self, sums: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the size of μ as the columns of W and H suggest it: one number that grows when a chain diverges.

        Of one state, or of several: (…, 2, 2 or 3, K).
        """
        rows, cols = self._setup.grid.shape
        products = np.einsum("...k,...k->...", sums[..., W, 1, :], sums[..., H, 1, :])
        return np.asarray(np.sqrt(products / rows / cols))
