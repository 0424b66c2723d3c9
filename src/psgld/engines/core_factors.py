"""Factors that the core moves: what all engines that run it have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _core
from ..models import Likelihood
from .base import Factors, H, MetricName, W
from .core_grid import CoreGrid

_KEPT = {"W": (W, "x"), "H": (H, "x"), "saved_W": (W, "saved"), "saved_H": (H, "saved")}
_MOMENTA = {"momentum_W": (W, "momentum"), "momentum_H": (H, "momentum")}
"""The arrays of a chain that cannot be worked out again: factor, and name in the core."""

NO_DRAWS = np.empty((0, 0), np.int32)
"""To the core: all entries are read."""


def core_chain(
    grid: CoreGrid, components: int, likelihood: Likelihood, floor: float
) -> _core.Chain32 | _core.Chain64:
    """Return a chain of the core, of the precision of the grid."""
    make = _core.Chain32 if isinstance(grid.core, _core.Grid32) else _core.Chain64
    return make(grid.core, components, grid.swapped, likelihood.functor, floor, grid.zeros, grid.thin)


class CoreFactors(Factors):
    """Factors in a chain of the core. A subclass moves them, and knows which rows are here."""

    def __init__(
        self, core: _core.Chain32 | _core.Chain64, grid: CoreGrid, components: int, likelihood: Likelihood
    ) -> None:
        self.core, self.grid, self.components = core, grid, components
        self._constants = likelihood.constants
        self.set_parameters(1.0, ())
        self.second_order = False
        self.dtype = np.dtype(np.float32 if isinstance(core, _core.Chain32) else np.float64)

    def set_dynamics(
        self, key: int, metric: MetricName, mirror: bool, temperature: float, second_order: bool = False
    ) -> None:
        """Set the key of the noise, the metric D, whether x ← |x| after each step, τ, and whether ρ is ever > 0."""
        self.core.key, self.core.metric, self.core.mirror = key, metric, mirror
        self.core.temperature, self.second_order = temperature, second_order

    def set_momentum(self, rho: float) -> None:
        """Set ρ; 0 for steps of first order."""
        self.core.momentum = rho

    def set_parameters(self, phi: float, others: Sequence[float]) -> None:
        """Set the dispersion φ of the likelihood, and its other parameters."""
        self.core.phi = phi
        self.core.set_parameters(np.array([*self._constants, *others], np.float64))

    def set_prior(
        self,
        which: int,
        inverse: float,
        linear: NDArray[np.float64],
        quadratic: NDArray[np.float64],
        coupling: NDArray[np.float64] | None = None,
    ) -> None:
        """Set the score of a factor's prior: inverse / x + linear - quadratic x - coupling x."""
        self.core.set_prior(which, inverse, linear, quadratic)
        if coupling is not None:
            self.core.set_coupling(which, coupling)

    def set_move(self, which: int, move: NDArray[np.float64]) -> None:
        """Set which components of a factor move: 1, or 0 for those that stay."""
        self.core.set_move(which, move)

    def set_curvature(self, which: int, curvature: NDArray[np.float64], ridge: NDArray[np.float64]) -> None:
        """Set 1/D of the real-valued metric: count × curvature + ridge, with the entries of each row as count."""
        self.core.set_curvature(which, curvature, ridge)

    def curvature(self, which: int) -> NDArray[np.float64]:
        """Return what `set_curvature` was given, (2, K)."""
        return self.core.curvature(which)

    def positions(self, which: int, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the places of rows of a factor in the strips; -1 where another rank keeps them."""
        return self.core.positions(which, rows)

    def set_weights(self, state: Mapping[str, Any]) -> None:
        """Take in what `weights` returned."""
        self._write(W, "sum", state["weights_W"])
        self._write(H, "sum", state["weights_H"])

    def _kept(self) -> dict[str, tuple[int, str]]:
        return _KEPT | (_MOMENTA if self.second_order else {})

    def _write(self, which: int, name: str, x: Any) -> None:
        """Replace an array of a factor."""
        self.core.scatter(which, name, np.ascontiguousarray(x, self.dtype))
