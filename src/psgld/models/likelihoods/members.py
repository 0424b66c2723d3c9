"""The named members of the Tweedie family."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from psgld.checks import is_number
from psgld.errors import ModelError
from psgld.models.common import Array, real
from psgld.models.likelihoods import truncated
from psgld.models.likelihoods.base import Likelihood
from psgld.models.likelihoods.tweedie import Tweedie


@final
@dataclass(frozen=True)
class Poisson(Tweedie):
    """Counts, v ~ Poisson(μ): Tweedie with β = 1. With φ ≠ 1 the variance is φμ; `phi=None` learns it.

    Examples
    --------
    >>> round(float(Poisson().logpdf(v=2, mu=3.0, phi=1.0)), 4)
    -1.4959
    """

    beta: float = field(default=1.0, init=False, repr=False)
    phi: float | None = 1.0
    name: ClassVar[str] = "poisson"


@final
@dataclass(frozen=True)
class Gaussian(Tweedie):
    """Real values, v ~ Normal(μ, φ): Tweedie with β = 2; φ is the variance of the noise.

    Parameters
    ----------
    phi
        The dispersion; None, the default, to learn it.
    support
        The ends (low, high) of the range of values, such as (1, 5). What is said of a new observation (draws,
        quantiles, probabilities, density) is that of the normal distribution truncated to it. The posterior is that
        without truncation, and μ may lie outside.

    Examples
    --------
    >>> Gaussian().score(v=1.0, mu=0.5, phi=0.25)
    array(2.)
    """

    beta: float = field(default=2.0, init=False, repr=False)
    phi: float | None = None
    support: Any = None
    name: ClassVar[str] = "gaussian"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "support", None if self.support is None else _checked_support(self.support))

    def __repr__(self) -> str:
        more = "" if self.support is None else f", support={self.support}"
        return f"Gaussian(phi={self.phi}{more})"

    @property
    def requirement(self) -> str:
        """Numbers, or those in the support."""
        return "numbers" if self.support is None else f"{self.support[0]:g} <= v <= {self.support[1]:g}"

    def can_occur(self, v: NDArray[Any]) -> NDArray[np.bool_]:
        """Return a mask of the values in the support; NaN is not."""
        low, high = self.support or (-np.inf, np.inf)
        return np.asarray((v >= low) & (v <= high))

    def check(self, values: ArrayLike) -> None:
        """Raise DataError if values are outside the support."""
        if self.support is not None:
            Likelihood.check(self, values)

    def _remedy_for(self, bad: NDArray[Any]) -> str:
        return "give a wider support, or omit it"

    @property
    def confines(self) -> bool:
        """Whether there is a support."""
        return self.support is not None

    def _ends(self, mu: ArrayLike, phi: ArrayLike) -> tuple[Array, Array]:
        """Return the ends of the support in units of the noise around μ."""
        low, high = ((end - real(mu)) / np.sqrt(real(phi)) for end in self.support)
        return real(low), real(high)

    def confined(self, v: Array, mu: ArrayLike, *theta: Any) -> Array:
        """Return values at the same quantiles of the truncated distribution."""
        (phi,), mu = theta, real(mu)
        sd = np.sqrt(real(phi))
        return real(np.clip(mu + sd * truncated.confine((v - mu) / sd, *self._ends(mu, phi)), *self.support))

    def new_moments(self, mu: ArrayLike, *theta: Any) -> tuple[Array, Array]:
        """Return mean and variance of the truncated distribution."""
        mean, variance = truncated.moments(*self._ends(mu, *theta))
        return real(real(mu) + np.sqrt(real(theta[0])) * mean), real(real(theta[0]) * variance)

    def logpdf(self, v: ArrayLike, mu: ArrayLike, phi: ArrayLike) -> Array:
        """Return log p(v | μ, φ), of the truncated distribution if there is a support."""
        if self.support is None:
            return super().logpdf(v, mu, phi)
        v = real(v)
        inside = self.can_occur(v) & np.isfinite(v)
        some = next(x for x in (*self.support, 0.0) if math.isfinite(x))
        logs = super().logpdf(np.where(inside, v, some), mu, phi) - truncated.log_mass(*self._ends(mu, phi))
        return real(np.where(np.isnan(v), np.nan, np.where(inside, logs, -np.inf)))

    def survival(self, x: ArrayLike, mu: ArrayLike, phi: ArrayLike) -> Array | None:
        """Return P(v > x | μ, φ), of the truncated distribution if there is a support."""
        if self.support is None:
            return super().survival(x, mu, phi)
        low, high = self._ends(mu, phi)
        at = np.maximum((real(x) - real(mu)) / np.sqrt(real(phi)), low)
        return real(np.exp(truncated.log_mass(at, high) - truncated.log_mass(low, high)))

    def sample(self, mu: ArrayLike, phi: ArrayLike, rng: np.random.Generator) -> Array:
        """Draw a new observation for each mean, of the truncated distribution if there is a support."""
        drawn = super().sample(mu, phi, rng)
        return drawn if self.support is None else self.confined(drawn, mu, phi)

    def to_dict(self) -> dict[str, object]:
        """Return a dictionary, serialisable as JSON; without a support that of older versions."""
        return {n: x for n, x in super().to_dict().items() if n != "support" or x is not None}


@final
@dataclass(frozen=True)
class Gamma(Tweedie):
    """Positive values with constant relative error, v ~ Gamma(shape 1/φ, mean μ): Tweedie with β = 0.

    Examples
    --------
    >>> round(float(Gamma().variance(mu=3.0, phi=0.1)), 2)
    0.9
    """

    beta: float = field(default=0.0, init=False, repr=False)
    name: ClassVar[str] = "gamma"


@final
@dataclass(frozen=True)
class CompoundPoisson(Tweedie):
    """Non-negative values with exact zeros, sums of a Poisson number of gamma variables: Tweedie with 0 < β < 1.

    Examples
    --------
    >>> CompoundPoisson().logpdf(v=0.0, mu=1.0, phi=1.0)  # log P(v = 0) = -μ^β / (φβ)
    array(-2.)
    """

    beta: float = 0.5
    name: ClassVar[str] = "compound-poisson"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.0 < self.beta < 1.0:
            raise ModelError(
                f"CompoundPoisson: beta must be in 0 < beta < 1, got {self.beta:g}; "
                "use Tweedie(beta) for the other members"
            )


@final
@dataclass(frozen=True)
class InverseGaussian(Tweedie):
    """Positive values with a heavy right tail, variance φμ³: Tweedie with β = -1.

    Examples
    --------
    >>> InverseGaussian().weight(v=1.0, mu=2.0)
    array(0.25)
    """

    beta: float = field(default=-1.0, init=False, repr=False)
    name: ClassVar[str] = "inverse-gaussian"


def _checked_support(support: Any) -> tuple[float, float]:
    """Return the ends of a support as numbers; raise ModelError unless they are two, and increase."""
    ends = tuple(support) if isinstance(support, list | tuple) else ()
    if len(ends) != 2 or not all(is_number(x) and not math.isnan(x) for x in ends) or not ends[0] < ends[1]:
        raise ModelError(
            f"Gaussian: support must be two numbers (low, high), low < high, got {support!r}; omit it for all numbers"
        )
    return float(ends[0]), float(ends[1])
