"""Writes checkpoints of the chains of a run to its store, and restores chains from them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from ..engines import Engine
from ..errors import DataError
from ..models.modes import FACTORS
from ..runs.loop import Plan
from ..runs.moments import RunningMoments
from ..runs.recorder import Recorder
from ..system.atomic import DAMAGE
from ..system.limits import check_room_for_threads
from .backend import RunBackend, damaged
from .layout import POSTERIOR, STATS, TRACKED, WARMUP
from .row_ownership import RowOwnership

_AHEAD = 1 << 24
"""Number of bytes of draws from which they are written before their checkpoint."""

_REFUSED = (OSError, ValueError, KeyError)
"""Errors of a write. Zarr raises the last two if another process changed the store."""

_GONE = "the store was deleted or moved during the run"


@final
@dataclass(frozen=True, eq=False)
class _Snapshot:
    """Draws and state of a chain, to be written."""

    rows: list[tuple[str, int, NDArray[Any]]]  # array, first draw, values
    state: dict[str, Any]
    written: tuple[int, int]
    """Numbers of draws and of burn-in marks that are in the store afterwards."""


@final
class Saver:
    """Writes checkpoints of all chains. Each chain has its own file and draws, so that none waits for another.

    A separate thread writes while the chains continue: recorded draws do not change, and the rest is copied. So a slow
    disk costs little time.

    A write that fails does not stop the run, since the draws are in memory. It is repeated at the next checkpoint. If
    the last write failed, `failure` has the reason.

    Where several processes run a chain, each writes the rows that it owns. When all have done so (`commit`), rank 0
    writes the checkpoint.
    """

    def __init__(self, store: RunBackend, every: float, engine: Engine | None = None) -> None:
        self.store, self._every = store, every
        self._engine = engine if engine is not None and engine.ranks > 1 else None
        self._first = engine is None or engine.rank == 0
        self._ownership = None if self._engine is None else RowOwnership(store, self._engine)
        self._uncommitted: dict[int, _Snapshot] = {}
        self._written: dict[int, tuple[int, int]] = {}  # per chain: rows of the trace and of the burn-in
        self._last: dict[int, float] = {}
        self._failures: dict[int, Exception] = {}
        check_room_for_threads(1)
        self._writer = ThreadPoolExecutor(1, "psgld-store")
        self._pending: dict[int, Future[None]] = {}
        # Number of draws, per chain and factor, that are written before their checkpoint.
        self._ahead: dict[tuple[int, str], int] = {}
        self._stuck: set[int] = set()  # chains for which writing ahead failed

    @property
    def path(self) -> Path:
        """The folder of the store."""
        return self.store.path

    @property
    def failure(self) -> str | None:
        """Why a chain could not be written, or None."""
        for error in self._failures.values():
            return str(getattr(error, "strerror", None) or error)
        return None

    @property
    def ownership(self) -> RowOwnership | None:
        """The rows of the draws that each process keeps, if there are several."""
        return self._ownership

    def restore(self, recorder: Recorder, plan: Plan) -> None:
        """Restore a chain and its recorder from their checkpoint, if there is one."""
        number = recorder.number
        self._written[number] = (0, 0)
        self._last[number] = time.monotonic()
        state, where = self.store.read_checkpoint(number), self.store.path / "checkpoints" / str(number)
        if state is None:
            return
        try:
            kept, marks = _progress(state, self.store)
            _check_like(_without("chain/", state), recorder.chain.state())
            for name, array in recorder.draws.arrays().items():
                if f"{POSTERIOR}/{name}" not in self.store.specs:
                    continue
                rows = self._rows(name) if name in FACTORS else None
                place = (number, slice(kept)) if rows is None else (number, slice(kept), rows)
                array[place] = self.store.read(f"{POSTERIOR}/{name}", number, kept, rows)
            stats, warmup = (
                {name: self.store.read(f"{group}/{name}", number, n) for name in self.store.names(group)}
                for group, n in ((STATS, kept), (WARMUP, marks))
            )
            recorder.set_state(state, stats, warmup)
            recorder.chain.set_state(_without("chain/", state))
        except DataError:
            raise
        except DAMAGE as error:
            raise damaged(where, error) from error
        if not plan.fits(recorder.recorded, recorder.chain.iteration):
            raise damaged(
                where, f"iteration {recorder.chain.iteration} does not fit mark {recorder.recorded}"
            )
        self._written[number] = (kept, marks)

    def due(self, recorder: Recorder) -> bool:
        """Return whether it is time for the next checkpoint of a chain, and its last write is complete."""
        pending = self._pending.get(recorder.number)
        if pending is not None and not pending.done():
            return False
        late = time.monotonic() - self._last[recorder.number] >= self._every
        if not late:
            self._write_ahead(recorder)
        return late

    def _write_ahead(self, recorder: Recorder) -> None:
        """Start to write full chunks of draws, so that the checkpoint has less to write.

        They become valid with the next checkpoint. Several processes write at the checkpoint only, since it requires
        that all of them have written.
        """
        number = recorder.number
        if self._engine is not None or number in self._stuck:
            return
        try:
            rows = [row for name in FACTORS for row in self._full_chunks(recorder, name)]
        except _REFUSED:  # the store is gone: the checkpoint reports it
            return
        if sum(values.nbytes for _, _, values in rows) >= _AHEAD:
            self._pending[number] = self._writer.submit(self._write_early, number, rows)

    def _full_chunks(self, recorder: Recorder, name: str) -> Iterator[tuple[str, int, NDArray[Any]]]:
        path, number = f"{POSTERIOR}/{name}", recorder.number
        if path in self.store.specs:
            first, several = self._unwritten(number, name), self.store.lot(path)
            last = recorder.kept // several * several
            if last > first:
                yield path, first, getattr(recorder.draws, name)[number, first:last]

    def _unwritten(self, number: int, name: str) -> int:
        """Return the index of the first draw that is not yet written."""
        return max(self._written[number][0], self._ahead.get((number, name), 0))

    def _write_early(self, number: int, rows: list[tuple[str, int, NDArray[Any]]]) -> None:
        # Removed on success. Otherwise the checkpoint writes the draws, or reports the error.
        self._stuck.add(number)
        with suppress(*_REFUSED):
            if not self.store.present:
                return
            self._write_rows(number, rows)
            for path, first, values in rows:
                self._ahead[number, path.removeprefix(f"{POSTERIOR}/")] = first + len(values)
            self._stuck.discard(number)

    def save(self, recorder: Recorder) -> None:
        """Start to write the new draws of a chain, then its checkpoint."""
        number = recorder.number
        if number in self._uncommitted:
            self.commit(wait=True)
        if number in self._pending:
            self._pending[number].result()
        snapshot = self._snapshot(recorder)
        self._last[number] = time.monotonic()
        if self._engine is None:
            self._pending[number] = self._writer.submit(self._write, number, snapshot)
        else:
            self._uncommitted[number] = snapshot
            self._pending[number] = self._writer.submit(self._write_draws, number, snapshot)

    def commit(self, wait: bool = False) -> None:
        """Write the checkpoints of which all processes have written their draws; with `wait`, wait for these.

        Collective: all processes call it. A single process has nothing to do.
        """
        for number, snapshot in list(self._uncommitted.items()):
            assert self._engine is not None
            pending = self._pending[number]
            if wait:
                pending.result()
            if self._engine.any(not pending.done()):
                continue
            del self._uncommitted[number]
            if self._engine.any(number in self._failures):
                self._failures.setdefault(number, OSError(5, "another rank could not write its draws"))
            elif self._first:
                self._pending[number] = self._writer.submit(self._write_checkpoint, number, snapshot)
            else:
                self._written[number] = snapshot.written

    def _snapshot(self, recorder: Recorder) -> _Snapshot:
        number, state = recorder.number, recorder.state()
        kept, marks = self._written[number]
        rows = [
            (f"{POSTERIOR}/{name}", first, array[number, first : state["kept"]])
            for name, array in recorder.draws.arrays().items()
            if f"{POSTERIOR}/{name}" in self.store.specs
            and (self._first or name in FACTORS)
            and (first := self._unwritten(number, name)) < state["kept"]
        ]
        traces = ((STATS, recorder.trace, kept), (WARMUP, recorder.warmup, marks)) if self._first else ()
        for group, trace, first in traces:
            columns = ((f"{group}/{name}", column) for name, column in trace.columns(full=True).items())
            rows += [(p, first, np.asarray(c[first:])) for p, c in columns if p in self.store.specs]
        chain = {f"chain/{name}": value for name, value in recorder.chain.state().items()}
        return _Snapshot(rows, {**state, **chain}, (state["kept"], state["marks"]))

    def _rows(self, name: str) -> slice | None:
        """Return the rows of a factor that this rank owns; None for all."""
        return None if self._ownership is None else self._ownership.rows(name)

    def _write(self, number: int, snapshot: _Snapshot) -> None:
        self._write_draws(number, snapshot)
        if number not in self._failures:
            self._write_checkpoint(number, snapshot)

    def _write_draws(self, number: int, snapshot: _Snapshot) -> None:
        self._try(number, lambda: self._write_rows(number, snapshot.rows))

    def _write_rows(self, number: int, rows: list[tuple[str, int, NDArray[Any]]]) -> None:
        with self.store.writing() as block:
            for path, first, values in rows:
                name = path.removeprefix(f"{POSTERIOR}/")
                only = self._rows(name) if name in FACTORS else None
                self.store.append(block, path, number, first, values, only)

    def _write_checkpoint(self, number: int, snapshot: _Snapshot) -> None:
        def write() -> None:
            self.store.write_checkpoint(number, snapshot.state)
            self._written[number] = snapshot.written

        self._try(number, write)

    def _try(self, number: int, write: Callable[[], None]) -> None:
        """Call `write` for a chain, or record why it failed."""
        try:
            if not self.store.present:
                raise FileNotFoundError(2, _GONE)
            write()
            self._failures.pop(number, None)
            self._stuck.discard(number)
        except _REFUSED as error:
            self._failures[number] = error if self.store.present else FileNotFoundError(2, _GONE)

    def finish(self, recorders: list[Recorder]) -> None:
        """Wait until everything is written, and add the results of the complete run."""
        self._writer.shutdown()
        if not self._first:
            return
        parts = [r.moments for r in recorders if r.moments is not None]
        try:
            if any(p.count for p in parts) and not self._failures:
                for name, values in zip(("mean", "sd"), RunningMoments.pooled(parts), strict=True):
                    self.store.write_all(f"{TRACKED}/{name}", values)
        except OSError as error:
            self._failures[-1] = error
        for pending in self._pending.values():
            pending.result()  # raises errors other than those of the disk

    def describe(self, settings: dict[str, Any]) -> None:
        """Add to the settings in the store, after `finish`."""
        header = self.store.header
        if self._failures or not self.store.present:
            return
        try:
            self.store.write_header({**header, "settings": {**header["settings"], **settings}})
        except _REFUSED as error:
            self._failures[-1] = error


def _progress(state: dict[str, Any], store: RunBackend) -> tuple[int, int]:
    """Return the numbers of draws and of burn-in marks of a checkpoint; raise ValueError if they are impossible."""
    kept, marks, most = int(state["kept"]), int(state["marks"]), store.layout
    if not (0 <= kept <= most.draws and 0 <= marks <= most.marks and (kept == 0 or marks == most.marks)):
        raise ValueError(f"{kept} draws of {most.draws} after {marks} marks of {most.marks}")
    return kept, marks


def _check_like(state: dict[str, Any], own: dict[str, Any]) -> None:
    """Raise ValueError unless a state from a file has the dtypes and shapes of the chain's own, and finite numbers."""
    for name, mine in own.items():
        mine = np.asarray(mine)
        if (
            name not in state and mine.size == 0
        ):  # stores of older versions lack what their models did not have
            continue
        given = np.asarray(state[name])
        listed = name == "divergences"  # of any length
        if given.dtype.kind not in ("iu" if listed else mine.dtype.kind) and given.size:
            raise ValueError(f"{name} holds {given.dtype}, expected {mine.dtype}")
        if given.ndim != 1 if listed else given.shape != mine.shape:
            raise ValueError(f"{name} has shape {given.shape}, expected {mine.shape}")
        if (mine.ndim or "hyper/" in name) and given.dtype.kind == "f" and not np.isfinite(given).all():
            raise ValueError(f"{name} holds numbers that are not finite")


def _without(prefix: str, state: dict[str, Any]) -> dict[str, Any]:
    return {name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)}
