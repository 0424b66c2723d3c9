"""Mixing curves: the log likelihood of all entries along one chain, over iterations and over processor seconds."""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np

import psgld

from .folder import Record

MARKS = 100
"""Points of a curve in each half of a run."""


def curve(
    V: Any, model: psgld.FactorModel, sampler: Any, iterations: int, seed: int = 0, **options: Any
) -> Record:
    """Run one chain on one thread; the first half counts as burn-in, in which default step sizes decay.

    `seconds` are those of the processor, in proportion to the iterations: the wall time of the chain, without the
    passes that compute the log likelihood, times the share of the core that the run had beside other programs.
    """
    half = max(1, iterations // 2)
    draws = min(MARKS, half)
    start, used = time.perf_counter(), time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            post = psgld.sample(
                V, model, sampler=sampler, engine=psgld.Threads(1), tune=half, draws=draws, thin=half // draws,
                chains=1, seed=seed, keep=False, progress=False, log_likelihood=True, **options,
            )  # fmt: skip
        except psgld.SamplingError as error:
            return {"failed": str(error)}
    share = (time.process_time() - used) / (time.perf_counter() - start)
    tables = post.warmup, post.sample_stats
    found = {name: np.concatenate([t[name][0] for t in tables]) for name in post.sample_stats}
    diverged = found["iteration"][found["diverging"]]
    return {
        "iteration": found["iteration"],
        "seconds": found["iteration"] * (found["seconds"][-1] * share / found["iteration"][-1]),
        "log_likelihood": found["log_likelihood"],
        "step_size": [float(found["step_size"][0]), float(found["step_size"][-1])],
        "divergences": post.divergences,
        "diverged_at": diverged[:5],
        "wall_share": share,
        "entries_read": post.settings["entries_read"],
    }


def seconds_to(found: Record, level: float) -> float | None:
    """Return the processor seconds after which a curve stays at or above a level for three points; None if never."""
    if "failed" in found:
        return None
    above = np.array(found["log_likelihood"]) >= level
    for q in range(len(above) - 2):
        if above[q : q + 3].all():
            return float(found["seconds"][q])
    return None


def seconds_per_iteration(found: Record) -> float:
    """Return the processor seconds per iteration."""
    return float(found["seconds"][-1] / found["iteration"][-1])


def unguarded(V: Any, model: psgld.FactorModel, sampler: Any, iterations: int) -> Record:
    """Run iterations as they are printed, in double precision, without the check for divergence; return max |w|.

    The engine is called directly, so that no chain resets its state.
    """
    from psgld.dynamics.probes import Probes
    from psgld.engines import Stretch

    data = psgld.observations(V)
    setup = sampler.prepare(data, model, psgld.Threads(1), iterations)
    factors = setup.chain(0, Probes.of(data, 1)).factors
    blocks = setup.grid.blocks
    at, largest = [], []
    t = 1
    with np.errstate(all="ignore"):
        while t <= iterations:
            n = min(max(1, t // 4), 512, iterations + 1 - t)
            times = np.arange(t, t + n)
            parts = ((times - 1) % blocks).astype(np.int32)
            steps = np.asarray(setup.step_size(times.astype(float)), float)
            factors.advance(Stretch(t, parts, steps, np.full(n, float(blocks))))
            t += n
            at.append(t - 1)
            largest.append(float(max(np.abs(factors.factor(0)).max(), np.abs(factors.factor(1)).max())))
            if not np.isfinite(largest[-1]):
                break
    return {"iteration": at, "largest": [x if np.isfinite(x) else None for x in largest]}
