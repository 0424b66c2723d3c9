"""The registry of likelihoods by name, and the choice of a default likelihood from the data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from psgld.errors import DataError, ModelError
from psgld.models.likelihoods.base import Likelihood
from psgld.models.likelihoods.bernoulli import Bernoulli
from psgld.models.likelihoods.members import CompoundPoisson, Gamma, Gaussian, InverseGaussian, Poisson
from psgld.models.likelihoods.negative_binomial import NegativeBinomial
from psgld.models.likelihoods.ordinal import Ordinal
from psgld.models.likelihoods.tweedie import Tweedie

FAMILIES: tuple[type[Likelihood], ...] = (
    Poisson,
    Gaussian,
    Gamma,
    CompoundPoisson,
    InverseGaussian,
    NegativeBinomial,
    Bernoulli,
    Ordinal,
)
"""The likelihoods that have a name."""

LIKELIHOODS: dict[str, Callable[[], Likelihood]] = {family.name: family for family in FAMILIES}
"""Likelihoods by the names that `FactorModel`, the estimators and the command line accept."""


def likelihood(spec: str | Likelihood) -> Likelihood:
    """Return the likelihood of a name; a likelihood is returned unchanged.

    Examples
    --------
    >>> likelihood("compound-poisson")
    CompoundPoisson(beta=0.5, phi=None)
    """
    if isinstance(spec, Likelihood):
        return spec
    if not isinstance(spec, str) or spec not in LIKELIHOODS:
        raise ModelError(
            f"unknown likelihood {spec!r}; allowed: {', '.join(LIKELIHOODS)}, "
            "or an object such as Tweedie(beta=-0.5)"
        )
    return LIKELIHOODS[spec]()


def likelihood_from_dict(record: Mapping[str, Any]) -> Likelihood:
    """Return the likelihood that `to_dict` described.

    Examples
    --------
    >>> likelihood_from_dict(Gamma(phi=0.5).to_dict())
    Gamma(phi=0.5)
    """
    name = record["name"]
    family: Any = Tweedie if name == Tweedie.name else type(likelihood(name))
    optional = {"support"}  # older versions had none
    names = (f.name for f in fields(family) if f.init and (f.name in record or f.name not in optional))
    made: Likelihood = family(**{name: record[name] for name in names})
    return made


def guess(values: ArrayLike) -> tuple[Likelihood, str]:
    """Return a likelihood that suits the observed values, and the reason.

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
        return Ordinal(), "the values look like ratings"
    if np.array_equal(values, np.rint(values)):
        return Poisson(), "the values are counts"
    if low == 0:
        return CompoundPoisson(), "the values are continuous with exact zeros"
    return Gamma(), "the values are continuous and positive"


def _looks_like_ratings(values: NDArray[Any]) -> bool:
    """Return whether the values have at most ten levels, integers or half-integers, the lowest not the most frequent.

    Positive counts (a count matrix without its zeros) may have few levels too, but the lowest is the most frequent.
    """
    some = values.ravel()[:: max(1, values.size // 100_000)]
    levels, number = np.unique(some, return_counts=True)
    on_grid = np.array_equal(2 * levels, np.rint(2 * levels))
    return on_grid and 2 <= len(levels) <= 10 and levels[-1] <= 10 and bool(number[0] < number.max())
