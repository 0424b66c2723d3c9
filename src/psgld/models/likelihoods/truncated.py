"""Normal variables truncated to an interval: log masses, moments, and truncated values from values that are not."""

from __future__ import annotations

from typing import Any

import numpy as np

from psgld.models.common import Array, real


def log_mass(a: Any, b: Any) -> Array:
    """Return log P(a < z < b), z standard normal; -inf if a ≥ b.

    Examples
    --------
    >>> log_mass([-1.0, 8.0], [1.0, 9.0]).round(3)
    array([ -0.382, -35.014])
    """
    from scipy.special import log_ndtr

    a, b = np.broadcast_arrays(real(a), real(b))
    flip = a + b > 0.0  # into the left tail, where log_ndtr is exact
    low, high = log_ndtr(np.where(flip, -b, a)), log_ndtr(np.where(flip, -a, b))
    with np.errstate(divide="ignore", invalid="ignore"):
        return real(np.where(a < b, high + np.log(-np.expm1(np.minimum(low - high, 0.0))), -np.inf))


def confine(z: Any, a: Any, b: Any) -> Array:
    """Return the quantile of a normal variable truncated to (a, b) that z is of one that is not.

    Examples
    --------
    >>> confine([-2.0, 0.0, 2.0], 0.0, 1.0).round(3)
    array([0.019, 0.442, 0.968])
    """
    from scipy.special import log_ndtr, ndtri_exp

    z, a, b = np.broadcast_arrays(real(z), real(a), real(b))
    flip = a + b > 0.0
    low, high, at = np.where(flip, -b, a), np.where(flip, -a, b), np.where(flip, -z, z)
    inside = ndtri_exp(np.logaddexp(log_ndtr(-at) + log_ndtr(low), log_ndtr(at) + log_ndtr(high)))
    return real(np.clip(np.where(flip, -inside, inside), a, b))


def moments(a: Any, b: Any) -> tuple[Array, Array]:
    """Return mean and variance of a standard normal variable truncated to (a, b).

    Examples
    --------
    >>> [float(x.round(3)) for x in moments(0.0, np.inf)]
    [0.798, 0.363]
    """
    a, b = np.broadcast_arrays(real(a), real(b))
    total = log_mass(a, b)
    p, q = (np.exp(-0.5 * x**2 - 0.5 * np.log(2.0 * np.pi) - total) for x in (a, b))
    mean = p - q
    ends = [np.where(np.isfinite(x), x, 0.0) * d for x, d in ((a, p), (b, q))]
    return real(np.clip(mean, a, b)), real(np.maximum(1.0 + ends[0] - ends[1] - mean**2, 0.0))
