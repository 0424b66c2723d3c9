"""A Metropolis move for parameters of a likelihood without a conjugate draw."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from psgld.models.common import Array

# Weak, but proper: one sd is a factor e^5 ≈ 150 from the initial value.
_PRIOR_SD = 5.0


class Move(Protocol):
    """A move of the learnt parameters of a likelihood, given η of some entries."""

    @property
    def values(self) -> NDArray[Any]:
        """Those entries."""

    def __call__(
        self, theta: tuple[float, ...], eta: ArrayLike, rng: np.random.Generator
    ) -> tuple[float, ...]:
        """Return θ after the move."""


class Learning(Protocol):
    """The members of a likelihood that the move uses."""

    parameters: ClassVar[tuple[str, ...]]

    @property
    def learnt(self) -> tuple[str, ...]:
        """The names of the parameters that are learnt."""

    def profile(
        self, values: Array, eta: ArrayLike, start: tuple[float, ...], weights: Array | None = None
    ) -> Callable[[tuple[float, ...]], float]:
        """Return the log likelihood of the values as a function of θ."""


@dataclass(frozen=True, eq=False)
class ParameterMove:
    """Random-walk Metropolis on log θ, one parameter at a time, given some observed values and their means.

        log π(θ) = Σ_i w_i log p(v_i | η_i, θ) - ½ (log(θ/start) / 5)²
        log θ' = log θ + s N(0, 1),   s = 2.4 sqrt(2/n) 10^u,   u uniform on {0, 1, 2}

    The posterior sd of log φ is near sqrt(2/n), which sets the small step. The initial value may be wrong by orders of
    magnitude, thousands of small steps away; large steps get there in a few proposals. The mixture of step sizes is
    symmetric, so the acceptance probability is that of a random walk.

    Parameters
    ----------
    likelihood
        The likelihood whose parameters are learnt: numbers > 0.
    values
        The values of a fixed subsample of the observed entries.
    start
        The medians of the weak priors, one per parameter.
    weights
        Their weights w_i; None if they are 1. Then n is Σ w_i.
    proposals
        The number of proposals per parameter and move.

    Examples
    --------
    >>> from psgld.models import Gamma
    >>> rng = np.random.default_rng(0)
    >>> mu = np.full(1000, 3.0)
    >>> move = ParameterMove(Gamma(), Gamma().sample(mu, 0.1, rng), start=(1.0,), proposals=50)
    >>> round(move((1.0,), mu, rng)[0], 1)
    0.1
    """

    likelihood: Learning
    values: Array
    start: tuple[float, ...]
    weights: Array | None = None
    proposals: int = 5

    def __call__(
        self, theta: tuple[float, ...], eta: ArrayLike, rng: np.random.Generator
    ) -> tuple[float, ...]:
        """Return θ after the proposals from `theta`, given η at the subsample."""
        if self.values.size == 0:
            return theta
        profile = self.likelihood.profile(self.values, eta, self.start, self.weights)
        for name in self.likelihood.learnt:
            theta = self._moved(theta, self.likelihood.parameters.index(name), profile, rng)
        return theta

    def _moved(
        self,
        theta: tuple[float, ...],
        at: int,
        profile: Callable[[tuple[float, ...]], float],
        rng: np.random.Generator,
    ) -> tuple[float, ...]:
        n = self.values.size if self.weights is None else float(self.weights.sum())
        scale, start = 2.4 * np.sqrt(2.0 / n), self.start[at]

        def log_posterior(theta: tuple[float, ...]) -> float:
            return profile(theta) - 0.5 * float(np.log(theta[at] / start) / _PRIOR_SD) ** 2

        current = log_posterior(theta)
        for _ in range(self.proposals):
            step = scale * 10.0 ** rng.integers(3) * rng.standard_normal()
            # At a factor e^100 from the initial value the prior alone rejects, and powers of θ might overflow.
            log_ratio = np.log(theta[at] / start) + step
            if abs(log_ratio) > 100.0:
                continue
            proposal = (*theta[:at], float(start * np.exp(log_ratio)), *theta[at + 1 :])
            proposed = log_posterior(proposal)
            if -rng.standard_exponential() < proposed - current:
                theta, current = proposal, proposed
        return theta
