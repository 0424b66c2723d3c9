"""The ranks of an MPI job: small things they tell each other, and how they end together. Buffers, never pickles."""

from __future__ import annotations

import atexit
import json
import math
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

from ...errors import ModelError, PsgldError, SamplingError

if TYPE_CHECKING:
    from . import witness

_PATIENCE = 3.0
"""Seconds that a rank leaves to rank 0 to report what most often all ranks find at once: an error of the user's."""

_FORWARDED = 0.5
"""Seconds that the launcher has to pass a line on before it is told to end: MPICH's drops what it has not read yet."""

_GRACE = 1.5
"""Seconds that a rank leaves to the one that says why the job ends to end it."""

_SIZES = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS")


def launched() -> bool:
    """Return whether this process was started as one of several, by `mpiexec` or `srun`."""
    sizes = (os.environ.get(name, "") for name in _SIZES)
    return any(size.isdecimal() and int(size) > 1 for size in sizes)


@cache
def world() -> Any:
    """Return the communicator of all ranks, of our own so that messages of others cannot be taken for ours."""
    try:
        from mpi4py import MPI
    except ImportError as error:
        raise ModelError(
            f"MPI() needs mpi4py and an MPI library ({error}); install them: pip install 'psgld[mpi]'"
        ) from error
    try:
        comm = _copy(MPI.COMM_WORLD)
        if comm.Get_size() > 1:
            _departures.prepare(_copy(comm))
            _departures.met = False
    except SamplingError as error:
        _end_all(error, MPI.COMM_WORLD, None)
    return comm


def _copy(comm: Any) -> Any:
    """Return a communicator of the same ranks; one that has left never answers, and patience ends."""
    copy, request = comm.Idup()
    wait([request])
    return copy


@final
class _Departures:
    """Ranks whose script ended before they met the others in any call of psgld: who waits for them waits in vain.

    Such a rank says so when it ends. One that has met the others says nothing: no message is left over in a job that
    goes well, and the witness watches from the first call on.
    """

    met = False
    """Whether this rank has taken part in anything."""

    def __init__(self) -> None:
        self._comm: Any = None

    def prepare(self, comm: Any) -> None:
        """Take a communicator for these messages alone."""
        self._comm = comm
        atexit.register(self._say_goodbye)

    def _say_goodbye(self) -> None:
        if not self.met:
            for rank in range(self._comm.Get_size()):
                if rank != self._comm.Get_rank():
                    self._comm.Isend(np.zeros(1, np.int64), rank).Free()

    def check(self) -> None:
        """Raise SamplingError if a rank has left without taking part in anything."""
        if self._comm is None or not self._comm.Iprobe():
            return
        from mpi4py import MPI

        status = MPI.Status()
        self._comm.Recv(np.zeros(1, np.int64), status=status)
        raise SamplingError(
            f"rank {status.Get_source()} has left, its script ended or failed, while the others wait for it; "
            "all ranks must make the same calls of psgld"
        )


_departures = _Departures()


def wait(requests: list[Any]) -> None:
    """Return when all requests are done. MPI would spin; where cores are scarce, the other ranks need this one.

    What takes longer than two milliseconds waits for somebody else's work: then this rank sleeps.
    """
    if not requests:
        return
    test_all = type(requests[0]).Testall
    for _ in range(20):
        if test_all(requests):
            _departures.met = True
            return
    start, looked = time.monotonic(), 0.0
    while not test_all(requests):
        waited = time.monotonic() - start
        if waited < 0.002:
            os.sched_yield()
            continue
        time.sleep(0.0001)
        if waited - looked > 0.1:
            looked = waited
            _departures.check()
        if waited > _longest():
            raise SamplingError(
                f"no word from the other ranks for {_longest():g} s; a rank hangs or a host is cut off: mend that and "
                "go on with --resume, or set PSGLD_PATIENCE to more seconds"
            )
    _departures.met = True


@cache
def _longest() -> float:
    """Return the seconds that a rank waits for others. A host that is cut off sends nothing, not even an end."""
    text = os.environ.get("PSGLD_PATIENCE", "600")
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not seconds > 0:
        raise ModelError(f"PSGLD_PATIENCE must be a positive number of seconds, or inf, got {text!r}")
    return seconds


def poke(requests: list[Any]) -> None:
    """Let messages go on: most MPI libraries move large ones, over a network, only while somebody asks for them."""
    if requests:
        type(requests[0]).Testall(requests)


def total(table: NDArray[Any]) -> NDArray[Any]:
    """Return the sum over the ranks. Exact in any order where only one rank has a number, or all have integers."""
    out = np.ascontiguousarray(table).copy()
    from mpi4py import MPI

    wait([world().Iallreduce(MPI.IN_PLACE, out)])
    return out


def from_first(values: NDArray[Any]) -> NDArray[Any]:
    """Return rank 0's array, of a shape that all know."""
    values = np.ascontiguousarray(values)
    wait([world().Ibcast(values, 0)])
    return values


def to_first(
    rows: NDArray[np.int64], values: NDArray[Any]
) -> Iterator[tuple[NDArray[np.int64], NDArray[Any]]]:
    """Yield on rank 0 the rows and values of each rank, its own first; on the others send them, and yield nothing."""
    comm = world()
    if comm.Get_rank() > 0:
        wait([comm.Isend(np.array([len(rows)]), 0), comm.Isend(rows, 0), comm.Isend(values, 0)])
        return
    yield rows, values
    for rank in range(1, comm.Get_size()):
        size = np.zeros(1, np.int64)
        wait([comm.Irecv(size, rank)])
        theirs = np.empty(int(size[0]), np.int64), np.empty((int(size[0]), *values.shape[1:]), values.dtype)
        wait([comm.Irecv(a, rank) for a in theirs])
        yield theirs


@final
class Delivery:
    """Rows that are scattered over the ranks, to where they are wanted: rank r wants bounds[r] … bounds[r + 1] - 1."""

    def __init__(self, rows: NDArray[np.int64], bounds: NDArray[np.int64]) -> None:
        ends = np.searchsorted(rows, bounds)  # rows are in order
        self._parts = [slice(int(a), int(b)) for a, b in pairwise(ends)]
        self._rows = exchange([np.ascontiguousarray(rows[part]) for part in self._parts])

    def __call__(self, values: NDArray[Any], out: NDArray[Any]) -> int:
        """Put the rows that are wanted here into their places of `out`; return the bytes sent."""
        found = [np.empty((len(rows), *values.shape[1:]), values.dtype) for rows in self._rows]
        sent = [values[part] for part in self._parts]
        _swap(found, sent)
        for rows, part in zip(self._rows, found, strict=True):
            out[rows] = part
        return sum(a.nbytes for rank, a in enumerate(sent) if rank != world().Get_rank())


def exchange(parts: list[NDArray[Any]]) -> list[NDArray[Any]]:
    """Give every rank its part, a 1-D array, and return what each has for this one."""
    here, sizes = world().Get_rank(), np.zeros((len(parts), len(parts)), np.int64)
    sizes[here] = [len(part) for part in parts]
    received = [np.empty(n, parts[0].dtype) for n in total(sizes)[:, here]]
    _swap(received, parts)
    return received


def _swap(receive: list[NDArray[Any]], send: list[NDArray[Any]]) -> None:
    comm = world()
    here = comm.Get_rank()
    receive[here][:] = send[here]
    others = [rank for rank in range(comm.Get_size()) if rank != here]
    requests = [comm.Irecv(receive[rank], rank) for rank in others if receive[rank].size]
    wait(requests + [comm.Isend(send[rank], rank) for rank in others if send[rank].size])


def collect(array: NDArray[Any], bounds: NDArray[np.int64]) -> None:
    """Have on rank 0 all rows of an array of which rank r has those from bounds[r] to bounds[r + 1]."""
    comm = world()
    runs = [array[a:b] for a, b in pairwise(bounds)]
    if comm.Get_rank() > 0:
        mine = runs[comm.Get_rank()]
        wait([comm.Isend(mine, 0)] if mine.size else [])
    else:
        wait([comm.Irecv(run, rank) for rank, run in enumerate(runs) if rank > 0 and run.size])


def everyones_number(number: int) -> list[int]:
    """Return the numbers of all ranks."""
    out = np.zeros(world().Get_size(), np.int64)
    out[world().Get_rank()] = number
    return [int(n) for n in total(out)]


def everyones(record: dict[str, str]) -> list[dict[str, str]]:
    """Return the records of all ranks."""
    text = np.frombuffer(json.dumps(record).encode(), np.uint8)
    sizes = everyones_number(len(text))
    starts = np.cumsum([0, *sizes])
    everything = np.zeros(starts[-1], np.uint8)
    here = world().Get_rank()
    everything[starts[here] : starts[here + 1]] = text
    everything = total(everything)
    return [json.loads(everything[a:b].tobytes()) for a, b in pairwise(starts)]


def on_this_machine(table: NDArray[np.int64]) -> tuple[NDArray[np.int64], int]:
    """Return the sum of a table over the ranks on this machine, and their number."""
    from mpi4py import MPI

    here = world().Split_type(MPI.COMM_TYPE_SHARED)
    out = table.copy()
    here.Allreduce(MPI.IN_PLACE, out)
    number = int(here.Get_size())
    here.Free()
    return out, number


@cache
def _witness() -> witness.Connection | None:
    """Connect this rank to the witness of the job, which says so if it ends without a word."""
    comm = world()
    if comm.Get_size() == 1:
        return None
    from . import witness  # sockets and processes, which only a job of several ranks needs

    where = witness.start(comm.Get_size()) if comm.Get_rank() == 0 else ""
    connection = witness.Connection.to(everyones({"witness": where})[0]["witness"], comm.Get_rank())
    if connection is not None:
        atexit.register(connection.leave)
    return connection


@contextmanager
def guard() -> Iterator[None]:
    """End all ranks if this one fails, after one line that says which and why."""
    comm, connection = world(), None
    try:
        connection = _witness()
        yield
    except BaseException as error:
        if comm.Get_size() == 1:
            raise
        # A message failed: another rank is gone, and the witness tells.
        lost = type(error).__module__ == "mpi4py.MPI"
        rank = comm.Get_rank()
        if lost or (rank > 0 and isinstance(error, PsgldError | KeyboardInterrupt)):
            # Without a witness to give the word to one of them, they speak in their order.
            time.sleep(_PATIENCE + (rank if connection is None else 0))
        _end_all(error, comm, connection)


def _end_all(error: BaseException, comm: Any, connection: witness.Connection | None) -> NoReturn:
    """Say in one line why this rank fails, if nobody else has, and end all."""
    if connection is None or connection.may_speak():
        rank, size = comm.Get_rank(), comm.Get_size()
        sys.stderr.write(f"psgld: rank {rank} of {size} failed: {_reason(error)}\n")
        sys.stderr.flush()
        time.sleep(_FORWARDED)
    else:
        time.sleep(_GRACE)
    _abort()


def _abort() -> NoReturn:
    """End all ranks. MPICH's launcher ends its ranks on hosts that are cut off only if all of the world is to end."""
    from mpi4py import MPI

    MPI.COMM_WORLD.Abort(1)
    os._exit(1)  # some return from it


def _reason(error: BaseException) -> str:
    """Return an error in one line, with the place in the code if it is not of the user's making."""
    text = " ".join(f"{type(error).__name__}: {error}".split())
    if isinstance(error, PsgldError):
        return text
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{text} ({os.path.basename(frame.filename)}:{frame.lineno})"
