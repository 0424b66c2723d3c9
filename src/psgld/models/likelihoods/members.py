"""The named likelihoods, the words for them at the friendly edge, and the guess when there is no word."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from psgld.errors import DataError, ModelError
from psgld.models.likelihoods.tweedie import Tweedie

__all__ = [
    "LIKELIHOODS",
    "CompoundPoisson",
    "Gamma",
    "Gaussian",
    "InverseGaussian",
    "Poisson",
    "Tweedie",
    "guess",
    "likelihood",
    "likelihood_from_dict",
]


@final
@dataclass(frozen=True)
class Poisson(Tweedie):
    """Counts, v ~ Poisson(μ): Tweedie of β = 1. With φ ≠ 1 the variance is φμ; `phi=None` learns it.

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
    """Real values, v ~ Normal(μ, φ): Tweedie of β = 2, φ is the variance of the noise.

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
    """Positive values of constant relative error, v ~ Gamma(shape 1/φ, mean μ): Tweedie of β = 0.

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
    """Non-negative values with exact zeros, a Poisson number of gamma variables: Tweedie of 0 < β < 1.

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
                "Tweedie(beta) takes the other members"
            )


@final
@dataclass(frozen=True)
class InverseGaussian(Tweedie):
    """Positive values with a heavy right tail, variance φμ³: Tweedie of β = -1.

    Examples
    --------
    >>> InverseGaussian().weight(mu=2.0)
    array(0.25)
    """

    beta: float = field(default=-1.0, init=False, repr=False)
    name: ClassVar[str] = "inverse-gaussian"


LIKELIHOODS: dict[str, Callable[[], Tweedie]] = {
    member.name: member for member in (Poisson, Gaussian, Gamma, CompoundPoisson, InverseGaussian)
}


def likelihood(spec: str | Tweedie) -> Tweedie:
    """Return the likelihood that a word names; a likelihood stays what it is.

    Examples
    --------
    >>> likelihood("compound-poisson")
    CompoundPoisson(beta=0.5, phi=None)
    """
    if isinstance(spec, Tweedie):
        return spec
    if not isinstance(spec, str) or spec not in LIKELIHOODS:
        raise ModelError(
            f"unknown likelihood {spec!r}; allowed: {', '.join(LIKELIHOODS)}, "
            "or an object such as Tweedie(beta=-0.5)"
        )
    return LIKELIHOODS[spec]()


def likelihood_from_dict(record: Mapping[str, Any]) -> Tweedie:
    """Return the likelihood that `to_dict` described.

    Examples
    --------
    >>> likelihood_from_dict(Gamma(phi=0.5).to_dict())
    Gamma(phi=0.5)
    """
    name, beta, phi = record["name"], record["beta"], record["phi"]
    if name == Tweedie.name:
        return Tweedie(beta, phi)
    member: Any = type(likelihood(name))
    made: Tweedie = member(beta, phi) if member is CompoundPoisson else member(phi)
    return made


def guess(values: ArrayLike) -> tuple[Tweedie, str]:
    """Return a likelihood that suits the observed values, and the reason in a few words.

    Examples
    --------
    >>> guess([0, 3, 1, 7])
    (Poisson(phi=1.0), 'the values are counts')
    """
    values = np.asarray(values)
    if values.size == 0:
        raise DataError(
            "no likelihood can be guessed from 0 observed values; give at least one, or a likelihood"
        )
    low = values.min()
    if low < 0:
        return Gaussian(), "some values are negative"
    if low > 0 and _looks_like_ratings(values):
        return Gaussian(), "the values look like ratings"
    if np.array_equal(values, np.rint(values)):
        return Poisson(), "the values are counts"
    if low == 0:
        return CompoundPoisson(), "the values are continuous with exact zeros"
    return Gamma(), "the values are continuous and positive"


def _looks_like_ratings(values: NDArray[Any]) -> bool:
    """Say whether the values sit on at most ten steps or half-steps, the lowest not the commonest.

    Positive counts (a count matrix without its zeros) may have few levels too, but thin out from the lowest.
    """
    some = values.ravel()[:: max(1, values.size // 100_000)]
    levels, number = np.unique(some, return_counts=True)
    on_grid = np.array_equal(2 * levels, np.rint(2 * levels))
    return on_grid and 2 <= len(levels) <= 10 and levels[-1] <= 10 and bool(number[0] < number.max())
