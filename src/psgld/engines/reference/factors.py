"""Factors as NumPy arrays, updated by `update.py`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from ...models import Likelihood
from ...models.modes import NAMES
from ..base import WEIGHTS, Factors, H, MetricName, Places, Stretch, SumName, W, log_sums
from . import update
from .blocks import ReferenceGrid
from .update import Array, Rule


@final
class ReferenceFactors(Factors):
    """W (I, K) and H (J, K) in float64. The position of a row is its index."""

    def __init__(self, grid: ReferenceGrid, components: int, likelihood: Likelihood, floor: float) -> None:
        self.grid, self.components, self.dtype = grid, components, np.dtype(np.float64)
        self._model = update.Model(likelihood, floor)
        self._x, self._saved, self._sum, self._momenta = (self._zeros() for _ in range(4))
        self._bound = [np.ones_like(x) for x in self._x]
        self._squares, self._saved_squares = np.zeros(grid.places), np.zeros(grid.places)
        none, all_move = np.zeros(components), np.ones(components)
        self._prior: list[tuple[float, Array, Array]] = [(0.0, none, none) for _ in grid.shape]
        self._coupling: list[Array | None] = [None for _ in grid.shape]
        self._curvature = [np.stack([none, all_move]) for _ in grid.shape]
        self._move = [all_move for _ in grid.shape]
        self._key, self._rho, self._phi = 0, 0.0, 1.0
        self._metric: MetricName = "identity"
        self._mirror, self._temperature, self._second_order, self._logs = False, 1.0, False, False
        self._counts = [grid.counted.sum(axis=1 - which) for which in range(len(grid.shape))]

    def _zeros(self) -> list[Array]:
        return [np.zeros((n, self.components)) for n in self.grid.shape]

    # -- the rule ----------------------------------------------------------------------------------------

    def set_dynamics(
        self, key: int, metric: MetricName, mirror: bool, temperature: float, second_order: bool = False
    ) -> None:
        """Set the key of the noise, the metric D, reflection (x ← |x| after a step), τ, and the order of the step."""
        self._key, self._metric, self._mirror = key, metric, mirror
        self._temperature, self._second_order = temperature, second_order

    def set_log_sums(self, wanted: bool) -> None:
        """Set whether `sums` has Σ log x."""
        self._logs = wanted

    def set_momentum(self, rho: float) -> None:
        """Set the momentum ρ; 0 gives first-order steps."""
        self._rho = rho

    def set_parameters(self, phi: float, others: Sequence[float]) -> None:
        """Set the dispersion φ of the likelihood and its other parameters."""
        self._phi, self._model = phi, replace(self._model, theta=tuple(others))

    def set_prior(
        self, which: int, inverse: float, linear: Array, quadratic: Array, coupling: Array | None = None
    ) -> None:
        """Set the score of a factor's prior: inverse / x + linear - quadratic x - coupling x."""
        self._prior[which] = inverse, linear, quadratic
        if coupling is not None:
            self._coupling[which] = coupling

    def set_move(self, which: int, move: Array) -> None:
        """Set which components of a factor are updated: 1, or 0 for fixed components."""
        self._move[which] = move

    def set_bound(self, which: int, rate: Array) -> None:
        """Compute the bound b of the non-negative metric from the accumulated weights, φ and the prior's rates."""
        self._bound[which] = self._sum[which] / self._phi + rate

    def set_curvature(self, which: int, curvature: Array, ridge: Array) -> None:
        """Set 1/D of the real-valued metric: count × curvature + ridge; count is the number of entries of a row."""
        self._curvature[which] = np.stack([curvature, ridge])
        self._bound[which] = np.outer(self._counts[which], curvature) + ridge

    def curvature(self, which: int) -> Array:
        """Return the arguments of `set_curvature`, (2, K)."""
        return self._curvature[which].copy()

    def _rule(self, which: int) -> Rule:
        inverse, linear, quadratic = self._prior[which]
        coupling = self._coupling[which]
        if coupling is not None:
            quadratic = np.diag(quadratic) + coupling
        return Rule(
            which, inverse, linear, quadratic, self._metric, self._bound[which], self._move[which], self._mirror,
            self._temperature, self._key, self._rho, self._momenta[which], self._counts[which] == 0,
        )  # fmt: skip

    # -- moving and adding up ----------------------------------------------------------------------------

    def advance(self, stretch: Stretch) -> None:
        """Run iterations."""
        rows, cols = self.grid.sides
        rules = [self._rule(which) for which in range(len(self._x))]
        for q, part in enumerate(stretch.parts.tolist()):
            t, times = stretch.t + q, None
            if stretch.draws is not None:
                times = self.grid.times_drawn(part, stretch.draws[q], t, self._key)
            self._take_squares(part, times)
            scale = float(stretch.scales[q]) / self._phi
            self._x = list(
                update.iterate(
                    self.grid.V, self._x[W], self._x[H], rows, cols, part, t, float(stretch.steps[q]), scale,
                    self._model, rules, self._times(times),
                )
            )  # fmt: skip

    def accumulate(self, kind: SumName, part: int = -1) -> None:
        """Sum scores or weights over a part (or over all of V) for every row of every factor."""
        V = self.grid.V if part < 0 else np.where(self.grid.cells(part), self.grid.V, np.nan)
        weights, times = kind == "weight", self._times(None)
        self._sum = list(update.gradients(V, self._x[W], self._x[H], self._model, weights, times))
        if kind == "score":
            for p in range(self.grid.blocks) if part < 0 else [part]:
                self._take_squares(p)

    def _times(self, drawn: Array | None) -> Array | None:
        """Return how often each cell counts: its weight, times the number of times it was drawn; None for once."""
        weights = self.grid.weights
        return drawn if weights is None else weights if drawn is None else weights * drawn

    def accumulated(self, which: int) -> Array:
        """Return the sums of `accumulate` for a factor."""
        return self._sum[which].copy()

    def sums(self) -> Array:
        """Return Σx, Σx², Σ log x and Σ count x² of each component of each factor, (modes, 4, K)."""
        return np.array(
            [
                [x.sum(0), (x**2).sum(0), log_sums(x, self._logs), n @ x**2]
                for x, n in zip(self._x, self._counts, strict=True)
            ]
        )

    def gram(self, which: int) -> Array:
        """Return Σxxᵀ over the rows of a factor, (K, K)."""
        return np.asarray(self._x[which].T @ self._x[which])

    def _take_squares(self, part: int, times: Array | None = None) -> None:
        """Compute the squared residuals of the chunks of a part; only a Gaussian likelihood needs them."""
        if not self._model.likelihood.normal:
            return
        squares = np.nan_to_num((self.grid.V - self._x[W] @ self._x[H].T) ** 2)
        if (counted := self._times(times)) is not None:
            squares *= counted
        for chunk in self.grid.chunks[part]:
            block = np.ix_(*((chunk.cols, chunk.rows) if self.grid.swapped else (chunk.rows, chunk.cols)))
            self._squares[chunk.place] = squares[block].sum()

    def squared_residuals(self) -> float:
        """Return Σ(v - μ)², each block as of its last update."""
        return float(self._squares.sum())

    def fresh_squared_residuals(self) -> float:
        """Return Σ(v - μ)² at the current state."""
        for part in range(self.grid.blocks):
            self._take_squares(part)
        return self.squared_residuals()

    # -- reading and writing -----------------------------------------------------------------------------

    def factor(self, which: int, width: int | None = None, out: NDArray[Any] | None = None) -> NDArray[Any]:
        """Return a copy of the first `width` components of a factor."""
        if out is None:
            return self._x[which][:, :width].copy()
        out[...] = self._x[which][:, : out.shape[1]]
        return out

    def set_factor(self, which: int, x: NDArray[Any]) -> None:
        """Replace a factor."""
        self._x[which] = np.array(x, np.float64)

    def noise(self, which: int, iteration: int) -> Array:
        """Return the standard normals of an iteration for a factor."""
        rows = np.arange(self.grid.shape[which])
        return update.noise(rows, self.components, which, iteration, self._key)

    def positions(self, which: int, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the positions of rows of a factor: the rows themselves."""
        return rows

    def order(self, index: Places) -> NDArray[np.int64]:
        """Return a permutation that sorts entries of V by row."""
        return np.argsort(index[W], kind="stable")

    def mu(self, places: Places) -> Array:
        """Return Σ_k w_ik h_kj at entries of V."""
        return np.asarray(
            np.einsum("nk,nk->n", *(x[place] for x, place in zip(self._x, places, strict=True)))
        )

    def log_kernel(self, places: Places, values: NDArray[Any], weights: NDArray[Any] | None = None) -> float:
        """Return φ Σ w (log p(v | μ) - log normaliser) at entries of V of weight w (1 by default)."""
        model = self._model
        kernel = model.likelihood.kernel(values, model.guarded(self.mu(places)), *model.theta)
        return float(np.sum(kernel if weights is None else weights * kernel))

    # -- state -------------------------------------------------------------------------------------------

    def save(self) -> None:
        """Remember the present factors and residuals."""
        self._saved, self._saved_squares = [x.copy() for x in self._x], self._squares.copy()

    def restore(self) -> None:
        """Return to the factors and residuals of the last `save`, with zero momentum."""
        self._x, self._squares = [x.copy() for x in self._saved], self._saved_squares.copy()
        self._momenta = self._zeros()

    def _kept(self) -> dict[str, list[Array]]:
        momenta = {"momentum_": self._momenta} if self._second_order else {}
        return {"": self._x, "saved_": self._saved, **momenta}

    def state(self) -> dict[str, NDArray[Any]]:
        """Return the factors and squared residuals, and those of the last `save`."""
        kept = {
            prefix + names.factor: x.copy()
            for prefix, arrays in self._kept().items()
            for names, x in zip(NAMES, arrays, strict=True)
        }
        return kept | {"residuals": self._squares.copy(), "saved_residuals": self._saved_squares.copy()}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Set the state to what `state` returned, on this engine or on `Threads`."""
        for prefix, arrays in self._kept().items():
            arrays[:] = [np.array(state[prefix + names.factor], np.float64) for names in NAMES]
        self._squares, self._saved_squares = (
            np.array(state[name], np.float64) for name in ("residuals", "saved_residuals")
        )

    def weights(self) -> dict[str, NDArray[Any]]:
        """Return the sums of the last `accumulate`, for `set_weights`."""
        return {name: self.accumulated(which) for which, name in enumerate(WEIGHTS)}

    def set_weights(self, state: Mapping[str, Any]) -> None:
        """Set the sums to what `weights` returned."""
        self._sum = [np.array(state[name], np.float64) for name in WEIGHTS]
