"""Forecasts time and memory of a run from a rehearsal: its blocks, and about a second of one of its chains.

With m chains of n = tune + draws · thin iterations, c of them side by side,

    seconds = once + prepare + ⌈m / c⌉ (n · iteration + marks · pause + draws · draw)
    bytes   = now + (m - 1) · chain + m · draws · (I + J) K · itemsize, or the most so far, if that is more

All rates are those of this problem on this machine. `tools/forecast.py` is for problems and machines that are not here.
"""

from __future__ import annotations

import math
import resource
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, final

import numpy as np

from ..data.observations import observations
from ..dynamics.probes import Probes
from ..engines import Engine, Threads
from ..errors import PsgldWarning
from ..models import FactorModel
from ..runs.agreement import for_ranks
from ..runs.chains import side_by_side
from ..runs.draws import Draws
from ..runs.inputs import DEFAULT_PLAN, Counts, chain_keys, chosen_model, ready, usual_plan
from ..runs.loop import Plan
from ..sample import sample
from ..samplers import Chain, Sampler
from ..system import cost

Clock = Callable[[], float]

_LEAST = 3
"""The least number of stretches that are timed."""


@final
@dataclass(frozen=True)
class Rehearsal:
    """The forecast of a run, and the rates that it follows from."""

    chains: int
    side_by_side: int
    tune: int
    draws: int
    thin: int
    cycle: int
    """Iterations per pass over the data."""
    once_seconds: float
    """Seconds of a run of next to nothing: checks, imports, the verdict."""
    prepare_seconds: float
    iteration_seconds: float
    pause_seconds: float
    """Seconds per mark: a row of the trace."""
    draw_seconds: float
    """Seconds for storing a draw."""
    now_bytes: float
    """Memory of the process with the data, the blocks and one chain."""
    most_bytes: float
    """The most memory that the process has had so far, such as while it read the data."""
    chain_bytes: float
    draws_bytes: float

    @property
    def seconds(self) -> float:
        """Seconds of the run, without reading the file."""
        plan = Plan(self.tune, self.draws, self.thin)
        marks = plan.tune_marks + plan.draws
        chain = (
            plan.iterations * self.iteration_seconds
            + marks * self.pause_seconds
            + plan.draws * self.draw_seconds
        )
        return self.once_seconds + self.prepare_seconds + math.ceil(self.chains / self.side_by_side) * chain

    @property
    def memory(self) -> float:
        """The most bytes that the process has in the run."""
        return max(self.most_bytes, self.now_bytes + (self.chains - 1) * self.chain_bytes + self.draws_bytes)

    def to_dict(self) -> dict[str, Any]:
        """Return all numbers, serialisable as JSON."""
        return asdict(self) | {"run_seconds": self.seconds, "memory_bytes": self.memory}


def rehearse(
    V: Any,
    model: FactorModel,
    sampler: Sampler,
    engine: Engine,
    counts: Counts = DEFAULT_PLAN,
    chains: int = 2,
    *,
    seconds: float = 1.0,
    clock: Clock = time.perf_counter,
) -> Rehearsal:
    """Return the forecast of `sample` with these arguments.

    Examples
    --------
    >>> import numpy as np, psgld
    >>> V = np.random.default_rng(0).poisson(4.0, size=(30, 20))
    >>> model = psgld.FactorModel(2, "poisson")
    >>> short = rehearse(V, model, psgld.PSGLD(), psgld.Threads(1), seconds=0.01)
    >>> short.draws, short.seconds > 0.0
    (600, True)
    """
    once = _seconds(_next_to_nothing, clock)
    data = engine.own_share(observations(V))
    model = chosen_model(model, None, data)
    data = ready(data, model, sampler.dtype)
    sampler = for_ranks(sampler, data, engine, None)
    plan = usual_plan(sampler, data, model.components, *counts)
    start = clock()
    setup = sampler.prepare(data, model, engine, plan.tune)
    prepare = clock() - start
    together = min(chains, engine.workers) if side_by_side(setup, chains, engine) else 1
    own = engine.share(chains) if together > 1 else engine
    chain = setup.chain(chain_keys(0, 1)[0], Probes.of(data, plan.thin * data.stored // setup.cycle), own)
    iteration = _pace(chain, setup.cycle, seconds, clock)
    pause = _least(chain.pause, clock)
    kept = Draws.empty(1, 1, data.shape, model, sampler.dtype, True)
    draw = _seconds(partial(kept.record, chain, 0, 0), clock)
    itemsize = 8 if sampler.dtype == "float64" else 4
    rows = sum(data.shape)
    return Rehearsal(
        chains, together, plan.tune, plan.draws, plan.thin, setup.cycle, once, prepare, iteration, pause, draw,
        resident(), most_resident(), cost.chain_bytes(model.components, rows, itemsize, model.nonnegative),
        float(chains * plan.draws * rows * model.components * itemsize),
    )  # fmt: skip


def _next_to_nothing() -> None:
    """Run `sample` once, which also loads all that it needs into memory."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PsgldWarning)
        V = np.arange(30.0).reshape(6, 5)
        sample(V, FactorModel(1, "gaussian"), draws=20, tune=10, thin=1, engine=Threads(1), progress=False)


def _pace(chain: Chain, cycle: int, seconds: float, clock: Clock) -> float:
    """Return the seconds per iteration, the median of some stretches; the first ones, which warm up, do not count."""
    n, begun = cycle, clock()
    while _seconds(partial(chain.advance, n), clock) < seconds / 10:
        n *= 2
    times: list[float] = []
    while len(times) < _LEAST or clock() - begun < seconds:
        times.append(_seconds(partial(chain.advance, n), clock))
    return median(times) / n


def _seconds(work: Callable[[], Any], clock: Clock) -> float:
    start = clock()
    work()
    return clock() - start


def _least(work: Callable[[], Any], clock: Clock, times: int = 3) -> float:
    return min(_seconds(work, clock) for _ in range(times))


def resident() -> float:
    """Return the bytes of memory that the process has now."""
    return _status("VmRSS:")


def most_resident() -> float:
    """Return the most bytes of memory that the process has had."""
    return _status("VmHWM:")


def _status(name: str) -> float:
    """Return a number of bytes that Linux tells; elsewhere the most memory that the process has had."""
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines()
        return next(1024.0 * int(line.split()[1]) for line in lines if line.startswith(name))
    except (OSError, StopIteration):
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return float(most if sys.platform == "darwin" else 1024 * most)
