"""Files that are written all or nothing: first beside, then renamed. Arrays in NumPy's `.npz`, never pickles."""

from __future__ import annotations

import os
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from tokenize import TokenError
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

DAMAGE = (
    *(KeyError, ValueError, TypeError, IndexError, AttributeError, EOFError, OSError, MemoryError),
    *(zipfile.BadZipFile, NotImplementedError, RuntimeError, OverflowError, zlib.error),
    *(SyntaxError, TokenError, struct.error),
)
"""What NumPy, zipfile and JSON raise on a file that is something else, cut off or tampered with."""


def write_arrays(path: Path, arrays: Mapping[str, Any]) -> None:
    """Write arrays by name to an `.npz`."""
    plain: dict[str, Any] = {name: np.asarray(a) for name, a in arrays.items()}
    _write(path, lambda file: np.savez(file, **plain))


def read_arrays(path: Path, names: Iterable[str] | None = None) -> dict[str, NDArray[Any]]:
    """Read the arrays of an `.npz`, or some of them; raise one of `DAMAGE` if that cannot be done."""
    with open(path, "rb") as raw, np.load(raw, allow_pickle=False) as file:
        return {name: file[name] for name in (file.files if names is None else names)}


def write_bytes(path: Path, *parts: bytes | memoryview) -> None:
    """Write a file of these parts."""
    _write(path, lambda file: file.writelines(parts))


def sync(path: Path) -> None:
    """Have the disk take in a file, or the names in a folder."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _write(path: Path, fill: Callable[[BinaryIO], Any]) -> None:
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open(beside, "wb") as file:
            fill(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    sync(path.parent)
