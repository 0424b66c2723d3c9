"""Leave-one-out predictive densities of normal observations, from mean m and variance s² of η at each entry.

    p(v | v_{-n}) = N(v; m', s'² + φ),   1/s'² = 1/s² - 1/φ,   m'/s'² = m/s² - v/φ

The posterior of η is divided by the likelihood of v (its cavity distribution; Opper, Winther 2000; Vehtari et al.
2016), which takes two moments of the draws instead of their largest importance ratios. The ratios have a generalised
Pareto tail of shape k = s²/φ, known here instead of estimated.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..models import Likelihood
from ..runs.draws import Draws
from .predict import Floats, Prediction

_MOST = 0.99
"""The largest k: where it is 1, the entry alone determines η, and the cavity distribution has no variance."""


def has_cavity(likelihood: Likelihood) -> bool:
    """Return whether observations are normal given η."""
    return likelihood.normal and not likelihood.confines


def cavity_densities(
    draws: Draws, likelihood: Likelihood, rows: Any, cols: Any, v: Floats
) -> tuple[Floats, Floats]:
    """Return log p(v_n | v_{-n}) and k of each entry.

    Each chain has a normal distribution of its own: 1 / p of several chains is the mean of theirs, as of all draws.
    """
    logs, k = [], []
    for chain in range(len(draws.phi)):
        own = _chain(draws, chain)
        p = Prediction(own, likelihood, rows, cols)
        found = cavity(v, p.mean, np.square(p.sd), 1.0 / float(np.mean(1.0 / own.phi)))
        logs.append(found[0])
        k.append(found[1])
    return np.asarray(np.log(len(logs)) - np.logaddexp.reduce(-np.array(logs), axis=0)), np.max(k, axis=0)


def _chain(draws: Draws, chain: int) -> Draws:
    return draws.each(lambda array: array[chain : chain + 1])


def cavity(v: Floats, mean: Floats, variance: Floats, phi: float) -> tuple[Floats, Floats]:
    """Return log N(v; m', s'² + φ) and s²/φ.

    Examples
    --------
    >>> v, phi = 1.5, 0.5
    >>> posterior = 1 / (1 + 1 / phi)  # of η ~ N(0, 1), given v
    >>> logs, k = cavity(v, posterior * v / phi, posterior, phi)
    >>> bool(np.isclose(logs, -0.5 * np.log(2 * np.pi * (1 + phi)) - 0.5 * v**2 / (1 + phi)))
    True
    """
    k = variance / phi
    keep = 1.0 - np.minimum(k, _MOST)
    total = phi * (1.0 + k / keep)  # s'² + φ, with s'² = s² / (1 - k)
    away = (v - mean) / keep  # v - m'
    return np.asarray(-0.5 * np.log(2.0 * np.pi * total) - 0.5 * away**2 / total), np.asarray(k)
