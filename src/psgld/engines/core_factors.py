"""Factors in the compiled core: the common part of all engines that run it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _core
from ..models import Likelihood
from ..models.modes import NAMES
from .base import WEIGHTS, Factors, MetricName
from .core_grid import CoreGrid

_KEPT = {"": "x", "saved_": "saved"}
_MOMENTA = {"momentum_": "momentum"}
"""The arrays of each factor that a checkpoint must keep: the prefix of their names there, and the name in the core."""

NO_DRAWS = np.empty((0, 0), np.int32)
"""Tells the core to read all entries."""


def given(weights: NDArray[Any] | None, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return weights as the core takes them: an empty array if each entry counts once."""
    return np.empty(0, dtype) if weights is None else weights


def core_chain(
    grid: CoreGrid, components: int, likelihood: Likelihood, floor: float
) -> _core.Chain32 | _core.Chain64:
    """Return a chain of the core, in the precision of the grid."""
    make = _core.Chain32 if isinstance(grid.core, _core.Grid32) else _core.Chain64
    return make(
        grid.core,
        components,
        grid.swapped,
        likelihood.functor,
        floor,
        grid.zeros,
        grid.zero_weight,
        grid.thin,
    )


class CoreFactors(Factors):
    """Factors in a chain of the core. A subclass runs the updates, and knows which rows this process keeps."""

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
        """Set the key of the noise, the metric D, reflection (x ← |x| after a step), τ, and the order of the step."""
        self.core.key, self.core.metric, self.core.mirror = key, metric, mirror
        self.core.temperature, self.second_order = temperature, second_order

    def set_log_sums(self, wanted: bool) -> None:
        """Set whether `sums` has Σ log x."""
        self.core.sums_logs = wanted

    def set_momentum(self, rho: float) -> None:
        """Set the momentum ρ; 0 gives first-order steps."""
        self.core.momentum = rho

    def set_parameters(self, phi: float, others: Sequence[float]) -> None:
        """Set the dispersion φ of the likelihood and its other parameters."""
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
        """Set which components of a factor are updated: 1, or 0 for fixed components."""
        self.core.set_move(which, move)

    def set_curvature(self, which: int, curvature: NDArray[np.float64], ridge: NDArray[np.float64]) -> None:
        """Set 1/D of the real-valued metric: count × curvature + ridge; count is the number of entries of a row."""
        self.core.set_curvature(which, curvature, ridge)

    def curvature(self, which: int) -> NDArray[np.float64]:
        """Return the arguments of `set_curvature`, (2, K)."""
        return self.core.curvature(which)

    def positions(self, which: int, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the positions in the strips of rows of a factor; -1 for rows that another rank keeps."""
        return self.core.positions(which, rows)

    def set_weights(self, state: Mapping[str, Any]) -> None:
        """Set the sums to what `weights` returned."""
        for which, name in enumerate(WEIGHTS):
            self._write(which, "sum", state[name])

    def _kept(self) -> dict[str, tuple[int, str]]:
        """Return the arrays that a checkpoint must keep: factor, and name in the core."""
        arrays = _KEPT | (_MOMENTA if self.second_order else {})
        return {
            f"{prefix}{names.factor}": (which, array)
            for prefix, array in arrays.items()
            for which, names in enumerate(NAMES)
        }

    def _write(self, which: int, name: str, x: Any) -> None:
        """Replace an array of a factor."""
        self.core.scatter(which, name, np.ascontiguousarray(x, self.dtype))
