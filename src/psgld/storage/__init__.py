"""Posteriors on disk: one file (`.npz`) or a Zarr store (`.zarr`). Opening one cannot run code."""

from __future__ import annotations

from dataclasses import replace
from os import PathLike

from ..checks import as_path
from ..errors import DataError
from ..runs.result import Result
from .backends import BACKENDS, durable


def save(posterior: Result, path: str | PathLike[str]) -> None:
    """Write a posterior to `path`, all or nothing: a Zarr store if it ends in `.zarr`, else an `.npz` file."""
    target = as_path(path)
    if not target.name:
        raise DataError(f"cannot write {str(path)!r}: give the name of a file")
    if target.suffix and target.suffix not in BACKENDS:
        raise DataError(
            f"a posterior is saved as {durable(BACKENDS)}, got {target}; export writes other formats"
        )
    # What is saved here is no longer what a failing disk kept out of a store.
    settings = {name: value for name, value in posterior.settings.items() if name != "unsaved"}
    BACKENDS[target.suffix or ".npz"].save(replace(posterior, settings=settings), target)


def read(path: str | PathLike[str]) -> Result:
    """Read what `save` or a run with `store=` wrote, into memory; of a run that goes on, up to its last checkpoint."""
    source = as_path(path)
    for kind in BACKENDS.values():
        if kind.holds(source):
            return kind.load(source)
    raise DataError(f"no such file: {source}")
