"""What is done with the draws: predictions at pairs and recommendations, against the same in NumPy.

10,000 × 10,000, K = 50, 200 draws, made up: their values do not matter to the time. NumPy works in chunks that stay
in cache, with its own threads in the matrix products.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

import psgld
from psgld.posterior.predict import Prediction, held
from psgld.posterior.recommend import Context
from psgld.runs.draws import Draws

from .harness import Case, Row, Settings, in_turns, timed

_BAR = 5.0
_CHUNK = 10_000
_WIDTH = 1.0


def run(settings: Settings) -> Iterator[Row]:
    size, rank, kept = settings.choose(10_000, 200), settings.choose(50, 8), settings.choose(100, 5)
    draws = _made_up(size, rank, kept)
    rng = np.random.default_rng(1)
    n = settings.choose(1_000_000, 500)
    rows, cols = rng.integers(size, size=(2, n))
    few = slice(0, settings.choose(20_000, 500))  # NumPy is given as many
    rounds = settings.choose(3, 1)
    best = in_turns(
        {
            "many": timed(lambda: Prediction(draws, psgld.Gaussian(), rows, cols).mean),
            "moments": timed(lambda: Prediction(draws, psgld.Gaussian(), rows[few], cols[few]).mean),
            "numpy": timed(lambda: _moments(draws, rows[few], cols[few])),
        }
        | _intervals(draws, rows[few], cols[few]),
        rounds,
    )
    about = f"{n:,} pairs × {2 * kept} draws, K={rank}"
    yield Row("predict, mean and sd: seconds", best["many"], 10.0, note=about)
    yield Row("predict, mean and sd: NumPy / psgld", best["numpy"] / best["moments"], _BAR, least=True)
    for member in _MEMBERS:
        name = f"predict, 90 % interval of v, {member}: NumPy / psgld"
        yield Row(name, best[f"numpy {member}"] / best[member], _BAR, least=True)
    yield from _recommending(settings, draws, size, rounds)


def _intervals(draws: Draws, rows: Any, cols: Any) -> dict[str, Case]:
    """Intervals of new observations, by psgld and by NumPy: real-valued factors, and non-negative ones."""
    positive = replace(draws, phi=np.ones_like(draws.phi))
    for axis, mode in enumerate(draws.modes):
        positive = positive.with_mode(axis, factor=0.3 * np.abs(mode.factor))
    cases: dict[str, Case] = {}
    for member, (likelihood, noise) in _MEMBERS.items():
        own = draws if member == "Gaussian" else positive
        cases[member] = timed(lambda d=own, v=likelihood: Prediction(d, v, rows, cols).interval())
        cases[f"numpy {member}"] = timed(lambda d=own, z=noise: _interval(d, rows, cols, z))
    return cases


def _recommending(settings: Settings, draws: Draws, size: int, rounds: int) -> Iterator[Row]:
    users = np.arange(settings.choose(512, 20))
    context = Context(draws, psgld.Gaussian(), held(draws, psgld.Gaussian()), 0)
    H = np.ascontiguousarray(draws.H.reshape(-1, *draws.H.shape[2:]).swapaxes(0, 1)).reshape(size, -1)
    posterior = psgld.Posterior(
        draws, psgld.FactorModel(draws.W.shape[3], "gaussian"), (size, size), {}, {}, {}
    )
    best = in_turns(
        {
            "ucb": timed(lambda: posterior.recommend(users, 10, psgld.UCB(_WIDTH), exclude_seen=False)),
            "numpy ucb": timed(lambda: _ucb(draws, users)),
            "mean": timed(lambda: posterior.recommend(users, 10, "mean", exclude_seen=False)),
            "numpy mean": timed(lambda: _mean(draws, H, users)),
            "scores": timed(lambda: context.scores(users, "sd")),
        },
        rounds,
    )
    flops = 2.0 * len(users) * size * draws.W.shape[3] * draws.phi.size
    whole = best["ucb"] * size / len(users)
    yield Row(
        "recommend, ucb, 10 of all columns: seconds for all rows",
        whole,
        60.0,
        note=f"{size:,} × {size:,}, {flops / best['scores'] / 1e9:.0f} GFLOP/s; from {len(users)} rows",
    )
    yield Row("recommend, ucb: NumPy / psgld", best["numpy ucb"] / best["ucb"], _BAR, least=True)
    note = "a single matrix product in NumPy, at the speed of BLAS"
    yield Row("recommend, mean: NumPy / psgld", best["numpy mean"] / best["mean"], note=note)


def _made_up(size: int, rank: int, kept: int) -> Draws:
    rng = np.random.default_rng(0)
    W, H = (rng.normal(size=(2, kept, size, rank)).astype(np.float32) for _ in range(2))
    rate = np.ones((2, kept, rank))
    return Draws.of(
        W=W, H=H, row_rate=rate, col_rate=rate, offset=np.zeros((2, kept)), phi=np.full((2, kept), 0.5)
    )


def _flat(draws: Draws) -> tuple[NDArray[Any], NDArray[Any]]:
    W, H = (a.reshape(-1, *a.shape[2:]) for a in (draws.W, draws.H))
    return W, H


def _moments(draws: Draws, rows: Any, cols: Any) -> tuple[Any, Any]:
    """Mean and sd of μ, a draw at a time over chunks of pairs."""
    W, H = _flat(draws)
    total, squares = np.zeros(len(rows)), np.zeros(len(rows))
    for first in range(0, len(rows), _CHUNK):
        at = slice(first, first + _CHUNK)
        for w, h in zip(W, H, strict=True):
            mu = np.einsum("nk,nk->n", w[rows[at]], h[cols[at]])
            total[at] += mu
            squares[at] += mu * mu
    mean = total / len(W)
    return mean, np.sqrt((squares / len(W) - mean**2) * len(W) / (len(W) - 1))


def _interval(draws: Draws, rows: Any, cols: Any, observe: Any) -> Any:
    """Quantiles of a new observation, over chunks of pairs."""
    W, H = _flat(draws)
    rng, out = np.random.default_rng(0), np.empty((2, len(rows)))
    for first in range(0, len(rows), _CHUNK):
        at = slice(first, first + _CHUNK)
        mu = np.stack([np.einsum("nk,nk->n", w[rows[at]], h[cols[at]]) for w, h in zip(W, H, strict=True)])
        out[:, at] = np.quantile(observe(rng, mu), [0.05, 0.95], axis=0)
    return out


def _gaussian(rng: np.random.Generator, mu: Any) -> Any:
    mu += np.sqrt(0.5, dtype=np.float32) * rng.standard_normal(mu.shape, np.float32)
    return mu


def _gamma(rng: np.random.Generator, mu: Any) -> Any:
    return mu * rng.standard_gamma(1.0, mu.shape, np.float32)


def _compound_poisson(rng: np.random.Generator, mu: Any) -> Any:
    number = rng.poisson(2.0 * np.sqrt(mu))
    return 0.5 * np.sqrt(mu) * rng.standard_gamma(number)


_MEMBERS: dict[str, tuple[psgld.Tweedie, Any]] = {
    "Gaussian": (psgld.Gaussian(), _gaussian),
    "Poisson": (psgld.Poisson(), lambda rng, mu: rng.poisson(mu)),
    "gamma": (psgld.Gamma(), _gamma),
    "compound": (psgld.CompoundPoisson(), _compound_poisson),
}
"""Members of the family, and how NumPy draws a new observation; φ = 1 but for the Gaussian."""


def _ucb(draws: Draws, users: Any) -> Any:
    """The mean plus the sd of μ at all columns, a matrix product a draw, in place."""
    W, H = _flat(draws)
    chosen = []
    for first in range(0, len(users), 64):  # two sums and a product of 64 rows: most of it in cache
        part = users[first : first + 64]
        total, squares, mu = np.zeros((3, len(part), H.shape[1]), np.float32)
        for w, h in zip(W, H, strict=True):
            np.matmul(w[part], h.T, out=mu)
            total += mu
            np.multiply(mu, mu, out=mu)
            squares += mu
        mean = total / len(W)
        score = mean + _WIDTH * np.sqrt(np.maximum(squares / len(W) - mean**2, 0.0))
        chosen.append(_top(score))
    return np.concatenate(chosen)


def _mean(draws: Draws, H: Any, users: Any) -> Any:
    """The mean of μ at all columns: one product of width S K; H has been laid out for it."""
    W = np.ascontiguousarray(_flat(draws)[0][:, users].swapaxes(0, 1)).reshape(len(users), -1)
    return _top(W @ H.T)


def _top(score: Any) -> Any:
    best = np.argpartition(-score, 10, axis=1)[:, :10]
    order = np.argsort(-np.take_along_axis(score, best, axis=1), axis=1)
    return np.take_along_axis(best, order, axis=1)
