"""An exact sampler for small Poisson factorisations, in NumPy: what the Langevin samplers are held against.

s_ijk | W, H ~ Multinomial(v_ij, w_ik h_kj / μ_ij),   w_ik | s, H ~ Gamma(1 + Σ_j s_ijk, λ + Σ_j h_kj)   (Cemgil 2009)
"""

import numpy as np


def gibbs_means(V, rank, rate, sweeps, burn, seed=0):
    """Mean and sd of μ over the sweeps after burn-in, from two chains; and the gap between the chains' means."""
    halves = [_chain(V, rank, rate, sweeps, burn, np.random.default_rng([seed, c])) for c in range(2)]
    mean = np.mean([m for m, _ in halves], axis=0)
    var = np.mean([v for _, v in halves], axis=0)
    return mean, np.sqrt(var), np.abs(halves[0][0] - halves[1][0])


def _chain(V, rank, rate, sweeps, burn, rng):
    I, J = V.shape
    size = np.sqrt(V.mean() / rank)
    W, H = rng.exponential(size, (I, rank)), rng.exponential(size, (J, rank))
    total = np.zeros(V.shape)
    squares = np.zeros(V.shape)
    for sweep in range(sweeps):
        mu = W @ H.T
        if sweep >= burn:
            total += mu
            squares += mu**2
        share = W[:, None, :] * H[None, :, :] / mu[:, :, None]
        share /= share.sum(axis=2, keepdims=True)
        s = rng.multinomial(V, share)
        W = rng.gamma(1 + s.sum(axis=1), 1 / (rate + H.sum(axis=0)))
        H = rng.gamma(1 + s.sum(axis=0), 1 / (rate + W.sum(axis=0)))
    n = sweeps - burn
    mean = total / n
    return mean, squares / n - mean**2
