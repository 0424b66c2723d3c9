"""The ordinal likelihood: ordered levels, such as stars, with the cumulative logit link."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from psgld.checks import is_integer, is_number
from psgld.errors import ModelError
from psgld.models.common import Array, real
from psgld.models.likelihoods.base import Likelihood, Theta
from psgld.models.likelihoods.cut_points import CutMove, starting_cuts
from psgld.models.namespace import namespace, special

MOST_LEVELS = 32
"""The most levels: with their cut points they are the parameters of the functor."""

_LIKE = 1e-6
"""Relative error of a value that still counts as its level: that of float32."""


_FAR = 300.0
"""Beyond it F is 0 or 1, and exp does not overflow."""


@final
@dataclass(frozen=True)
class Ordinal(Likelihood):
    """Ordered levels v_1 < … < v_L, such as stars, with cut points c_1 < … < c_{L-1}.

        P(v ≤ v_l | η) = F(c_l - η),   F(x) = 1 / (1 + exp(-x)),
        ∂ log P(v = v_l | η) / ∂η = F(c_l - η) - F(η - c_{l-1}),   c_0 = -∞, c_L = ∞

    A new observation is one of the levels, and its mean lies between the first and the last. The factors have any
    sign, and there may be biases. The cut points take the place of the global offset.

    Parameters
    ----------
    levels
        The levels in increasing order; an integer n for 1, 2, …, n; None, the default, for the distinct values of the
        data. At most 32.
    cuts
        The cut points, one fewer than the levels; None, the default, to learn them.

    Examples
    --------
    >>> stars = Ordinal(5, cuts=(-3.0, -1.5, 0.0, 1.5))
    >>> round(float(stars.response(0.0, *stars.cuts)), 2)
    3.45
    """

    levels: Any = None
    cuts: Any = None
    name: ClassVar[str] = "ordinal"
    remedy: ClassVar[str] = "name all levels, Ordinal(levels=…), or use Gaussian()"
    signed = True
    located = True
    patience = 6.0
    # v is a function of an uncut logistic variable z around η, so it has no more information about η than z:
    #     E[-∂² log f(z - η)] = E[2 f(z - η)] = 2 ∫ f² = 2 ∫_0^1 F (1 - F) dF = 1/3,    f = F' = F (1 - F)
    # For a single v the curvature f(c_l - η) + f(c_{l-1} - η) is at most 1/2, as f ≤ 1/4.
    curvature_bound = 1.0 / 3.0

    def __post_init__(self) -> None:
        levels = None if self.levels is None else _checked_levels(self.levels)
        object.__setattr__(self, "levels", levels)
        object.__setattr__(self, "cuts", None if self.cuts is None else _checked_cuts(self.cuts, levels))

    def __repr__(self) -> str:
        """Return the levels without decimals, and the cut points if they are given."""
        levels = "None" if self.levels is None else "(" + ", ".join(f"{x:g}" for x in self.levels) + ")"
        return f"Ordinal(levels={levels}" + ("" if self.cuts is None else f", cuts={self.cuts}") + ")"

    # -- levels and parameters ---------------------------------------------------------------------------

    def resolved(self, values: Callable[[], ArrayLike]) -> Ordinal:
        """Return a copy whose levels are the distinct values, if none were given."""
        if self.levels is not None:
            return self
        found = np.unique(real(values()))
        if not 2 <= len(found) <= MOST_LEVELS:
            raise ModelError(
                f"Ordinal: the values have {len(found)} distinct levels, allowed are 2 to {MOST_LEVELS}; "
                "name the levels, Ordinal(levels=…), or use Gaussian()"
            )
        return replace(self, levels=tuple(found.tolist()))

    @property
    def parameters(self) -> tuple[str, ...]:  # type: ignore[override]
        """The names of the cut points."""
        return tuple(f"cut_{l + 1}" for l in range(len(self.levels or ()) - 1))

    @property
    def learnt(self) -> tuple[str, ...]:
        """The names of the cut points, if they are learnt."""
        return self.parameters if self.cuts is None else ()

    @property
    def constants(self) -> Theta:
        """The number of levels, and the levels."""
        return (float(len(self.levels)), *self.levels)

    def allowed(self, others: NDArray[Any]) -> bool:
        """Return whether cut points, (…, cut point), are finite and increase."""
        return bool(np.isfinite(others).all() and (np.diff(others, axis=-1) > 0.0).all())

    def start(self, values: Callable[[], ArrayLike]) -> Theta:
        """Return the cut points: the given ones, or initial ones."""
        return self.starts(values()) if self.cuts is None else self.cuts

    def starts(self, values: ArrayLike) -> Theta:
        """Return cut points that give the levels their proportions among the values."""
        counts = np.bincount(self._index(real(values)).ravel(), minlength=len(self.levels))
        return tuple(starting_cuts(real(counts)).tolist())

    def typical(self, mean: float) -> Theta:
        """Return the cut points, by default those of equally frequent levels."""
        return (
            tuple(starting_cuts(np.full(len(self.levels), 100.0)).tolist())
            if self.cuts is None
            else self.cuts
        )

    def fixed(self, theta: Theta) -> Ordinal:
        """Return a copy with the cut points fixed at `theta`."""
        return replace(self, cuts=None if None in theta else theta)

    def move(self, values: Array, start: Theta, weights: Array | None = None) -> CutMove | None:
        """Return the move of the cut points, unless they are given."""
        if self.cuts is not None:
            return None
        return CutMove(self._index(real(values)), len(self.levels), weights)

    def eta_moments(self, mean: float, variance: float, size: float) -> tuple[float, float]:
        """Return 0, as cut points are around η, and 1 as a typical variance."""
        return 0.0, 1.0

    # -- values ------------------------------------------------------------------------------------------

    @property
    def requirement(self) -> str:
        """The levels."""
        return "levels " + ", ".join(f"{x:g}" for x in self.levels or ("…",))

    def can_occur(self, v: NDArray[Any]) -> NDArray[np.bool_]:
        """Return a mask of the values that are levels."""
        if self.levels is None:
            return np.asarray(np.isfinite(v))
        near = real(self.levels)[self._index(real(v))]
        return np.asarray(np.abs(v - near) <= _LIKE * np.maximum(np.abs(near), 1.0))

    @cached_property
    def _middles(self) -> Array:
        levels = real(self.levels)
        return real(0.5 * (levels[1:] + levels[:-1]))

    def _index(self, v: Array) -> NDArray[np.int64]:
        """Return the number of the nearest level, 0 to L - 1."""
        return np.searchsorted(self._middles, v, side="left")

    def _ends(self, v: ArrayLike, cuts: tuple[Any, ...]) -> tuple[Any, Any]:
        """Return the cut points below and above each value, -inf and inf at the ends; they broadcast against v."""
        xp, v = namespace(v, *cuts), real(v)
        below, above = -np.inf, cuts[0]
        for middle, cut, following in zip(self._middles, cuts, (*cuts[1:], np.inf), strict=True):
            below, above = xp.where(v > middle, cut, below), xp.where(v > middle, following, above)
        return below, above

    # -- the density -------------------------------------------------------------------------------------
    # P = (1 - exp(c_{l-1} - c_l)) F(c_l - η) F(η - c_{l-1}): nothing cancels.

    def kernel(self, v: ArrayLike, eta: ArrayLike, *cuts: Any) -> Array:
        """Return log F(c_l - η) + log F(η - c_{l-1})."""
        (below, above), eta = self._ends(v, cuts), real(eta)
        xp = namespace(eta)
        return real(-xp.logaddexp(0.0, eta - above) - xp.logaddexp(0.0, below - eta))

    def log_normaliser(self, v: ArrayLike, *cuts: Any) -> Array:
        """Return log(1 - exp(c_{l-1} - c_l))."""
        below, above = self._ends(v, cuts)
        return real(np.log(-np.expm1(below - above)))

    def positive(self, v: ArrayLike, eta: ArrayLike, *cuts: Any) -> Array:
        """Return F(c_l - η)."""
        return _logistic(self._ends(v, cuts)[1] - real(eta))

    def weight(self, v: ArrayLike, eta: ArrayLike, *cuts: Any) -> Array:
        """Return F(η - c_{l-1})."""
        return _logistic(real(eta) - self._ends(v, cuts)[0])

    def curvature(self, v: ArrayLike, eta: ArrayLike, *cuts: Any) -> Array:
        """Return f(c_l - η) + f(c_{l-1} - η) ≤ 1/2, f = F (1 - F)."""
        p, q = self.positive(v, eta, *cuts), self.weight(v, eta, *cuts)
        return real(p * (1.0 - p) + q * (1.0 - q))

    # -- new observations --------------------------------------------------------------------------------

    def response(self, eta: ArrayLike, *cuts: Any) -> Array:
        """Return Σ_l v_l P(v_l | η)."""
        odds, total = np.exp(-np.clip(real(eta), -_FAR, _FAR)), real(self.levels[0])  # one exp for all levels
        for gap, cut in zip(np.diff(self.levels), cuts, strict=True):
            total = total + gap / (1.0 + odds * np.exp(np.clip(real(cut), -_FAR, _FAR)))
        return real(total)

    def link(self, mean: ArrayLike, *cuts: Any) -> Array:
        """Return the η at which the mean is `mean`, by bisection; ±inf outside of the levels."""
        mean, *cuts = np.broadcast_arrays(real(mean), *(real(cut) for cut in cuts))  # type: ignore[assignment]
        low, high = mean * 0.0 + cuts[0] - 40.0, mean * 0.0 + cuts[-1] + 40.0
        for _ in range(80):
            middle = 0.5 * (low + high)
            below = self.response(middle, *cuts) < mean
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        inside = np.where(mean <= self.levels[0], -np.inf, np.where(mean >= self.levels[-1], np.inf, high))
        return real(inside)

    def variance(self, eta: ArrayLike, *cuts: Any) -> Array:
        """Return Σ_l (v_l - E v)² P(v_l | η)."""
        mean, total = self.response(eta, *cuts), np.zeros(())
        above: Any = 1.0
        for level, cut in zip(self.levels, (*cuts, np.inf), strict=True):
            following = _logistic(real(eta) - real(cut))
            total = total + (above - following) * (level - mean) ** 2
            above = following
        return real(total)

    def sample(self, eta: ArrayLike, *cuts_and_rng: Any) -> Array:
        """Draw a level for each η: where a logistic variable around η falls among the cut points."""
        *cuts, rng = cuts_and_rng
        shape = np.broadcast_shapes(np.shape(eta), *(np.shape(cut) for cut in cuts))
        latent = real(eta) + rng.logistic(size=shape)
        above = np.zeros(shape, np.int64)
        for cut in cuts:
            above += latent > real(cut)
        return real(self.levels)[above]

    def survival(self, x: ArrayLike, eta: ArrayLike, *cuts: Any) -> Array:
        """Return P(v > x) = F(η - c_l), of the last level up to x."""
        x, eta, *cuts = np.broadcast_arrays(real(x), real(eta), *(real(cut) for cut in cuts))  # type: ignore[assignment]
        ends = np.stack([np.full(x.shape, -np.inf), *cuts, np.full(x.shape, np.inf)], axis=-1)
        at = np.searchsorted(real(self.levels), x, side="right")
        return _logistic(eta - np.take_along_axis(ends, at[..., None], axis=-1)[..., 0])


def _logistic(x: ArrayLike) -> Array:
    return real(special(x).expit(real(x)))


def _checked_levels(levels: Any) -> tuple[float, ...]:
    """Return the levels as numbers; raise ModelError unless there are 2 to 32 of them and they increase."""
    allowed = f"an integer from 2 to {MOST_LEVELS}, or as many numbers in increasing order"
    if is_integer(levels):
        numbers: Sequence[Any] = range(1, int(levels) + 1) if int(levels) <= MOST_LEVELS else ()
    else:
        numbers = _listed(levels)
    good = 2 <= len(numbers) <= MOST_LEVELS and all(is_number(x) and math.isfinite(x) for x in numbers)
    if not good or any(not b - a > 2 * _LIKE * max(abs(b), 1.0) for a, b in pairwise(numbers)):
        raise ModelError(
            f"Ordinal: levels must be {allowed}, got {levels!r}; omit them to use those of the data"
        )
    return tuple(float(x) for x in numbers)


def _checked_cuts(cuts: Any, levels: tuple[float, ...] | None) -> tuple[float, ...]:
    """Return the cut points as numbers; raise ModelError unless they are one fewer than the levels and increase."""
    if levels is None:
        raise ModelError(f"Ordinal: cuts = {cuts!r} need levels; give both, or omit cuts to have them learnt")
    numbers = _listed(cuts)
    good = len(numbers) == len(levels) - 1 and all(is_number(x) and math.isfinite(x) for x in numbers)
    if not good or any(not a < b for a, b in pairwise(numbers)):
        raise ModelError(
            f"Ordinal: cuts must be {len(levels) - 1} numbers in increasing order, got {cuts!r}; "
            "omit them to have them learnt"
        )
    return tuple(float(x) for x in numbers)


def _listed(x: Any) -> Sequence[Any]:
    """Return a sequence or an array as a list; nothing of anything else."""
    if isinstance(x, np.ndarray):
        return x.tolist() if x.ndim == 1 else ()
    return x if isinstance(x, list | tuple | range) else ()
