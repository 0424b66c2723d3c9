"""MPI as a communicator, and the engine on it. The only file that imports `mpi4py`, and not before it is used."""

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
        """All ranks of the job."""
        return world()


def launched() -> bool:
    """Return whether this process was started as one of several, by `mpiexec` or `srun`."""
    sizes = (os.environ.get(name, "") for name in _SIZES)
    return any(size.isdecimal() and int(size) > 1 for size in sizes)


def library() -> str:
    """Return the name and the version of the MPI library."""
    from mpi4py import MPI as Library

    first = str(Library.Get_library_version()).replace("\0", "").split(",")[0]
    return " ".join(first.split("MPICH Release")[0].replace("Version:", "").split())


@cache
def world() -> MpiCommunicator:
    """Return the communicator of all ranks, of our own so that messages of others cannot be taken for ours."""
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

    witnessed = True  # `mpiexec` ends all ranks when one dies, so none of them can tell

    def __init__(self, comm: Any) -> None:
        self._comm = comm
        self._rank, self._size = int(comm.Get_rank()), int(comm.Get_size())

    @property
    def rank(self) -> int:
        """The number of this process, from 0."""
        return self._rank

    @property
    def size(self) -> int:
        """The number of processes."""
        return self._size

    def copy(self) -> MpiCommunicator:
        """Return a communicator of the same ranks; one that has left never answers, and patience ends."""
        copy, request = self._comm.Idup()
        self.wait([request])
        return MpiCommunicator(copy)

    def isend(self, array: NDArray[Any], to: int, tag: int = 0) -> Request:
        """Begin to send an array."""
        return self._comm.Isend(array, to, tag)

    def irecv(self, array: NDArray[Any], source: int, tag: int = 0) -> Request:
        """Begin to receive into an array."""
        return self._comm.Irecv(array, source, tag)

    def test(self, requests: list[Request]) -> bool:
        """Return whether all requests are done. Most MPI libraries move large messages only while somebody asks."""
        if not requests:
            return True
        done = bool(type(requests[0]).Testall(requests))
        if done:
            _departures.met = True
        return done

    def broadcast(self, arrays: Sequence[tuple[NDArray[Any], int]]) -> None:
        """Have on all ranks what one of them has, for each (array, rank)."""
        self.wait([self._comm.Ibcast(array, source) for array, source in arrays])

    def allreduce(self, array: NDArray[Any]) -> None:
        """Replace an array by its sum over the ranks."""
        from mpi4py import MPI as Library

        self.wait([self._comm.Iallreduce(Library.IN_PLACE, array)])

    @cached_property
    def machine(self) -> str:
        """The first of the ranks that share memory with this one."""
        from mpi4py import MPI as Library

        here = self._comm.Split_type(Library.COMM_TYPE_SHARED)
        first = np.array([self._rank])
        here.Bcast(first, 0)
        here.Free()
        return str(first[0])

    def check(self) -> None:
        """Raise SamplingError if a rank has left without taking part in anything."""
        _departures.check()

    def is_lost(self, error: BaseException) -> bool:
        """Return whether an error is of MPI itself: another rank is gone."""
        return type(error).__module__ == "mpi4py.MPI"

    def abort(self) -> None:
        """End all ranks: all of the world, or MPICH's launcher leaves those on hosts that are cut off."""
        from mpi4py import MPI as Library

        Library.COMM_WORLD.Abort(1)

    def sender(self) -> int | None:
        """Return the rank of a message that nobody has received yet, and receive it; None if there is none."""
        if not self._comm.Iprobe():
            return None
        from mpi4py import MPI as Library

        status = Library.Status()
        self._comm.Recv(np.zeros(1, np.int64), status=status)
        return int(status.Get_source())


@final
class _Departures:
    """Ranks whose script ended before they met the others in any call of psgld: who waits for them waits in vain.

    Such a rank says so when it ends. One that has met the others says nothing: no message is left over in a job that
    goes well, and the witness watches from the first call on.
    """

    met = False
    """Whether this rank has taken part in anything."""

    def __init__(self) -> None:
        self._comm: MpiCommunicator | None = None

    def prepare(self, comm: MpiCommunicator) -> None:
        """Take a communicator for these messages alone."""
        self._comm = comm
        atexit.register(self._say_goodbye)

    def _say_goodbye(self) -> None:
        if self._comm is not None and not self.met:
            for rank in range(self._comm.size):
                if rank != self._comm.rank:
                    self._comm.isend(np.zeros(1, np.int64), rank).Free()

    def check(self) -> None:
        """Raise SamplingError if a rank has left without taking part in anything."""
        gone = None if self._comm is None else self._comm.sender()
        if gone is not None:
            raise SamplingError(
                f"rank {gone} has left, its script ended or failed, while the others wait for it; "
                "all ranks must make the same calls of psgld"
            )


_departures = _Departures()
