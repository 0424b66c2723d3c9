"""Predictions: the posterior of μ_ij = Σ_k w_ik h_kj (+ biases), and of a new observation, at given pairs."""

from __future__ import annotations

from functools import cached_property
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from . import _core
from .errors import DataError, SamplingError
from .models import Tweedie
from .record import Draws

_CHUNK = 4_000_000
"""Values of μ held at a time."""


@final
class Prediction:
    """The posterior at n pairs, from S draws (all chains). Everything is computed when asked for.

    Attributes
    ----------
    mean, sd : posterior mean and standard deviation of μ, shape (n,).
    draws : draws of μ, shape (S, n).
    new_sd : standard deviation of a new observation (of μ and of the noise together).
    """

    def __init__(
        self,
        draws: Draws,
        likelihood: Tweedie,
        rows: NDArray[np.int64],
        cols: NDArray[np.int64],
        seed: int = 0,
    ) -> None:
        if draws.W.shape[1] == 0:
            raise SamplingError(
                "no draws of W and H were kept (keep=False); use posterior.tracked, or keep=True"
            )
        self.rows, self.cols = rows, cols
        self._draws, self._likelihood, self._seed = draws, likelihood, seed

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def _moments(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        mean, sd, noise = np.empty((3, len(self)))
        for at, mu, phi in self._chunks():
            mean[at] = mu.mean(axis=0)
            sd[at] = mu.std(axis=0, ddof=1) if len(mu) > 1 else 0.0
            noise[at] = self._likelihood.variance(self._allowed(mu), phi).mean(axis=0)
        return mean, sd, noise

    @property
    def mean(self) -> NDArray[np.float64]:
        """Posterior mean of μ."""
        return self._moments[0]

    @property
    def sd(self) -> NDArray[np.float64]:
        """Posterior standard deviation of μ."""
        return self._moments[1]

    @property
    def new_sd(self) -> NDArray[np.float64]:
        """Standard deviation of a new observation."""
        return np.asarray(np.sqrt(self._moments[1] ** 2 + self._moments[2]))

    @cached_property
    def draws(self) -> NDArray[Any]:
        """Draws of μ, shape (S, n)."""
        return np.concatenate([mu for _, mu, _ in self._chunks()], axis=1)

    def new_draws(self) -> NDArray[np.float64]:
        """Return draws of a new observation at each pair, shape (S, n)."""
        return np.concatenate([v for _, v in self._new_chunks()], axis=1)

    def interval(self, level: float = 0.9) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return (low, high) between which a new observation falls with the given probability."""
        return self._interval(level, ((at, v) for at, v in self._new_chunks()))

    def mean_interval(self, level: float = 0.9) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return (low, high) between which μ lies with the given probability."""
        return self._interval(level, ((at, mu) for at, mu, _ in self._chunks()))

    def log_density(self, values: NDArray[Any]) -> NDArray[np.float64]:
        """Return log E[p(v | μ, φ)], the log predictive density of a value at each pair."""
        values = np.asarray(values, np.float64)
        if values.shape != self.rows.shape:
            raise DataError(
                f"one value a pair is needed: {len(self)} pairs, got values of shape {values.shape}"
            )
        out = np.empty(len(self))
        for at, mu, phi in self._chunks():
            logs = self._likelihood.logpdf(values[at], self._allowed(mu), phi)
            top = np.maximum(
                logs.max(axis=0), -1e300
            )  # -inf in every draw stays -inf, without a NaN on the way
            with np.errstate(divide="ignore"):
                out[at] = top + np.log(np.exp(logs - top).mean(axis=0))
        return out

    def _interval(self, level: float, chunks: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        if not 0 < level < 1:
            raise DataError(f"level must be between 0 and 1, got {level!r}")
        low, high = np.empty((2, len(self)))
        for at, values in chunks:
            low[at], high[at] = np.quantile(values, [(1 - level) / 2, (1 + level) / 2], axis=0)
        return low, high

    def _allowed(self, mu: NDArray[Any]) -> NDArray[Any]:
        """Keep the mean of a non-negative likelihood away from an exact zero."""
        return np.maximum(mu, np.finfo(mu.dtype).tiny) if self._likelihood.nonnegative_mean else mu

    def _new_chunks(self) -> Any:
        for number, (at, mu, phi) in enumerate(self._chunks()):
            rng = np.random.default_rng([self._seed, number])
            yield at, self._likelihood.sample(self._allowed(mu), phi, rng)

    def _chunks(self) -> Any:
        """Yield (slice of the pairs, μ of shape (S, pairs), φ of shape (S, 1))."""
        d = self._draws
        chains, kept = d.W.shape[:2]
        phi = d.phi.reshape(-1, 1)
        size = max(1, _CHUNK // (chains * kept))
        for first in range(0, max(len(self), 1), size):
            at = slice(first, min(first + size, len(self)))
            rows, cols = self.rows[at], self.cols[at]
            mu = np.empty((chains * kept, len(rows)), d.W.dtype)
            for s in range(chains * kept):
                c, k = divmod(s, kept)
                _core.dots(d.W[c, k], d.H[c, k], rows, cols, mu[s])
                if d.row_bias is not None and d.col_bias is not None:
                    mu[s] += (d.row_bias[c, k][rows] + d.col_bias[c, k][cols]) + d.offset[c, k]
            yield at, mu, phi
