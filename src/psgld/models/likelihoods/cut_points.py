"""The move of the cut points of ordered levels: independence Metropolis around their conditional mode."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from psgld.models.common import Array, real

_FREEDOM = 6.0
"""Degrees of freedom of the proposal. The tails of the target are exponential: a t variable covers them."""

_MOST_STEPS, _LONGEST_STEP, _CONVERGED = 50, 3.0, 1e-9
"""Of Newton's method. Far from the mode log π is nearly linear, and a full step would be much too long."""


def starting_cuts(counts: Array) -> Array:
    """Return cut points with these proportions of levels, for η ~ Normal(0, 1).

    Examples
    --------
    >>> starting_cuts(np.array([10.0, 20.0, 10.0])).round(2)
    array([-1.24,  1.24])
    """
    below = np.cumsum(counts + 0.5)
    # The variance of a logistic variable is π²/3, that of its sum with η 1 + π²/3.
    return real(np.log(below[:-1] / (below[-1] - below[:-1])) * np.sqrt(1.0 + 3.0 / np.pi**2))


@dataclass(frozen=True, eq=False)
class CutMove:
    """A draw of the cut points c given some observed levels and their η.

        log π(c) = Σ_i w_i log P(level_i | η_i, c) + Σ_l log P(level_l | η = 0, c)

    The prior is the second sum, one entry of each level: proper, also if a level has no entry. π is log-concave.
    Newton's method finds its mode m to 1e-9 of an sd, from wherever it starts, and minus its Hessian A there. Proposals
    are m + A^(-1/2) t, t of six degrees of freedom; given thousands of entries, most are accepted.

    Parameters
    ----------
    index
        The number of the level of each entry, 0 to L - 1.
    levels
        L.
    weights
        The weights w_i of the entries; None if they are 1.
    proposals
        The number of proposals per move.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> index = np.sum(rng.logistic(size=4000)[:, None] > [-1.0, 0.5], axis=1)
    >>> move = CutMove(index, levels=3)
    >>> np.round(move((-0.1, 0.1), np.zeros(4000), rng), 1)
    array([-1. ,  0.5])
    """

    index: NDArray[np.int64]
    levels: int
    weights: Array | None = None
    proposals: int = 2

    def __call__(
        self, theta: tuple[float, ...], eta: ArrayLike, rng: np.random.Generator
    ) -> tuple[float, ...]:
        """Return the cut points after the proposals from `theta`, given η of the entries."""
        given = np.append(real(eta), np.zeros(self.levels))[self._order]
        parts = np.split(given, self._bounds)
        now, d = real(theta), self.levels - 1
        try:
            mode, root = self._mode(now, parts)
        except (
            np.linalg.LinAlgError
        ):  # all η are so far off that no slope is left, as in a chain that diverges
            return theta

        def weight(c: Array) -> float:
            away = float(np.sum((root.T @ (c - mode)) ** 2))
            return self._log_density(c, parts) + 0.5 * (_FREEDOM + d) * math.log1p(away / _FREEDOM)

        current = weight(now)
        for _ in range(self.proposals):
            t = rng.standard_normal(d) * np.sqrt(_FREEDOM / rng.chisquare(_FREEDOM))
            proposal = mode + np.linalg.solve(root.T, t)
            proposed = weight(proposal)
            if -rng.standard_exponential() < proposed - current:
                now, current = proposal, proposed
        return tuple(now.tolist())

    @property
    def values(self) -> NDArray[np.int64]:
        """The entries that a move reads."""
        return self.index

    @cached_property
    def _order(self) -> NDArray[np.int64]:
        """The entries and those of the prior, sorted by level."""
        return np.argsort(np.append(self.index, np.arange(self.levels)), kind="stable")

    @cached_property
    def _counts(self) -> Array:
        """The total weight of each level."""
        return real(np.bincount(self.index, self.weights, self.levels) + 1)

    @cached_property
    def _bounds(self) -> NDArray[np.int64]:
        return np.cumsum(np.bincount(self.index, minlength=self.levels) + 1)[:-1]

    @cached_property
    def _weights(self) -> list[Array]:
        """The weights of the entries and those of the prior, by level."""
        given = np.ones(len(self.index)) if self.weights is None else self.weights
        return np.split(np.append(given, np.ones(self.levels))[self._order], self._bounds)

    def _log_density(self, c: Array, parts: list[Array]) -> float:
        """Return log π(c): n log(1 - exp(-width)) for every level between two cut points, and log F of its ends."""
        width = np.diff(c)
        if not (width > 0.0).all():
            return -np.inf
        total = float(self._counts[1:-1] @ np.log(-np.expm1(-width)))
        w = self._weights
        for cut, below, above, v, u in zip(c, parts, parts[1:], w, w[1:], strict=False):
            total -= _softplus(below - cut, v) + _softplus(cut - above, u)
        return total

    def _slopes(self, c: Array, parts: list[Array]) -> tuple[Array, Array]:
        """Return the gradient of log π and minus its Hessian, which is tridiagonal."""
        from scipy.special import expit

        gradient, curvature = np.empty(len(c)), np.empty(len(c))
        w = self._weights
        for at, (cut, below, above, v, u) in enumerate(zip(c, parts, parts[1:], w, w[1:], strict=False)):
            p, q = expit(below - cut), expit(cut - above)
            gradient[at] = v @ p - u @ q
            curvature[at] = v @ (p - p * p) + u @ (q - q * q)
        width = np.diff(c)
        inside = -np.expm1(-width)
        pull = self._counts[1:-1] * np.exp(-width) / inside
        bend = pull / inside
        gradient[1:] += pull
        gradient[:-1] -= pull
        curvature[1:] += bend
        curvature[:-1] += bend
        return gradient, np.diag(curvature) - np.diag(bend, 1) - np.diag(bend, -1)

    def _mode(self, c: Array, parts: list[Array]) -> tuple[Array, Array]:
        """Return the mode, found from c, and the Cholesky factor of minus the Hessian there."""
        value = self._log_density(c, parts)
        gradient, hessian = self._slopes(c, parts)
        for _ in range(_MOST_STEPS):
            step = np.linalg.solve(hessian, gradient)
            gain, size = float(gradient @ step), min(1.0, _LONGEST_STEP / float(np.abs(step).max()))
            if gain < _CONVERGED:
                return real(c + step), real(np.linalg.cholesky(hessian))
            while (found := self._log_density(c + size * step, parts)) < value + 0.1 * size * gain:
                size *= 0.5
                if size < 1e-9:
                    return c, real(np.linalg.cholesky(hessian))
            c, value = c + size * step, found
            gradient, hessian = self._slopes(c, parts)
        return c, real(np.linalg.cholesky(hessian))


def _softplus(x: Array, weights: Array) -> float:
    """Return Σ w log(1 + exp(x))."""
    return float(weights @ (np.maximum(x, 0.0) + np.log(1.0 + np.exp(-np.abs(x)))))
