"""The ranks of a job: small things they tell each other, and how they end together. Buffers, never pickles."""

from __future__ import annotations

import atexit
import json
import os
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NoReturn, final

import numpy as np
from numpy.typing import NDArray

from ...errors import PsgldError
from ..communicator import Communicator

if TYPE_CHECKING:
    from . import witness

_PATIENCE = 3.0
"""Seconds that a rank leaves to rank 0 to report what most often all ranks find at once: an error of the user's."""

_FORWARDED = 0.5
"""Seconds that the launcher has to pass a line on before it is told to end: MPICH's drops what it has not read yet."""

_GRACE = 1.5
"""Seconds that a rank leaves to the one that says why the job ends to end it."""


def total(comm: Communicator, table: NDArray[Any]) -> NDArray[Any]:
    """Return the sum over the ranks. Exact in any order where only one rank has a number, or all have integers."""
    out = np.ascontiguousarray(table).copy()
    comm.allreduce(out)
    return out


def from_first(comm: Communicator, values: NDArray[Any]) -> NDArray[Any]:
    """Return rank 0's array, of a shape that all know."""
    values = np.ascontiguousarray(values)
    comm.broadcast([(values, 0)])
    return values


def to_first(
    comm: Communicator, rows: NDArray[np.int64], values: NDArray[Any]
) -> Iterator[tuple[NDArray[np.int64], NDArray[Any]]]:
    """Yield on rank 0 the rows and values of each rank, its own first; on the others send them, and yield nothing."""
    if comm.rank > 0:
        comm.wait([comm.isend(np.array([len(rows)]), 0), comm.isend(rows, 0), comm.isend(values, 0)])
        return
    yield rows, values
    for rank in range(1, comm.size):
        size = np.zeros(1, np.int64)
        comm.wait([comm.irecv(size, rank)])
        theirs = np.empty(int(size[0]), np.int64), np.empty((int(size[0]), *values.shape[1:]), values.dtype)
        comm.wait([comm.irecv(a, rank) for a in theirs])
        yield theirs


@final
class Delivery:
    """Rows that are scattered over the ranks, to where they are wanted: rank r wants bounds[r] … bounds[r + 1] - 1."""

    def __init__(self, comm: Communicator, rows: NDArray[np.int64], bounds: NDArray[np.int64]) -> None:
        self._comm = comm
        ends = np.searchsorted(rows, bounds)  # rows are in order
        self._parts = [slice(int(a), int(b)) for a, b in pairwise(ends)]
        self._rows = exchange(comm, [np.ascontiguousarray(rows[part]) for part in self._parts])

    def __call__(self, values: NDArray[Any], out: NDArray[Any]) -> int:
        """Put the rows that are wanted here into their places of `out`; return the bytes sent."""
        found = [np.empty((len(rows), *values.shape[1:]), values.dtype) for rows in self._rows]
        sent = [values[part] for part in self._parts]
        _swap(self._comm, found, sent)
        for rows, part in zip(self._rows, found, strict=True):
            out[rows] = part
        return sum(a.nbytes for rank, a in enumerate(sent) if rank != self._comm.rank)


def exchange(comm: Communicator, parts: list[NDArray[Any]]) -> list[NDArray[Any]]:
    """Give every rank its part, a 1-D array, and return what each has for this one."""
    here, sizes = comm.rank, np.zeros((len(parts), len(parts)), np.int64)
    sizes[here] = [len(part) for part in parts]
    received = [np.empty(n, parts[0].dtype) for n in total(comm, sizes)[:, here]]
    _swap(comm, received, parts)
    return received


def _swap(comm: Communicator, receive: list[NDArray[Any]], send: list[NDArray[Any]]) -> None:
    here = comm.rank
    receive[here][:] = send[here]
    others = [rank for rank in range(comm.size) if rank != here]
    requests = [comm.irecv(receive[rank], rank) for rank in others if receive[rank].size]
    comm.wait(requests + [comm.isend(send[rank], rank) for rank in others if send[rank].size])


def collect(comm: Communicator, array: NDArray[Any], bounds: NDArray[np.int64]) -> None:
    """Have on rank 0 all rows of an array of which rank r has those from bounds[r] to bounds[r + 1]."""
    runs = [array[a:b] for a, b in pairwise(bounds)]
    if comm.rank > 0:
        mine = runs[comm.rank]
        comm.wait([comm.isend(mine, 0)] if mine.size else [])
    else:
        comm.wait([comm.irecv(run, rank) for rank, run in enumerate(runs) if rank > 0 and run.size])


def everyones_number(comm: Communicator, number: int) -> list[int]:
    """Return the numbers of all ranks."""
    out = np.zeros(comm.size, np.int64)
    out[comm.rank] = number
    return [int(n) for n in total(comm, out)]


def everyones(comm: Communicator, record: dict[str, str]) -> list[dict[str, str]]:
    """Return the records of all ranks."""
    text = np.frombuffer(json.dumps(record).encode(), np.uint8)
    sizes = everyones_number(comm, len(text))
    starts = np.cumsum([0, *sizes])
    everything = np.zeros(starts[-1], np.uint8)
    everything[starts[comm.rank] : starts[comm.rank + 1]] = text
    everything = total(comm, everything)
    return [json.loads(everything[a:b].tobytes()) for a, b in pairwise(starts)]


@cache
def _witness(comm: Communicator) -> witness.Connection | None:
    """Connect this rank to the witness of the job, which says so if it ends without a word."""
    if comm.size == 1 or not comm.witnessed:
        return None
    from . import witness  # sockets and processes, which only a job of several ranks needs

    where = witness.start(comm.size) if comm.rank == 0 else ""
    connection = witness.Connection.to(everyones(comm, {"witness": where})[0]["witness"], comm.rank)
    if connection is not None:
        atexit.register(connection.leave)
    return connection


@contextmanager
def guard(comm: Communicator) -> Iterator[None]:
    """End all ranks if this one fails, after one line that says which and why."""
    connection = None
    try:
        connection = _witness(comm)
        yield
    except BaseException as error:
        if comm.size == 1:
            raise
        # A message failed: another rank is gone, and the witness tells.
        lost = comm.is_lost(error)
        if lost or (comm.rank > 0 and isinstance(error, PsgldError | KeyboardInterrupt)):
            # Without a witness to give the word to one of them, they speak in their order.
            time.sleep(_PATIENCE + (comm.rank if connection is None else 0))
        end_all(error, comm, connection)


def end_all(error: BaseException, comm: Communicator, connection: witness.Connection | None) -> NoReturn:
    """Say in one line why this rank fails, if nobody else has, and end all."""
    if connection is None or connection.may_speak():
        sys.stderr.write(f"psgld: rank {comm.rank} of {comm.size} failed: {_reason(error)}\n")
        sys.stderr.flush()
        time.sleep(_FORWARDED)
    else:
        time.sleep(_GRACE)
    comm.abort()
    os._exit(1)  # some return from it


def _reason(error: BaseException) -> str:
    """Return an error in one line, with the place in the code if it is not of the user's making."""
    text = " ".join(f"{type(error).__name__}: {error}".split())
    if isinstance(error, PsgldError):
        return text
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{text} ({os.path.basename(frame.filename)}:{frame.lineno})"
