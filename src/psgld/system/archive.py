"""Reads untrusted NumPy `.npy` and `.npz` files: no pickles, and no more memory than is free.

A few kilobytes of a compressed file can expand to gigabytes. So sizes are checked before memory is allocated: the
header of each array must match the number of bytes in the file, and the sum must fit into memory.
"""

from __future__ import annotations

import math
import os
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from ..errors import DataError, in_bytes
from .limits import available_memory

_SHARE = 0.9
"""The fraction of the free memory that a file may use; the rest is left to other processes."""

_HEADERS: dict[tuple[int, int], Any] = {
    (1, 0): npy.read_array_header_1_0,
    (2, 0): npy.read_array_header_2_0,
}
"""Readers of the header by version of the format. (3.0 is for names of fields, which psgld never writes.)"""


def read_npz(path: Path, names: Iterable[str] | None = None) -> dict[str, NDArray[Any]]:
    """Return the arrays of an `.npz` by name, or some of them.

    Raises
    ------
    DataError
        If they do not fit into memory.
    ValueError, KeyError, OSError, zipfile.BadZipFile, …
        If the file is damaged, or not an `.npz`.
    """
    with zipfile.ZipFile(path) as file:
        members = {info.filename.removesuffix(".npy"): info for info in file.infolist()}
        wanted = list(members) if names is None else list(names)
        check_memory(sum(members[name].file_size for name in wanted), path.name)
        arrays = {}
        for name in wanted:
            with file.open(members[name]) as member:
                _check_header(member, members[name].file_size, name)  # type: ignore[arg-type]
            with file.open(members[name]) as member:
                arrays[name] = npy.read_array(member, allow_pickle=False)
        return arrays


def read_npy(path: Path) -> NDArray[Any]:
    """Return the array of an `.npy` file; it raises the same errors as `read_npz`."""
    size = os.path.getsize(path)
    check_memory(size, path.name)
    with open(path, "rb") as file:
        _check_header(file, size, path.name)
        file.seek(0)
        return np.asarray(npy.read_array(file, allow_pickle=False))


def check_memory(needed: int, what: str) -> None:
    """Raise DataError if `needed` bytes do not fit into the free memory."""
    free = available_memory()
    if free is not None and needed > _SHARE * free:
        raise DataError(
            f"{what} needs {in_bytes(needed)} of memory, {in_bytes(free)} are free, of which 90 % can be used"
        )


def _check_header(file: BinaryIO, size: int, name: str) -> None:
    """Raise ValueError unless the header matches the size of the file."""
    version = npy.read_magic(file)
    if version not in _HEADERS:
        raise ValueError(
            f"{name} has version {version[0]}.{version[1]} of the .npy format, expected 1.0 or 2.0"
        )
    shape, _, dtype = _HEADERS[version](file)
    if dtype.hasobject:
        raise ValueError(f"{name} contains Python objects (pickles), which are not read")
    promised, there = math.prod(shape) * dtype.itemsize, size - file.tell()
    if min(shape, default=0) < 0 or promised != there:
        raise ValueError(
            f"the header of {name} says {dtype} of shape {shape}, but the file has {there} bytes for it"
        )
