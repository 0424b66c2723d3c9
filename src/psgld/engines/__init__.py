"""Engines: where blocks and factors are stored, and which threads or processes update them.

Only `reference/` contains mathematics.
"""

from .base import Engine, Factors, Grid, H, ReadableFactors, Stretch, W
from .communicator import Communicator
from .distributed.engine import Ranks
from .distributed.mpi import MPI
from .reference.engine import Reference
from .threads import Threads

__all__ = [
    "MPI",
    "Communicator",
    "Engine",
    "Factors",
    "Grid",
    "H",
    "Ranks",
    "ReadableFactors",
    "Reference",
    "Stretch",
    "Threads",
    "W",
]
