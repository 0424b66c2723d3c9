"""Engines: where the blocks live and who works on them. They contain no mathematics."""

from .distributed.hopping import HoppingChain
from .distributed.mpi import MPI
from .distributed.mpi_chain import MpiChain
from .threads import ThreadedChain, Threads

Engine = Threads | MPI
Blocks = ThreadedChain | MpiChain | HoppingChain
"""The factors of a chain on an engine."""

__all__ = ["MPI", "Blocks", "Engine", "HoppingChain", "MpiChain", "ThreadedChain", "Threads"]
