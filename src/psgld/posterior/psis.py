"""Leave-one-out predictive densities by Pareto-smoothed importance sampling (Vehtari, Gelman, Gabry 2017).

    p(v_n | v_{-n}) ≈ Σ_s r_s p(v_n | θ_s) / Σ_s r_s,   r_s ∝ 1 / p(v_n | θ_s),

where the largest ratios r_s are replaced by the quantiles of a generalised Pareto distribution fitted to them. It is
-log of the mean of r_s, a mean of few draws: E[-log mean] > -log E[mean], by more the more parameters an entry moves.
So larger models look better than they are, by several standard errors of a difference; `excess` estimates by how much.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

UNRELIABLE = 0.7
"""k̂ above which a leave-one-out density is unreliable."""

_BLOCKS = 10


def loo(logs: Floats) -> tuple[Floats, Floats]:
    """Return log p(v_n | v_{-n}) and the shape k̂ of the tail, of each entry, from log p(v_n | θ_s) of shape (S, N).

    The estimate is reliable where k̂ < min(1 - 1 / log10 S, 0.7).
    """
    logs = np.asarray(logs, np.float64)
    size = len(logs)
    ratios = -logs - (-logs).max(axis=0)
    tail = math.ceil(min(0.2 * size, 3 * math.sqrt(size)))
    k = np.full(logs.shape[1], np.inf)
    if tail >= 5:
        order = np.argsort(ratios, axis=0)
        last = np.take_along_axis(ratios, order[-tail:], axis=0)
        cut = np.maximum(np.take_along_axis(ratios, order[-tail - 1 : -tail], axis=0)[0], -700.0)
        spread = last[-1] > cut + 1e-12  # constant ratios have no tail
        k[~spread] = -np.inf
        excess = np.maximum(np.exp(last[:, spread]) - np.exp(cut[spread]), 1e-300)
        k[spread], scale = _pareto(excess)
        smooth = _quantiles(k[spread], scale, tail) + np.exp(cut[spread])
        last[:, spread] = np.minimum(np.log(smooth), 0.0)
        np.put_along_axis(ratios, order[-tail:], last, axis=0)
    ratios -= _log_sum(ratios)
    return _log_sum(ratios + logs), k


def excess(logs: Floats) -> Floats:
    """Return by how much -log Σ_s r_s / S exceeds that of infinitely many draws, from log p(v_n | θ_s), (S, N).

    Jackknife over blocks of successive draws (Quenouille 1949), so that their autocorrelation counts.
    """
    blocks = min(_BLOCKS, len(logs) // 2)
    if blocks < 2:
        return np.zeros(logs.shape[1])
    ratios = np.exp(-logs - (-logs).max(axis=0))
    first = np.linspace(0, len(logs), blocks + 1).astype(int)
    total, sums = ratios.sum(axis=0), np.add.reduceat(ratios, first[:-1], axis=0)
    others = (len(logs) - np.diff(first))[:, None]
    with np.errstate(divide="ignore"):  # all ratios but those of a block may be 0
        without = np.log(np.maximum(total - sums, 1e-300) / others)
    return np.asarray((blocks - 1) * (np.log(total / len(logs)) - without.mean(axis=0)))


def _pareto(x: Floats) -> tuple[Floats, Floats]:
    """Return shape and scale of generalised Pareto distributions, from sorted columns (Zhang, Stephens 2009)."""
    n = len(x)
    grid = 30 + int(math.sqrt(n))
    b = 1 - np.sqrt(grid / (np.arange(1, grid + 1) - 0.5))
    b = b[:, None] / (3 * x[int(n / 4 + 0.5) - 1]) + 1 / x[-1]
    k = np.stack([np.log1p(-row * x).mean(axis=0) for row in b])
    level = n * (np.log(-b / k) - k - 1)
    weight = np.exp(level - level.max(axis=0))
    b = (b * weight).sum(axis=0) / weight.sum(axis=0)
    k = np.log1p(-b * x).mean(axis=0)
    return (n * k + 5) / (n + 10), -k / b  # a weak prior, worth ten observations at k = 1/2


def _quantiles(k: Floats, scale: Floats, n: int) -> Floats:
    """Return n quantiles of generalised Pareto distributions, (n, distributions)."""
    p = -np.log1p(-(np.arange(n) + 0.5) / n)[:, None]
    near = np.abs(k) < 1e-12
    return np.asarray(scale * np.where(near, p, np.expm1(k * p) / np.where(near, 1.0, k)))


def _log_sum(x: Floats) -> Floats:
    top = np.maximum(x.max(axis=0), -1e300)
    with np.errstate(divide="ignore"):
        return np.asarray(top + np.log(np.exp(x - top).sum(axis=0)))
