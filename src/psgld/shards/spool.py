"""Entries on their way to the strips: a file of batches, each grouped by strip."""

from __future__ import annotations

from pathlib import Path
from typing import Any, BinaryIO, final

import numpy as np
from numpy.typing import NDArray

from ..labels import FloatArray

Entries = tuple[NDArray[np.int32], NDArray[np.int32], FloatArray]


@final
class Spool:
    """A batch is three arrays one after the other, row codes, column codes and values, each in the order of strips."""

    def __init__(self, path: Path, blocks: int) -> None:
        self._file: BinaryIO = open(path, "w+b")  # noqa: SIM115
        self._blocks = blocks
        self._batches: list[tuple[int, NDArray[np.int64], np.dtype[np.floating]]] = []
        self._end = 0

    def add(
        self,
        strips: NDArray[np.uint16],
        rows: NDArray[np.int32],
        cols: NDArray[np.int32],
        values: FloatArray,
    ) -> None:
        """Write a batch."""
        order = np.argsort(strips, kind="stable")  # of 16-bit numbers: a radix sort
        bounds = np.concatenate([[0], np.cumsum(np.bincount(strips, minlength=self._blocks))]).astype(
            np.int64
        )
        self._batches.append((self._end, bounds, values.dtype))
        for array in (rows, cols, values):
            self._file.write(np.take(array, order).data)
            self._end += array.nbytes

    def strip(
        self, b: int, total: int, dtype: np.dtype[np.floating], local: NDArray[np.int32], window: range
    ) -> Entries:
        """Read the `total` entries of the rows of a strip that lie in a window, in the order in which they came.

        `local` tells the place of each row code in its strip; the rows are returned as places in the window.
        """
        self._file.flush()
        out = np.empty(total, np.int32), np.empty(total, np.int32), np.empty(total, dtype)
        done = 0
        for start, bounds, kind in self._batches:
            first, n, size = int(bounds[b]), int(bounds[b + 1] - bounds[b]), int(bounds[-1])
            sections = ((0, np.dtype(np.int32)), (4 * size, np.dtype(np.int32)), (8 * size, kind))
            rows, cols, values = (self._read(start + skip, unit, first, n) for skip, unit in sections)
            rows = local[rows] - np.int32(window.start)
            mine = (rows >= 0) & (rows < len(window))
            n = int(np.count_nonzero(mine))
            for into, array in zip(out, (rows, cols, values), strict=True):
                into[done : done + n] = array if n == len(array) else array[mine]
            done += n
        return out

    def _read(self, start: int, unit: np.dtype[Any], first: int, n: int) -> NDArray[Any]:
        self._file.seek(start + first * unit.itemsize)
        return np.fromfile(self._file, unit, n)

    def close(self) -> None:
        """Close the file."""
        self._file.close()
