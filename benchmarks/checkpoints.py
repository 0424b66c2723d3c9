"""What a store costs: the part of a run that its chain waits for checkpoints, and what the writing takes meanwhile."""

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


def _share(data: Any, model: psgld.FactorModel, quick: bool, folder: Path) -> tuple[float, float, int]:
    """Return the seconds of a run, those that it waited for checkpoints, and their number."""
    waited: list[float] = []
    save, start = Saver.save, time.perf_counter()
    every, seconds = (0.2, 2.0) if quick else (_EVERY, 2.2 * _EVERY)

    def timed(self: Saver, recorder: Any) -> None:
        before = time.perf_counter()
        save(self, recorder)
        waited.append(time.perf_counter() - before)

    def enough(_: Any) -> None:
        if time.perf_counter() - start > seconds:
            raise _EnoughError

    with mock.patch.object(Saver, "save", timed), suppress(_EnoughError):
        psgld.sample(
            data, model, tune=0, draws=50 if quick else 400, thin=10**6 if quick else None, chains=1,
            progress=enough, store=folder / "run.zarr", checkpoint_every=every,
        )  # fmt: skip
    return time.perf_counter() - start, sum(waited), len(waited)


def run(settings: Settings) -> Iterator[Row]:
    """Measure a dense and a sparse problem."""
    dense = problems.dense(settings.choose(1024, 64), psgld.Poisson())
    cases = {
        "dense": (dense, psgld.FactorModel(problems.RANK, "poisson")),
        "sparse": (problems.ratings(settings.quick), psgld.FactorModel(problems.RANK, "gaussian", bias=True)),
    }
    for name, (data, model) in cases.items():
        with tempfile.TemporaryDirectory() as folder:
            seconds, waited, number = _share(data, model, settings.quick, Path(folder))
        note = f"{number} in {seconds:.0f} s"
        yield Row(f"{name}: share that checkpoints take of a run", waited / seconds, 0.03, note=note)
