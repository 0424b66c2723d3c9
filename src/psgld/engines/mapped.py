"""Blocks in a memory-mapped file next to the shards: V may be larger than the memory.

The file is written once, strip by strip, and reused by later runs after all of it has been verified. The next part is
read from disk while the current one is processed. The system may drop its pages: only the factors must fit in memory.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import _core
from ..data.partition import Strips
from ..data.source import OnDisk
from ..errors import DataError, warn
from .block_cache import BlockFolder, block_folder

_FORMAT = 4

MakeGrid = Callable[[int, bool], Any]
"""Returns the core's grid of blocks in an open file: to be filled (True), or to be verified (False)."""


def mapped_grid(
    data: OnDisk, sides: tuple[Strips, Strips], shift: float, dtype: np.dtype[Any], swapped: bool
) -> Any:
    """Return the core's grid of blocks in a file; write the file, unless a valid one exists.

    `sides` are the outer strips, those of the columns if `swapped`, and the inner ones.
    """
    key = _key(data, shift, dtype, swapped)
    counts = [np.asarray(data.counts(axis), np.float64) for axis in range(len(data.shape))]
    entries = data.block_entries
    if entries.max() >= 2**32:
        raise DataError(
            f"{data.path}: a block has {entries.max()} entries, at most 4294967295 are allowed; shard the data "
            f"into more than {data.blocks} blocks"
        )
    if swapped:
        counts, entries = counts[::-1], entries.T
    make: Any = _core.Grid32 if dtype == np.float32 else _core.Grid64

    def grid(file: int, create: bool) -> Any:
        cut = (array for side in sides for array in (side.order, side.bounds))
        return make(file, create, key, np.ascontiguousarray(entries).ravel(), *counts, swapped, *cut)

    try:
        with block_folder(data.folder) as folder:
            name = f"blocks-{key[:16]}-{os.geteuid()}.bin"  # one file per user: others cannot read it
            return _found(folder, name, grid) or _written(folder, name, grid, data, shift)
    except (OSError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise DataError(
            f"cannot write the blocks of the shards: {reason}; set PSGLD_BLOCKS to a folder on a larger disk"
        ) from error


def _found(folder: BlockFolder, name: str, grid: MakeGrid) -> Any:
    """Return the blocks that an earlier run wrote; None if there are none, or if they are not valid."""
    try:
        with folder.found(name) as file:
            return grid(file, False)
    except FileNotFoundError:
        return None
    except (OSError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or error
        warn(f"the blocks in {folder.path / name} cannot be used ({reason}) and are written again")
        return None


def _written(folder: BlockFolder, name: str, grid: MakeGrid, data: OnDisk, shift: float) -> Any:
    with folder.new(name) as file:
        made = grid(file, True)
        for b in range(data.blocks):
            strip = data.strip(b)
            if not made.fill(strip.indptr, strip.indices, strip.values, strip.rows, b, shift):
                raise DataError(f"{data.path}: strip {b} differs from the manifest; shard the data again")
        data.check_totals()
        made.finish()
        return made


def _key(data: OnDisk, shift: float, dtype: np.dtype[Any], swapped: bool) -> str:
    """Return a hash of everything that determines the contents of the file."""
    parts = [_FORMAT, data.fingerprint(), float(shift).hex(), dtype.name, swapped, sys.byteorder]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()
