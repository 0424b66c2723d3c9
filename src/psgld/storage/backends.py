"""The registry of stores, by their suffixes."""

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
"""Stores to which a run can write while it samples."""


def durable(kinds: dict[str, type[Backend]] | dict[str, type[RunBackend]]) -> str:
    """Return the suffixes of stores that persist after the process ends, for messages."""
    return " or ".join(suffix for suffix, kind in kinds.items() if kind.durable)


def run_backend(path: Path) -> type[RunBackend]:
    """Return the class of the store at this path; raise DataError if a run cannot write to it."""
    if path.suffix not in RUN_BACKENDS:
        raise DataError(f"the name of a store must end in {durable(RUN_BACKENDS)}, got {str(path)!r}")
    return RUN_BACKENDS[path.suffix]


def is_resumable(path: Path) -> bool:
    """Return whether another process could resume a run that is written to this path."""
    kind = RUN_BACKENDS.get(path.suffix)
    return kind is not None and kind.durable


def is_writable(path: Path) -> bool:
    """Return whether the name is that of a durable store or file, or has no suffix."""
    return not path.suffix or (path.suffix in BACKENDS and BACKENDS[path.suffix].durable)
