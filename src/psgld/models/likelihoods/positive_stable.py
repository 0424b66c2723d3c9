"""The members with β < 0: exponentially tilted positive stable distributions of index a = -β/(1-β).

    p(v | μ) = a(v, φ) exp((v μ^{β-1}/(β-1) - μ^β/β) / φ),  a(v, φ) = density of c·S,  E[e^{-tS}] = exp(-t^a)

The series of this density suffers from cancellation in its left tail; Zolotarev's integral does not. With b = -β,

    f_S(x) = (b/π) x^{-1-b} ∫_0^π A(u) exp(-x^{-b} A(u)) du,   A(u) = sin(au)^b sin((1-a)u) / sin(u)^{1+b}

β = -1 (inverse Gaussian, a = 1/2) has a closed form, which is used instead.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from psgld.models.common import Array, log_sum_exp, real

# With a smaller unit dispersion a draw would be the sum of thousands of variables, and its distribution is so close to
# a shifted inverse Gaussian of the same mean, variance and skewness that no sample could tell them apart.
_NEARLY_NORMAL = 0.01  # over (2-β)², because the fourth cumulants differ by about (2-β)²/3 · dispersion
_PIECES = 1 << 20  # summands drawn at a time


def _log_scale(phi: Array, b: float) -> Array:
    """Return log c: c^a = ((1+b)φ)^a / (bφ)."""
    return real(np.log1p(b) - (1.0 + 1.0 / b) * np.log(b) - np.log(phi) / b)


def _log_a(s: Array, b: float) -> tuple[Array, Array]:
    """Return (log A(u) - log A(0), log du/ds) at u = π/(1+e^{-s}): both ends of (0, π) are resolved in s."""
    near, far = 1.0 / (1.0 + np.exp(-np.abs(s))), 1.0 / (1.0 + np.exp(np.abs(s)))
    u = np.pi * np.where(s > 0.0, near, far)
    a = b / (1.0 + b)
    log_ratio = (
        b * np.log(np.sinc(a * u / np.pi))
        + np.log(np.sinc((1.0 - a) * u / np.pi))
        - (1.0 + b) * np.log(np.sin(np.pi * far) / u)
    )
    return log_ratio, np.log(np.pi * near * far)


def _log_a0(b: float) -> float:
    return float(-b * np.log1p(1.0 / b) - np.log1p(b))


def log_normaliser(v: ArrayLike, phi: ArrayLike, beta: float) -> Array:
    """Return log a(v, φ) for v > 0 and β < 0 by Zolotarev's integral, to about ten digits.

    Examples
    --------
    >>> log_normaliser([0.5, 2.0], 1.0, beta=-1.0).round(4)  # the inverse Gaussian: -1/(2v) - log(2πv³)/2
    array([-0.8792, -2.2087])
    """
    v, phi = np.broadcast_arrays(real(v), real(phi))
    b = -beta
    log_c = _log_scale(phi, b)
    log_x = np.log(v) - log_c
    big_x = np.exp(np.clip(-b * log_x, -700.0, 700.0))  # beyond this, the tilted density underflows
    integral = _log_integral(big_x.ravel(), b).reshape(v.shape)
    return real(np.log(b / np.pi) - (1.0 + b) * log_x + integral - log_c)


def _log_integral(big_x: Array, b: float) -> Array:
    """Return log ∫ A exp(-X A) du for each X, by the trapezoidal rule in s on one grid for all X."""
    if big_x.size == 0:
        return np.empty(0)
    a0 = np.exp(_log_a0(b))
    # The integrand grows like e^s until X(A - A(0)) ~ 1, is negligible at X·A > 50; there A ~ (e^s sin(aπ)/π)^{1+b}.
    low = min(0.0, -0.5 * np.log1p(big_x.max() * a0 * (1.0 + b))) - 32.0
    ends = np.log(50.0 / min(big_x.min(), 50.0)) / (1.0 + b)
    high = ends + np.log(np.pi / np.sin(np.pi * b / (1.0 + b))) + 2.0
    step = min(0.15, 0.3 / (1.0 + b))
    log_ratio, log_du = _log_a(np.arange(low, high + step, step), b)
    weight = log_ratio + log_du + np.log(a0) + np.log(step)
    with np.errstate(over="ignore"):  # exp(-inf) = 0 is intended
        excess = a0 * np.expm1(log_ratio)
        total = log_sum_exp(lambda part: weight - big_x[part, None] * excess, len(big_x), len(weight))
    return real(total - big_x * a0)


def sample(mu: Array, phi: Array, beta: float, rng: np.random.Generator) -> Array:
    """Draw v: exactly, except if φμ^{-β} < 0.01/(2-β)², where the error of the cdf is below 1e-4."""
    mu, phi = np.broadcast_arrays(mu, phi)
    b, unit = -beta, phi * mu ** (-beta)
    near_normal = unit < _NEARLY_NORMAL / (2.0 + b) ** 2
    out = np.empty(mu.shape)
    out[near_normal] = mu[near_normal] * _shifted_wald(unit[near_normal], 2.0 + b, rng)
    # v/μ has mean 1 and dispersion φμ^b; rejection from the untilted distribution costs exp(1/(b·dispersion)).
    exact = unit[~near_normal]
    pieces = np.ceil(1.0 / (b * exact)).astype(np.int64)
    groups = np.cumsum(pieces) // _PIECES
    drawn = [_sum_of_pieces(exact[groups == g], pieces[groups == g], b, rng) for g in np.unique(groups)]
    out[~near_normal] = mu[~near_normal] * np.concatenate([np.empty(0), *drawn])
    return out


def _shifted_wald(unit: Array, power: float, rng: np.random.Generator) -> Array:
    """Draw with mean 1, variance `unit` and third cumulant power·unit², those of the Tweedie variable."""
    mean = 3.0 / power
    return real(1.0 - mean + rng.wald(mean, mean**3 / unit))


def _sum_of_pieces(unit: Array, pieces: NDArray[np.int64], b: float, rng: np.random.Generator) -> Array:
    """Draw v/μ as a sum of independent variables, each accepted with probability above 1/e.

    The distribution is infinitely divisible, so the exponent of that cost is divided among the summands (Hofert 2011).
    An untilted summand is Kanter's (A(u)/E)^{1/b}, with u uniform and E exponential.
    """
    owner = np.repeat(np.arange(len(unit)), pieces)
    log_scale = _log_scale(unit, b) - (1.0 + 1.0 / b) * np.log(pieces)
    tilt = 1.0 / ((1.0 + b) * unit)
    total = np.zeros(len(unit))
    while owner.size:
        log_ratio, _ = _log_a(rng.logistic(size=owner.size), b)
        log_s = (log_ratio + _log_a0(b) - np.log(rng.standard_exponential(owner.size))) / b
        piece = np.exp(np.minimum(log_scale[owner] + log_s, 700.0))
        kept = rng.standard_exponential(owner.size) > tilt[owner] * piece
        total += np.bincount(owner[kept], piece[kept], minlength=len(unit))
        owner = owner[~kept]
    return total
