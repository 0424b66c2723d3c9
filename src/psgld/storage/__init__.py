"""Posteriors on disk: one file (`.npz`) or a Zarr store (`.zarr`). Opening one cannot run code."""

from __future__ import annotations

from dataclasses import replace
from os import PathLike

from ..checks import as_path
from ..errors import DataError
from ..posterior import Posterior
from . import npz, store


def save(posterior: Posterior, path: str | PathLike[str]) -> None:
    """Write a posterior to `path`, all or nothing: a Zarr store if it ends in `.zarr`, else an `.npz` file."""
    target = as_path(path)
    if not target.name:
        raise DataError(f"cannot write {str(path)!r}: give the name of a file")
    if target.suffix not in ("", ".npz", ".zarr"):
        raise DataError(f"a posterior is saved as .npz or .zarr, got {target}; export writes other formats")
    # What is saved here is no longer what a failing disk kept out of a store.
    settings = {name: value for name, value in posterior.settings.items() if name != "unsaved"}
    (store if target.suffix == ".zarr" else npz).save(replace(posterior, settings=settings), target)


def load(path: str | PathLike[str]) -> Posterior:
    """Read a posterior that `Posterior.save` or a run with `store=` wrote, into memory.

    Of a run that goes on, or that was killed, it is the draws up to the last checkpoint, marked as interrupted.
    """
    source = as_path(path)
    if source.is_dir():
        return store.load(source)
    if not source.is_file():
        raise DataError(f"no such file: {source}")
    return npz.load(source)
