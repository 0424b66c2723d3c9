"""The chains of a run: one after another or concurrently, until complete or interrupted."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, final

import numpy as np

from ..dynamics.log_likelihood import FullLogLikelihood
from ..dynamics.probes import Probes
from ..engines import Engine
from ..samplers import Setup
from ..system import cost
from ..system.limits import check_room_for_threads
from .draws import Draws
from .interrupt import Interrupt
from .lockstep import LockstepChains
from .loop import Plan, run
from .progress import Meter, ProgressOption
from .recorder import Recorder, RowOwnership
from .warm_start import Start


class Saver(Protocol):
    """Writes checkpoints of the chains of a run, and restores chains from them (`storage.saver`)."""

    @property
    def path(self) -> Path:
        """The path of the store."""

    @property
    def failure(self) -> str | None:
        """Why a chain could not be written, or None."""

    @property
    def ownership(self) -> RowOwnership | None:
        """The rows of the draws that each process keeps, if there are several."""

    def restore(self, recorder: Recorder, plan: Plan) -> None:
        """Restore a chain and its recorder from their checkpoint, if there is one."""

    def due(self, recorder: Recorder) -> bool:
        """Return whether it is time for the next checkpoint of a chain."""

    def save(self, recorder: Recorder) -> None:
        """Start to write the new draws of a chain, then its checkpoint."""

    def commit(self, wait: bool = False) -> None:
        """Write the checkpoints of which all processes have written their draws."""

    def finish(self, recorders: list[Recorder]) -> None:
        """Wait until everything is written, and add the results of the complete run."""

    def describe(self, settings: dict[str, Any]) -> None:
        """Add to the settings in the store, after `finish`."""


@final
@dataclass(frozen=True, eq=False)
class Work:
    """The settings and data that all chains of a run share."""

    setup: Setup
    plan: Plan
    draws: Draws
    pairs: Any
    probes: Probes
    begin: Start | None = None
    saver: Saver | None = None
    precision: str | None = None
    """The floating-point type that draws are rounded to; None for no rounding."""
    starts: dict[str, Any] | None = None
    """The record of the short chains whose best is `begin` (`runs/starts.py`)."""
    full: bool = False
    """Whether the log likelihood of all entries is computed at every mark."""


def started(work: Work) -> dict[str, Any]:
    """Return the record of the starts as settings of the run; none if there were no starts."""
    return {} if work.starts is None else {"starts": work.starts}


def side_by_side(setup: Setup, chains: int, engine: Engine) -> bool:
    """Return whether chains run concurrently, each on a share of the cores, instead of one after another on all."""
    several = chains > 1 and engine.workers > 1 and not engine.distributed
    return several and bool(setup.seconds_per_iteration < cost.SIDE_BY_SIDE)


def run_all(
    work: Work, keys: list[int], engine: Engine, progress: ProgressOption
) -> tuple[list[Recorder], bool]:
    """Run the chains with these keys; return their recorders, and whether the run was interrupted."""
    concurrent = side_by_side(work.setup, len(keys), engine)
    own = engine.share(len(keys)) if concurrent else engine
    total = len(keys) * work.plan.iterations
    meter = Meter(progress if engine.rank == 0 else False, total, _memory(work, len(keys)))
    recorders: list[Recorder | None] = [None] * len(keys)
    with Interrupt() as interrupt:

        def one(number: int) -> None:
            if not _asked(interrupt, engine):
                recorders[number] = recorder = _start(work, number, keys[number], own)
                _finish(work, [recorder], meter, interrupt, engine)

        def in_lockstep() -> None:
            if not _asked(interrupt, engine):
                group = [_start(work, number, key, own) for number, key in enumerate(keys)]
                recorders[:] = group
                _finish(work, group, meter, interrupt, engine)

        def guarded(number: int) -> None:
            try:
                one(number)
            except BaseException:
                interrupt.asked = True  # stop the other chains, so that the error is raised soon
                raise

        try:
            if concurrent:
                check_room_for_threads(min(engine.workers, len(keys)))
                with ThreadPoolExecutor(engine.workers) as pool:
                    list(pool.map(guarded, range(len(keys))))
            elif work.setup.stay is not None:
                in_lockstep()
            else:
                for number in range(len(keys)):
                    one(number)
        finally:
            meter.close()
    return [r for r in recorders if r is not None], interrupt.asked


def _memory(work: Work, chains: int) -> float:
    """Return the bytes of the draws and of the chains of a run."""
    model, setup = work.setup.model, work.setup
    itemsize = np.dtype(setup.settings.dtype).itemsize
    rows = sum(setup.data.shape)
    one = cost.chain_bytes(model.components, rows, itemsize, model.nonnegative)
    return chains * one + sum(x.nbytes for x in work.draws.arrays().values())


def _start(work: Work, number: int, key: int, engine: Engine) -> Recorder:
    """Return a chain with its recorder, at its start or at its checkpoint."""
    chain = work.setup.chain(key, work.probes, engine)
    if work.begin is not None:
        work.begin.begin(chain, number)
    ownership = None if work.saver is None else work.saver.ownership
    full = FullLogLikelihood(work.setup.data, work.setup.model.likelihood) if work.full else None
    recorder = Recorder(chain, number, work.draws, work.pairs, work.precision, ownership, full)
    if work.saver is not None:
        work.saver.restore(recorder, work.plan)
    return recorder


def _finish(
    work: Work, recorders: list[Recorder], meter: Meter, interrupt: Interrupt, engine: Engine
) -> None:
    """Run chains to the end of the plan, or until interrupted; several chains run in lockstep."""
    saver, stay = work.saver, work.setup.stay
    for chain in (recorder.chain for recorder in recorders):
        if chain.iteration:
            meter.update(chain.iteration, recorders[0].lp, len(chain.divergences))
    before = [recorder.recorded for recorder in recorders]
    group = None if stay is None else LockstepChains(recorders, stay)
    for n in run(group or recorders[0].chain, work.plan, group or recorders[0], engine.agree):
        meter.update(n * len(recorders), recorders[0].lp, sum(len(r.chain.divergences) for r in recorders))
        if _asked(interrupt, engine):
            break
        for recorder in recorders:
            if saver is not None and engine.agree(float(saver.due(recorder))):
                saver.save(recorder)
        if saver is not None:
            saver.commit()
    for recorder, recorded in zip(recorders, before, strict=True):
        if saver is not None and (recorder.recorded > recorded or interrupt.asked):
            saver.save(recorder)
    if saver is not None:
        saver.commit(wait=True)
        for recorder in recorders:
            if recorder.ownership is not None:
                recorder.ownership.collect(recorder.draws, recorder.number, recorder.kept)


def _asked(interrupt: Interrupt, engine: Engine) -> bool:
    """Return whether any process of the run was asked to stop."""
    if engine.any(interrupt.asked):
        interrupt.asked = True
    return interrupt.asked
