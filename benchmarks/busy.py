"""The dense problem on two threads while another process wants one of the cores."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from functools import partial

import psgld

from . import problems
from .harness import Row, Settings, in_turns, timed

_SPIN = "import os\nos.sched_setaffinity(0, {0})\nprint(flush=True)\nwhile True: pass"


def _with_neighbour(case: partial[None]) -> float:
    core = min(os.sched_getaffinity(0))
    neighbour = subprocess.Popen(
        [sys.executable, "-c", _SPIN.replace("{0}", f"{{{core}}}")], stdout=subprocess.PIPE
    )
    try:
        assert neighbour.stdout is not None
        neighbour.stdout.readline()
        return timed(case)()
    finally:
        neighbour.kill()
        neighbour.communicate()


def run(settings: Settings) -> Iterator[Row]:
    data = problems.dense(problems.side(settings), psgld.Poisson())
    model, sampler = problems.fixed(problems.RANK, psgld.Poisson()), problems.paper(problems.blocks(settings))
    case = partial(problems.run, data, model, sampler, settings.choose(10_000, 200), 2)
    slowest = 0.0

    def disturbed() -> float:
        nonlocal slowest
        seconds = _with_neighbour(case)
        slowest = max(slowest, seconds)
        return seconds

    best = in_turns({"alone": timed(case), "busy": disturbed}, settings.choose(5, 1))
    yield Row(
        "busy core, 2 threads: time / undisturbed",
        best["busy"] / best["alone"],
        2.5,
        note=f"{best['busy']:.2f} s",
    )
    yield Row("busy core, 2 threads: slowest run / undisturbed", slowest / best["alone"], 10.0)
