"""Several starts: short chains, of which the best is where all chains start."""

from __future__ import annotations

from itertools import islice
from typing import Any, final

import numpy as np

from ..dynamics.probes import Probes
from ..engines import Engine
from ..errors import SamplingError
from ..samplers import Chain
from .chains import Work, run_all
from .crossover import children
from .draws import Draws
from .inputs import chain_keys, check_count
from .loop import Plan
from .progress import ProgressOption
from .warm_start import Start

_SHARE = 2
"""A short chain takes the burn-in of a chain divided by this number, a child too: after less, its level is not yet that
of its mode."""

_GENERATIONS = 4
"""How often the best states are crossed, if factors are non-negative (`crossover.py`)."""

_STATES, _CYCLES_APART = 8, 2
"""The level of a chain is the mean over this many states, so many cycles apart: a single state has noise."""

_COMPARED = 1_000_000
"""Most entries over which the levels are compared: all of small data."""


def check_starts(starts: Any, start: Any, engine: Engine) -> None:
    """Raise SamplingError unless `starts` is None, or an integer >= 2 that suits the other arguments."""
    if starts is None:
        return
    check_count("starts", starts, least=2)
    if start is not None:
        raise SamplingError(f"starts = {starts} and start=… were both given; leave one of them out")
    if engine.distributed:
        raise SamplingError(
            f"starts runs in one process, on Threads(…), got {engine!r}; give start=(W, H), for example that of "
            "psgld.optimize on a part of the data, or leave starts out"
        )


def best_start(
    work: Work, keys: list[int], starts: int, engine: Engine, progress: ProgressOption
) -> tuple[Start, dict[str, Any]]:
    """Run short chains from random starts, then from crossovers of the best; return the best state, and a record.

    Their random keys are functions of the key of the first chain. They are compared by the mean log likelihood of the
    same entries; the log posterior would prefer modes in which a component vanishes, where the prior is dense.
    """
    search, model, tune = _Search(work, engine, progress), work.setup.model, work.plan.tune
    own = iter(chain_keys(keys[0], starts * (1 + _GENERATIONS)))
    length = max(1, tune // _SHARE)
    search.run(list(islice(own, starts)), length, None)
    if model.nonnegative and model.rank > 1:
        rng = np.random.default_rng(keys[0])
        for _ in range(_GENERATIONS):
            begin = Start(children(search.best(starts), starts, rng), model)
            search.run(list(islice(own, starts)), length, begin)
    return Start(search.best(1)[0], model), {"number": starts, **search.record()}


@final
class _Search:
    """Short chains, their last states and the levels of their log likelihoods."""

    def __init__(self, work: Work, engine: Engine, progress: ProgressOption) -> None:
        self._work, self._engine, self._progress = work, engine, progress
        data = work.setup.data
        self._compared = Probes.some(data, min(data.size, _COMPARED))
        self._levels: list[float] = []
        self._states: list[Draws] = []

    def run(self, keys: list[int], iterations: int, begin: Start | None) -> None:
        """Run a chain with each of these keys, and add its last state."""
        shared = self._work.setup
        setup = shared.settings.prepare(shared.data, shared.model, self._engine, iterations)
        dtype = shared.settings.dtype
        kept = Draws.empty(len(keys), 1, shared.data.shape, shared.model, dtype, True)
        work = Work(setup, Plan(iterations, 1, 1), kept, None, self._work.probes, begin)
        recorders, interrupted = run_all(work, keys, self._engine, self._progress)
        if interrupted:
            raise KeyboardInterrupt("stopped during the starts: there are no draws yet")
        self._levels += [_level(recorder.chain, self._compared) for recorder in recorders]
        self._states += [kept.part([number], 1) for number in range(len(keys))]

    def best(self, number: int) -> list[Draws]:
        """Return the states of the highest levels, best first."""
        order = sorted(range(len(self._levels)), key=lambda s: -self._levels[s])
        return [self._states[s] for s in order[:number]]

    def record(self) -> dict[str, Any]:
        """Return the levels, the number of entries they are computed from, serialisable as JSON."""
        return {"levels": self._levels, "entries": len(self._compared.values)}


def _level(chain: Chain, entries: Probes) -> float:
    """Return the log likelihood of these entries, the mean of some states of a chain from its current one on."""
    placed = entries.placed(chain.factors, chain.setup.shift)
    likelihood = chain.setup.model.likelihood
    total = 0.0
    for _ in range(_STATES):
        chain.advance(_CYCLES_APART * chain.setup.cycle)
        total += float(placed.log_likelihood(likelihood, chain.hyper.parameters(likelihood)))
    return total / _STATES
