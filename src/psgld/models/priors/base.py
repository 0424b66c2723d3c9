"""The base class of priors of the factors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import fields
from typing import ClassVar

from numpy.typing import ArrayLike

from psgld.models.common import Array, real

Coefficients = tuple[float, Array, Array]


class Prior(ABC):
    """Base class of priors. In all methods `rate` is the rate, or the precision, of each component, shape (K,).

    `mean` is the prior mean of each component; only normal priors have one, the others ignore it.
    """

    name: ClassVar[str]
    nonnegative: ClassVar[bool]
    one_rate: ClassVar[bool]
    """Whether all components share one rate."""

    @property
    @abstractmethod
    def given(self) -> float | None:
        """The rate or precision that the user fixed, None if it is learnt."""

    @property
    def learnt(self) -> bool:
        """Whether a hyperparameter is learnt."""
        return self.given is None or self.learns_shape

    @property
    def learns_shape(self) -> bool:
        """Whether the shape is learnt. If so, the formulas are those of `at_shape(…)`."""
        return False

    def at_shape(self, shape: float | None) -> Prior:
        """Return the prior with this shape, if its shape is learnt, else the prior itself."""
        return self

    @property
    def needs_log_sum(self) -> bool:
        """Whether `log_density_from_sums` needs Σ log x."""
        return False

    @abstractmethod
    def log_density(self, x: ArrayLike, rate: ArrayLike, mean: ArrayLike = 0.0) -> Array:
        """Return log p(x), normalised, for each entry."""

    @abstractmethod
    def coefficients(self, rate: ArrayLike, mean: ArrayLike = 0.0) -> Coefficients:
        """Return (inv, lin, quad) with ∂ log p(x) / ∂x = inv/x + lin - quad·x."""

    def score(self, x: ArrayLike, rate: ArrayLike, mean: ArrayLike = 0.0) -> Array:
        """Return ∂ log p(x) / ∂x for each entry."""
        inv, lin, quad = self.coefficients(rate, mean)
        x = real(x)
        smooth = lin - quad * x
        return real(smooth + inv / x if inv else smooth)

    @abstractmethod
    def log_density_from_sums(
        self,
        count: int,
        sum: ArrayLike,
        sumsq: ArrayLike,
        rate: ArrayLike,
        mean: ArrayLike = 0.0,
        sum_log: ArrayLike | None = None,
    ) -> float:
        """Return Σ log p(x) over a factor, from Σx, Σx² (and Σ log x) of each component's `count` entries."""

    @abstractmethod
    def evidence(
        self, count: int, sum: ArrayLike, sumsq: ArrayLike, mean: ArrayLike = 0.0
    ) -> tuple[Array, Array]:
        """Return (n, r) of each component such that p(x | λ) ∝ λ^n exp(-r λ): the likelihood of its rate λ."""

    @abstractmethod
    def size_at(self, rate: float) -> float:
        """Return the typical size of an entry at this rate: its mean, or its standard deviation."""

    @abstractmethod
    def rate_for(self, size: float) -> float:
        """Return the rate at which an entry has this typical size."""

    def to_dict(self) -> dict[str, object]:
        """Return what `prior_from_dict` needs, serialisable as JSON."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}  # type: ignore[arg-type]
        return {"name": self.name, **values}
