"""The normal–Wishart prior: rows are multivariate normal, and their mean and precision matrix are learnt.

x_i | m, Λ ~ N(m, Λ⁻¹),   m | Λ ~ N(0, (β₀ Λ)⁻¹),   Λ ~ Wishart(W₀, ν₀)     (Salakhutdinov & Mnih 2008)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np
from numpy.typing import NDArray

from psgld.models.common import Array, optional_positive, positive, real
from psgld.models.priors.normal import NormalFormulas


@final
@dataclass(frozen=True, eq=False)
class RowNormal:
    """The mean m (K,) and the precision Λ (K, K) of the rows of a factor; zeros for constant components."""

    mean: Array
    precision: Array

    @property
    def linear(self) -> Array:
        """Λm: the score of a row is Λm - Λx."""
        return real(self.precision @ self.mean)

    @property
    def off_diagonal(self) -> Array:
        """Λ with a diagonal of zeros: the coupling of the components."""
        return self.precision - np.diag(np.diag(self.precision))

    def log_constant(self, count: int, free: NDArray[np.bool_]) -> float:
        """Return the part of Σ log p(x) that does not depend on the rows: n (log |Λ/2π| - mᵀΛm) / 2."""
        _, log_determinant = np.linalg.slogdet(self.precision[np.ix_(free, free)] / (2.0 * np.pi))
        return 0.5 * count * (float(log_determinant) - float(self.mean @ self.linear))


@final
@dataclass(frozen=True)
class NormalWishart(NormalFormulas):
    """The prior of BPMF: x_i ~ N(m, Λ⁻¹) for each row, m | Λ ~ N(0, (β₀Λ)⁻¹), Λ ~ Wishart(W₀, ν₀).

    W₀ is diagonal, on the scale of the data: E[Λ] = ν₀ W₀ is the precision that `Normal` starts from. Biases
    are components like the others; the mean of the column biases is the offset. `score`, `log_density` and related
    methods are those of a diagonal Λ; the coupling of the components is in `RowNormal`.

    Parameters
    ----------
    beta0
        β₀, the weight of the prior mean 0, as a number of rows.
    nu0
        ν₀, the degrees of freedom; None, the default, for the number of components, the least informative integer.

    Examples
    --------
    >>> NormalWishart().learnt
    True
    """

    beta0: float = 2.0
    nu0: float | None = None
    name: ClassVar[str] = "normal-wishart"

    def __post_init__(self) -> None:
        object.__setattr__(self, "beta0", positive("NormalWishart", "beta0", self.beta0))
        object.__setattr__(self, "nu0", optional_positive("NormalWishart", "nu0", self.nu0))

    @property
    def given(self) -> float | None:
        """None: m and Λ are learnt."""
        return None

    def start(self, rate: Array, free: NDArray[np.bool_]) -> RowNormal:
        """Return m = 0, Λ = E[Λ]."""
        return RowNormal(np.zeros(len(rate)), np.diag(np.where(free, rate, 0.0)))

    def draw(
        self,
        count: int,
        total: Array,
        gram: Array,
        start_rate: Array,
        free: NDArray[np.bool_],
        rng: np.random.Generator,
    ) -> RowNormal:
        """Draw (m, Λ) given the rows, from n, s = Σx and S = Σxxᵀ:

            Λ ~ Wishart(W*, ν₀ + n),   W*⁻¹ = W₀⁻¹ + S - ssᵀ/(β₀ + n),   m | Λ ~ N(s/(β₀ + n), ((β₀ + n) Λ)⁻¹)

        With W*⁻¹ = CCᵀ and Bartlett's lower triangle A (a_ii² ~ χ²(ν₀ + n - i), a_ij ~ N(0, 1)): Λ = TTᵀ, T = C⁻ᵀA.
        """
        d = int(free.sum())
        nu0 = d if self.nu0 is None else self.nu0
        s, S = total[free], gram[np.ix_(free, free)]
        beta, nu = self.beta0 + count, nu0 + count
        C = np.linalg.cholesky(np.diag(nu0 / start_rate[free]) + S - np.outer(s, s) / beta)
        A = np.tril(rng.standard_normal((d, d)), -1)
        np.fill_diagonal(A, np.sqrt(2.0 * rng.standard_gamma(0.5 * (nu - np.arange(d)))))
        T = np.linalg.solve(C.T, A)
        mean, precision = np.zeros(len(free)), np.zeros((len(free), len(free)))
        mean[free] = s / beta + np.linalg.solve(T.T, rng.standard_normal(d)) / np.sqrt(beta)
        precision[np.ix_(free, free)] = T @ T.T
        return RowNormal(mean, precision)
