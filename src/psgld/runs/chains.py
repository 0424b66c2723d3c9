"""The chains of a run: one after the other or side by side, until done or interrupted."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, final

from ..dynamics.probes import Probes
from ..engines import Engine
from ..system import cost
from ..system.limits import check_room_for_threads
from .draws import Draws
from .interrupt import Interrupt
from .lockstep import Abreast
from .loop import Plan, run
from .progress import Meter, ProgressOption
from .recorder import Recorder, Share
from .warm_start import Start


class Saver(Protocol):
    """What writes the chains of a run somewhere every so often, and takes them up again (`storage.saver`)."""

    @property
    def path(self) -> Path:
        """Where it writes."""

    @property
    def failure(self) -> str | None:
        """What keeps a chain from being written, or None."""

    @property
    def spread(self) -> Share | None:
        """Which rows of the draws each process keeps, if there are several."""

    def restore(self, recorder: Recorder, plan: Plan) -> None:
        """Let a chain and its recorder go on from their checkpoint, if there is one."""

    def due(self, recorder: Recorder) -> bool:
        """Return whether it is time for the next checkpoint of a chain."""

    def save(self, recorder: Recorder) -> None:
        """Begin to write what is new of a chain, then its checkpoint."""

    def commit(self, wait: bool = False) -> None:
        """Write the checkpoints whose draws all processes have written."""

    def finish(self, recorders: list[Recorder]) -> None:
        """Wait until all is written, and add what only the whole run tells."""


@final
@dataclass(frozen=True, eq=False)
class Work:
    """What every chain of a run needs."""

    setup: Any
    plan: Plan
    room: Draws
    pairs: Any
    probes: Probes
    begin: Start | None = None
    saver: Saver | None = None
    precision: str | None = None
    """What the draws are rounded to; None leaves them as they are."""


def run_all(
    work: Work, keys: list[int], engine: Engine, progress: ProgressOption
) -> tuple[list[Recorder], bool]:
    """Run the chains with these keys; return their recorders, and whether they were interrupted."""
    several = len(keys) > 1 and engine.workers > 1 and not engine.distributed
    side_by_side = several and work.setup.seconds_an_iteration < cost.SIDE_BY_SIDE
    own = engine.share(len(keys)) if side_by_side else engine
    meter = Meter(progress if engine.rank == 0 else False, len(keys) * work.plan.iterations)
    recorders: list[Recorder | None] = [None] * len(keys)
    with Interrupt() as interrupt:

        def one(number: int) -> None:
            if not _asked(interrupt, engine):
                recorders[number] = recorder = _start(work, number, keys[number], own)
                _finish(work, [recorder], meter, interrupt, engine)

        def all_abreast() -> None:
            if not _asked(interrupt, engine):
                group = [_start(work, number, key, own) for number, key in enumerate(keys)]
                recorders[:] = group
                _finish(work, group, meter, interrupt, engine)

        def guarded(number: int) -> None:
            try:
                one(number)
            except BaseException:
                interrupt.asked = True  # the other chains need not run to the end for the error to be seen
                raise

        try:
            if side_by_side:
                check_room_for_threads(min(engine.workers, len(keys)))
                with ThreadPoolExecutor(engine.workers) as pool:
                    list(pool.map(guarded, range(len(keys))))
            elif work.setup.stay is not None:
                all_abreast()
            else:
                for number in range(len(keys)):
                    one(number)
        finally:
            meter.close()
    return [r for r in recorders if r is not None], interrupt.asked


def _start(work: Work, number: int, key: int, engine: Engine) -> Recorder:
    """Return a chain with its recorder, at its start or at its checkpoint."""
    chain = work.setup.chain(key, work.probes, engine)
    if work.begin is not None:
        work.begin.begin(chain, number)
    spread = None if work.saver is None else work.saver.spread
    recorder = Recorder(chain, number, work.room, work.pairs, work.precision, spread)
    if work.saver is not None:
        work.saver.restore(recorder, work.plan)
    return recorder


def _finish(
    work: Work, recorders: list[Recorder], meter: Meter, interrupt: Interrupt, engine: Engine
) -> None:
    """Run chains to the end of the plan, or until someone asks to stop; if they are several, abreast."""
    saver, stay = work.saver, work.setup.stay
    for chain in (recorder.chain for recorder in recorders):
        if chain.iteration:
            meter.update(chain.iteration, recorders[0].lp, len(chain.divergences))
    before = [recorder.recorded for recorder in recorders]
    together: Any = None if stay is None else Abreast(recorders, stay)
    chain, record = (recorders[0].chain, recorders[0]) if together is None else (together, together)
    for n in run(chain, work.plan, record, engine.agree):
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
            if recorder.spread is not None:
                recorder.spread.collect(recorder.draws, recorder.number, recorder.kept)


def _asked(interrupt: Interrupt, engine: Engine) -> bool:
    """Return whether any of the processes that run a chain together was asked to stop."""
    if engine.any(interrupt.asked):
        interrupt.asked = True
    return interrupt.asked
