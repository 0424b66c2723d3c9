"""Sparse Poisson, 71,567 × 10,681, 10 M entries, B=15: the time of an iteration of the compiled loop."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import psgld
from psgld.samplers.langevin import LangevinChain

from . import problems, prototype
from .harness import Row, Settings, in_turns, timed

_ITERATIONS = 3 * problems.BLOCKS


def _iteration(chain: LangevinChain) -> float:
    return timed(partial(chain.advance, _ITERATIONS))() / _ITERATIONS


def run(settings: Settings) -> Iterator[Row]:
    data = problems.ratings(settings.quick)
    cases = {}
    for rank in (64, 50):
        for threads in (1, 2):
            model = problems.fixed(rank, psgld.Poisson(), 4.5)
            chain = problems.bare_chain(data, model, problems.paper(problems.BLOCKS, 1e-6), threads)
            chain.advance(problems.BLOCKS)
            cases[f"{rank} {threads}"] = partial(_iteration, chain)
    if settings.prototypes is not None and not settings.quick:
        cases["prototype"] = partial(
            prototype.sparse_seconds, settings.prototypes, problems.BLOCKS, _ITERATIONS
        )
    best = in_turns(cases, settings.choose(5, 1))
    ms = {name: f"{1e3 * seconds:.2f} ms" for name, seconds in best.items()}
    if settings.prototypes is None:
        yield Row(
            "sparse, K=64: time / prototype's",
            float("nan"),
            note="not measured: needs --prototypes and AVX-512",
        )
    elif "prototype" in best:
        for threads in (1, 2):
            yield Row(
                f"sparse, K=64, {threads} thread(s): time / prototype's on 1",
                best[f"64 {threads}"] / best["prototype"],
                1.0,
                note=f"{ms[f'64 {threads}']}, {ms['prototype']} an iteration",
            )
    for threads in (1, 2):
        yield Row(
            f"sparse, {threads} thread(s): time at K=50 / at K=64",
            best[f"50 {threads}"] / best[f"64 {threads}"],
            1.0,
            note=ms[f"50 {threads}"],
        )
    for rank in (50, 64):
        ratio = best[f"{rank} 1"] / best[f"{rank} 2"]
        yield Row(
            f"sparse, K={rank}: 2 threads, times faster than 1", ratio, 1.8, least=True, note=ms[f"{rank} 2"]
        )
