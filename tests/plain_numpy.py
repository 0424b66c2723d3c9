"""What `test_differential.py` compares psgld with: each answer in a few lines of NumPy, from the draws alone."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import optimize, stats

import psgld


def theta(post: Any) -> tuple[Any, ...]:
    """Draws of the parameters of the likelihood, (S, 1) each."""
    d, others = post.draws, post.model.likelihood.other_parameters
    found = [] if d.theta is None else [d.theta[..., n].reshape(-1, 1) for n in range(len(others))]
    return tuple(post.model.likelihood.joined(d.phi.reshape(-1, 1), found))


def mu(post: Any) -> np.ndarray:
    """Draws of the mean of an observation, (S, I, J)."""
    return np.asarray(post.model.likelihood.response(eta(post), *(t[..., None] for t in theta(post))))


def eta(post: Any) -> np.ndarray:
    """Draws of η = W H + offset + biases, (S, I, J)."""
    d = post.draws
    found = post.W.astype(float) @ post.H.astype(float) + d.offset[..., None, None]
    if d.row_bias is not None:
        found = found + d.row_bias.astype(float)[..., :, None] + d.col_bias.astype(float)[..., None, :]
    return found.reshape(-1, *post.shape)


def interval(post: Any, new: np.ndarray, p: Any, level: float) -> np.ndarray:
    """The ends of the interval of new observations: quantiles of draws, or the shortest run of the levels."""
    likelihood = post.model.likelihood
    shares = [(1 - level) / 2, (1 + level) / 2]
    if likelihood.levels is None:
        return np.quantile(new, shares, axis=0, method="inverted_cdf" if likelihood.lattice else "linear")
    levels, ends = np.array(likelihood.levels), []
    runs = [(a, b) for width in range(len(levels)) for a, b in enumerate(range(width, len(levels)))]
    for mass in p.probabilities:
        enough = [
            (b - a, -mass[a : b + 1].sum(), a, b) for a, b in runs if mass[a : b + 1].sum() >= level - 1e-12
        ]
        ends.append(levels[list(min(enough)[2:])])
    return np.array(ends).T


def floor(post: Any, m: np.ndarray) -> np.ndarray:
    """Keep means that must be positive off an exact zero, as the densities need it."""
    return m if not post.model.likelihood.nonnegative_mean else np.maximum(m, np.finfo(np.float32).tiny)


def log_density(post: Any, i: Any, j: Any, v: Any) -> np.ndarray:
    """log E[p(v | η, θ)] at pairs."""
    logs = _logpdf(post, np.asarray(v, float), floor(post, eta(post)[:, i, j]))
    return np.logaddexp.reduce(logs, axis=0) - np.log(len(logs))


def _logpdf(post: Any, v: np.ndarray, m: np.ndarray) -> np.ndarray:
    phi = post.draws.phi.reshape(-1, 1)
    match post.model.likelihood.name:
        case "gaussian":
            return stats.norm.logpdf(v, m, np.sqrt(phi))
        case "poisson":
            return stats.poisson.logpmf(v, m)
        case "gamma":
            return stats.gamma.logpdf(v, 1 / phi, scale=m * phi)
        case "inverse-gaussian":
            return stats.invgauss.logpdf(v, m * phi, scale=1 / phi)
    return post.model.likelihood.logpdf(v, m, *theta(post))  # tests of its own hold it against quadrature


def exceeds(post: Any, i: Any, j: Any, value: float) -> np.ndarray | None:
    """P(v > value) of a new observation at pairs; None where only the draws can tell."""
    m, phi = floor(post, eta(post)[:, i, j]), post.draws.phi.reshape(-1, 1)
    tails = {
        "gaussian": lambda: stats.norm.sf(value, m, np.sqrt(phi)),
        "poisson": lambda: stats.poisson.sf(value, m),
        "gamma": lambda: stats.gamma.sf(value, 1 / phi, scale=m * phi),
        "inverse-gaussian": lambda: stats.invgauss.sf(value, m * phi, scale=1 / phi),
    }
    likelihood = post.model.likelihood
    if likelihood.name in tails:
        return np.asarray(tails[likelihood.name]()).mean(axis=0)
    share = likelihood.survival(value, m, *theta(post))  # tests of its own hold it against draws
    return None if share is None else np.asarray(share).mean(axis=0)


def scores(post: Any, policy: Any, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """What a policy ranks by, and what decides between equal ones, (I, J) each."""
    m = mu(post)
    mean, sd = m.mean(0), m.std(0, ddof=1)
    if isinstance(policy, psgld.UCB):
        return mean + policy.width * sd, mean
    if isinstance(policy, psgld.Probability):
        return (m > policy.threshold).mean(0), mean
    if isinstance(policy, psgld.Thompson):
        chosen = np.random.default_rng([seed, 1]).integers(len(m), size=len(mean))
        return m[chosen, np.arange(len(mean))], mean
    return mean, mean


def cosines(post: Any, at: int, side: str) -> tuple[np.ndarray, np.ndarray]:
    """Mean and sd over the draws of the cosine between row `at` of W H and every row (or column)."""
    m = (post.W.astype(float) @ post.H.astype(float)).reshape(-1, *post.shape)
    m = m if side == "rows" else m.swapaxes(1, 2)
    size = np.linalg.norm(m, axis=2)
    cos = np.einsum("sij,sj->si", m, m[:, at]) / (size * size[:, [at]])
    return cos.mean(0), cos.std(0, ddof=1)


def new_row(post: Any, side: str, draw: int, at: Any, v: Any) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of a new real-valued row (its bias last) given entries v at the others `at`, in one draw."""
    d, model, rows = post.draws, post.model, side == "rows"
    c, s = divmod(draw, d.phi.shape[1])
    X = (d.H if rows else d.W)[c, s][at].astype(float)
    bias = d.col_bias if rows else d.row_bias
    left = np.asarray(v, float) - d.offset[c, s] - (0.0 if bias is None else bias[c, s][at].astype(float))
    rate = (d.row_rate if rows else d.col_rate)[c, s]
    free = [*range(model.rank), model.rank if rows else model.rank + 1][: model.rank + model.bias]
    precision, mean = np.diag(rate[free]), np.zeros(len(free))
    if isinstance(model.row_prior, psgld.NormalWishart):
        side_of = "row" if rows else "col"
        mean = getattr(d, f"{side_of}_mean")[c, s][free]
        precision = getattr(d, f"{side_of}_precision")[c, s][np.ix_(free, free)]
        if not rows and model.bias:
            mean[-1] = 0.0  # the offset, which is subtracted
    if model.bias:
        X = np.hstack([X, np.ones((len(X), 1))])
    P = X.T @ X / d.phi[c, s] + precision
    return np.linalg.solve(P, X.T @ left / d.phi[c, s] + precision @ mean), np.linalg.inv(P)


def reference_draw(post: Any) -> int:
    """The draw that `transform` rests on: the last of the chain with the largest mean lp."""
    lp = post.sample_stats["lp"]
    return (int(np.argmax(lp.mean(axis=1))) + 1) * lp.shape[1] - 1


def shortfall(post: Any, side: str, w: np.ndarray, at: Any, v: Any) -> float:
    """By how much w misses the mode of p(w | v) in log density; `at` has all columns if absent is 0."""
    d, model = post.draws, post.model
    c, s = divmod(reference_draw(post), d.phi.shape[1])
    X = (d.H if side == "rows" else d.W)[c, s][at].astype(float)
    rate = (d.row_rate if side == "rows" else d.col_rate)[c, s]
    prior = model.row_prior if side == "rows" else model.col_prior
    learnt = d.row_shape if side == "rows" else d.col_shape
    shape = getattr(prior, "shape", 1.0) if learnt is None else learnt[c, s]
    power = max(float(shape), 1.0) - 1.0
    likelihood, low = model.likelihood, 1e-9 if model.nonnegative else None
    phi, others = likelihood.split(tuple(float(t.ravel()[reference_draw(post)]) for t in theta(post)))

    def cost(x: np.ndarray) -> float:
        x = np.maximum(x, 1e-12) if model.nonnegative else x
        fit = likelihood.kernel(np.asarray(v, float), floor(post, X @ x), *others).sum() / phi
        return float(-fit + (rate @ x - power * np.log(x).sum() if model.nonnegative else rate @ x**2 / 2))

    best = optimize.minimize(cost, w if low is None else np.maximum(w, low), bounds=[(low, None)] * len(w))
    return cost(w) - float(best.fun)
