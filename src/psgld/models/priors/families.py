"""The non-negative priors, and the registry of all priors by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import ArrayLike

from psgld.errors import ModelError
from psgld.models.common import Array, optional_positive, real
from psgld.models.priors.base import Coefficients, Prior
from psgld.models.priors.normal import Normal
from psgld.models.priors.normal_wishart import NormalWishart

__all__ = ["PRIORS", "Exponential", "GammaPrior", "Normal", "NormalWishart", "Prior", "prior_from_dict"]


class _Gammalike(Prior):
    """The formulas that the exponential and the gamma prior share: p(x) ∝ x^{shape-1} exp(-rate·x)."""

    nonnegative: ClassVar[bool] = True
    one_rate: ClassVar[bool] = True  # with one rate per component, unused components would diverge
    shape: float | None
    rate: float | None

    @property
    def a(self) -> float:
        """The shape."""
        if self.shape is None:
            raise ModelError(f"{self!r} has no shape yet, it is learnt; at_shape(…) gives it one")
        return self.shape

    @property
    def given(self) -> float | None:
        return self.rate

    @property
    def needs_log_sum(self) -> bool:
        return self.shape != 1.0

    def log_density(self, x: ArrayLike, rate: ArrayLike, mean: ArrayLike = 0.0) -> Array:
        from scipy.special import gammaln, xlogy

        x, rate = real(x), real(rate)
        a = self.a
        inside = xlogy(a - 1.0, np.abs(x)) - rate * x + a * np.log(rate) - gammaln(a)
        return np.where(x >= 0.0, inside, -np.inf)

    def coefficients(self, rate: ArrayLike, mean: ArrayLike = 0.0) -> Coefficients:
        rate = real(rate)
        return self.a - 1.0, -rate, np.zeros_like(rate)

    def log_density_from_sums(
        self,
        count: int,
        sum: ArrayLike,
        sumsq: ArrayLike,
        rate: ArrayLike,
        mean: ArrayLike = 0.0,
        sum_log: ArrayLike | None = None,
    ) -> float:
        from scipy.special import gammaln

        total = count * (self.a * np.log(real(rate)) - gammaln(self.a)) - real(rate) * real(sum)
        if self.needs_log_sum:
            if sum_log is None:
                raise ModelError(f"{self!r} needs sum_log, the sums of log x, got None; pass them")
            total = total + (self.a - 1.0) * real(sum_log)
        return float(np.sum(total))

    def evidence(
        self, count: int, sum: ArrayLike, sumsq: ArrayLike, mean: ArrayLike = 0.0
    ) -> tuple[Array, Array]:
        sums = real(sum)
        return np.full(sums.shape, self.a * count), sums

    def size_at(self, rate: float) -> float:
        return self.a / rate

    def rate_for(self, size: float) -> float:
        return self.a / size


@final
@dataclass(frozen=True)
class Exponential(_Gammalike):
    """The exponential prior p(x) = λ exp(-λx), x ≥ 0, with one rate λ for all components.

    Parameters
    ----------
    rate
        The rate λ; None (the default) learns it.

    Examples
    --------
    >>> Exponential().score(0.3, rate=2.0)
    array(-2.)
    """

    rate: float | None = None
    name: ClassVar[str] = "exponential"
    shape = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "rate", optional_positive("Exponential", "rate", self.rate))


@final
@dataclass(frozen=True)
class GammaPrior(_Gammalike):
    """The gamma prior p(x) ∝ x^{a-1} exp(-λx), x ≥ 0: sparse factors for a < 1, density 0 at x = 0 for a > 1.

    Parameters
    ----------
    shape
        The shape a, one for all components; None (the default) learns it, with log a ~ N(0, 1).
    rate
        The rate λ, one for all components; None (the default) learns it.

    Examples
    --------
    >>> GammaPrior(shape=3.0).score(0.5, rate=2.0)
    array(2.)
    >>> GammaPrior().at_shape(0.5)
    GammaPrior(shape=0.5, rate=None)
    """

    shape: float | None = None
    rate: float | None = None
    name: ClassVar[str] = "gamma"

    def __post_init__(self) -> None:
        for name in ("shape", "rate"):
            object.__setattr__(self, name, optional_positive("GammaPrior", name, getattr(self, name)))

    @property
    def learns_shape(self) -> bool:
        """Whether the shape is learnt."""
        return self.shape is None

    def at_shape(self, shape: float | None) -> GammaPrior:
        """Return the prior with this shape, if its shape is learnt, else the prior itself."""
        return GammaPrior(shape, self.rate) if self.shape is None else self


PRIORS: dict[str, type[Prior]] = {
    prior.name: prior for prior in (Exponential, GammaPrior, Normal, NormalWishart)
}


def prior_from_dict(record: Mapping[str, Any]) -> Prior:
    """Return the prior that `to_dict` described.

    Examples
    --------
    >>> prior_from_dict({"name": "normal", "precision": 2.0})
    Normal(precision=2.0)
    """
    arguments = {key: value for key, value in record.items() if key != "name"}
    if record.get("name") not in PRIORS:
        raise ModelError(f"unknown prior {record.get('name')!r}; allowed: {', '.join(PRIORS)}")
    return PRIORS[record["name"]](**arguments)
