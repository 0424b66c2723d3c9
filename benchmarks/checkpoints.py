"""What a store costs at the default interval: the part of a run that goes into checkpoints.

The chain is made to wait for each of them here, so that their time (and the processor's) can be told from its own. In a
real run it waits for a copy of its state only, and a thread writes meanwhile.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest import mock

import psgld
from psgld.record import Saver

from . import problems
from .harness import Row, Settings

_EVERY = 30.0


class _EnoughError(Exception):
    """The run has lasted long enough."""


def _shares(data: Any, model: psgld.FactorModel, quick: bool, folder: Path) -> tuple[list[float], str]:
    """Return the parts of a run that go into copies of the state, processor time and time of the whole checkpoints."""
    spent, number = [0.0, 0.0, 0.0], 0
    begin_save, start = Saver.save, 0.0
    every, seconds = (0.2, 2.0) if quick else (_EVERY, 2.1 * _EVERY)

    def save(self: Saver, recorder: Any) -> None:
        nonlocal number
        wall, cpu = time.perf_counter(), time.process_time()
        begin_save(self, recorder)
        spent[0] += time.perf_counter() - wall
        self._pending[recorder.number].result()
        spent[1] += time.process_time() - cpu
        spent[2] += time.perf_counter() - wall
        number += 1

    def enough(_: Any) -> None:
        nonlocal start
        start = start or time.perf_counter()  # the set-up does not count
        if time.perf_counter() - start > seconds:
            raise _EnoughError

    cpu = time.process_time()
    with mock.patch.object(Saver, "save", save), suppress(_EnoughError):
        psgld.sample(
            data, model, tune=0, draws=50 if quick else 1000, thin=10**6 if quick else None, chains=1,
            progress=enough, store=folder / "run.zarr", checkpoint_every=every,
        )  # fmt: skip
    wall, cpu = time.perf_counter() - start, time.process_time() - cpu
    return [spent[0] / wall, spent[1] / cpu, spent[2] / wall], f"{number} in {wall:.0f} s"


def run(settings: Settings) -> Iterator[Row]:
    """Measure a dense and a sparse problem."""
    dense = problems.dense(settings.choose(1024, 64), psgld.Poisson())
    cases = {
        "dense": (dense, psgld.FactorModel(problems.RANK, "poisson")),
        "sparse": (problems.ratings(settings.quick), psgld.FactorModel(problems.RANK, "gaussian", bias=True)),
    }
    for name, (data, model) in cases.items():
        with tempfile.TemporaryDirectory() as folder:
            (copies, cpu, all_of_it), note = _shares(data, model, settings.quick, Path(folder))
        yield Row(f"checkpoints, {name}: the chain waits, of its time", copies, 0.03, note=note)
        yield Row(f"checkpoints, {name}: processor, of the run's", cpu, 0.03)
        yield Row(f"checkpoints, {name}: with the disk, were nothing beside", all_of_it)
