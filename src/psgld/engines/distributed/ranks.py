"""Collective operations on small arrays, and how all ranks of a job end. Messages are buffers, never pickles."""

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
"""Seconds that a rank waits for rank 0 to report an error of the user, which most often occurs on all ranks at once."""

_FORWARDED = 0.5
"""Seconds between the error message and the abort: MPICH's launcher drops output that it has not read by then."""

_GRACE = 1.5
"""Seconds that a rank waits for the reporting rank to end the job."""


def total(comm: Communicator, table: NDArray[Any]) -> NDArray[Any]:
    """Return the sum over the ranks; exact in any order for integers, or if all ranks but one have zeros."""
    out = np.ascontiguousarray(table).copy()
    comm.allreduce(out)
    return out


def from_first(comm: Communicator, values: NDArray[Any]) -> NDArray[Any]:
    """Return rank 0's array; all ranks pass an array of the same shape."""
    values = np.ascontiguousarray(values)
    comm.broadcast([(values, 0)])
    return values


def to_first(
    comm: Communicator, rows: NDArray[np.int64], values: NDArray[Any]
) -> Iterator[tuple[NDArray[np.int64], NDArray[Any]]]:
    """Yield the rows and values of each rank on rank 0, its own first. Other ranks send theirs and yield nothing."""
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
    """Redistributes rows over the ranks: rank r receives the rows bounds[r] … bounds[r + 1] - 1."""

    def __init__(self, comm: Communicator, rows: NDArray[np.int64], bounds: NDArray[np.int64]) -> None:
        self._comm = comm
        ends = np.searchsorted(rows, bounds)  # rows are sorted
        self._parts = [slice(int(a), int(b)) for a, b in pairwise(ends)]
        self._rows = exchange(comm, [np.ascontiguousarray(rows[part]) for part in self._parts])

    def __call__(self, values: NDArray[Any], out: NDArray[Any]) -> int:
        """Write the rows that this rank receives to `out`; return the number of bytes sent."""
        found = [np.empty((len(rows), *values.shape[1:]), values.dtype) for rows in self._rows]
        sent = [values[part] for part in self._parts]
        _swap(self._comm, found, sent)
        for rows, part in zip(self._rows, found, strict=True):
            out[rows] = part
        return sum(a.nbytes for rank, a in enumerate(sent) if rank != self._comm.rank)


def exchange(comm: Communicator, parts: list[NDArray[Any]]) -> list[NDArray[Any]]:
    """Send parts[r], a 1-D array, to each rank r; return the arrays received from each rank (all-to-all)."""
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
    """Gather an array on rank 0; rank r holds its rows bounds[r] … bounds[r + 1] - 1."""
    runs = [array[a:b] for a, b in pairwise(bounds)]
    if comm.rank > 0:
        mine = runs[comm.rank]
        comm.wait([comm.isend(mine, 0)] if mine.size else [])
    else:
        comm.wait([comm.irecv(run, rank) for rank, run in enumerate(runs) if rank > 0 and run.size])


def everyones_number(comm: Communicator, number: int) -> list[int]:
    """Return the number of each rank, on all ranks (allgather)."""
    out = np.zeros(comm.size, np.int64)
    out[comm.rank] = number
    return [int(n) for n in total(comm, out)]


def everyones(comm: Communicator, record: dict[str, str]) -> list[dict[str, str]]:
    """Return the record of each rank, on all ranks (allgather)."""
    text = np.frombuffer(json.dumps(record).encode(), np.uint8)
    sizes = everyones_number(comm, len(text))
    starts = np.cumsum([0, *sizes])
    everything = np.zeros(starts[-1], np.uint8)
    everything[starts[comm.rank] : starts[comm.rank + 1]] = text
    everything = total(comm, everything)
    return [json.loads(everything[a:b].tobytes()) for a, b in pairwise(starts)]


@cache
def _witness(comm: Communicator) -> witness.Connection | None:
    """Connect this rank to the witness process of the job, which reports a rank that is killed."""
    if comm.size == 1 or not comm.witnessed:
        return None
    from . import witness  # imports sockets and processes, which only a job of several ranks needs

    where = witness.start(comm.size) if comm.rank == 0 else ""
    connection = witness.Connection.to(everyones(comm, {"witness": where})[0]["witness"], comm.rank)
    if connection is not None:
        atexit.register(connection.leave)
    return connection


@contextmanager
def guard(comm: Communicator) -> Iterator[None]:
    """End all ranks if this one fails, after a one-line message with the reason."""
    connection = None
    try:
        connection = _witness(comm)
        yield
    except BaseException as error:
        if comm.size == 1:
            raise
        # A message failed because another rank has ended, which the witness reports.
        lost = comm.is_lost(error)
        if lost or (comm.rank > 0 and isinstance(error, PsgldError | KeyboardInterrupt)):
            # Without a witness to choose one reporter, ranks report one after another.
            time.sleep(_PATIENCE + (comm.rank if connection is None else 0))
        end_all(error, comm, connection)


def end_all(error: BaseException, comm: Communicator, connection: witness.Connection | None) -> NoReturn:
    """Print one line that says why this rank fails, unless another rank has reported, and end all ranks."""
    if connection is None or connection.may_report():
        sys.stderr.write(f"psgld: rank {comm.rank} of {comm.size} failed: {_reason(error)}\n")
        sys.stderr.flush()
        time.sleep(_FORWARDED)
    else:
        time.sleep(_GRACE)
    comm.abort()
    os._exit(1)  # some implementations of abort return


def _reason(error: BaseException) -> str:
    """Return an error as one line, with file and line number unless psgld raised it on purpose."""
    text = " ".join(f"{type(error).__name__}: {error}".split())
    if isinstance(error, PsgldError):
        return text
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{text} ({os.path.basename(frame.filename)}:{frame.lineno})"
