"""The interface for messages between the processes of a job, for MPI, sockets or pipes.

A communicator defines `rank`, `size`, `isend`, `irecv`, `test` and `abort`. Collective operations have defaults built
on these messages.
"""

from __future__ import annotations

import math
import os
import platform
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..errors import ModelError, SamplingError

Request = Any
"""A pending message, as returned by `isend` and `irecv` and passed to `test`."""


class Communicator(ABC):
    """Messages between R processes, all of which make the same calls in the same order.

    Arrays are contiguous, and must not be changed until the message is complete. Messages from one rank to another
    with the same tag arrive in the order in which they were sent.
    """

    witnessed: ClassVar[bool] = False
    """Whether an extra process, next to rank 0, reports which rank was killed (`distributed/witness.py`)."""

    @property
    @abstractmethod
    def rank(self) -> int:
        """The rank of this process, from 0."""

    @property
    @abstractmethod
    def size(self) -> int:
        """R, the number of processes."""

    @abstractmethod
    def isend(self, array: NDArray[Any], to: int, tag: int = 0) -> Request:
        """Start to send an array; return without waiting for the other rank."""

    @abstractmethod
    def irecv(self, array: NDArray[Any], source: int, tag: int = 0) -> Request:
        """Start to receive into an array of the size that is sent."""

    @abstractmethod
    def test(self, requests: list[Request]) -> bool:
        """Return, without blocking, whether all of these messages are complete; make progress on pending ones."""

    @abstractmethod
    def abort(self) -> None:
        """End all ranks of the job, or end this one so that the others notice."""

    def wait(self, requests: list[Request]) -> None:
        """Return when all requests are complete.

        After two milliseconds the rank sleeps between polls, since other ranks may need its core for their work.
        """
        if not requests:
            return
        test = self.test
        for _ in range(20):
            if test(requests):
                return
        start, looked = time.monotonic(), 0.0
        while not test(requests):
            waited = time.monotonic() - start
            if waited < 0.002:
                os.sched_yield()
                continue
            time.sleep(0.0001)
            if waited - looked > 0.1:
                looked = waited
                self.check()
            if waited > _longest():
                raise SamplingError(
                    f"no message from the other ranks for {_longest():g} s: a rank hangs or a host is disconnected; "
                    "fix that and resume with --resume, or set PSGLD_PATIENCE to more seconds"
                )

    def broadcast(self, arrays: Sequence[tuple[NDArray[Any], int]]) -> None:
        """Copy each array from its rank to all ranks, for each (array, rank)."""
        requests = []
        for array, source in arrays:
            if source != self.rank:
                requests.append(self.irecv(array, source))
            else:
                requests += [self.isend(array, rank) for rank in range(self.size) if rank != source]
        self.wait(requests)

    def allreduce(self, array: NDArray[Any]) -> None:
        """Replace an array by its sum over the ranks, bit-identical on all of them.

        The engine sums integers, or tables in which all ranks but one have zero: the sum is exact in any order.
        """
        if self.rank == 0:
            for rank in range(1, self.size):
                theirs = np.empty_like(array)
                self.wait([self.irecv(theirs, rank)])
                array += theirs
        else:
            self.wait([self.isend(array, 0)])
        self.broadcast([(array, 0)])

    @property
    def machine(self) -> str:
        """An identifier of the machine: equal for ranks on the same machine, different otherwise."""
        return platform.node()

    def check(self) -> None:  # noqa: B027
        """Raise SamplingError if another rank has ended; called every 0.1 s while waiting."""

    def is_lost(self, error: BaseException) -> bool:
        """Return whether an error means that another rank has ended."""
        return isinstance(error, ConnectionError | EOFError)


@cache
def _longest() -> float:
    """Return the time-out of a rank in seconds. A disconnected host sends nothing, not even the end of a connection."""
    text = os.environ.get("PSGLD_PATIENCE", "600")
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not seconds > 0:
        raise ModelError(f"PSGLD_PATIENCE must be a positive number of seconds, or inf, got {text!r}")
    return seconds
