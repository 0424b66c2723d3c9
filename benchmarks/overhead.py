"""Traces, draws thinned by 10 and the progress bar, against the bare loop; both with their set-up."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import redirect_stderr
from functools import partial

import numpy as np

import psgld

from . import problems
from .harness import Case, Row, Settings, in_pairs, timed

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


def _recycled(case: Case, nbytes: int) -> Case:
    """Return the case, into memory that was in use a moment ago.

    A virtual machine gives back what is free for a second or two, and then a page costs ten times as much: that is the
    host's time, and none of ours.
    """

    def run() -> float:
        _touch(nbytes)
        return case()

    return run


def _touch(nbytes: int) -> None:
    np.empty(nbytes, np.uint8)[:] = 1


def run(settings: Settings) -> Iterator[Row]:
    n, side = settings.choose(10_000, 100), problems.side(settings)
    data, model = problems.dense(side, psgld.Poisson()), problems.fixed(problems.RANK, psgld.Poisson())
    work = (data, model, problems.paper(problems.blocks(settings)), n)
    memory = n // _THIN * 2 * side * problems.RANK * 4
    for threads in (1, 2):
        cases = {
            "bare": timed(partial(_bare, *work, threads)),
            "traces": timed(partial(_full, *work, threads, False)),
            "draws": _recycled(timed(partial(_full, *work, threads, True)), memory),
            "memory": _recycled(timed(partial(_touch, memory)), memory),
        }
        ratio = in_pairs(cases, settings.choose(41, 1))
        name = f"overhead, {threads} thread(s): "
        for case, what in (("traces", "traces, bar / bare loop"), ("draws", "the same, draws kept")):
            measured, error = ratio[case]
            note = f"± {error:.3f}, median of neighbouring runs"
            if case == "draws":
                note += f"; to write to as much memory: {ratio['memory'][0]:.3f}"
            yield Row(f"{name}{what}", measured, 1.05, note=note)
