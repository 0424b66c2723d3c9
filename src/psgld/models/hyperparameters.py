"""The hyperparameters: rates of the priors, offset, dispersion; where they start, their conjugate draws."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psgld.models.common import Array, real
from psgld.models.factor_model import FactorModel
from psgld.models.likelihoods.base import Likelihood, Theta
from psgld.models.priors.families import Prior
from psgld.models.priors.normal_wishart import NormalWishart, RowNormal


@dataclass(frozen=True, eq=False)
class Hyper:
    """A state of the hyperparameters: rates or precisions (K',) of W and H, global offset, dispersion φ.

    `theta` are the parameters of the likelihood but φ, which is 1 where the likelihood has none.
    Under a normal–Wishart prior there are also the mean m (K',) and the precision Λ (K', K') of the rows, and the rates
    are the diagonal of Λ; under other priors they are empty.
    """

    row_rate: Array
    col_rate: Array
    offset: float
    phi: float
    row_mean: Array = field(default_factory=lambda: np.empty(0))
    row_precision: Array = field(default_factory=lambda: np.empty((0, 0)))
    col_mean: Array = field(default_factory=lambda: np.empty(0))
    col_precision: Array = field(default_factory=lambda: np.empty((0, 0)))
    theta: Array = field(default_factory=lambda: np.empty(0))

    def parameters(self, likelihood: Likelihood) -> Theta:
        """Return all parameters of the likelihood."""
        return likelihood.joined(self.phi, self.theta.tolist())

    def with_parameters(self, likelihood: Likelihood, theta: Theta) -> Hyper:
        """Return the same with these parameters of the likelihood."""
        phi, others = likelihood.split(theta)
        return replace(self, phi=float(phi), theta=real(others))

    @property
    def row_normal(self) -> RowNormal | None:
        """The normal distribution of the rows of W, under a prior that has one."""
        return RowNormal(self.row_mean, self.row_precision) if self.row_mean.size else None

    @property
    def col_normal(self) -> RowNormal | None:
        """The normal distribution of the rows of H, under a prior that has one."""
        return RowNormal(self.col_mean, self.col_precision) if self.col_mean.size else None

    def with_normals(self, row: RowNormal | None, col: RowNormal | None, model: FactorModel) -> Hyper:
        """Return the same with these normal distributions of the rows, their precisions and their offset."""
        out = self
        if row is not None:
            rate = np.where(model.row_free, np.diag(row.precision), 1.0)
            out = replace(out, row_rate=rate, row_mean=row.mean, row_precision=row.precision)
        if col is not None:
            rate = np.where(model.col_free, np.diag(col.precision), 1.0)
            out = replace(out, col_rate=rate, col_mean=col.mean, col_precision=col.precision)
            if model.bias:
                out = replace(out, offset=float(col.mean[-1]))
        return out

    def to_dict(self) -> dict[str, object]:
        """Return the state in a form fit for JSON."""
        return {
            name: value.tolist() if isinstance(value, np.ndarray) else value
            for name, value in vars(self).items()
            if not (isinstance(value, np.ndarray) and value.size == 0)
        }

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Hyper:
        """Return the state that `to_dict` described."""
        values: dict[str, Any] = {
            name: float(value) if name in ("offset", "phi") else real(value) for name, value in record.items()
        }
        return cls(**values)


@dataclass(frozen=True)
class Moments:
    """Mean, variance and number of the observed values."""

    mean: float
    variance: float
    size: int


@dataclass(frozen=True, eq=False)
class FactorStats:
    """What the draws need of a factor: its number of rows, and Σx and Σx² of each component, shape (K',).

    A normal–Wishart prior also needs the Gram matrix Σxxᵀ, shape (K', K').
    """

    count: int
    sum: Array
    sumsq: Array
    gram: Array | None = None


def start(model: FactorModel, moments: Moments, theta: Theta) -> Hyper:
    """Return hyperparameters of the data's scale: K E[w] E[h] = E[v], or K Var(w) Var(h) = E[(v - offset)²].

    For non-negative factors of Gaussian values, K E[w] E[h] = sqrt(E[v²]).

    What the user fixed stays as it is, and the other factor makes up for it. `theta` are the parameters of the
    likelihood at the start; moments are those of η.

    Examples
    --------
    >>> hyper = start(FactorModel(4, "poisson"), Moments(mean=1.0, variance=2.0, size=100), theta=(1.0,))
    >>> hyper.row_rate, hyper.col_rate
    (array([2., 2., 2., 2.]), array([2., 2., 2., 2.]))
    """
    offset = moments.mean if model.bias else 0.0
    row, col = model.row_prior, model.col_prior
    row_size, col_size = _sizes(row, col, _product(model, moments))
    bias_size = float(np.sqrt(_or_one(moments.variance)))
    row_rate = _rates(row, row_size, bias_size, model.row_free, model.rank)
    col_rate = _rates(col, col_size, bias_size, model.col_free, model.rank)
    hyper = Hyper(row_rate, col_rate, float(offset), 1.0).with_parameters(model.likelihood, theta)
    return hyper.with_normals(
        row.start(row_rate, model.row_free) if isinstance(row, NormalWishart) else None,
        col.start(col_rate, model.col_free) if isinstance(col, NormalWishart) else None,
        model,
    )


def start_sizes(model: FactorModel, moments: Moments, start: Hyper) -> tuple[Array, Array]:
    """Return the sizes (K',) at which W and H start: those of their priors, unless W H would exceed the data.

    It would under weak priors that were both given, and the way back from there is long.
    """
    row, col = (
        np.array([prior.size_at(float(rate)) for rate in rates])
        for prior, rates in ((model.row_prior, start.row_rate), (model.col_prior, start.col_rate))
    )
    if model.row_prior.given is not None and model.col_prior.given is not None:
        shrink = float(np.sqrt(min(_product(model, moments) / (row[0] * col[0]), 1.0)))
        row[: model.rank] *= shrink
        col[: model.rank] *= shrink
    return row, col


def _product(model: FactorModel, moments: Moments) -> float:
    """Return what typical sizes of w and h multiply to; they must explain what the offset leaves, without one all."""
    spread = _or_one(moments.variance + (0.0 if model.bias else moments.mean**2))
    if not model.nonnegative:
        return float(np.sqrt(spread / model.rank))
    # Only Gaussian values may be negative; then their mean says nothing of their size.
    size = moments.mean if moments.mean > 0.0 and model.likelihood.nonnegative_mean else np.sqrt(spread)
    return float(size / model.rank)


def _or_one(value: float) -> float:
    """Return the value if it can serve as a scale, else 1: an empty or constant matrix has none."""
    return value if value > 0.0 else 1.0


def _sizes(row: Prior, col: Prior, product: float) -> tuple[float, float]:
    """Return the typical sizes of w and h that multiply to `product`, as far as they are free."""
    if row.given is not None:
        row_size = row.size_at(row.given)
        return row_size, product / row_size
    if col.given is not None:
        col_size = col.size_at(col.given)
        return product / col_size, col_size
    return product**0.5, product**0.5


def _rates(prior: Prior, size: float, bias_size: float, free: NDArray[np.bool_], rank: int) -> Array:
    """Return the rate of each component: a bias is as large as the data; a frozen one has 1, unused."""
    sizes = np.where(np.arange(len(free)) < rank, size, bias_size)
    rates = [prior.rate_for(float(s)) if prior.given is None else prior.given for s in sizes]
    return np.where(free, rates, 1.0)


def draw(
    model: FactorModel,
    hyper: Hyper,
    start: Hyper,
    row_stats: FactorStats,
    col_stats: FactorStats,
    rng: np.random.Generator,
    rss: float | None = None,
    size: int | None = None,
) -> Hyper:
    """Draw all that is learnt given the factors, one after the other: rates, offset, and φ of a Gaussian.

        rate | W, H ~ Gamma(1 + …, 1/start + …)  or  (m, Λ) | W, H ~ normal–Wishart,
        offset | c ~ Normal(mean c, 1/(Jλ_c)),
        1/φ | residuals ~ Gamma(1 + size/2, 1e-6 φ_start + rss/2)

    The hyperpriors take their scale from `start`, so that the units of the data do not matter.
    Other parameters are drawn by `ParameterMove`; without `rss` and `size` it stays as it is.
    """
    row_mean, col_mean = np.zeros((2, model.components))
    if model.bias:
        col_mean[-1] = hyper.offset
    row_moves, col_moves = _moving_rates(model, row_stats.count, col_stats.count)
    row_rate = _draw_rates(
        model.row_prior, hyper.row_rate, start.row_rate, row_stats, row_mean, row_moves, rng
    )
    col_rate = _draw_rates(
        model.col_prior, hyper.col_rate, start.col_rate, col_stats, col_mean, col_moves, rng
    )
    offset, phi = hyper.offset, hyper.phi
    if model.bias and not isinstance(model.col_prior, NormalWishart):
        offset = rng.normal(col_stats.sum[-1] / col_stats.count, (col_stats.count * col_rate[-1]) ** -0.5)
    if model.likelihood.conjugate and rss is not None and size is not None:
        phi = model.likelihood.draw_phi(start.phi, rss, size, rng)
    row_normal = _draw_normal(model.row_prior, row_stats, start.row_rate, model.row_free, rng)
    col_normal = _draw_normal(model.col_prior, col_stats, start.col_rate, model.col_free, rng)
    drawn = Hyper(row_rate, col_rate, float(offset), float(phi), theta=hyper.theta)
    return drawn.with_normals(row_normal, col_normal, model)


def _draw_normal(
    prior: Prior, stats: FactorStats, start: Array, free: NDArray[np.bool_], rng: np.random.Generator
) -> RowNormal | None:
    """Draw the mean and the precision of the rows, under a prior that has them."""
    if not isinstance(prior, NormalWishart):
        return None
    assert stats.gram is not None
    return prior.draw(stats.count, stats.sum, stats.gram, start, free, rng)


def _moving_rates(model: FactorModel, rows: int, cols: int) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return the components of W and of H whose rates are drawn.

    The data see only the product of W and H: W → cW, H → H/c with rates λ_w/c and cλ_h fits as well, and with both
    rates free a chain would wander far along that ridge. So where both are learnt, the longer factor keeps the rate it
    started with, which pins its scale. That takes nothing from the model.
    """
    row_moves = model.row_free & _has_rates(model.row_prior)
    col_moves = model.col_free & _has_rates(model.col_prior)
    both = row_moves & col_moves
    return (row_moves & ~both, col_moves) if rows >= cols else (row_moves, col_moves & ~both)


def _has_rates(prior: Prior) -> bool:
    """Return whether a prior has rates of its own to learn: a normal–Wishart prior has a matrix."""
    return prior.learnt and not isinstance(prior, NormalWishart)


def _draw_rates(
    prior: Prior,
    rate: Array,
    start: Array,
    stats: FactorStats,
    mean: Array,
    moves: NDArray[np.bool_],
    rng: np.random.Generator,
) -> Array:
    """Draw the rates of the components that move, given the factor; the others stay."""
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
