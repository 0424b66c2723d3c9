"""What a store costs at the default interval: the time that it adds to a run, and where that goes.

Draws are written by a thread of their own while the chain goes on; the chain waits for a copy of its state at a
checkpoint, and for the last draws at the end. On a machine whose cores are all busy the writer's processor time adds
to that.
"""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final
from unittest import mock

import psgld
from psgld.storage.saver import Saver

from . import problems
from .harness import Row, Settings, in_turns, timed

_EVERY, _RATHER = 30.0, 2.3
"""Seconds between two checkpoints, the default; and how many times as long a run takes that has at least two."""


@final
@dataclass(frozen=True)
class _Added:
    """What a store adds to a run, as a share of its time; that time; its thinning; checkpoints before the end."""

    share: float
    seconds: float
    thin: int
    number: int


class _EnoughError(Exception):
    """The run has lasted long enough."""


def _shares(data: Any, model: psgld.FactorModel, quick: bool, folder: Path) -> tuple[list[float], str]:
    """Return the part of a run that the chain waits, and the part of its processor time that goes into the store."""
    waited, spent, number, start = 0.0, 0.0, 0, 0.0
    every, seconds = (0.2, 2.0) if quick else (_EVERY, 2.1 * _EVERY)

    def timed_on_its_thread(work: Any) -> Any:
        def call(*arguments: Any) -> Any:
            nonlocal waited, spent, number
            wall, cpu = time.perf_counter(), time.thread_time()
            work(*arguments)
            spent += time.thread_time() - cpu
            if work is begin_save:
                waited += time.perf_counter() - wall
                number += 1

        return call

    def enough(_: Any) -> None:
        nonlocal start
        start = start or time.perf_counter()  # the set-up does not count
        if time.perf_counter() - start > seconds:
            raise _EnoughError

    begin_save, cpu = Saver.save, time.process_time()
    parts = {name: timed_on_its_thread(getattr(Saver, name)) for name in ("save", "_write", "_write_early")}
    with mock.patch.multiple(Saver, **parts), suppress(_EnoughError):
        psgld.sample(
            data, model, tune=0, draws=50 if quick else 1000, thin=10**6 if quick else None, chains=1,
            progress=enough, store=folder / "run.zarr", checkpoint_every=every,
        )  # fmt: skip
    wall, cpu = time.perf_counter() - start, time.process_time() - cpu
    return [waited / wall, spent / cpu], f"{number} in {wall:.0f} s"


def _added(data: Any, model: psgld.FactorModel, plan: dict[str, Any], rounds: int, folder: Path) -> _Added:
    """Measure the same run with a store and without, in turns."""
    numbers: list[int] = []
    thin = 0

    def stored() -> None:
        with mock.patch.object(Saver, "save", autospec=True, side_effect=Saver.save) as save:
            psgld.sample(data, model, store=folder / f"{time.monotonic_ns()}.zarr", **plan)
        numbers.append(save.call_count - 1)  # the last one is the end

    def plain() -> None:
        nonlocal thin
        thin = int(psgld.sample(data, model, **plan).settings["thin"])

    best = in_turns({"with": timed(stored), "without": timed(plain)}, rounds)
    return _Added(best["with"] / best["without"] - 1, best["without"], thin, min(numbers))


def _adding(data: Any, model: psgld.FactorModel, quick: bool, folder: Path) -> Iterator[Row]:
    """Runs that keep as many draws in a short time and in a long one: this takes in checkpoints, that only an end."""
    every, draws = (0.2, 50) if quick else (_EVERY, 1000)
    plan = {"tune": 0, "draws": draws, "chains": 1, "progress": False, "checkpoint_every": every}
    short = _added(data, model, plan, 1 if quick else 4, folder)
    thin = math.ceil(short.thin * max(1.0, _RATHER * every / short.seconds))
    long = _added(data, model, {**plan, "thin": thin}, 1 if quick else 2, folder)
    note = f"{long.number} at intervals and the end, in {long.seconds:.0f} s"
    yield Row("checkpoints, dense: added to the run, of its time", long.share, 0.03, note=note)
    note = f"{draws} draws in {short.seconds:.1f} s"
    yield Row("checkpoints, dense: added to a short run, its end included", short.share, note=note)


def run(settings: Settings) -> Iterator[Row]:
    """Measure a dense and a sparse problem."""
    dense = problems.dense(settings.choose(1024, 64), psgld.Poisson())
    cases = {
        "dense": (dense, psgld.FactorModel(problems.RANK, "poisson")),
        "sparse": (problems.ratings(settings.quick), psgld.FactorModel(problems.RANK, "gaussian", bias=True)),
    }
    for name, (data, model) in cases.items():
        with tempfile.TemporaryDirectory() as folder:
            (waited, cpu), note = _shares(data, model, settings.quick, Path(folder))
            yield Row(f"checkpoints, {name}: the chain waits, of its time", waited, 0.03, note=note)
            yield Row(f"checkpoints, {name}: processor, of the run's", cpu, 0.03)
            if name == "dense":
                yield from _adding(data, model, settings.quick, Path(folder))
