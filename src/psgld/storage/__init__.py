"""Posteriors on disk: one file (`.npz`) or a Zarr store (`.zarr`). Reading one never executes code from it."""

from __future__ import annotations

from dataclasses import replace
from os import PathLike

from ..checks import as_path
from ..errors import DataError
from ..runs.result import Result
from .backends import BACKENDS, durable


def save(posterior: Result, path: str | PathLike[str]) -> None:
    """Write a posterior to `path` atomically: a Zarr store if it ends in `.zarr`, else an `.npz` file."""
    target = as_path(path)
    if not target.name:
        raise DataError(f"cannot write {str(path)!r}: it has no file name; give one")
    if target.suffix and target.suffix not in BACKENDS:
        raise DataError(
            f"a posterior is saved as {durable(BACKENDS)}, got {target}; use export for other formats"
        )
    # "unsaved" marks draws that a failing disk kept out of a store; here they are saved.
    settings = {name: value for name, value in posterior.settings.items() if name != "unsaved"}
    BACKENDS[target.suffix or ".npz"].save(replace(posterior, settings=settings), target)


def read(path: str | PathLike[str]) -> Result:
    """Read a posterior of `save`, or of a run with `store=` (up to its last checkpoint if it is unfinished)."""
    source = as_path(path)
    for kind in BACKENDS.values():
        if kind.holds(source):
            return kind.load(source)
    raise DataError(f"no such file: {source}")
