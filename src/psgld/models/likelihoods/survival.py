"""Survival functions P(v > x | μ, φ) of Tweedie members: closed forms, and a series for the compound Poisson."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from psgld.models.common import Array, real

_MANY = 1000.0
"""Mean number of jumps of a compound Poisson above which it is approximated by three moments, with error < 4e-5."""


def survival(x: ArrayLike, mu: ArrayLike, phi: ArrayLike, beta: float) -> Array | None:
    """Return the probability that a new observation is above x; None for members without a formula.

    Examples
    --------
    >>> survival([0.0], 2.0, 1.0, beta=1.0).round(4)  # a Poisson count of mean 2 is 1 or more: 1 - e^-2
    array([0.8647])
    """
    x, mu, phi = np.broadcast_arrays(real(x), real(mu), real(phi))
    if beta == 2.0:
        from scipy.special import ndtr

        return real(ndtr((mu - x) / np.sqrt(phi)))
    if beta < 0.0 and beta != -1.0:
        return None
    above = (x >= 0.0 if beta > 0.0 else x > 0.0) & (x < np.inf)  # otherwise all values are above x, or none
    out = np.where(x < np.inf, 1.0, 0.0)
    member = {1.0: _poisson, 0.0: _gamma, -1.0: _inverse_gaussian}.get(beta)
    x, mu, phi = x[above], mu[above], phi[above]
    out[above] = _compound_poisson(x, mu, phi, beta) if member is None else member(x, mu, phi)
    return out


def _poisson(x: Array, mu: Array, phi: Array) -> Array:
    from scipy.special import gammainc

    return real(gammainc(np.floor(x / phi) + 1.0, mu / phi))


def _gamma(x: Array, mu: Array, phi: Array) -> Array:
    from scipy.special import gammaincc

    return real(gammaincc(1.0 / phi, x / (phi * mu)))


def _inverse_gaussian(x: Array, mu: Array, phi: Array) -> Array:
    from scipy.special import log_ndtr, ndtr

    root = 1.0 / np.sqrt(phi * x)
    far = 2.0 / (phi * mu) + log_ndtr(-root * (x / mu + 1.0))  # in logarithms: exp alone would overflow
    return np.clip(ndtr(root * (1.0 - x / mu)) - np.exp(far), 0.0, 1.0)


def _compound_poisson(x: Array, mu: Array, phi: Array, beta: float) -> Array:
    """Return Σ_n P(N = n) P(the sum of n gamma variables > x); once the latter is 1, the rest is P(N ≥ n)."""
    from scipy.special import gammainc, gammaincc, gammaln

    rate, scale, shape = mu**beta / (phi * beta), phi * (1.0 - beta) * mu ** (1.0 - beta), beta / (1.0 - beta)
    out = np.zeros(x.shape)
    many = (rate > _MANY) & (rate * beta > 3.0)  # 1 / (rate β) is the squared coefficient of variation
    out[many] = _three_moments(x[many], mu[many], phi[many], beta)
    left, n = np.flatnonzero(~many), 1
    while left.size:
        r = rate[left]
        above = gammaincc(n * shape, x[left] / scale[left])
        certain, past = above > 1.0 - 1e-12, n > r + 8.0 * np.sqrt(r) + 20.0
        out[left] += np.where(certain, gammainc(n, r), above * np.exp(n * np.log(r) - r - gammaln(n + 1.0)))
        left, n = left[~(certain | past)], n + 1
    return out


def _three_moments(x: Array, mu: Array, phi: Array, beta: float) -> Array:
    """Return P(v > x) of the shifted gamma variable with the mean μ, the sd s = sqrt(φ μ^{2-β}) and the skewness of v.

    The skewness is (2-β) s / μ. The error is in the kurtosis, of the order of the inverse number of jumps.
    """
    from scipy.special import gammaincc

    spread = np.sqrt(phi * mu ** (2.0 - beta))
    # A gamma variable has the skewness 2 / sqrt(shape).
    root = 2.0 * mu / ((2.0 - beta) * spread)
    return real(gammaincc(root**2, np.maximum(root**2 + root * (x - mu) / spread, 0.0)))
