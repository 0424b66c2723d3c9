"""The shape a of a gamma prior: a draw of it given the factor, by slice sampling of log a.

    log p(a | x) = a Σ log x - n log Γ(a) + terms of the rate - (log a)² / 2

over the n coefficients x of the factor, with log a ~ N(0, 1).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

START_SHAPE = 1.0
"""The shape at which chains start: an exponential prior."""

_WIDTH = 1.0
"""Of the first bracket, in log a."""

_LEAST, _MOST = 1e-3, 1e4
"""Limits of the shape: beyond them, factors are zeros, or constants."""


class Coefficients(NamedTuple):
    """The sufficient statistics of all n coefficients of a factor: n, Σx and Σ log x."""

    n: float
    total: float
    logs: float


def given_rate(rate: float, x: Coefficients) -> Callable[[float], float]:
    """Return the terms of a rate λ that is given: n a log λ - λ Σx."""
    return lambda a: x.n * a * math.log(rate) - rate * x.total


def given_mean(mean: float, x: Coefficients) -> Callable[[float], float]:
    """Return the terms of a rate a/m that follows from a given mean m: n a log(a/m) - (a/m) Σx."""
    return lambda a: x.n * a * math.log(a / mean) - a / mean * x.total


def learnt_rate(mean: float, x: Coefficients) -> Callable[[float], float]:
    """Return the terms of a rate that is learnt, integrated out: λ | a ~ Exponential(m/a), the hyperprior of rates.

    log (m/a) + log Γ(na + 1) - (na + 1) log(Σx + m/a)
    """

    def terms(a: float) -> float:
        weight = mean / a
        return math.log(weight) + math.lgamma(x.n * a + 1.0) - (x.n * a + 1.0) * math.log(x.total + weight)

    return terms


def draw_shape(
    shape: float, x: Coefficients, rate_terms: Callable[[float], float], rng: np.random.Generator
) -> float:
    """Return a draw of the shape given the factor: one slice update of log a (Neal 2003), from the current shape."""

    def log_density(t: float) -> float:
        a = math.exp(t)
        return a * x.logs - x.n * math.lgamma(a) + rate_terms(a) - 0.5 * t * t

    at = math.log(shape)
    level = log_density(at) - rng.standard_exponential()
    low = at - _WIDTH * rng.random()
    high = low + _WIDTH
    least, most = math.log(_LEAST), math.log(_MOST)
    while low > least and log_density(low) > level:
        low -= _WIDTH
    while high < most and log_density(high) > level:
        high += _WIDTH
    low, high = max(low, least), min(high, most)
    while high - low > 1e-12:
        to = low + (high - low) * rng.random()
        if log_density(to) > level:
            return math.exp(to)
        low, high = (to, high) if to < at else (low, to)
    return shape
