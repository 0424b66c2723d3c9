"""The named members of the Tweedie family."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, final

from psgld.errors import ModelError
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

    Examples
    --------
    >>> Gaussian().score(v=1.0, mu=0.5, phi=0.25)
    array(2.)
    """

    beta: float = field(default=2.0, init=False, repr=False)
    name: ClassVar[str] = "gaussian"


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
