"""Writes the chains of a run to its store every so often, and takes them up again from there."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, final

import numpy as np

from ..errors import DataError
from .files import DAMAGE, read_arrays, write_arrays
from .layout import POSTERIOR, STATS, TRACKED, WARMUP
from .moments import RunningMoments
from .recorder import Recorder
from .store import Store, damaged


@final
class Saver:
    """Checkpoints of all chains. Each has its own file and its own draws, so that none waits for another.

    A write that fails does not stop the run: the draws are in memory. It is tried again at the next checkpoint, and
    `failure` says what went wrong if the last one failed too.
    """

    def __init__(self, store: Store, every: float) -> None:
        self.store, self._every = store, every
        self._identity = _identity(store.path)
        self._written: dict[int, tuple[int, int]] = {}  # rows of the trace and of the burn-in, of each chain
        self._last: dict[int, float] = {}
        self._failures: dict[int, Exception] = {}

    @property
    def failure(self) -> str | None:
        """What keeps a chain from being written, or None."""
        for error in self._failures.values():
            return str(getattr(error, "strerror", None) or error)
        return None

    def restore(self, recorder: Recorder) -> None:
        """Let a chain and its recorder go on from their checkpoint, if there is one."""
        number = recorder.number
        self._written[number] = (0, 0)
        self._last[number] = time.monotonic()
        path = self.store.checkpoint(number)
        if not path.exists():
            return
        try:
            state = read_arrays(path)
            kept, marks = int(state["kept"]), int(state["marks"])
            for name, array in vars(recorder.draws).items():
                if f"{POSTERIOR}/{name}" in self.store.specs:
                    array[number, :kept] = self.store.read(f"{POSTERIOR}/{name}", number, kept)
            stats, warmup = (
                {name: self.store.read(f"{group}/{name}", number, n) for name in self.store.names(group)}
                for group, n in ((STATS, kept), (WARMUP, marks))
            )
            recorder.set_state(state, stats, warmup)
            recorder.chain.set_state(_without("chain/", state))
        except DataError:
            raise
        except DAMAGE as error:
            raise damaged(path, error) from error
        self._written[number] = (kept, marks)

    def due(self, recorder: Recorder) -> bool:
        """Return whether it is time for the next checkpoint of a chain."""
        return time.monotonic() - self._last[recorder.number] >= self._every

    def save(self, recorder: Recorder) -> None:
        """Write what is new of a chain, then its checkpoint."""
        number = recorder.number
        try:
            if self._identity is None or _identity(self.store.path) != self._identity:
                raise FileNotFoundError(2, "the store was deleted or moved during the run")
            self._save(recorder)
            self._failures.pop(number, None)
        except (OSError, ValueError) as error:  # Zarr says ValueError of a chunk that someone has changed
            self._failures[number] = error
        self._last[number] = time.monotonic()

    def _save(self, recorder: Recorder) -> None:
        number, store = recorder.number, self.store
        (kept, marks), state = self._written[number], recorder.state()
        for name, array in vars(recorder.draws).items():
            if f"{POSTERIOR}/{name}" in store.specs:
                store.write(f"{POSTERIOR}/{name}", number, kept, array[number, kept : state["kept"]])
        for group, trace, first in ((STATS, recorder.trace, kept), (WARMUP, recorder.warmup, marks)):
            for name, column in vars(trace).items():
                store.write(f"{group}/{name}", number, first, np.asarray(column[first:]))
        chain = {f"chain/{name}": value for name, value in recorder.chain.state().items()}
        write_arrays(store.checkpoint(number), {**state, **chain})
        self._written[number] = (state["kept"], state["marks"])

    def finish(self, recorders: list[Recorder]) -> None:
        """Write what only the whole run tells, and let others have the store."""
        parts = [r.moments for r in recorders if r.moments is not None]
        try:
            if any(p.count for p in parts) and not self._failures:
                for name, values in zip(("mean", "sd"), RunningMoments.pooled(parts), strict=True):
                    self.store.write_all(f"{TRACKED}/{name}", values)
        except OSError as error:
            self._failures[-1] = error
        finally:
            self.store.unlock()


def _identity(path: Path) -> tuple[int, int] | None:
    """Return what tells a folder from another of the same name."""
    try:
        (path / "zarr.json").stat()
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _without(prefix: str, state: dict[str, Any]) -> dict[str, Any]:
    return {name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)}
