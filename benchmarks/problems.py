"""The two problems that are timed: a dense one as in the paper, and a sparse one of MovieLens-10M's shape."""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

import psgld
from psgld.dynamics.probes import Probes
from psgld.samplers.langevin import LangevinChain

from .harness import Settings

RANK = 32
SHAPE, ENTRIES, BLOCKS = (71_567, 10_681), 10_000_000, 15


@cache
def means(n: int) -> NDArray[np.float64]:
    """Return W H of exponential factors, n × n."""
    rng = np.random.default_rng(1)
    W, H = rng.exponential(size=(n, RANK)), rng.exponential(size=(RANK, n))
    return np.asarray(W @ H)


@cache
def dense(n: int, likelihood: psgld.Tweedie) -> psgld.Observations:
    """Return draws from the likelihood around those means."""
    phi = likelihood.phi or 1.0
    values = likelihood.sample(means(n), phi, np.random.default_rng(2))
    if not likelihood.can_occur(np.zeros(1)).all():
        values = np.maximum(values, 1e-3)
    return psgld.Observations.from_dense(np.asarray(values, np.float32))


@cache
def sparse_problem(quick: bool) -> sparse.coo_array:
    """Return distinct entries whose rows and columns are as popular as U^1.8 and U^3: few users rate most films."""
    shape, entries = ((716, 107), 10_000) if quick else (SHAPE, ENTRIES)
    rng = np.random.default_rng(1)
    rows, cols = (rng.permutation(size) for size in shape)
    cells = np.empty(0, np.int64)
    while len(cells) < entries:
        more = 2 * (entries - len(cells)) + 1000
        i = rows[(shape[0] * rng.random(more) ** 1.8).astype(np.int64)]
        j = cols[(shape[1] * rng.random(more) ** 3.0).astype(np.int64)]
        cells = np.union1d(cells, i * shape[1] + j)
    cells = rng.permutation(cells)[:entries]
    values = rng.integers(1, 6, entries).astype(np.float32)
    pair = (cells // shape[1]).astype(np.int32), (cells % shape[1]).astype(np.int32)
    return sparse.coo_array((values, pair), shape=shape)


def popular_cells(shape: tuple[int, int], entries: int, exponent: float) -> NDArray[np.int64]:
    """Return distinct cells, in order, whose rows and columns are as popular as rank^-exponent (Zipf-like)."""
    rng = np.random.default_rng(1)
    orders = [rng.permutation(size) for size in shape]
    shares = [np.cumsum(1.0 / np.arange(1, size + 1) ** exponent) for size in shape]
    cells = np.empty(0, np.int64)
    while len(cells) < entries:
        more = entries - len(cells) + 1000
        i, j = (
            order[np.searchsorted(share, share[-1] * rng.random(more))]
            for order, share in zip(orders, shares, strict=True)
        )
        cells = np.union1d(cells, i * shape[1] + j)
    return np.sort(rng.permutation(cells)[:entries])


@cache
def ratings(quick: bool) -> psgld.Observations:
    """Return the sparse problem as observations."""
    return psgld.Observations.from_sparse(sparse_problem(quick), absent="unobserved")


def fixed(rank: int, likelihood: psgld.Tweedie, rate: float = 1.0) -> psgld.FactorModel:
    """Return a non-negative model with fixed hyperparameters."""
    return psgld.FactorModel(rank, likelihood, psgld.Exponential(rate), psgld.Exponential(rate))


def fixed_real(rank: int, precision: float = 1.0) -> psgld.FactorModel:
    """Return a Gaussian model with real factors and fixed hyperparameters."""
    return psgld.FactorModel(rank, psgld.Gaussian(phi=1.0), psgld.Normal(precision), psgld.Normal(precision))


def paper(blocks: int, a: float = 1e-5) -> psgld.PSGLD:
    """Return the paper's sampler."""
    return psgld.PSGLD(blocks, psgld.Power(a, 0.51), psgld.Identity())


def blocks(settings: Settings) -> int:
    """Return B of the dense problem."""
    return settings.choose(32, 4)


def side(settings: Settings) -> int:
    """Return I = J of the dense problem."""
    return settings.choose(1024, 64)


def run(
    data: psgld.Observations, model: psgld.FactorModel, sampler: psgld.PSGLD, iterations: int, threads: int
) -> None:
    """Run one chain of that many iterations through `psgld.sample`; a run that diverges is no measurement."""
    post = psgld.sample(
        data, model, sampler=sampler, engine=psgld.Threads(threads),
        tune=iterations - 1, draws=1, thin=1, chains=1, progress=False,
    )  # fmt: skip
    if post.divergences:
        raise RuntimeError(f"{model.likelihood!r} diverged {post.divergences} times: its time says nothing")


def bare_chain(
    data: psgld.Observations, model: psgld.FactorModel, sampler: psgld.PSGLD, threads: int
) -> LangevinChain:
    """Return a chain with nothing around it."""
    engine = psgld.Threads(threads)
    setup = sampler.prepare(data, model, engine, 0)
    return setup.chain(0, Probes.of(data, 0), engine)
