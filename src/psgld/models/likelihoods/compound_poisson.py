"""The compound Poisson member, 0 < β < 1: a point mass at 0 and a density above.

    N ~ Poisson(μ^β / (φβ)),   v = the sum of N gamma variables of shape α = β/(1-β) and scale φ(1-β) μ^{1-β}

Its density has no closed form: the factor that does not depend on μ contains Wright's function
Σ_j z^j / (j! Γ(jα)).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from psgld.models.common import Array, log_sum_exp, real

# As a function of j the terms are close to a normal density with sd sqrt(peak/(1+α)). Terms farther than REACH sd from
# the peak are below rounding error; j = 0 is farther than that if peak·(1+α) > REACH².
_REACH = 10.0
_GRID = np.arange(-12.0, 13.0)
_SPACING = 0.8  # in sd: the error of the trapezoidal rule is exp(-2π²/0.8²) = 1e-13; 12 · 0.8 < REACH


def log_normaliser(v: ArrayLike, phi: ArrayLike, beta: float) -> Array:
    """Return log a(v, φ), where p(v | μ) = a(v, φ) exp((v μ^{β-1}/(β-1) - μ^β/β) / φ); 0 at v = 0.

    Examples
    --------
    >>> log_normaliser([0.0, 1.0], 1.0, beta=0.5).round(4)
    array([0.    , 2.9714])

    References
    ----------
    Dunn & Smyth (2005), Series evaluation of Tweedie exponential dispersion model densities.
    """
    v, phi = np.broadcast_arrays(real(v), real(phi))
    above = v > 0.0
    alpha = beta / (1.0 - beta)
    log_v, log_phi = np.log(v[above]), np.log(phi[above])
    log_z = alpha * (log_v - np.log1p(-beta)) - (1.0 + alpha) * log_phi - np.log(beta)
    out = np.zeros(v.shape)
    out[above] = log_wright(log_z, alpha) - log_v
    return out


def log_wright(log_z: Array, alpha: float) -> Array:
    """Return log Σ_{j≥1} z^j / (j! Γ(jα)), for any z > 0 and α > 0.

    The cost per value is bounded. Few terms are summed one by one. Many terms are a smooth function of j, whose sum
    is an integral; the trapezoidal rule on a coarse grid computes it to rounding error.

    Examples
    --------
    >>> log_wright(np.array([0.0, 50.0]), alpha=1.0)
    array([4.64134474e-01, 1.44009799e+11])
    """
    log_peak = (log_z - alpha * np.log(alpha)) / (1.0 + alpha)
    many = log_peak + np.log1p(alpha) > 2.0 * np.log(_REACH)
    peak = np.exp(log_peak)
    out = np.empty_like(log_z)
    out[~many] = _sum_few(log_z[~many], peak[~many], alpha)
    out[many] = _sum_many(log_z[many], peak[many], alpha)
    return out


def _sum_few(log_z: Array, peak: Array, alpha: float) -> Array:
    """Return the log of the sum of the terms j = 1, 2, …, with one table of log-gammas for all values."""
    from scipy.special import gammaln

    top = float(peak.max(initial=0.0))
    j = np.arange(1.0, top + _REACH * np.sqrt(top / (1.0 + alpha)) + 2.0 * _REACH)
    table = gammaln(j + 1.0) + gammaln(j * alpha)
    return log_sum_exp(lambda part: log_z[part, None] * j - table, len(log_z), len(j))


def _sum_many(log_z: Array, peak: Array, alpha: float) -> Array:
    """Return the log of the sum over 25 nodes around the largest term: terms j, or an integral if the sd is large."""
    from scipy.special import gammaln

    step = np.maximum(1.0, _SPACING * np.sqrt(peak / (1.0 + alpha)))
    centre = np.where(step > 1.0, peak, np.rint(peak))

    def terms(part: slice) -> Array:
        nodes = centre[part, None] + step[part, None] * _GRID
        j = np.maximum(nodes, 1.0)
        out = log_z[part, None] * j - gammaln(j + 1.0) - gammaln(j * alpha)
        return np.where(nodes >= 1.0, out, -np.inf)

    return log_sum_exp(terms, len(log_z), len(_GRID)) + np.log(step)


def sample(mu: Array, phi: Array, beta: float, rng: np.random.Generator) -> Array:
    """Draw v from its definition: the sum of a Poisson number of gamma variables."""
    number = rng.poisson(mu**beta / (phi * beta))
    total = rng.standard_gamma(number * (beta / (1.0 - beta)))
    return real(total * phi * (1.0 - beta) * mu ** (1.0 - beta))
