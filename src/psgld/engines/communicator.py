"""The contract of messages between the processes of a job: what MPI, sockets or pipes must offer to carry a chain.

Five methods make a communicator: `rank`, `size`, `isend`, `irecv`, `test`; and `abort` for the end. What is said by
all ranks at once has a default made of messages.
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
"""A message under way: what `isend` and `irecv` return, and `test` takes."""


class Communicator(ABC):
    """Messages between R processes, all of which run the same calls in the same order.

    Arrays are contiguous, and belong to the message until it is done. Messages from one rank to another with the same
    tag arrive in the order in which they were sent.
    """

    witnessed: ClassVar[bool] = False
    """Whether a process beside rank 0 is to say which rank was killed (`distributed/witness.py`)."""

    @property
    @abstractmethod
    def rank(self) -> int:
        """The number of this process, from 0."""

    @property
    @abstractmethod
    def size(self) -> int:
        """R, the number of processes."""

    @abstractmethod
    def isend(self, array: NDArray[Any], to: int, tag: int = 0) -> Request:
        """Begin to send an array; return without waiting for the other rank."""

    @abstractmethod
    def irecv(self, array: NDArray[Any], source: int, tag: int = 0) -> Request:
        """Begin to receive into an array, of the size that is sent."""

    @abstractmethod
    def test(self, requests: list[Request]) -> bool:
        """Let messages move, and return whether all of these are done; soon, in either case."""

    @abstractmethod
    def abort(self) -> None:
        """End all ranks of the job, or this one in a way that the others notice."""

    def wait(self, requests: list[Request]) -> None:
        """Return when all requests are done. What takes longer than two milliseconds waits for somebody else's work.

        Then this rank sleeps: where cores are scarce, the other ranks need this one.
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
                    f"no word from the other ranks for {_longest():g} s; a rank hangs or a host is cut off: mend that "
                    "and go on with --resume, or set PSGLD_PATIENCE to more seconds"
                )

    def broadcast(self, arrays: Sequence[tuple[NDArray[Any], int]]) -> None:
        """Have on all ranks what one of them has, for each (array, rank)."""
        requests = []
        for array, source in arrays:
            if source != self.rank:
                requests.append(self.irecv(array, source))
            else:
                requests += [self.isend(array, rank) for rank in range(self.size) if rank != source]
        self.wait(requests)

    def allreduce(self, array: NDArray[Any]) -> None:
        """Replace an array by its sum over the ranks: the same bits on all of them.

        The engine adds tables in which one rank has a number and the others zero, or integers: exact in any order.
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
        """A name that the ranks of one machine have in common, and no others."""
        return platform.node()

    def check(self) -> None:  # noqa: B027
        """Raise SamplingError if a rank is known to have left; asked now and then by those who wait."""

    def is_lost(self, error: BaseException) -> bool:
        """Return whether an error says that another rank is gone."""
        return isinstance(error, ConnectionError | EOFError)


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
