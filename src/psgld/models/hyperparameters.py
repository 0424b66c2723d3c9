"""Hyperparameters (rates of the priors, offset, dispersion): their initial values and their conjugate draws."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psgld.models.common import Array, real
from psgld.models.factor_model import FactorModel
from psgld.models.likelihoods.base import Likelihood, Theta
from psgld.models.modes import NAMES, Mode
from psgld.models.priors.families import Prior
from psgld.models.priors.normal_wishart import NormalWishart, RowNormal
from psgld.models.priors.shape import (
    START_SHAPE,
    Coefficients,
    draw_shape,
    given_mean,
    given_rate,
    learnt_rate,
)


@dataclass(frozen=True, eq=False)
class ModeHyper:
    """The hyperparameters of a mode: rates or precisions (K',) of its components.

    A normal–Wishart prior also has the mean m (K',) and the precision Λ (K', K') of the rows; the rates are then the
    diagonal of Λ. A gamma prior may have a learnt shape.
    """

    rate: Array
    normal: RowNormal | None = None
    shape: float | None = None


@dataclass(frozen=True, eq=False)
class Hyper:
    """Values of the hyperparameters: those of each mode, the global offset, the dispersion φ.

    `theta` are the parameters of the likelihood except φ. φ is 1 if the likelihood has none.
    """

    modes: tuple[ModeHyper, ...]
    offset: float
    phi: float
    theta: Array = field(default_factory=lambda: np.empty(0))

    @property
    def row_rate(self) -> Array:
        """Rates or precisions of the components of W."""
        return self.modes[0].rate

    @property
    def col_rate(self) -> Array:
        """Rates or precisions of the components of H."""
        return self.modes[1].rate

    def parameters(self, likelihood: Likelihood) -> Theta:
        """Return all parameters of the likelihood."""
        return likelihood.joined(self.phi, self.theta.tolist())

    def with_parameters(self, likelihood: Likelihood, theta: Theta) -> Hyper:
        """Return a copy with these parameters of the likelihood."""
        phi, others = likelihood.split(theta)
        return replace(self, phi=float(phi), theta=real(others))

    def arrays(self) -> dict[str, Any]:
        """Return arrays and numbers by their names in a store; those that a prior does not have are empty."""
        out: dict[str, Any] = {n.rate: mode.rate for n, mode in zip(NAMES, self.modes, strict=True)}
        out |= {"offset": self.offset, "phi": self.phi, "theta": self.theta}
        for n, mode in zip(NAMES, self.modes, strict=True):
            normal = mode.normal
            out[n.shape] = np.empty(0) if mode.shape is None else np.array([mode.shape])
            out[n.mean] = np.empty(0) if normal is None else normal.mean
            out[n.precision] = np.empty((0, 0)) if normal is None else normal.precision
        return out

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Any]) -> Hyper:
        """Return the values that `arrays` returned; arrays that a prior does not have may be missing."""
        modes = []
        for n in NAMES:
            mean = real(arrays.get(n.mean, ()))
            normal = RowNormal(mean, real(arrays[n.precision])) if mean.size else None
            shape = real(arrays.get(n.shape, ()))
            modes.append(ModeHyper(real(arrays[n.rate]), normal, float(shape[0]) if shape.size else None))
        theta = real(arrays.get("theta", ()))  # older versions had none
        return cls(tuple(modes), float(arrays["offset"]), float(arrays["phi"]), theta)

    def to_dict(self) -> dict[str, object]:
        """Return the values as a dictionary that is serialisable as JSON."""
        return {
            name: value.tolist() if isinstance(value, np.ndarray) else value
            for name, value in self.arrays().items()
            if not (isinstance(value, np.ndarray) and value.size == 0)
        }

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Hyper:
        """Return the values that `to_dict` described."""
        return cls.from_arrays(record)


@dataclass(frozen=True)
class Moments:
    """Mean, variance and number of the observed values; with weights, their weighted mean, … and total weight."""

    mean: float
    variance: float
    size: float


@dataclass(frozen=True, eq=False)
class FactorStats:
    """Sufficient statistics of a factor: its number of rows, and Σx and Σx² of each component, shape (K',).

    A normal–Wishart prior also needs the Gram matrix Σxxᵀ, shape (K', K'); a learnt shape Σ log x, shape (K',).
    """

    count: int
    sum: Array
    sumsq: Array
    gram: Array | None = None
    sum_log: Array | None = None


def start(model: FactorModel, moments: Moments, theta: Theta) -> Hyper:
    """Return initial hyperparameters on the scale of the data:

        K E[w] E[h] = E[v],   or   K Var(w) Var(h) = E[(v - offset)²] for real-valued factors,
        K E[w] E[h] = sqrt(E[v²]) for non-negative factors of Gaussian values.

    Values that the user fixed are kept, and the other factor is scaled accordingly. `theta` are the initial parameters
    of the likelihood; `moments` are those of η.

    Examples
    --------
    >>> hyper = start(FactorModel(4, "poisson"), Moments(mean=1.0, variance=2.0, size=100), theta=(1.0,))
    >>> hyper.row_rate, hyper.col_rate
    (array([2., 2., 2., 2.]), array([2., 2., 2., 2.]))
    """
    offset = moments.mean if model.bias and not model.likelihood.located else 0.0
    sizes = _sizes(model, _product(model, moments))
    bias_size = float(np.sqrt(_or_one(moments.variance)))
    modes = []
    for mode, size in zip(model.modes, sizes, strict=True):
        rate = _rates(mode, size, bias_size)
        normal = mode.prior.start(rate, mode.free) if isinstance(mode.prior, NormalWishart) else None
        modes.append(_mode_hyper(mode, rate, normal, START_SHAPE if mode.prior.learns_shape else None))
    hyper = Hyper(tuple(modes), _offset(model, modes, float(offset)), 1.0)
    return hyper.with_parameters(model.likelihood, theta)


def _mode_hyper(mode: Mode, rate: Array, normal: RowNormal | None, shape: float | None) -> ModeHyper:
    """Return the hyperparameters of a mode; if its rows are normal, the rates are the diagonal of their precision."""
    if normal is None:
        return ModeHyper(rate, shape=shape)
    return ModeHyper(np.where(mode.free, np.diag(normal.precision), 1.0), normal)


def _offset(model: FactorModel, modes: Sequence[ModeHyper], offset: float) -> float:
    """Return the offset; under a normal–Wishart prior it is the mean of the column biases."""
    for mode, hyper in zip(model.modes, modes, strict=True):
        if mode.centred and hyper.normal is not None:
            return float(hyper.normal.mean[mode.bias])
    return offset


def start_sizes(model: FactorModel, moments: Moments, start: Hyper) -> tuple[Array, ...]:
    """Return the initial sizes (K',) of the factors: those of their priors, or smaller if W H would exceed the data.

    It does if weak priors were given for both factors; from there a chain would converge slowly.
    """
    sizes = [
        np.array([mode.prior.at_shape(hyper.shape).size_at(float(rate)) for rate in hyper.rate])
        for mode, hyper in zip(model.modes, start.modes, strict=True)
    ]
    if all(mode.prior.given is not None for mode in model.modes):
        product = math.prod(float(size[0]) for size in sizes)
        shrink = min(_product(model, moments) / product, 1.0) ** (1.0 / len(sizes))
        for size in sizes:
            size[: model.rank] *= shrink
    return tuple(sizes)


def _product(model: FactorModel, moments: Moments) -> float:
    """Return the product of typical sizes of w and h that explains the data, or their deviation from the offset."""
    spread = _or_one(moments.variance + (0.0 if model.bias else moments.mean**2))
    if not model.nonnegative:
        return float(np.sqrt(spread / model.rank))
    # Gaussian values may be negative; their mean is then no measure of their size.
    size = moments.mean if moments.mean > 0.0 and model.likelihood.nonnegative_mean else np.sqrt(spread)
    return float(size / model.rank)


def _or_one(value: float) -> float:
    """Return the value if it is positive, else 1: an empty or constant matrix has no scale."""
    return value if value > 0.0 else 1.0


def _sizes(model: FactorModel, product: float) -> list[float]:
    """Return the typical sizes of the factors: those given by priors, the others such that all multiply to `product`.

    If all priors were given, the size of the last factor is chosen such that the product holds.
    """
    given = [
        None if m.prior.given is None else m.prior.at_shape(START_SHAPE).size_at(m.prior.given)
        for m in model.modes
    ]
    if None not in given:
        given[-1] = None
    for size in given:
        product /= 1.0 if size is None else size
    free = product ** (1.0 / given.count(None))
    return [free if size is None else size for size in given]


def _rates(mode: Mode, size: float, bias_size: float) -> Array:
    """Return the rate of each component. A bias has the size of the data; a constant component has rate 1, unused."""
    prior, free = mode.prior.at_shape(START_SHAPE), mode.free
    sizes = np.where(np.arange(len(free)) < mode.rank, size, bias_size)
    rates = [prior.rate_for(float(s)) if prior.given is None else prior.given for s in sizes]
    return np.where(free, rates, 1.0)


def draw(
    model: FactorModel,
    hyper: Hyper,
    start: Hyper,
    stats: Sequence[FactorStats],
    rng: np.random.Generator,
    rss: float | None = None,
    size: float | None = None,
) -> Hyper:
    """Draw the learnt hyperparameters given the factors, in turn: shapes, rates, offset, and φ of a Gaussian.

        shape | W, H by slice sampling, with the rate integrated out,
        rate | W, H ~ Gamma(1 + …, 1/start + …)  or  (m, Λ) | W, H ~ normal–Wishart,
        offset | c ~ Normal(mean c, 1/(Jλ_c)),
        1/φ | residuals ~ Gamma(1 + size/2, 1e-6 φ_start + rss/2)

    The hyperpriors are scaled by `start`, so that the units of the data do not matter. Without `rss` and `size`, φ is
    not drawn. `Likelihood.move` draws the other parameters of the likelihood; if
    they say where η lies, the offset stays 0.
    """
    moves = _moving_rates(model, [s.count for s in stats])
    drawn = [
        _draw_scale(mode, now, first, s, mode.prior_mean(hyper.offset), moving, rng)
        for mode, now, first, s, moving in zip(
            model.modes, hyper.modes, start.modes, stats, moves, strict=True
        )
    ]
    offset, phi = hyper.offset, hyper.phi
    for mode, (rate, _), s in zip(model.modes, drawn, stats, strict=True):
        if mode.centred and not (isinstance(mode.prior, NormalWishart) or model.likelihood.located):
            at = mode.rank + mode.axis
            offset = rng.normal(s.sum[at] / s.count, (s.count * rate[at]) ** -0.5)
    if model.likelihood.conjugate and rss is not None and size is not None:
        phi = model.likelihood.draw_phi(start.phi, rss, size, rng)
    modes = [
        _mode_hyper(mode, rate, _draw_normal(mode, s, first.rate, rng), shape)
        for mode, (rate, shape), s, first in zip(model.modes, drawn, stats, start.modes, strict=True)
    ]
    return Hyper(tuple(modes), _offset(model, modes, float(offset)), float(phi), hyper.theta)


def _draw_scale(
    mode: Mode,
    now: ModeHyper,
    start: ModeHyper,
    stats: FactorStats,
    mean: Array,
    moves: NDArray[np.bool_],
    rng: np.random.Generator,
) -> tuple[Array, float | None]:
    """Draw the rates of a mode, and its shape if that is learnt."""
    if now.shape is None:
        return _draw_rates(mode.prior, now.rate, start.rate, stats, mean, moves, rng), None
    shape = _draw_shape(mode, now, start, stats, bool(moves.any()), rng)
    # Of this mean: the fixed rate, or the scale of the hyperprior.
    rate = (
        start.rate
        if mode.prior.given is not None
        else np.where(mode.free, shape / START_SHAPE, 1.0) * start.rate
    )
    return _draw_rates(mode.prior.at_shape(shape), rate, rate, stats, mean, moves, rng), shape


def _draw_shape(
    mode: Mode, now: ModeHyper, start: ModeHyper, stats: FactorStats, moves: bool, rng: np.random.Generator
) -> float:
    """Draw the shape of a gamma prior. Where the rate is not drawn, it is given, or the mean of the factor is fixed."""
    assert now.shape is not None and stats.sum_log is not None
    free = mode.free
    x = Coefficients(
        stats.count * float(free.sum()), float(stats.sum[free].sum()), float(stats.sum_log[free].sum())
    )
    mean = START_SHAPE / float(start.rate[free][0])
    if mode.prior.given is not None:
        terms = given_rate(mode.prior.given, x)
    else:
        terms = learnt_rate(mean, x) if moves else given_mean(mean, x)
    return draw_shape(now.shape, x, terms, rng)


def _draw_normal(mode: Mode, stats: FactorStats, start: Array, rng: np.random.Generator) -> RowNormal | None:
    """Draw the mean and the precision of the rows under a normal–Wishart prior; return None for other priors."""
    if not isinstance(mode.prior, NormalWishart):
        return None
    assert stats.gram is not None
    return mode.prior.draw(stats.count, stats.sum, stats.gram, start, mode.free, rng)


def _moving_rates(model: FactorModel, counts: Sequence[int]) -> list[NDArray[np.bool_]]:
    """Return the components of each factor whose rates are drawn.

    Only the product of W and H is identified: W → cW, H → H/c with rates λ_w/c and cλ_h has the same likelihood. With
    both rates free a chain would drift far along that ridge. So if all rates are learnt, the longest factor keeps its
    initial rate, which fixes the scale without restricting the model. If its shape is learnt, it keeps its initial mean
    shape/rate instead: then a change of the shape alone does not rescale W and H.
    """
    moves = [mode.free & _has_rates(mode.prior) for mode in model.modes]
    longest = int(np.argmax(counts))
    moves[longest] = moves[longest] & ~np.logical_and.reduce(moves)
    return moves


def _has_rates(prior: Prior) -> bool:
    """Return whether a prior has rates to learn; a normal–Wishart prior has a precision matrix instead."""
    return prior.given is None and not isinstance(prior, NormalWishart)


def _draw_rates(
    prior: Prior,
    rate: Array,
    start: Array,
    stats: FactorStats,
    mean: Array,
    moves: NDArray[np.bool_],
    rng: np.random.Generator,
) -> Array:
    """Draw the rates of the components in `moves` given the factor; the others are kept."""
    if not moves.any():
        return rate
    number, total = (e[moves] for e in prior.evidence(stats.count, stats.sum, stats.sumsq, mean))
    if prior.one_rate:
        drawn = rng.standard_gamma(1.0 + number.sum()) / (1.0 / start[moves] + total.sum())
    else:
        drawn = rng.standard_gamma(1.0 + number) / (1.0 / start[moves] + total)
    out = rate.copy()
    out[moves] = drawn
    return out
