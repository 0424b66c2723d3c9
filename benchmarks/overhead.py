"""Traces, draws thinned by 10 and the progress bar, against the bare loop; both with their set-up."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import redirect_stderr
from functools import partial

import numpy as np

import psgld

from . import problems
from .harness import Row, Settings, in_turns, timed

_THIN = 10


def _bare(
    data: psgld.Observations, model: psgld.FactorModel, sampler: psgld.PSGLD, n: int, threads: int
) -> None:
    problems.bare_chain(data, model, sampler, threads).advance(n)


def _full(
    data: psgld.Observations, model: psgld.FactorModel, sampler: psgld.PSGLD, n: int, threads: int, keep: bool
) -> None:
    with redirect_stderr(io.StringIO()):
        psgld.sample(
            data, model, sampler=sampler, engine=psgld.Threads(threads),
            tune=0, draws=n // _THIN, thin=_THIN, chains=1, progress=True, keep=keep,
        )  # fmt: skip


def _touch(nbytes: int) -> None:
    np.empty(nbytes, np.uint8)[:] = 1


def run(settings: Settings) -> Iterator[Row]:
    n = settings.choose(10_000, 100)
    data = problems.dense(problems.side(settings), psgld.Poisson())
    work = (
        data,
        problems.fixed(problems.RANK, psgld.Poisson()),
        problems.paper(problems.blocks(settings)),
        n,
    )
    for threads in (1, 2):
        cases = {
            "bare": timed(partial(_bare, *work, threads)),
            "full": timed(partial(_full, *work, threads, True)),
            "no draws": timed(partial(_full, *work, threads, False)),
            "memory": timed(partial(_touch, n // _THIN * 2 * problems.side(settings) * problems.RANK * 4)),
        }
        best = in_turns(cases, settings.choose(9, 1))
        share = best["memory"] / best["bare"]
        note = f"bare {best['bare']:.3f} s; merely writing to as much fresh memory as the draws: {share:.3f}"
        yield Row(
            f"overhead, {threads} thread(s): traces, draws, bar / bare loop",
            best["full"] / best["bare"],
            1.05,
            note=note,
        )
        yield Row(
            f"overhead, {threads} thread(s): the same, no draws kept",
            best["no draws"] / best["bare"],
            1.05,
        )
