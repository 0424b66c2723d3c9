"""The other two metrics, their refreshes included, against the identity, through `psgld.sample`."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import psgld

from . import problems
from .harness import Row, Settings, in_turns, timed

_CYCLES = 200
"""The default burn-in: refreshes thin out, so a shorter run would show more of them than a user sees."""


def _rows(
    name: str, data: dict[str, psgld.Observations], settings: Settings, blocks: int, threads: int, rounds: int
) -> Iterator[Row]:
    iterations = settings.choose(_CYCLES, 5) * blocks
    rate = {"dense": 1.0, "sparse": 3.3}[name]
    models = {
        "Poisson": problems.fixed(problems.RANK, psgld.Poisson(), rate),
        "Gaussian": problems.fixed_real(problems.RANK, rate),
    }
    samplers = {
        "Poisson": {
            "Identity": problems.paper(blocks),
            "NonNegative": psgld.PSGLD(blocks, metric=psgld.NonNegative(), momentum=0.0),
            "NonNegative, momentum": psgld.PSGLD(blocks, metric=psgld.NonNegative()),
        },
        "Gaussian": {
            "Identity": problems.paper(blocks, 1e-12),
            "RealValued": psgld.PSGLD(blocks, 0.2 / blocks, psgld.RealValued(), momentum=0.0),
            "RealValued, momentum": psgld.PSGLD(blocks, metric=psgld.RealValued()),
        },
    }
    for likelihood, three in samplers.items():
        cases = {
            label: timed(
                partial(problems.run, data[likelihood], models[likelihood], sampler, iterations, threads)
            )
            for label, sampler in three.items()
        }
        best = in_turns(cases, rounds)
        for metric in list(cases)[1:]:
            yield Row(
                f"{name} {likelihood}, {threads} thr.: {metric} / Identity",
                best[metric] / best["Identity"],
                1.3,
                note=f"{best[metric]:.2f} s, {best['Identity']:.2f} s; {iterations} iterations",
            )


def run(settings: Settings) -> Iterator[Row]:
    size = problems.side(settings)
    data = {
        "Poisson": problems.dense(size, psgld.Poisson()),
        "Gaussian": problems.dense(size, psgld.Gaussian(phi=1.0)),
    }
    for threads in (1, 2):
        yield from _rows("dense", data, settings, problems.blocks(settings), threads, settings.choose(5, 1))
    ratings = problems.ratings(settings.quick)
    data = {"Poisson": ratings, "Gaussian": ratings}
    yield from _rows("sparse", data, settings, problems.BLOCKS, 2, 1)
