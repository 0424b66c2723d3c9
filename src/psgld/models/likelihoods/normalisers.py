"""The factor of a Tweedie density that does not depend on μ: a closed form, a series or an integral.

log p(v | μ, φ) = (v θ(μ) - κ(μ)) / φ + log a(v, φ)
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from psgld.models.common import Array, real
from psgld.models.likelihoods import compound_poisson, positive_stable


def log_normaliser(v: ArrayLike, phi: ArrayLike, beta: float) -> Array:
    """Return log a(v, φ) for the member β.

    Exact to rounding error, except for Poisson with φ ≠ 1. That member is a distribution of v/φ on the integers, which
    does not fit counts, so the extended quasi-likelihood is used: -½ log(2πφ(v + 1/6)) - kernel(v, v)/φ.
    It is not normalised; the φ that maximises it is the mean deviance.

    Examples
    --------
    >>> log_normaliser([2.0, 3.0], 1.0, beta=1.0).round(4)  # Poisson: -log v!
    array([-0.6931, -1.7918])

    References
    ----------
    Nelder & Pregibon (1987), An extended quasi-likelihood function.
    """
    v, phi = real(v), real(phi)
    if beta == 2.0:
        return real(-0.5 * np.log(2.0 * np.pi * phi) - 0.5 * v**2 / phi)
    if beta == 1.0:
        return _poisson(v, phi)
    if beta == 0.0:
        return _gamma(v, phi)
    if beta == -1.0:
        return real(-0.5 * np.log(2.0 * np.pi * phi) - 1.5 * np.log(v) - 0.5 / (phi * v))
    if beta > 0.0:
        return compound_poisson.log_normaliser(v, phi, beta)
    return positive_stable.log_normaliser(v, phi, beta)


def _poisson(v: Array, phi: Array) -> Array:
    from scipy.special import gammaln, xlogy

    exact = -gammaln(v + 1.0)
    if np.all(phi == 1.0):
        return real(exact)
    extended = -0.5 * np.log(2.0 * np.pi * phi * (v + 1.0 / 6.0)) - (xlogy(v, v) - v) / phi
    return np.where(phi == 1.0, exact, extended)


def _gamma(v: Array, phi: Array) -> Array:
    from scipy.special import gammaln

    shape = 1.0 / phi
    return real(shape * np.log(shape) - gammaln(shape) + (shape - 1.0) * np.log(v))
