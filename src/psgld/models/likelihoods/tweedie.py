"""The Tweedie family of likelihoods, indexed by the power β."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from psgld.checks import is_number
from psgld.errors import ModelError
from psgld.models.common import Array, optional_positive, real, total
from psgld.models.likelihoods import compound_poisson, positive_stable
from psgld.models.likelihoods.base import Likelihood, Theta
from psgld.models.likelihoods.normalisers import log_normaliser
from psgld.models.likelihoods.survival import survival
from psgld.models.namespace import namespace, special

_FUNCTORS = {
    1.0: "poisson",
    2.0: "gaussian",
    0.0: "gamma",
    -1.0: "inverse-gaussian",
    0.5: "half-compound-poisson",
}
"""The powers β for which the core has a specialised functor."""

_LEAST_NOISE = 1e-6
"""The scale of the hyperprior of φ, relative to the variance of the data; it matters only if the fit is perfect."""

# Values are assumed to have an error of at least 1e-4 of their standard deviation. Otherwise a perfect fit would send φ
# to 0, and the factors, whose gradients are scaled by 1/φ, would diverge.
_RESOLUTION = 1e-8


@dataclass(frozen=True)
class Tweedie(Likelihood):
    """The Tweedie likelihood of power β and dispersion φ: mean μ, variance φ μ^{2-β}.

        log p(v | μ) = (v θ(μ) - κ(μ)) / φ + log a(v, φ),    ∂ log p / ∂μ = (v - μ) μ^{β-2} / φ

    β = 2 is the Gaussian, 1 the Poisson, 0 the gamma, -1 the inverse Gaussian, 0 < β < 1 the compound Poisson
    distribution, any other β < 0 a tilted positive stable one. (The power p of the literature is 2 - β.)

    Parameters
    ----------
    beta
        The power: β ≤ 1 or β = 2.
    phi
        The dispersion; None, the default, to learn it.

    Examples
    --------
    >>> Tweedie(beta=0.5).score(v=3.0, mu=4.0, phi=1.0)
    array(-0.125)

    References
    ----------
    Jørgensen (1987), Exponential dispersion models.
    """

    beta: float
    phi: float | None = None
    name: ClassVar[str] = "tweedie"
    parameters: ClassVar[tuple[str, ...]] = ("phi",)

    def __post_init__(self) -> None:
        beta, owner = _check_beta(self.beta), type(self).__name__
        object.__setattr__(self, "beta", beta)
        object.__setattr__(self, "phi", optional_positive(owner, "phi", self.phi))

    # -- properties used by samplers ---------------------------------------------------------------------

    @property
    def functor(self) -> str:
        """The name of the functor in the core."""
        return _FUNCTORS.get(self.beta, "compound-poisson" if self.beta > 0.0 else "positive-stable")

    @property
    def constants(self) -> Theta:
        """β."""
        return (self.beta,)

    @property
    def closed(self) -> bool:  # type: ignore[override]
        """Whether the density has a closed form; else it is a series or an integral."""
        return self.beta in (2.0, 1.0, 0.0, -1.0)

    @property
    def splits(self) -> bool:  # type: ignore[override]
        """Whether v is a sum of Poisson counts, one per component."""
        return self.beta == 1.0 and self.phi == 1.0

    @property
    def counts(self) -> bool:  # type: ignore[override]
        """Whether values are counts."""
        return self.beta == 1.0

    @property
    def steep(self) -> bool:  # type: ignore[override]
        """Whether the score below v is much steeper than above it."""
        return self.beta < 0.0

    @property
    def curvature_bound(self) -> float | None:  # type: ignore[override]
        """1 for the Gaussian, None for other members."""
        return 1.0 if self.beta == 2.0 else None

    @property
    def update_power(self) -> float:  # type: ignore[override]
        """1/(2-β) if β < 1, else 1."""
        return 1.0 / (2.0 - self.beta) if self.beta < 1.0 else 1.0

    def information(self, mean: float, *others: float) -> float:
        """Return μ^{β-2}."""
        return float(mean ** (self.beta - 2.0))

    # -- values ------------------------------------------------------------------------------------------

    @property
    def requirement(self) -> str:
        """The support: v > 0 if β ≤ 0, v ≥ 0 if 0 < β ≤ 1, else all numbers."""
        return "v > 0" if self.beta <= 0.0 else "v >= 0" if self.beta <= 1.0 else "numbers"

    def can_occur(self, v: NDArray[Any]) -> NDArray[np.bool_]:
        """Return a mask of the values in the support; NaN is not."""
        return np.asarray(v > 0 if self.beta <= 0.0 else v >= 0 if self.beta <= 1.0 else ~np.isnan(v))

    def check(self, values: ArrayLike) -> None:
        """Raise DataError if values are outside the support; a Gaussian allows all."""
        if self.beta <= 1.0:
            super().check(values)

    @property
    def _described(self) -> str:
        return f"{type(self).__name__} (beta = {self.beta:g})"

    def _remedy_for(self, bad: NDArray[Any]) -> str:
        # The first remedy is for zeros only: it does not help with negative or undefined values.
        zeros = bool(np.all(bad == 0))
        return "drop them, add a small constant, or use CompoundPoisson()" if zeros else "use Gaussian()"

    # -- the density -------------------------------------------------------------------------------------

    def score(self, v: ArrayLike, mu: ArrayLike, phi: ArrayLike) -> Array:
        """Return ∂ log p(v | μ) / ∂μ = (v - μ) μ^{β-2} / φ."""
        mu = real(mu)
        return real((real(v) - mu) * mu ** (self.beta - 2.0) / real(phi))

    def positive(self, v: ArrayLike, mu: ArrayLike) -> Array:
        """Return v μ^{β-2}: φ times the positive part of the score."""
        return real(real(v) * real(mu) ** (self.beta - 2.0))

    def weight(self, v: ArrayLike, mu: ArrayLike) -> Array:
        """Return μ^{β-1}: φ times the negative part of the score, which the non-negative metric uses."""
        return real(real(mu) ** (self.beta - 1.0))

    def curvature(self, v: ArrayLike, mu: ArrayLike) -> Array:
        """Return μ^{β-2} - (β-2) (v - μ) μ^{β-3}."""
        v, mu = real(v), real(mu)
        return real(mu ** (self.beta - 2.0) - (self.beta - 2.0) * (v - mu) * mu ** (self.beta - 3.0))

    def variance(self, mu: ArrayLike, phi: ArrayLike) -> Array:
        """Return φ μ^{2-β}, the variance of an observation."""
        return real(real(phi) * real(mu) ** (2.0 - self.beta))

    def kernel(self, v: ArrayLike, mu: ArrayLike) -> Array:
        """Return v θ(μ) - κ(μ), the exponent of the density at φ = 1."""
        v, mu, beta = real(v), real(mu), self.beta
        if beta == 1.0:
            return real(special(mu).xlogy(v, mu) - mu)
        if beta == 0.0:
            return real(-v / mu - namespace(mu).log(mu))
        return real(v * mu ** (beta - 1.0) / (beta - 1.0) - mu**beta / beta)

    def log_normaliser(self, v: ArrayLike, phi: ArrayLike) -> Array:
        """Return log a(v, φ), the normaliser: log p = kernel / φ + log a."""
        return log_normaliser(v, phi, self.beta)

    def logpdf(self, v: ArrayLike, mu: ArrayLike, phi: ArrayLike) -> Array:
        """Return log p(v | μ, φ): a log density, or a log probability (Poisson; 0 if compound Poisson).

        It is -inf outside the support.
        """
        return super().logpdf(v, mu, phi)

    def deviance(self, v: ArrayLike, mu: ArrayLike) -> Array:
        """Return the unit deviance 2 (kernel(v, v) - kernel(v, μ)) ≥ 0: twice the β-divergence."""
        v = real(v)
        if self.beta == 2.0:
            return real((v - real(mu)) ** 2)
        if self.beta in (0.0, 1.0):
            saturated = self.kernel(v, v)
        else:  # v^{β-1} alone is infinite at v = 0
            saturated = real(v**self.beta / (self.beta * (self.beta - 1.0)))
        return real(2.0 * np.maximum(saturated - self.kernel(v, mu), 0.0))

    def sample(self, mu: ArrayLike, phi: ArrayLike, rng: np.random.Generator) -> Array:
        """Draw a new observation for each mean; φ broadcasts against μ.

        Exact, except for β < 0 other than -1 if φμ^{-β} is small (`positive_stable.sample`). There the cost grows as
        1/(-βφμ^{-β}), until a close approximation is used.
        """
        mu, phi = real(mu), real(phi)
        if self.beta == 2.0:
            draw = rng.normal(mu, np.sqrt(phi))
        elif self.beta == 1.0:
            draw = phi * rng.poisson(mu / phi)
        elif self.beta == 0.0:
            draw = rng.gamma(1.0 / phi, phi * mu)
        elif self.beta == -1.0:
            draw = rng.wald(mu, 1.0 / phi)
        else:
            member = compound_poisson if self.beta > 0.0 else positive_stable
            draw = member.sample(mu, phi, self.beta, rng)
        return real(draw)

    def survival(self, x: ArrayLike, mu: ArrayLike, phi: ArrayLike) -> Array | None:
        """Return P(v > x | μ, φ); None for β < 0 other than -1."""
        return survival(x, mu, phi, self.beta)

    # -- φ -----------------------------------------------------------------------------------------------

    def starts(self, values: ArrayLike) -> Theta:
        """Return an initial value of φ."""
        return (self.start_phi(values),)

    def typical(self, mean: float) -> Theta:
        """Return φ, by default such that the standard deviation is half the mean."""
        return (mean**self.beta / 4.0 if self.phi is None else self.phi,)

    def draw_phi(self, start: float, residuals: float, size: float, rng: np.random.Generator) -> float:
        """Draw the φ of a Gaussian, 1/φ ~ Gamma(1 + size/2, 1e-6 φ_start + residuals/2)."""
        return float((_LEAST_NOISE * start + 0.5 * residuals) / rng.standard_gamma(1.0 + 0.5 * size))

    def profile(
        self, values: Array, mu: ArrayLike, start: Theta, weights: Array | None = None
    ) -> Callable[[Theta], float]:
        """Return the log likelihood as a function of φ; the sum of the kernels is computed once."""
        size = values.size if weights is None else float(np.sum(weights))
        kernel = total(self.kernel(values, mu), weights) - _RESOLUTION * size * start[0]
        return lambda theta: kernel / theta[0] + total(self.log_normaliser(values, *theta), weights)

    def start_phi(self, values: ArrayLike) -> float:
        """Return var / mean^{2-β} > 0, an initial value of φ for data of any scale."""
        values = real(values)
        size = float(np.mean(np.abs(values))) if values.size else 0.0
        size = size if size > 0.0 else 1.0
        # φ has the dimension v^β. A constant matrix has no variance, but φ must be > 0.
        relative = float(np.var(values / size)) if values.size else 1.0
        return float((relative if relative > 1e-12 else 1e-4) * size**self.beta)


def _check_beta(beta: float) -> float:
    """Return β as a float; raise ModelError if there is no such member, or it is not supported."""
    if not is_number(beta) or not math.isfinite(beta):
        raise ModelError(
            f"Tweedie: beta must be a finite number, got {beta!r}; allowed: beta <= 1 or beta = 2"
        )
    if 1.0 < beta < 2.0:
        raise ModelError(
            f"no Tweedie distribution exists for 1 < beta < 2, got beta = {beta:g}; "
            "allowed: beta <= 1 or beta = 2"
        )
    if beta > 2.0:
        raise ModelError(
            f"Tweedie: beta > 2 (extreme stable distributions) is not supported, got beta = {beta:g}; "
            "allowed: beta <= 1 or beta = 2"
        )
    return float(beta)
