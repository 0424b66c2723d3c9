"""R-hat and effective sample sizes of Vehtari, Gelman, Simpson, Carpenter and Bürkner (2021).

They are those of arviz-stats, which `tests/posterior/test_diagnostics.py` compares; importing it takes longer than the
import of psgld and a run on small data together. All functions take (…, chain, draw) and return (…).
"""

from __future__ import annotations

from functools import lru_cache
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def rhat(x: Floats) -> Floats:
    """Return the larger of the R-hats of the ranks and of the ranks of |x - median|, of split chains."""
    split = halves(x)
    centred = np.abs(split - np.median(split, axis=(-2, -1), keepdims=True))
    return np.asarray(np.maximum(_plain_rhat(normal_scores(split)), _plain_rhat(normal_scores(centred))))


def ess_bulk(x: Floats) -> Floats:
    """Return the effective sample size of the ranks."""
    return _ess(normal_scores(halves(x)))


def ess_mean(x: Floats) -> Floats:
    """Return the effective sample size of the mean."""
    return _ess(halves(x))


def ess_tail(x: Floats) -> Floats:
    """Return the smaller of the effective sample sizes of the 5 % and the 95 % quantile."""
    ends = np.quantile(x, [0.05, 0.95], axis=(-2, -1))[..., None, None]
    return np.minimum(*(_ess(halves((x <= end).astype(np.float64))) for end in ends))


def halves(x: Floats) -> Floats:
    """Return the first and the second half of each chain as chains of their own; of odd lengths, without the middle."""
    n = x.shape[-1] // 2
    return np.concatenate([x[..., :n], x[..., x.shape[-1] - n :]], axis=-2)


def normal_scores(x: Floats) -> Floats:
    """Return the normal quantiles of the ranks over all chains; equal values get their average rank."""
    flat = x.reshape(-1, x.shape[-2] * x.shape[-1])
    out, table = np.empty_like(flat), _quantiles(flat.shape[1])
    for row, scores in zip(flat, out, strict=True):
        if not np.isfinite(row).all():
            scores[:] = np.nan
            continue
        _, at, count = np.unique(row, return_inverse=True, return_counts=True)
        twice = 2 * np.cumsum(count) - count + 1  # of the average rank, from 1
        scores[:] = table[twice][at.ravel()]
    return out.reshape(x.shape)


@lru_cache(4)
def _quantiles(n: int) -> Floats:
    """Return the normal quantile of each half rank among n: at (rank - 3/8) / (n + 1/4)."""
    inverse = NormalDist().inv_cdf
    ranks = 0.5 * np.maximum(np.arange(2 * n + 1), 1)
    return np.array([inverse(float((rank - 0.375) / (n + 0.25))) for rank in ranks])


def _plain_rhat(x: Floats) -> Floats:
    n = x.shape[-1]
    within = x.var(axis=-1, ddof=1).mean(axis=-1)
    between = n * x.mean(axis=-1).var(axis=-1, ddof=1)
    with np.errstate(all="ignore"):  # NaN for what does not vary
        return np.asarray(np.sqrt((between / within + n - 1) / n))


def _ess(x: Floats) -> Floats:
    """Return the effective sample size by Geyer's initial monotone sequence, over (…, chain, draw)."""
    flat = x.reshape(-1, *x.shape[-2:])
    return np.array([_ess_of_one(chains) for chains in flat]).reshape(x.shape[:-2])


def _ess_of_one(x: Floats) -> float:
    chains, n = x.shape
    if n < 4 or not np.isfinite(x).all() or np.ptp(x) == 0.0:
        return float("nan") if n < 4 or not np.isfinite(x).all() else float(x.size)
    cov = _autocovariances(x).mean(axis=0)
    within = cov[0] * n / (n - 1)
    total = cov[0] + (x.mean(axis=1).var(ddof=1) if chains > 1 else 0.0)
    rho = 1.0 - (within - cov) / total
    rho[0] = 1.0
    count = 1 + len(range(1, n - 3, 2))  # pairs of lags (0, 1), (2, 3), …, not up to the noisy last ones
    pairs = rho[: 2 * count].reshape(count, 2).sum(axis=1)
    last = int(np.argmax(pairs <= 0.0)) if (pairs <= 0.0).any() else count - 1
    rest = max(float(rho[2 * last]), 0.0)
    pairs = pairs[:last]
    tau = max(-1.0 + 2.0 * float(np.minimum.accumulate(pairs).sum()) + rest, 1.0 / np.log10(x.size))
    return float(x.size / tau)


def _autocovariances(x: Floats) -> Floats:
    """Return the autocovariances of each chain at lags 0, 1, …, by Fourier transforms."""
    n = x.shape[1]
    size = 1 << (2 * n - 1).bit_length()
    f = np.fft.rfft(x - x.mean(axis=1, keepdims=True), size)
    return np.asarray(np.fft.irfft(f * f.conj(), size)[:, :n] / n)
