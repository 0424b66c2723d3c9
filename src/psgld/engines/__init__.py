"""Engines: where blocks and factors are stored, and which threads or processes update them.

Only `reference/` contains mathematics.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .base import Engine, Factors, Grid, H, ReadableFactors, Stretch, W
from .communicator import Communicator
from .threads import Threads

if TYPE_CHECKING:
    from .accelerated.engine import JAX
    from .distributed.engine import Ranks
    from .distributed.mpi import MPI
    from .reference.engine import Reference

__all__ = [
    "JAX",
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

_LATER = {
    "JAX": ".accelerated.engine",
    "MPI": ".distributed.mpi",
    "Ranks": ".distributed.engine",
    "Reference": ".reference.engine",
}


def __getattr__(name: str) -> Any:
    """Import the engines that most programs do not need on first use."""
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LATER[name], __name__), name)
