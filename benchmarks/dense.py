"""Dense Poisson, 1024², K=32, B=32, the paper's metric, 10,000 iterations through `psgld.sample`."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import psgld

from . import problems, prototype
from .harness import Row, Settings, in_turns, timed


def run(settings: Settings) -> Iterator[Row]:
    size, blocks, iterations = (
        problems.side(settings),
        problems.blocks(settings),
        settings.choose(10_000, 200),
    )
    data = problems.dense(size, psgld.Poisson())
    model, sampler = problems.fixed(problems.RANK, psgld.Poisson()), problems.paper(blocks)
    seconds = {}
    for threads in (1, 2):
        cases = {"psgld": timed(partial(problems.run, data, model, sampler, iterations, threads))}
        # The prototype knows blocks of multiples of 32 only.
        if settings.prototypes is not None and not settings.quick:
            cases["prototype"] = partial(
                prototype.dense_seconds, settings.prototypes, size, blocks, iterations, threads
            )
        best = in_turns(cases, settings.choose(7, 1))
        seconds[threads] = best["psgld"]
        if settings.prototypes is None:
            yield Row(
                f"dense, {threads} thread(s): time / prototype's",
                float("nan"),
                note="not measured: needs --prototypes and AVX-512",
            )
        elif "prototype" in best:
            yield Row(
                f"dense, {threads} thread(s): time / prototype's",
                best["psgld"] / best["prototype"],
                1.0,
                note=f"{best['psgld']:.3f} s, {best['prototype']:.3f} s; the aim is 0.7",
            )
    yield Row(
        "dense, 2 threads: times faster than 1", seconds[1] / seconds[2], note=f"{seconds[1]:.3f} s on 1"
    )
