"""The Tweedie family: every likelihood of psgld is a member, chosen by its power β."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from psgld.checks import is_number
from psgld.errors import DataError, ModelError
from psgld.models.common import Array, optional_positive, real
from psgld.models.likelihoods import compound_poisson, positive_stable
from psgld.models.likelihoods.normalisers import log_normaliser


@dataclass(frozen=True)
class Tweedie:
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

    def __post_init__(self) -> None:
        beta, owner = _check_beta(self.beta), type(self).__name__
        object.__setattr__(self, "beta", beta)
        object.__setattr__(self, "phi", optional_positive(owner, "phi", self.phi))

    @property
    def nonnegative_mean(self) -> bool:
        """Whether μ must be non-negative: for every member but the Gaussian."""
        return self.beta < 2.0

    def check(self, values: ArrayLike) -> None:
        """Raise DataError if some observed values cannot occur: β ≤ 0 needs v > 0, β ≤ 1 needs v ≥ 0."""
        if self.beta > 1.0:
            return
        values = np.asarray(values)
        good = self._can_occur(values)
        if good.all():
            return
        bad = values[~good]
        allowed = "v > 0" if self.beta <= 0.0 else "v >= 0"
        # Zeros have remedies of their own; a negative or undefined value among them has not.
        zeros = bool(np.all(bad == 0))
        remedy = "drop them, add a small constant, or use CompoundPoisson()" if zeros else "use Gaussian()"
        raise DataError(
            f"{type(self).__name__} (beta = {self.beta:g}) needs {allowed}, but {bad.size} of {values.size} "
            f"values are not, the first is {bad.flat[0]:g}; {remedy}"
        )

    @property
    def closed(self) -> bool:
        """Whether the density has a closed form; else it is a series or an integral."""
        return self.beta in (2.0, 1.0, 0.0, -1.0)

    def score(self, v: ArrayLike, mu: ArrayLike, phi: ArrayLike) -> Array:
        """Return ∂ log p(v | μ) / ∂μ = (v - μ) μ^{β-2} / φ."""
        mu = real(mu)
        return real((real(v) - mu) * mu ** (self.beta - 2.0) / real(phi))

    def weight(self, mu: ArrayLike) -> Array:
        """Return μ^{β-1}: φ times the negative part of the score, on which the non-negative metric rests."""
        return real(real(mu) ** (self.beta - 1.0))

    def variance(self, mu: ArrayLike, phi: ArrayLike) -> Array:
        """Return φ μ^{2-β}, the variance of an observation."""
        return real(real(phi) * real(mu) ** (2.0 - self.beta))

    def kernel(self, v: ArrayLike, mu: ArrayLike) -> Array:
        """Return v θ(μ) - κ(μ), the exponent of the density at φ = 1."""
        from scipy.special import xlogy

        v, mu, beta = real(v), real(mu), self.beta
        if beta == 1.0:
            return real(xlogy(v, mu) - mu)
        if beta == 0.0:
            return real(-v / mu - np.log(mu))
        return real(v * mu ** (beta - 1.0) / (beta - 1.0) - mu**beta / beta)

    def log_normaliser(self, v: ArrayLike, phi: ArrayLike) -> Array:
        """Return log a(v, φ), what the kernel lacks to be a normalised log density."""
        return log_normaliser(v, phi, self.beta)

    def logpdf(self, v: ArrayLike, mu: ArrayLike, phi: ArrayLike) -> Array:
        """Return log p(v | μ, φ): a log density, or a log probability (Poisson; 0 if compound Poisson).

        It is -inf where v cannot occur.
        """
        v = real(v)
        never = np.isinf(v) | ~self._can_occur(v)
        if never.any():  # at 1 instead, so that nothing overflows on the way
            logs = self.logpdf(np.where(never, 1.0, v), mu, phi)
            return real(np.where(np.isnan(v), np.nan, np.where(never, -np.inf, logs)))
        return real(self.kernel(v, mu) / real(phi) + self.log_normaliser(v, phi))

    def _can_occur(self, v: NDArray[Any]) -> NDArray[np.bool_]:
        """Say where β ≤ 0 has its v > 0, β ≤ 1 its v ≥ 0, and others a number."""
        return np.asarray(v > 0 if self.beta <= 0.0 else v >= 0 if self.beta <= 1.0 else ~np.isnan(v))

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

        Exact for every member; for β < 0 other than -1 see `positive_stable.sample`: the cost there grows
        as 1/(-βφμ^{-β}), down to a dispersion so small that a close approximation takes over.
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

    def start_phi(self, values: ArrayLike) -> float:
        """Return var / mean^{2-β} > 0, a φ from which learning it may start, at any scale of the data."""
        values = real(values)
        size = float(np.mean(np.abs(values))) if values.size else 0.0
        size = size if size > 0.0 else 1.0
        # φ has the dimension v^β; a constant matrix has no variance to read, but needs a φ > 0 all the same.
        relative = float(np.var(values / size)) if values.size else 1.0
        return float((relative if relative > 1e-12 else 1e-4) * size**self.beta)

    def to_dict(self) -> dict[str, object]:
        """Return what `likelihood_from_dict` needs, fit for JSON."""
        return {"name": self.name, "beta": self.beta, "phi": self.phi}


def _check_beta(beta: float) -> float:
    """Return β as a float if such a member exists and is supported."""
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
