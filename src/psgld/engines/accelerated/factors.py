"""The factors of a chain on the devices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, final

import jax
import numpy as np
from numpy.typing import NDArray

from ...models import Likelihood
from ...models.modes import NAMES
from ..base import WEIGHTS, Factors, MetricName, Places, Stretch, SumName
from ..reference.moves import Numbers, form_of
from . import reading
from .devices import placement, precision
from .drawing import drawn_entries
from .grid import AcceleratedGrid
from .noise import round_keys
from .program import Half, Plan, Rules, State, Table, full_pass, iterations

Array = NDArray[np.float64]

_LENGTHS = 256, 4096, 65536
"""Numbers of iterations for which a program is compiled; it also runs fewer of them."""

_MOST_DRAWN = 1 << 24
"""The most drawn cells that are sent to the device at once."""


@final
class AcceleratedFactors(Factors):
    """W and H in strips on the devices. The position of a row is that among the rows of all strips."""

    def __init__(self, grid: AcceleratedGrid, components: int, likelihood: Likelihood, floor: float) -> None:
        self.grid, self.components, self.dtype = grid, components, grid.dtype
        self._likelihood, self._floor = likelihood, floor
        self._theta: tuple[float, ...] = ()
        self._phi, self._rho, self._key, self._temperature = 1.0, 0.0, 0, 1.0
        self._metric: MetricName = "identity"
        self._mirror, self._second_order, self._logs = False, False, False
        none, ones = np.zeros(components), np.ones(components)
        self._prior: list[tuple[float, Array, Array]] = [(0.0, none, none)] * 2
        self._coupling: list[Array | None] = [None, None]
        self._move = [ones, ones]
        self._curvature = [np.stack([none, ones])] * 2
        self._place = placement(grid.mesh)
        with self._scope():
            halves = [self._new_half(which) for which in grid.factors]
            squares = self._put(np.zeros((grid.blocks,) * 2)) if likelihood.normal else None
            self._state = State(halves[0], halves[1], squares)
            self._saved = self._kept()
            self._sum = [half.x for half in halves]

    def _scope(self) -> Any:
        return precision(self.dtype)

    def _put(self, x: NDArray[Any]) -> Any:
        """Return an array by strip, in the precision of the factors, on the devices."""
        with self._scope():
            return jax.device_put(np.asarray(x, self.dtype), self._place)

    def _new_half(self, which: int) -> Half:
        side = self._side(which)
        zeros = np.zeros((*side.rows.shape, self.components))
        empty = side.spread(self.grid.counts[which] == 0.0, bool, False)
        rows, empty = jax.device_put((side.rows, empty), self._place)
        return Half(self._put(zeros), None, self._put(zeros + 1.0), rows, empty)

    def _half(self, which: int) -> Half:
        return self._state.inner if self.grid.factors.index(which) else self._state.outer

    def _replace(self, which: int, **arrays: Any) -> None:
        half = self._half(which)._replace(**arrays)
        self._state = self._state._replace(**{("outer", "inner")[self.grid.factors.index(which)]: half})

    def _side(self, which: int) -> Any:
        return self.grid.sides[self.grid.factors.index(which)]

    def _spread(self, which: int, x: Any, empty: float = 0.0) -> Any:
        """Return values of the rows of a factor on the devices."""
        return self._put(self._side(which).spread(np.asarray(x), self.dtype, empty))

    def _read(self, which: int, x: Any) -> NDArray[Any]:
        """Return values by strip in the order of V."""
        return np.asarray(self._side(which).gather(np.asarray(x)))

    # -- the rule ----------------------------------------------------------------------------------------

    def set_dynamics(
        self, key: int, metric: MetricName, mirror: bool, temperature: float, second_order: bool = False
    ) -> None:
        """Set the key of the noise, the metric D, reflection (x ← |x| after a step), τ, and the order of the step."""
        self._key, self._metric, self._mirror = key, metric, mirror
        self._temperature, self._second_order = temperature, second_order
        self._still()

    def _still(self) -> None:
        """Set the momenta to zero, if there are any."""
        for which, n in enumerate(self.grid.shape):
            m = self._spread(which, np.zeros((n, self.components))) if self._second_order else None
            self._replace(which, m=m)

    def set_log_sums(self, wanted: bool) -> None:
        """Set whether `sums` has Σ log x."""
        self._logs = wanted

    def set_momentum(self, rho: float) -> None:
        """Set the momentum ρ; 0 gives first-order steps."""
        self._rho = rho

    def set_parameters(self, phi: float, others: Sequence[float]) -> None:
        """Set the dispersion φ of the likelihood and its other parameters."""
        self._phi, self._theta = phi, tuple(others)

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
        with self._scope():
            self._replace(which, b=reading.bound(self._sum[which], self._phi, np.asarray(rate, self.dtype)))

    def set_curvature(self, which: int, curvature: Array, ridge: Array) -> None:
        """Set 1/D of the real-valued metric: count × curvature + ridge; count is the number of entries of a row."""
        self._curvature[which] = np.stack([curvature, ridge])
        with self._scope():
            b = np.outer(self.grid.counts[which], curvature) + ridge
            self._replace(which, b=self._spread(which, b, 1.0))

    def curvature(self, which: int) -> Array:
        """Return the arguments of `set_curvature`, (2, K)."""
        return np.array(self._curvature[which])

    def _plan(self, cyclic: bool) -> tuple[Plan, tuple[Numbers, Numbers]]:
        """Return what programs are compiled for, and the numbers of the steps."""
        forms, numbers = [], []
        for which in self.grid.factors:
            inverse, linear, quadratic = self._prior[which]
            coupling, move, heat = self._coupling[which], self._move[which], self._temperature
            pull = quadratic if coupling is None else np.diag(quadratic) + coupling
            form, power = form_of(self._metric, self._mirror, inverse, pull, move, heat, self._rho)
            given = inverse, linear, pull, move, heat, self._rho, power
            forms.append(form)
            numbers.append(Numbers(*(np.asarray(x, self.dtype) for x in given)))
        zero = self.grid.data.zero_weight if self.grid.implicit else None
        plan = Plan(
            self._likelihood, self._floor, (forms[0], forms[1]), self.grid.factors, self.grid.blocks, zero, cyclic,
            self.grid.mesh,
        )  # fmt: skip
        return plan, (numbers[0], numbers[1])

    # -- updates and sums --------------------------------------------------------------------------------

    def advance(self, stretch: Stretch) -> None:
        """Run iterations."""
        n = _LENGTHS[-1]
        if stretch.draws is not None:
            n = max(1, _MOST_DRAWN // max(1, int(stretch.draws[0].sum())))
        for first in range(0, len(stretch), n):
            self._run(stretch.piece(first, min(first + n, len(stretch))))

    def _run(self, stretch: Stretch) -> None:
        B = self.grid.blocks
        turns = np.diff(stretch.parts, append=stretch.parts[-1:]) % B
        cyclic = bool((turns[:-1] == 1 % B).all())
        if cyclic:
            turns[-1] = 1 % B
        plan, numbers = self._plan(cyclic)
        rules = Rules(numbers, np.asarray(self._theta, self.dtype), round_keys(self._key))
        with self._scope():
            self._state = iterations(plan, self._state, self.grid.arrays, rules, self._table(stretch, turns))

    def _table(self, stretch: Stretch, turns: NDArray[Any]) -> Table:
        n, drawn = len(stretch), None
        length = next(size for size in _LENGTHS if n <= size)
        if stretch.draws is not None:
            length = max(8, 1 << (n - 1).bit_length())
            numbers = drawn_entries(stretch.t, stretch.draws, self.grid.chunk_entries, self._key)
            drawn = np.zeros((length, numbers.shape[1]), np.int32)
            drawn[:n] = self.grid.cells_of(numbers)

        def filled(x: Any, dtype: Any) -> NDArray[Any]:
            out = np.zeros(length, dtype)
            out[:n] = x
            return out

        first = np.array([stretch.t % 2**32, stretch.t >> 32], np.uint32)
        steps, scales = (filled(x, self.dtype) for x in (stretch.steps, stretch.scales / self._phi))
        parts, turned = filled(stretch.parts, np.int32), filled(turns, np.int32)
        return Table(np.int32(n), first, parts, turned, steps, scales, drawn)

    def accumulate(self, kind: SumName, part: int = -1) -> None:
        """Sum scores or weights over a part (or over all of V) for every row of every factor."""
        first, end = (0, self.grid.blocks) if part < 0 else (part, part + 1)
        plan, _ = self._plan(cyclic=True)
        with self._scope():
            theta = np.asarray(self._theta, self.dtype)
            outer, inner, squares = full_pass(
                plan, kind, self._state, self.grid.arrays, theta, np.int32(first), np.int32(end)
            )
        sums = dict(zip(self.grid.factors, (outer, inner), strict=True))
        self._sum = [sums[which] for which in range(2)]
        if kind == "score":
            self._state = self._state._replace(squares=squares)

    def accumulated(self, which: int) -> NDArray[Any]:
        """Return the sums of `accumulate` for a factor."""
        return self._read(which, self._sum[which])

    def sums(self) -> Array:
        """Return Σx, Σx², Σ log x and Σ count x² of each component of each factor, (modes, 4, K)."""
        out = []
        for which in range(2):
            counts, half = self.grid.counts[which], self._half(which)
            with self._scope():
                groups = reading.group_sums(half.x, half.rows, self._spread(which, counts), self._logs)
            out.append(np.asarray(groups, np.float64).sum(axis=(0, 1)))
        return np.array(out)

    def gram(self, which: int) -> Array:
        """Return Σxxᵀ over the rows of a factor, (K, K)."""
        with self._scope():
            return np.asarray(np.asarray(reading.grams(self._half(which).x), np.float64).sum(axis=0))

    def squared_residuals(self) -> float:
        """Return Σ(v - μ)², each block as of its last update."""
        return float(np.asarray(self._squares(self._state.squares)).sum())

    def fresh_squared_residuals(self) -> float:
        """Return Σ(v - μ)² at the current state."""
        if self._likelihood.normal:
            kept = self._sum
            self.accumulate("score")
            self._sum = kept
        return self.squared_residuals()

    # -- reading and writing -----------------------------------------------------------------------------

    def factor(self, which: int, width: int | None = None, out: NDArray[Any] | None = None) -> NDArray[Any]:
        """Return a copy of the first `width` components of a factor."""
        x = self._read(which, self._half(which).x)
        if out is None:
            return x[:, :width].copy()
        out[...] = x[:, : out.shape[1]]
        return out

    def set_factor(self, which: int, x: NDArray[Any]) -> None:
        """Replace a factor."""
        with self._scope():
            self._replace(which, x=self._spread(which, x))

    def noise(self, which: int, iteration: int) -> NDArray[Any]:
        """Return the standard normals of an iteration for a factor."""
        t = np.array([iteration % 2**32, iteration >> 32], np.uint32)
        with self._scope():
            rows = self._half(which).rows
            z = reading.noise(rows, self.components, which, t, round_keys(self._key), self.dtype.name)
            return self._read(which, z)

    def positions(self, which: int, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the positions of rows of a factor among the rows of all strips."""
        return np.asarray(self._side(which).place[rows])

    def order(self, index: Places) -> NDArray[np.int64]:
        """Return a permutation that sorts entries of V by their position in the outer factor."""
        outer = self.grid.factors[0]
        return np.argsort(self.positions(outer, index[outer]), kind="stable")

    def mu(self, places: Places) -> NDArray[Any]:
        """Return Σ_k w_ik h_kj at the positions of entries."""
        with self._scope():
            at = tuple(place.astype(np.int32) for place in places)
            return np.asarray(reading.mu(self._half(0).x, self._half(1).x, at))

    def log_kernel(self, places: Places, values: NDArray[Any], weights: NDArray[Any] | None = None) -> float:
        """Return φ Σ w (log p(v | μ) - log normaliser) at the positions of entries of weight w (1 by default)."""
        theta = np.asarray(self._theta, self.dtype)
        with self._scope():
            at = tuple(place.astype(np.int32) for place in places)
            kernel = reading.log_kernels(
                self._likelihood, self._floor, self._half(0).x, self._half(1).x, at,
                np.asarray(values, self.dtype), theta,
            )  # fmt: skip
        kernel = np.asarray(kernel, np.float64)
        return float(np.sum(kernel if weights is None else weights * kernel))

    # -- state -------------------------------------------------------------------------------------------

    def _kept(self) -> tuple[Any, Any, Any]:
        return self._half(0).x, self._half(1).x, self._state.squares

    def save(self) -> None:
        """Remember the present factors and residuals: arrays on devices do not change."""
        self._saved = self._kept()

    def restore(self) -> None:
        """Return to the factors and residuals of the last `save`, with zero momentum."""
        for which in range(2):
            self._replace(which, x=self._saved[which])
        self._state = self._state._replace(squares=self._saved[2])
        with self._scope():
            self._still()

    def _squares(self, squares: Any) -> Array:
        """Return the squared residuals by chunk: those of a block are at its first one."""
        out = np.zeros(self.grid.chunks)
        if squares is not None:
            out[self.grid.first_chunks] = np.asarray(squares, np.float64)
        return out

    def _set_squares(self, by_chunk: Array) -> Any:
        if not self._likelihood.normal:
            return None
        blocks = np.bincount(self.grid.block_of_chunk(), by_chunk, self.grid.blocks**2)
        return self._put(blocks.reshape(self.grid.blocks, self.grid.blocks))

    def state(self) -> dict[str, NDArray[Any]]:
        """Return the factors and squared residuals, and those of the last `save`."""
        arrays = {"": [self._half(which).x for which in range(2)], "saved_": self._saved[:2]}
        if self._second_order:
            arrays["momentum_"] = [self._half(which).m for which in range(2)]
        kept = {
            prefix + names.factor: self._read(which, x)
            for prefix, pair in arrays.items()
            for which, (names, x) in enumerate(zip(NAMES, pair, strict=True))
        }
        residuals = self._squares(self._state.squares), self._squares(self._saved[2])
        return kept | dict(zip(("residuals", "saved_residuals"), residuals, strict=True))

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Set the state to what `state` returned, on any engine and any number of devices."""
        with self._scope():
            for which, names in enumerate(NAMES):
                self._replace(which, x=self._spread(which, state[names.factor]))
                if self._second_order:
                    self._replace(which, m=self._spread(which, state["momentum_" + names.factor]))
            saved = [self._spread(which, state["saved_" + names.factor]) for which, names in enumerate(NAMES)]
            now, before = (
                self._set_squares(np.asarray(state[name], np.float64))
                for name in ("residuals", "saved_residuals")
            )
            self._state, self._saved = self._state._replace(squares=now), (saved[0], saved[1], before)

    def weights(self) -> dict[str, NDArray[Any]]:
        """Return the sums of the last `accumulate`, for `set_weights`."""
        return {name: self.accumulated(which) for which, name in enumerate(WEIGHTS)}

    def set_weights(self, state: Mapping[str, Any]) -> None:
        """Set the sums to what `weights` returned."""
        with self._scope():
            self._sum = [self._spread(which, state[name]) for which, name in enumerate(WEIGHTS)]
