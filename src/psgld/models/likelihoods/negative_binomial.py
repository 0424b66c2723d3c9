"""The negative binomial likelihood: overdispersed counts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from psgld.errors import ModelError
from psgld.models.common import Array, optional_positive, real, total
from psgld.models.likelihoods.base import Likelihood, Theta
from psgld.models.namespace import namespace, special

_ENDS = 1e-2, 1e4
"""The range of initial values of r."""

_MOST_ALIKE = 1e30
"""The largest r: float32 cannot tell more from infinity; at 1e9 it is Poisson already."""


@final
@dataclass(frozen=True)
class NegativeBinomial(Likelihood):
    """Counts with mean μ and variance μ + μ²/r: Poisson with a gamma distributed mean of shape r.

        log p(v | μ) = v log μ - (v + r) log(1 + μ/r) + a function of v and r,
        ∂ log p / ∂μ = v/μ - (v + r)/(μ + r)

    The limit r → ∞ is the Poisson likelihood.

    Parameters
    ----------
    r
        The size (inverse overdispersion), > 0; None, the default, to learn it.

    Examples
    --------
    >>> NegativeBinomial().variance(mu=3.0, r=4.5)
    array(5.)
    """

    r: float | None = None
    name: ClassVar[str] = "negative-binomial"
    parameters: ClassVar[tuple[str, ...]] = ("r",)
    remedy: ClassVar[str] = "round them, or use CompoundPoisson() or Gaussian()"
    counts = True
    update_power = 0.5

    def __post_init__(self) -> None:
        object.__setattr__(self, "r", optional_positive("NegativeBinomial", "r", self.r))
        if self.r is not None and self.r > _MOST_ALIKE:
            raise ModelError(
                f"NegativeBinomial: r must be at most {_MOST_ALIKE:g}, got {self.r:g}; use Poisson()"
            )

    @property
    def requirement(self) -> str:
        """Counts."""
        return "counts 0, 1, 2, …"

    def can_occur(self, v: NDArray[Any]) -> NDArray[np.bool_]:
        """Return a mask of the values that are counts."""
        return np.asarray((v >= 0) & (v == np.floor(v)))

    def kernel(self, v: ArrayLike, mu: ArrayLike, r: ArrayLike) -> Array:
        """Return v log μ - (v + r) log(1 + μ/r)."""
        v, mu, r = real(v), real(mu), real(r)
        return real(special(mu).xlogy(v, mu) - (v + r) * namespace(mu).log1p(mu / r))

    def log_normaliser(self, v: ArrayLike, r: ArrayLike) -> Array:
        """Return log Γ(v + r) / (Γ(r) v! r^v), by a beta function: for large r, differences of log-gammas cancel."""
        from scipy.special import betaln

        v, r = np.broadcast_arrays(real(v), real(r))
        above = np.where(v > 0.0, v, 1.0)
        return real(np.where(v > 0.0, -np.log(above) - betaln(r, above) - v * np.log(r), 0.0))

    def positive(self, v: ArrayLike, mu: ArrayLike, r: ArrayLike) -> Array:
        """Return v/μ · r/(μ + r)."""
        return real(real(v) / real(mu) * self.weight(v, mu, r))

    def weight(self, v: ArrayLike, mu: ArrayLike, r: ArrayLike) -> Array:
        """Return r/(μ + r).

        The split is a choice on which the non-negative metric rests. With v/μ and (v + r)/(μ + r) the ratio of the two
        parts would be near 1 where μ is large beside r, and steps would hardly move there.
        """
        return real(1.0 / (1.0 + real(mu) / real(r)) + namespace(v).zeros_like(real(v)))

    def curvature(self, v: ArrayLike, mu: ArrayLike, r: ArrayLike) -> Array:
        """Return v/μ² - (v + r)/(μ + r)²."""
        v, mu, r = real(v), real(mu), real(r)
        return real(v / mu**2 - (v + r) / (mu + r) ** 2)

    def variance(self, mu: ArrayLike, r: ArrayLike) -> Array:
        """Return μ + μ²/r."""
        return real(real(mu) + real(mu) ** 2 / real(r))

    def sample(self, mu: ArrayLike, r: ArrayLike, rng: np.random.Generator) -> Array:
        """Draw a count for each mean."""
        return real(
            rng.poisson(rng.standard_gamma(real(r), np.broadcast(mu, r).shape) * (real(mu) / real(r)))
        )

    def survival(self, x: ArrayLike, mu: ArrayLike, r: ArrayLike) -> Array:
        """Return P(v > x), an incomplete beta function."""
        from scipy.special import betainc

        x, mu, r = np.broadcast_arrays(real(x), real(mu), real(r))
        inside = np.isfinite(x) & (x >= 0.0)
        above = betainc(np.floor(np.where(inside, x, 0.0)) + 1.0, r, mu / (mu + r))
        return real(np.where(inside, above, x < 0.0))

    def starts(self, values: ArrayLike) -> Theta:
        """Return the moment estimate of r from all values; it is too small, as the means differ."""
        values = real(values)
        mean, variance = (float(values.mean()), float(values.var())) if values.size else (1.0, 2.0)
        return (float(np.clip(mean**2 / max(variance - mean, 1e-12), *_ENDS)) if mean > 0.0 else 1.0,)

    def typical(self, mean: float) -> Theta:
        """Return r, by default equal to the mean: the variance is twice that of a Poisson count."""
        return (mean if self.r is None else self.r,)

    def profile(
        self, values: Array, mu: ArrayLike, start: Theta, weights: Array | None = None
    ) -> Callable[[Theta], float]:
        """Return the log likelihood as a function of r; terms in v and r are computed once per distinct count."""
        distinct, at, number = np.unique(values, return_inverse=True, return_counts=True)
        if weights is not None:
            number = np.bincount(at, weights)
        mu = real(mu)
        logs = total(self.kernel(values, mu, 1.0) + (values + 1.0) * np.log1p(mu), weights)

        def log_likelihood(theta: Theta) -> float:
            normaliser = float(number @ self.log_normaliser(distinct, *theta))
            return logs + normaliser - total((values + theta[0]) * np.log1p(mu / theta[0]), weights)

        return log_likelihood
