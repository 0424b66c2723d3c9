"""The normal prior of real-valued factors, with a precision per component."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np
from numpy.typing import ArrayLike

from psgld.models.common import Array, optional_positive, real
from psgld.models.priors.base import Coefficients, Prior


class NormalFormulas(Prior):
    """Formulas of p(x) ∝ exp(-½ λ (x - m)²), given λ and m of each component."""

    nonnegative: ClassVar[bool] = False
    one_rate: ClassVar[bool] = False  # so unused components are shrunk to 0, and used ones are not

    def log_density(self, x: ArrayLike, rate: ArrayLike, mean: ArrayLike = 0.0) -> Array:
        """Return log p(x) for each entry."""
        rate, away = real(rate), real(x) - real(mean)
        return real(0.5 * np.log(rate / (2.0 * np.pi)) - 0.5 * rate * away**2)

    def coefficients(self, rate: ArrayLike, mean: ArrayLike = 0.0) -> Coefficients:
        """Return (0, λm, λ)."""
        rate = real(rate)
        return 0.0, rate * real(mean), rate

    def log_density_from_sums(
        self,
        count: int,
        sum: ArrayLike,
        sumsq: ArrayLike,
        rate: ArrayLike,
        mean: ArrayLike = 0.0,
        sum_log: ArrayLike | None = None,
    ) -> float:
        """Return Σ log p(x) over a factor."""
        rate = real(rate)
        around = _around(count, sum, sumsq, mean)
        return float(np.sum(0.5 * count * np.log(rate / (2.0 * np.pi)) - 0.5 * rate * around))

    def evidence(
        self, count: int, sum: ArrayLike, sumsq: ArrayLike, mean: ArrayLike = 0.0
    ) -> tuple[Array, Array]:
        """Return (count/2, Σ(x - m)²/2) of each component."""
        around = _around(count, sum, sumsq, mean)
        return np.full(around.shape, 0.5 * count), 0.5 * around

    def size_at(self, rate: float) -> float:
        """Return the standard deviation at this precision."""
        return float(rate**-0.5)

    def rate_for(self, size: float) -> float:
        """Return the precision of this standard deviation."""
        return float(size**-2.0)


@final
@dataclass(frozen=True)
class Normal(NormalFormulas):
    """The normal prior p(x) ∝ exp(-½ λ (x - m)²) of real-valued factors, with a precision λ per component.

    Parameters
    ----------
    precision
        The precision λ of every component; None (the default) learns one per component.

    Examples
    --------
    >>> Normal().score(1.5, rate=4.0, mean=1.0)
    array(-2.)
    """

    precision: float | None = None
    name: ClassVar[str] = "normal"

    def __post_init__(self) -> None:
        object.__setattr__(self, "precision", optional_positive("Normal", "precision", self.precision))

    @property
    def given(self) -> float | None:
        """The precision that the user fixed, None if it is learnt."""
        return self.precision


def _around(count: int, sum: ArrayLike, sumsq: ArrayLike, mean: ArrayLike) -> Array:
    """Return Σ(x - m)² of each component, at least 0 in spite of rounding."""
    sum, mean = real(sum), real(mean)
    return np.maximum(real(sumsq) - 2.0 * mean * sum + count * mean**2, 0.0)
