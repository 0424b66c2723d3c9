"""A temporary file of entries in batches, each grouped by strip, written before the strips are sorted."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from ... import _core
from ..labels import FloatArray

Entries = tuple[NDArray[np.int32], NDArray[np.int32], FloatArray]
_BYTES = {True: 12, False: 16}
"""Bytes per record: row code, column code, and a value of 4 (float32) or 8 bytes."""


class Grouped(NamedTuple):
    """A batch of records (`spool.hpp`) in the order of strips."""

    records: NDArray[np.uint8]
    bounds: NDArray[np.int64]
    """The first record of each strip, and the end."""
    single: bool
    """Whether the values are stored as float32, without loss."""


@final
class Spool:
    """A file of batches, and the position of each strip in each batch."""

    def __init__(self, path: Path) -> None:
        self._file: BinaryIO = open(path, "w+b", buffering=0)  # noqa: SIM115
        self._batches: list[tuple[int, NDArray[np.int64], bool]] = []
        self._end = 0

    def add(self, batch: Grouped) -> None:
        """Write a batch."""
        left = batch.records.data
        while left:
            left = left[self._file.write(left) :]
        self._batches.append((self._end, batch.bounds, batch.single))
        self._end += batch.records.nbytes

    @property
    def single(self) -> bool:
        """Whether float32 represents all values exactly."""
        return all(single for _, _, single in self._batches)

    def strip(
        self,
        b: int,
        total: int,
        dtype: np.dtype[np.floating],
        place: NDArray[np.int32],
        index: NDArray[np.int32],
        window: range,
    ) -> Entries:
        """Return the `total` entries of a window of rows of a strip, in the order of the stream.

        `place` is the position of each row code in its strip, `index` the index of each column code. Rows are returned
        as positions in the window.
        """
        rows, cols, values = np.empty(total, np.int32), np.empty(total, np.int32), np.empty(total, dtype)
        done = 0
        for start, bounds, single in self._batches:
            first, last = (int(bound) * _BYTES[single] for bound in bounds[b : b + 2])
            self._file.seek(start + first)
            records = np.fromfile(self._file, np.uint8, last - first)
            done = _core.place_entries(
                records, single, place, index, window.start, window.stop, rows, cols, values, done
            )
        return rows, cols, values

    def close(self) -> None:
        """Close the file."""
        self._file.close()
