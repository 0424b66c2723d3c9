"""The Bernoulli likelihood of binary values, with the logit link."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from psgld.models.common import Array, real
from psgld.models.likelihoods.base import Likelihood
from psgld.models.namespace import namespace, special


@final
@dataclass(frozen=True)
class Bernoulli(Likelihood):
    """Binary values: v = 1 with probability p = 1 / (1 + exp(-η)), else v = 0.

        log p(v | η) = v η - log(1 + exp(η)),    ∂ log p / ∂η = v - p

    The factors have any sign, and there may be biases. Predictions are probabilities.

    Examples
    --------
    >>> Bernoulli().response(0.0)
    array(0.5)
    """

    name: ClassVar[str] = "bernoulli"
    remedy: ClassVar[str] = "convert them, for example V > 0, or use Gaussian(), or Poisson() for counts"
    counts = True
    signed = True
    levels = (0.0, 1.0)
    curvature_bound = 0.25

    @property
    def requirement(self) -> str:
        """0 and 1."""
        return "v = 0 or v = 1"

    def can_occur(self, v: NDArray[Any]) -> NDArray[np.bool_]:
        """Return a mask of the values that are 0 or 1."""
        return np.asarray((v == 0) | (v == 1))

    def eta_moments(self, mean: float, variance: float, size: float) -> tuple[float, float]:
        """Return the logit of the proportion of ones, and 1 as a typical variance of logits."""
        ones, zeros = mean * size + 0.5, (1.0 - mean) * size + 0.5
        return math.log(ones / zeros), 1.0

    def kernel(self, v: ArrayLike, eta: ArrayLike) -> Array:
        """Return v η - log(1 + exp(η))."""
        v, eta = real(v), real(eta)
        return real(v * eta - namespace(eta).logaddexp(0.0, eta))

    def log_normaliser(self, v: ArrayLike) -> Array:
        """Return 0: the kernel is normalised."""
        return np.zeros(np.shape(v))

    def positive(self, v: ArrayLike, eta: ArrayLike) -> Array:
        """Return v."""
        return real(real(v) + namespace(eta).zeros_like(real(eta)))

    def weight(self, v: ArrayLike, eta: ArrayLike) -> Array:
        """Return p."""
        return self.response(eta)

    def curvature(self, v: ArrayLike, eta: ArrayLike) -> Array:
        """Return p (1 - p) <= 1/4."""
        return self.variance(eta)

    def response(self, eta: ArrayLike) -> Array:
        """Return p = 1 / (1 + exp(-η))."""
        return real(special(eta).expit(real(eta)))

    def link(self, mean: ArrayLike) -> Array:
        """Return log p/(1 - p); ±inf outside of 0 < p < 1."""
        from scipy.special import logit

        return real(logit(np.clip(real(mean), 0.0, 1.0)))

    def variance(self, eta: ArrayLike) -> Array:
        """Return p (1 - p)."""
        return real(self.response(eta) * self.response(-real(eta)))

    def sample(self, eta: ArrayLike, rng: np.random.Generator) -> Array:
        """Draw 0 or 1 for each η."""
        return real(rng.random(np.shape(eta)) < self.response(eta))

    def survival(self, x: ArrayLike, eta: ArrayLike) -> Array:
        """Return P(v > x): 1 for x < 0, p for 0 <= x < 1, else 0."""
        x, p = np.broadcast_arrays(real(x), self.response(eta))
        return real(np.where(x < 0.0, 1.0, np.where(x < 1.0, p, 0.0)))
