"""Blocks in a file beside the shards, mapped into memory: V may be larger than the memory.

The file is written once, strip by strip, and used again by later runs. While a part is worked on, the disk fetches
the next. Pages go again when the memory is wanted, so only the factors need to fit.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from .. import _core
from ..errors import DataError
from ..partition import Strips
from ..shards import Shards

_FORMAT = 2


def mapped_grid(
    data: Shards, rows: Strips, cols: Strips, shift: float, dtype: np.dtype[Any], swapped: bool
) -> Any:
    """Return the core's grid of blocks in a file; write the file, unless it is there."""
    key = _key(data, shift, dtype, swapped)
    path = _folder(data) / f"blocks-{key}.bin"
    done = path.with_suffix(".json")
    counts = [np.asarray(side, np.float64) for side in (data.row_counts(), data.col_counts())]
    entries = data.block_entries
    if swapped:
        rows, cols, counts, entries = cols, rows, counts[::-1], entries.T
    make: Any = _core.Grid32 if dtype == np.float32 else _core.Grid64

    def grid(create: bool) -> Any:
        sides = (rows.order, rows.bounds, cols.order, cols.bounds)
        return make(str(path), create, np.ascontiguousarray(entries).ravel(), *counts, swapped, *sides)

    if done.exists():
        with suppress(RuntimeError):  # removed, or cut short: written again
            return grid(create=False)
    try:
        return _written(grid(create=True), data, shift, done)
    except RuntimeError as error:
        raise DataError(
            f"cannot write the blocks of the shards: {error}; set PSGLD_BLOCKS to a larger disk"
        ) from error


def _written(grid: Any, data: Shards, shift: float, done: Path) -> Any:
    for b in range(data.blocks):
        strip = data.strip(b)
        if not grid.fill(strip.indptr, strip.indices, strip.values, strip.rows, b, shift):
            raise DataError(f"{data.path}: strip {b} is not what the manifest says; shard the data again")
    grid.finish()
    with tempfile.NamedTemporaryFile("w", dir=done.parent, suffix=".part", delete=False) as file:
        json.dump({"format": _FORMAT, "bytes": grid.file_bytes, "shards": str(data.path)}, file)
    os.replace(file.name, done)
    return grid


def _key(data: Shards, shift: float, dtype: np.dtype[Any], swapped: bool) -> str:
    """Name the file after everything that decides its bytes."""
    parts = [_FORMAT, data.fingerprint(), float(shift).hex(), dtype.name, swapped]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


def _folder(data: Shards) -> Path:
    """Return where blocks are kept: PSGLD_BLOCKS, else beside the shards, else among the temporary files."""
    given = os.environ.get("PSGLD_BLOCKS")
    if given:
        folder = Path(given)
        folder.mkdir(parents=True, exist_ok=True)
        return folder
    if isinstance(data.path, str | os.PathLike) and "://" not in str(data.path):
        with suppress(OSError):
            folder = Path(data.path) / "blocks"
            folder.mkdir(exist_ok=True)
            if os.access(folder, os.W_OK):
                return folder
    folder = Path(tempfile.gettempdir()) / "psgld-blocks"
    folder.mkdir(exist_ok=True)
    return folder
