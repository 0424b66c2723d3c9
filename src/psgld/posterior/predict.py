"""Predictions: the posterior of the mean μ_ij = E[v | η_ij], η_ij = Σ_k w_ik h_kj (+ biases), and of a new observation.

The core processes pairs in blocks and draws one by one: an array of pairs × draws is allocated only for the draws
themselves. Pairs are independent, and the randomness of a new observation is a function of (seed, row, column, draw):
the same bits in any order, in one call or in many, on any number of threads.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import _core
from ..checks import as_numbers, is_integer, is_number
from ..data.labels import LabelArray, frame, named
from ..errors import DataError
from ..models import Likelihood
from ..runs.draws import Draws, check_factors
from ..system.limits import available_cores
from ..system.table import table

_CHUNK = 2_000_000
"""Values of μ held at a time, where they are not asked for."""

_SHOWN = 10
"""Pairs that `print` shows."""

_SMALL = 3e6
"""Multiplications that are done before another thread has woken up."""

Floats = NDArray[np.float64]


def new_pool(work: float = np.inf) -> _core.Pool:
    """Return threads for one call, which end with it; a single one for work of so few multiplications."""
    return _core.Pool(1 if work < _SMALL else available_cores())


def core_parameters(draws: Draws, likelihood: Likelihood) -> Floats:
    """Return what the functor of a likelihood is given in each draw, (S, parameters)."""
    size = draws.phi.size
    constants = np.broadcast_to(np.array(likelihood.constants), (size, len(likelihood.constants)))
    others = np.empty((size, 0)) if draws.theta is None else draws.theta.reshape(size, -1)
    return np.ascontiguousarray(np.hstack([constants, others]), np.float64)


def held(draws: Draws, likelihood: Likelihood) -> Any:
    """Return the draws of all chains as the core takes them, (S, I, K) and so on; without copying if it can."""
    check_factors(draws)
    dtype = np.float64 if draws.W.dtype == np.float64 else np.float32

    def flat(a: Any, kind: Any = dtype) -> NDArray[Any]:
        return np.ascontiguousarray(a, kind).reshape(-1, *a.shape[2:])

    make: Any = _core.Draws64 if dtype == np.float64 else _core.Draws32
    biases = (None if b is None else flat(b) for b in (draws.row_bias, draws.col_bias))
    numbers = (flat(a, np.float64) for a in (draws.offset, draws.phi))
    floor = float(np.finfo(draws.W.dtype).tiny)
    given = likelihood.functor, core_parameters(draws, likelihood), floor
    return make(flat(draws.W), flat(draws.H), *biases, *numbers, *given)


@final
class Prediction:
    """The posterior at n pairs, from S draws (all chains). Quantities are computed on demand.

    Attributes
    ----------
    rows, cols : indices of the pairs, shape (n,).
    row_labels, col_labels : their labels, shape (n,); indices if the data has no labels.
    mean, sd : posterior mean and standard deviation of μ, shape (n,).
    draws : draws of μ, shape (S, n).
    new_sd : standard deviation of a new observation (uncertainty of μ and noise).
    """

    def __init__(
        self,
        draws: Draws,
        likelihood: Likelihood,
        rows: NDArray[np.int64],
        cols: NDArray[np.int64],
        seed: int = 0,
        labels: tuple[LabelArray | None, LabelArray | None] = (None, None),
    ) -> None:
        self._core = held(draws, likelihood)
        self.rows, self.cols = (np.ascontiguousarray(a, np.int64) for a in (rows, cols))
        self._draws, self._likelihood, self._seed = draws, likelihood, check_seed(seed)
        self._floor = float(np.finfo(draws.W.dtype).tiny)
        self._labels = labels

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        pairs, draws = f"{len(self):,} pairs", f"{self._draws.phi.size:,} draws"
        return f"<Prediction of {pairs} from {draws}: mean, sd, interval(0.9), to_frame()>"

    def __str__(self) -> str:
        n = min(len(self), _SHOWN)
        few = Prediction(
            self._draws, self._likelihood, self.rows[:n], self.cols[:n], self._seed, self._labels
        )
        more = f"\n… {len(self) - n:,} more pairs" if len(self) > n else ""
        return table({name: column.tolist() for name, column in few._columns(0.9).items()}) + more

    @property
    def row_labels(self) -> LabelArray:
        """The label of the row of each pair."""
        return named(self._labels[0], self.rows)

    @property
    def col_labels(self) -> LabelArray:
        """The label of the column of each pair."""
        return named(self._labels[1], self.cols)

    def to_frame(self, level: float = 0.9) -> Any:
        """Return a pandas DataFrame, one line per pair: row, column, mean, sd, low, high.

        A new observation lies between low and high with probability `level`.
        """
        return frame(self._columns(level))

    def _columns(self, level: float) -> dict[str, Any]:
        low, high = self.interval(level)
        columns = {"row": self.row_labels, "column": self.col_labels, "mean": self.mean, "sd": self.sd}
        return {**columns, "low": low, "high": high}

    @cached_property
    def _moments(self) -> Floats:
        out = np.empty((2, len(self)))
        self._core.moments(self._pool(len(self)), self.rows, self.cols, out)
        return out

    @property
    def mean(self) -> Floats:
        """Posterior mean of μ, and of a new observation."""
        return np.asarray(self._moments[0])

    @property
    def sd(self) -> Floats:
        """Posterior standard deviation of μ."""
        return np.asarray(self._moments[1])

    @cached_property
    def new_sd(self) -> Floats:
        """Standard deviation of a new observation: sqrt(Var E[v | η, θ] + E[Var(v | η, θ)])."""
        if self._likelihood.confines:
            pairs = [self._likelihood.new_moments(eta, *theta) for _, eta, theta in self._chunks()]
            sums = [np.var(m, axis=0, ddof=min(1, self._size - 1)) + v.mean(axis=0) for m, v in pairs]
            return np.asarray(np.sqrt(np.concatenate([np.empty(0), *sums])))
        out = np.empty((3, len(self)))
        self._core.moments(self._pool(len(self)), self.rows, self.cols, out)
        return np.asarray(np.sqrt(out[1] ** 2 + out[2]))

    @cached_property
    def draws(self) -> Floats:
        """Draws of μ, shape (S, n)."""
        return self._values(slice(None), "mean")

    def new_draws(self) -> Floats:
        """Return draws of a new observation at each pair, shape (S, n)."""
        return self._new_values(slice(None))

    def interval(self, level: float = 0.9) -> tuple[Floats, Floats]:
        """Return (low, high) between which a new observation lies with the given probability.

        Of a family with few levels (`Ordinal()`, `Bernoulli()`) the shortest run of levels that has at least this
        probability, of equally short ones the most probable; else quantiles.
        """
        low, high = _ends(level)
        if self._likelihood.levels is None:
            low, high = self.quantiles((low, high))
            return low, high
        first, last = _shortest_runs(self.probabilities, high - low)
        return self.levels[first], self.levels[last]

    def mean_interval(self, level: float = 0.9) -> tuple[Floats, Floats]:
        """Return (low, high) between which μ lies with the given probability."""
        low, high = self.mean_quantiles(_ends(level))
        return low, high

    def quantiles(self, probabilities: ArrayLike) -> Floats:
        """Return quantiles of a new observation, shape (len(probabilities), n)."""
        return self._quantiles(probabilities, fresh=True)

    def mean_quantiles(self, probabilities: ArrayLike) -> Floats:
        """Return quantiles of μ, shape (len(probabilities), n)."""
        return self._quantiles(probabilities, fresh=False)

    def exceeds(self, value: ArrayLike) -> Floats:
        """Return P(v > value) of a new observation v at each pair: the mean over the draws of P(v > value | η, θ)."""
        value = self._one_a_pair(value)
        out = np.empty(len(self))
        for at, eta, theta in self._chunks():
            share = self._likelihood.survival(value[at], eta, *theta)
            out[at] = (self._new_values(at) > value[at] if share is None else share).mean(axis=0)
        return out

    @property
    def levels(self) -> Floats:
        """The values that a new observation can take, if they are few: those of `Ordinal()` or `Bernoulli()`."""
        if self._likelihood.levels is None:
            raise DataError(
                f"{type(self._likelihood).__name__} has no levels, as Ordinal() and Bernoulli() have; "
                "exceeds and log_density have probabilities of its values"
            )
        return np.array(self._likelihood.levels)

    @cached_property
    def probabilities(self) -> Floats:
        """P(v = level) of a new observation v, shape (n, levels)."""
        levels = self.levels
        above = np.zeros((len(self), len(levels) + 1))
        above[:, 0] = 1.0
        for at, eta, theta in self._chunks():
            for which, level in enumerate(levels[:-1].tolist()):
                share = self._likelihood.survival(level, eta, *theta)
                assert share is not None
                above[at, which + 1] = share.mean(axis=0)
        return np.asarray(above[:, :-1] - above[:, 1:])

    def mean_exceeds(self, value: ArrayLike) -> Floats:
        """Return P(μ > value) at each pair: the fraction of draws with μ > value."""
        out = np.empty(len(self))
        self._core.share_above(self._pool(len(self)), self.rows, self.cols, self._one_a_pair(value), out)
        return out

    def log_density(self, values: ArrayLike) -> Floats:
        """Return log E[p(v | η, θ)], the log predictive density of a value at each pair."""
        values = self._values_of_pairs(values)
        out = np.empty(len(self))
        for at, eta, theta in self._chunks():
            logs = self._likelihood.logpdf(values[at], eta, *theta)
            # -inf in every draw stays -inf, without a NaN on the way.
            top = np.maximum(logs.max(axis=0), -1e300)
            with np.errstate(divide="ignore"):
                out[at] = top + np.log(np.exp(logs - top).mean(axis=0))
        return out

    def log_densities(self, values: ArrayLike) -> Floats:
        """Return log p(v | η, θ) of a value at each pair in each draw, shape (S, n)."""
        values = self._values_of_pairs(values)
        logs = [self._likelihood.logpdf(values[at], eta, *theta) for at, eta, theta in self._chunks()]
        return np.concatenate([np.empty((self._size, 0)), *logs], axis=1)

    # -- pieces ------------------------------------------------------------------------------------------

    def _pool(self, pairs: int) -> _core.Pool:
        return new_pool(float(pairs) * self._size * self._draws.W.shape[3])

    @property
    def _size(self) -> int:
        return int(self._draws.phi.size)

    def _quantiles(self, probabilities: ArrayLike, fresh: bool) -> Floats:
        p = np.atleast_1d(as_numbers(probabilities, "probabilities"))
        if p.ndim != 1 or not ((p >= 0) & (p <= 1)).all():
            raise DataError(f"probabilities must lie between 0 and 1, got {probabilities!r}")
        out = np.empty((len(p), len(self)))
        if not fresh or (self._likelihood.draws_in_core and not self._likelihood.confines):
            self._core.quantiles(
                self._pool(len(self)),
                self.rows,
                self.cols,
                fresh,
                self._seed,
                np.ascontiguousarray(p),
                out,
            )
            return out
        method: Any = "inverted_cdf" if self._likelihood.lattice else "linear"
        for at, _, _ in self._chunks():
            out[:, at] = np.quantile(self._new_values(at), p, axis=0, method=method)
        return out

    def _values(self, at: slice, kind: str) -> Floats:
        """Return draws of the "mean" μ, of "eta", or of a "new" observation, (S, pairs)."""
        rows, cols = self.rows[at], self.cols[at]
        out = np.empty((self._size, len(rows)))
        self._core.values(self._pool(len(rows)), rows, cols, kind, self._seed, out)
        return out

    def _new_values(self, at: slice) -> Floats:
        if self._likelihood.draws_in_core and not self._likelihood.confines:
            return self._values(at, "new")
        eta = self._allowed(self._values(at, "eta"))
        if self._likelihood.confines:
            parameters = (x.reshape(-1, 1) for x in self._draws.parameters(self._likelihood).values())
            return self._likelihood.confined(self._values(at, "new"), eta, *parameters)
        theta = [x.reshape(-1) for x in self._draws.parameters(self._likelihood).values()]
        for q, (i, j) in enumerate(zip(self.rows[at].tolist(), self.cols[at].tolist(), strict=True)):
            eta[:, q] = self._likelihood.sample(eta[:, q], *theta, np.random.default_rng([self._seed, i, j]))
        return eta

    def _chunks(self) -> Iterator[tuple[slice, Floats, list[Floats]]]:
        """Yield (slice of the pairs, η of shape (S, pairs), the parameters of shape (S, 1))."""
        theta = [x.reshape(-1, 1) for x in self._draws.parameters(self._likelihood).values()]
        size = max(1, _CHUNK // self._size)
        for first in range(0, len(self), size):
            at = slice(first, min(first + size, len(self)))
            yield at, self._allowed(self._values(at, "eta")), theta

    def _allowed(self, eta: Floats) -> Floats:
        """Keep an η that must be positive away from an exact zero."""
        return np.maximum(eta, self._floor) if self._likelihood.nonnegative_mean else eta

    def _values_of_pairs(self, values: ArrayLike) -> Floats:
        array = as_numbers(values, "values")
        if array.shape != self.rows.shape:
            raise DataError(
                f"one value per pair is needed: {len(self)} pairs, got values of shape {array.shape}"
            )
        return array

    def _one_a_pair(self, value: ArrayLike) -> Floats:
        array = as_numbers(value, "value")
        if array.shape not in ((), self.rows.shape):
            raise DataError(f"one value, or one per pair ({len(self)}) is needed, got shape {array.shape}")
        if np.isnan(array).any():
            raise DataError("value must be a number, got NaN: nothing is above it or below")
        return np.ascontiguousarray(np.broadcast_to(array, self.rows.shape))


def _ends(level: float) -> tuple[float, float]:
    if not is_number(level) or not 0 < level < 1:
        raise DataError(f"level must be between 0 and 1, got {level!r}")
    return (1 - level) / 2, (1 + level) / 2


def _shortest_runs(p: Floats, least: float) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the first and last levels of the shortest run of levels of that probability; p has shape (n, levels)."""
    n, levels = p.shape
    below = np.hstack([np.zeros((n, 1)), np.cumsum(p, axis=1)])
    first, last = np.zeros((2, n), np.int64)
    left = np.arange(n)
    for width in range(1, levels + 1):
        mass = below[left, width:] - below[left, : levels - width + 1]
        best = mass.argmax(axis=1)
        first[left], last[left] = best, best + width - 1
        left = left[mass.max(axis=1) < least - 1e-12] if width < levels else left[:0]
    return first, last


def check_seed(seed: Any) -> int:
    """Return the seed; raise DataError if it is none."""
    if not is_integer(seed) or not 0 <= seed < 2**64:
        raise DataError(f"seed must be an integer from 0 to 2^64 - 1, got {seed!r}")
    return int(seed)
