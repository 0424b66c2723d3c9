"""The mode of new rows given a draw of the other factor: no randomness, a fixed number of updates."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .new_rows import Entries, Other
from .predict import Floats

_TINY = 1e-30
_UPDATES, _NEWTON = 500, 50


def nonnegative_mode(other: Other, entries: Entries) -> NDArray[Any]:
    """Return the w >= 0 that maximises p(w | v, H), by a fixed number of multiplicative updates.

        w ← w ((Σ_j positive_j h / φ + (a-1)/w) / (Σ_j weight_j h / φ + λ))^γ

    where positive - weight is the score, and γ the power at which the likelihood never falls.
    A prior of shape a < 1 has its mode at 0 whatever the data; there a = 1 is taken.
    """
    from scipy.sparse import csr_array

    likelihood, sums = other.likelihood, other.likelihood.zeros == "sum"
    if entries.zeros and not sums:
        entries = entries.filled(other.H.shape[1])
    H, phi, others = other.H[0].astype(np.float64), float(other.phi[0]), other.others
    prior = other.prior.at_shape(None if other.shape is None else float(other.shape[0]))
    inverse, linear, quadratic = prior.coefficients(other.rate[0])
    rows = np.repeat(np.arange(entries.rows), np.diff(entries.start))

    def spread(x: Floats) -> Floats:
        shape = (entries.rows, len(H))
        return np.asarray(csr_array((x, entries.index, entries.start), shape=shape) @ H)

    counted = entries.counted * np.ones_like(entries.value)
    total = spread(counted)
    if entries.zeros:  # which count in every cell, stored or not
        total = spread(counted - entries.zero_weight) + entries.zero_weight * H.sum(axis=0)
    size = spread(np.ones_like(entries.value)).sum(axis=1)
    mass = np.bincount(rows, counted * entries.value, minlength=entries.rows)
    start = np.where((size > 0) & (mass > 0), mass / np.maximum(total.sum(axis=1), _TINY), 1.0)
    w = np.repeat(start[:, None], H.shape[1], axis=1)

    def weight(mu: Floats) -> Floats:
        return likelihood.weight(entries.value, mu, *others) - likelihood.positive(negative, mu, *others)

    # Values below 0, which only a Gaussian has, push down: on their side of the fraction it stays positive.
    positive, negative = np.maximum(entries.value, 0.0), np.minimum(entries.value, 0.0)
    power = likelihood.update_power
    for _ in range(_UPDATES):
        mu = np.maximum(np.einsum("nk,nk->n", w[rows], H[entries.index]), _TINY)
        rise = spread(counted * likelihood.positive(positive, mu, *others))
        fall = total if sums else spread(counted * weight(mu))
        up = rise / phi + max(inverse, 0.0) / np.maximum(w, _TINY)
        down = fall / phi - linear + quadratic * w
        w = w * (up / np.maximum(down, _TINY)) ** power
    return w.astype(other.H.dtype)


def real_mode(other: Other, entries: Entries) -> tuple[NDArray[Any], Floats | None]:
    """Return the w of any sign that maximises p(w | v, H), and its bias, by Newton's method, row by row.

    w ← w + t (Σ_j curvature_j h hᵀ / φ + Λ)⁻¹ (Σ_j score_j h / φ + Λ (m - w)),   t = 1, or halved until it gains
    """
    if entries.zeros:
        entries = entries.filled(other.H.shape[1])
    H, phi = other.design()[0].astype(np.float64), float(other.phi[0])
    _, linear, quadratic, coupling = other.coefficients()
    precision = coupling[0] if coupling.size else np.diag(quadratic[0])
    out = np.zeros((1, entries.rows, H.shape[1]))
    for r in range(entries.rows):
        at = slice(entries.start[r], entries.start[r + 1])
        h, v = H[entries.index[at]], entries.value[at]
        offset = np.zeros(len(v)) if other.bias is None else other.bias[0, entries.index[at]]
        counted = 1.0 if entries.weight is None else entries.weight[at]
        out[0, r] = _newton(other, h, v, counted, offset, phi, linear[0], precision)
    X, bias = other.parted(out.astype(other.H.dtype))
    return X[0], None if bias is None else bias[0]


def _newton(
    other: Other,
    h: Floats,
    v: Floats,
    counted: Floats | float,
    offset: Floats,
    phi: float,
    linear: Floats,
    precision: Floats,
) -> Floats:
    likelihood, others, w = other.likelihood, other.others, np.zeros(h.shape[1])

    def log_posterior(w: Floats) -> float:
        kernel = (counted * likelihood.kernel(v, offset + h @ w, *others)).sum() / phi
        return float(kernel + linear @ w - 0.5 * w @ precision @ w)

    now = log_posterior(w)
    for _ in range(_NEWTON):
        eta = offset + h @ w
        score = counted * likelihood.score(v, eta, *likelihood.joined(phi, others))
        bend = counted * likelihood.curvature(v, eta, *others) / phi
        gradient = h.T @ score + linear - precision @ w
        step = np.linalg.solve((h.T * bend) @ h + precision, gradient)
        while (then := log_posterior(w + step)) < now and np.abs(step).max() > 1e-12:
            step = 0.5 * step
        if then - now < 1e-12 * (1.0 + abs(now)):
            break
        w, now = w + step, then
    return w
