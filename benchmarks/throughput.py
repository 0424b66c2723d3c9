"""Samples and effective samples a second: PSGLD against Gibbs, LD and SGLD on the same counts.

All samplers start from the same burnt-in state and run for about as long; an effective sample is counted as arviz-stats
does, of μ at some cells (the median) and of the log posterior.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import psgld
from psgld.dynamics.probes import Probes

from . import problems
from .harness import Row, Settings, in_turns, timed

_SIZES = (256, 512, 1024)
_DRAWS = 200
_SECONDS = 4.0
_CELLS = 40
_PAPER = 700.0
"""The paper's ratio of 10,000 Gibbs sweeps to 10,000 PSGLD samples at 1024²."""


_SAMPLERS: dict[str, Any] = {
    "PSGLD": psgld.PSGLD(),
    "PSGLD, first order": psgld.PSGLD(momentum=0.0),
    "Gibbs": psgld.Gibbs(),
    "LD": psgld.LD(),
    "SGLD": psgld.SGLD(),
}


def _run(
    data: psgld.Observations,
    model: psgld.FactorModel,
    sampler: Any,
    start: psgld.Posterior,
    tune: int,
    thin: int,
) -> tuple[psgld.Posterior, float]:
    """Return the draws, and the seconds of an iteration."""
    before = time.perf_counter()
    post = psgld.sample(
        data,
        model,
        sampler=sampler,
        start=start,
        chains=1,
        draws=_DRAWS,
        tune=tune,
        thin=thin,
        progress=False,
    )
    return post, (time.perf_counter() - before) / (tune + _DRAWS * thin)


def _effective(post: psgld.Posterior) -> tuple[float, float]:
    """Return the effective numbers of draws of μ and of the log posterior."""
    from arviz_stats.base import array_stats

    rng = np.random.default_rng(0)
    rows, cols = (rng.integers(n, size=_CELLS) for n in post.shape)
    mu = np.einsum("dik,dki->di", post.W[0][:, rows], post.H[0][:, :, cols]).astype(np.float64)
    ess = [float(array_stats.ess(column[None], chain_axis=0, draw_axis=1)) for column in mu.T]
    return float(np.median(ess)), float(array_stats.ess(post.sample_stats["lp"], chain_axis=0, draw_axis=1))


def _size(n: int, settings: Settings) -> Iterator[Row]:
    data, model = problems.dense(n, psgld.Poisson()), problems.fixed(problems.RANK, psgld.Poisson())
    start = psgld.sample(data, model, chains=1, draws=1, tune=settings.choose(3000, 50), progress=False)
    seconds: dict[str, float] = {}
    for name, sampler in _SAMPLERS.items():
        cycle = sampler.cycle(data)
        _, each = _run(data, model, sampler, start, cycle, 1)
        thin = max(1, int(settings.choose(1000, 1) * _SECONDS / 1000 / _DRAWS / each))
        post, seconds[name] = _run(data, model, sampler, start, settings.choose(40, 1) * cycle, thin)
        mu, lp = _effective(post)
        spent = seconds[name] * _DRAWS * thin
        yield Row(
            f"{n}², {name}: effective samples of μ a second",
            mu / spent,
            note=f"lp {lp / spent:.3g} a second; {1 / seconds[name]:,.0f} iterations a second",
        )


def _paper(n: int, settings: Settings) -> Iterator[Row]:
    """The paper's comparison: its sampler, first order and with D = 1, against the exact one, one iteration each."""
    data, model = problems.dense(n, psgld.Poisson()), problems.fixed(problems.RANK, psgld.Poisson())
    cases, iterations = {}, {"PSGLD": settings.choose(10_000, 20), "Gibbs": settings.choose(40, 2)}
    for name, sampler in (("PSGLD", problems.paper(problems.blocks(settings))), ("Gibbs", psgld.Gibbs())):
        chain = sampler.prepare(data, model, psgld.Threads(), 0).chain(0, Probes.of(data, 0))
        chain.advance(iterations[name] // 20 + 1)
        cases[name] = timed(partial(chain.advance, iterations[name]))
    seconds = {name: t / iterations[name] for name, t in in_turns(cases, settings.choose(5, 1)).items()}
    yield Row(
        f"{n}²: 10,000 Gibbs sweeps / 10,000 PSGLD samples",
        seconds["Gibbs"] / seconds["PSGLD"],
        None if settings.quick else _PAPER,
        least=True,
        note=f"{1e4 * seconds['Gibbs']:.0f} s, {1e4 * seconds['PSGLD']:.2f} s",
    )


def _pass(n: int, settings: Settings) -> Iterator[Row]:
    """Time a pass of LD against the three matrix products that it is made of, by NumPy, on one thread each."""
    data, model = problems.dense(n, psgld.Poisson()), problems.fixed(problems.RANK, psgld.Poisson())
    chain = (
        psgld.LD().prepare(data, model, psgld.Threads(1), 0).chain(0, Probes.of(data, 0), psgld.Threads(1))
    )
    V, W, H = data.dense, chain.factors.factor(0), chain.factors.factor(1)
    assert V is not None

    def products() -> None:
        for _ in range(20):
            W @ H.T, V @ H, V.T @ W

    with threadpool_limits(1):
        best = in_turns(
            {"LD": timed(partial(chain.advance, 20)), "BLAS": timed(products)}, settings.choose(9, 1)
        )
    yield Row(
        f"{n}²: a pass of LD / its three products by NumPy, 1 thread",
        best["LD"] / best["BLAS"],
        note=f"{best['LD'] * 50:.2f} ms, {best['BLAS'] * 50:.2f} ms",
    )


def run(settings: Settings) -> Iterator[Row]:
    sizes = (32,) if settings.quick else _SIZES
    for n in sizes:
        yield from _size(n, settings)
    yield from _paper(sizes[-1], settings)
    yield from _pass(sizes[-1], settings)
