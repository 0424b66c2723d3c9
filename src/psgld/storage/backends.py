"""The stores there are, by the ends of their names."""

from __future__ import annotations

from pathlib import Path

from ..errors import DataError
from .backend import Backend, RunBackend
from .memory import MemoryBackend
from .npz import NpzBackend
from .zarr import ZarrBackend

BACKENDS: dict[str, type[Backend]] = {kind.suffix: kind for kind in (NpzBackend, ZarrBackend, MemoryBackend)}

RUN_BACKENDS: dict[str, type[RunBackend]] = {
    suffix: kind for suffix, kind in BACKENDS.items() if issubclass(kind, RunBackend)
}
"""Those that a run can be written to while it goes on."""


def durable(kinds: dict[str, type[Backend]] | dict[str, type[RunBackend]]) -> str:
    """Return the ends of the names of stores that outlive the process, for messages."""
    return " or ".join(suffix for suffix, kind in kinds.items() if kind.durable)


def run_backend(path: Path) -> type[RunBackend]:
    """Return the kind of store that a run is written to at this path."""
    if path.suffix not in RUN_BACKENDS:
        raise DataError(f"the name of a store must end in {durable(RUN_BACKENDS)}, got {str(path)!r}")
    return RUN_BACKENDS[path.suffix]
