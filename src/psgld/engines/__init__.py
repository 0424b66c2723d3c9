"""Engines: where the blocks live and who works on them. They contain no mathematics."""

from .mpi import MPI, MpiChain
from .threads import ThreadedChain, Threads

Engine = Threads | MPI
Blocks = ThreadedChain | MpiChain
"""The factors of a chain on an engine."""

__all__ = ["MPI", "Blocks", "Engine", "MpiChain", "ThreadedChain", "Threads"]
