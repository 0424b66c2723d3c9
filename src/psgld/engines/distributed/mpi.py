"""MPI as a communicator, and the engine on it. Only this file imports `mpi4py`, on first use."""

from __future__ import annotations

import atexit
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from ...errors import ModelError, SamplingError
from ..communicator import Communicator, Request
from ..threads import check_threads
from . import ranks
from .engine import DistributedEngine

_SIZES = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS")


@final
@dataclass(frozen=True)
class MPI(DistributedEngine):
    """Run on all ranks that `mpiexec` started, `threads` threads each; by default, as many as the cores allow.

    Every rank calls `psgld.sample` with the same arguments. Rank 0 shows the progress and returns the full posterior;
    the others return one without draws of W and H.

    Examples
    --------
    >>> import psgld
    >>> engine = psgld.MPI(threads=1)
    """

    threads: int | None = None

    def __post_init__(self) -> None:
        check_threads(self.threads)

    @property
    def communicator(self) -> MpiCommunicator:
        """The communicator of all ranks of the job."""
        return world()


def launched() -> bool:
    """Return whether `mpiexec` or `srun` started this process as one of several."""
    sizes = (os.environ.get(name, "") for name in _SIZES)
    return any(size.isdecimal() and int(size) > 1 for size in sizes)


def library() -> str:
    """Return the name and the version of the MPI library."""
    from mpi4py import MPI as Library

    first = str(Library.Get_library_version()).replace("\0", "").split(",")[0]
    return " ".join(first.split("MPICH Release")[0].replace("Version:", "").split())


@cache
def world() -> MpiCommunicator:
    """Return a communicator of all ranks: a copy, so that messages of other libraries are not received here."""
    try:
        from mpi4py import MPI as Library
    except ImportError as error:
        raise ModelError(
            f"MPI() needs mpi4py and an MPI library ({error}); install them: pip install 'psgld[mpi]'"
        ) from error
    everyone = MpiCommunicator(Library.COMM_WORLD)
    try:
        comm = everyone.copy()
        if comm.size > 1:
            _departures.prepare(comm.copy())
            _departures.met = False
    except SamplingError as error:
        ranks.end_all(error, everyone, None)
    return comm


@final
class MpiCommunicator(Communicator):
    """Messages by MPI."""

    witnessed = True  # `mpiexec` ends all ranks when one is killed, so no rank can report it

    def __init__(self, comm: Any) -> None:
        self._comm = comm
        self._rank, self._size = int(comm.Get_rank()), int(comm.Get_size())

    @property
    def rank(self) -> int:
        """The rank of this process, from 0."""
        return self._rank

    @property
    def size(self) -> int:
        """The number of processes."""
        return self._size

    def copy(self) -> MpiCommunicator:
        """Return a communicator of the same ranks. If a rank has ended, `wait` times out."""
        copy, request = self._comm.Idup()
        self.wait([request])
        return MpiCommunicator(copy)

    def isend(self, array: NDArray[Any], to: int, tag: int = 0) -> Request:
        """Start to send an array."""
        return self._comm.Isend(array, to, tag)

    def irecv(self, array: NDArray[Any], source: int, tag: int = 0) -> Request:
        """Start to receive into an array."""
        return self._comm.Irecv(array, source, tag)

    def test(self, requests: list[Request]) -> bool:
        """Return whether all requests are complete. Most MPI libraries send large messages only during such calls."""
        if not requests:
            return True
        done = bool(type(requests[0]).Testall(requests))
        if done:
            _departures.met = True
        return done

    def broadcast(self, arrays: Sequence[tuple[NDArray[Any], int]]) -> None:
        """Copy each array from its rank to all ranks, for each (array, rank)."""
        self.wait([self._comm.Ibcast(array, source) for array, source in arrays])

    def allreduce(self, array: NDArray[Any]) -> None:
        """Replace an array by its sum over the ranks."""
        from mpi4py import MPI as Library

        self.wait([self._comm.Iallreduce(Library.IN_PLACE, array)])

    @cached_property
    def machine(self) -> str:
        """The lowest rank that shares memory with this one."""
        from mpi4py import MPI as Library

        here = self._comm.Split_type(Library.COMM_TYPE_SHARED)
        first = np.array([self._rank])
        here.Bcast(first, 0)
        here.Free()
        return str(first[0])

    def check(self) -> None:
        """Raise SamplingError if a rank ended before its first message."""
        _departures.check()

    def is_lost(self, error: BaseException) -> bool:
        """Return whether MPI itself raised an error: another rank has ended."""
        return type(error).__module__ == "mpi4py.MPI"

    def abort(self) -> None:
        """End all ranks of COMM_WORLD; otherwise MPICH's launcher leaves ranks on disconnected hosts running."""
        from mpi4py import MPI as Library

        Library.COMM_WORLD.Abort(1)

    def sender(self) -> int | None:
        """Receive a pending message and return its sender; None if there is no message."""
        if not self._comm.Iprobe():
            return None
        from mpi4py import MPI as Library

        status = Library.Status()
        self._comm.Recv(np.zeros(1, np.int64), status=status)
        return int(status.Get_source())


@final
class _Departures:
    """Detects ranks whose script ended before their first message to the others, which would wait for ever.

    Such a rank sends a message to the others when it exits. A rank that has communicated sends none: a successful job
    leaves no message unreceived, and the witness monitors all ranks from the first call on.
    """

    met = False
    """Whether this rank has completed any message."""

    def __init__(self) -> None:
        self._comm: MpiCommunicator | None = None

    def prepare(self, comm: MpiCommunicator) -> None:
        """Set the communicator that is used for these messages only."""
        self._comm = comm
        atexit.register(self._send_departure)

    def _send_departure(self) -> None:
        if self._comm is not None and not self.met:
            for rank in range(self._comm.size):
                if rank != self._comm.rank:
                    self._comm.isend(np.zeros(1, np.int64), rank).Free()

    def check(self) -> None:
        """Raise SamplingError if a rank ended before its first message."""
        gone = None if self._comm is None else self._comm.sender()
        if gone is not None:
            raise SamplingError(
                f"rank {gone} has exited (its script ended or failed) while the others wait for it; "
                "all ranks must make the same calls of psgld"
            )


_departures = _Departures()
