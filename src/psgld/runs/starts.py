"""Several starts: short chains from random starts, of which the best by log posterior is where all chains start."""

from __future__ import annotations

from typing import Any

from ..dynamics.probes import Probes
from ..engines import Engine
from ..errors import SamplingError
from .chains import Work, run_all
from .draws import Draws
from .inputs import chain_keys, check_count
from .loop import Plan
from .progress import ProgressOption
from .warm_start import Start

_SHARE = 2
"""A short chain takes the burn-in of a chain divided by this number."""

_COMPARED = 1_000_000
"""Most entries over which the log posteriors of the starts are compared: all of small data."""


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
    """Run short chains from random starts; return the last state of the best of them, and a record of all.

    Their random keys are functions of the key of the first chain, and they are compared over the same entries.
    """
    setup = work.setup
    data, model = setup.data, setup.model
    plan = Plan(max(1, work.plan.tune // _SHARE), 1, 1)
    short = setup.settings.prepare(data, model, engine, plan.tune)
    kept = Draws.empty(starts, 1, data.shape, model, setup.settings.dtype, True)
    run = Work(short, plan, kept, None, work.probes)
    recorders, interrupted = run_all(run, chain_keys(keys[0], starts), engine, progress)
    if interrupted:
        raise KeyboardInterrupt("stopped during the starts: there are no draws yet")
    compared = Probes.some(data, min(data.size, _COMPARED))
    lp = [_log_posterior(recorder.chain, compared) for recorder in recorders]
    best = max(range(starts), key=lambda s: lp[s])
    record = {"number": starts, "iterations": plan.iterations, "lp": lp, "entries": len(compared.values)}
    return Start(kept.part([best], 1), model), record


def _log_posterior(chain: Any, entries: Probes) -> float:
    """Return the log posterior of the current state of a chain, with the likelihood from these entries."""
    chain.probes = entries.placed(chain.factors, chain.setup.shift)
    return float(chain.log_posterior())
