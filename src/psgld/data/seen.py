"""The positions of the observed entries, stored with a posterior; and the alignment of new data with its labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from ..errors import DataError
from .labels import LabelArray, align_labels, require_known
from .observations import ABSENT, Observations, observations
from .source import Source


@final
@dataclass(frozen=True, eq=False)
class Seen:
    """The positions of the stored entries as compressed rows of column indices, and the meaning of absent ones."""

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    absent: str = "unobserved"

    @classmethod
    def of(cls, data: Source) -> Seen | None:
        """Return the positions in the data; None if all cells were observed and stored, or another rank has them."""
        if cls.number(data) is None:
            return None
        data = data.before_filling or data
        indices = data.indices
        return None if len(indices) < data.stored else cls(data.indptr, indices, data.absent)

    @staticmethod
    def number(data: Source) -> int | None:
        """Return the number of stored entries; None if every cell was observed and stored."""
        data = data.before_filling or data
        return None if data.stored == data.shape[0] * data.shape[1] else data.stored

    @classmethod
    def checked(
        cls, indptr: NDArray[Any], indices: NDArray[Any], absent: Any, shape: tuple[int, int]
    ) -> Seen:
        """Return positions read from a file; raise ValueError if they do not fit a matrix of that shape."""
        for name, a, size in (("indptr", indptr, shape[0] + 1), ("indices", indices, len(indices))):
            if a.dtype.kind != "i" or a.shape != (size,):
                raise ValueError(f"{name} of seen is {a.dtype} of shape {a.shape}, expected {size} integers")
        if indptr[0] != 0 or indptr[-1] != len(indices) or (np.diff(indptr) < 0).any():
            raise ValueError(f"indptr of seen does not increase from 0 to {len(indices)}")
        if len(indices) and not 0 <= indices.min() <= indices.max() < shape[1]:
            raise ValueError(f"indices of seen do not all lie in 0 to {shape[1] - 1}")
        if absent not in ABSENT:
            raise ValueError(f"absent must be one of {', '.join(ABSENT)}, got {absent!r}")
        return cls(np.ascontiguousarray(indptr, np.int64), np.ascontiguousarray(indices, np.int32), absent)

    def holds(self, rows: NDArray[np.int64], cols: NDArray[np.int64], width: int) -> NDArray[np.bool_]:
        """Return for each cell of a matrix of `width` columns whether its entry was stored."""
        known = np.repeat(np.arange(len(self.indptr) - 1), np.diff(self.indptr)) * width + self.indices
        return np.isin(rows * width + cols, known)

    def rows(self, index: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Return indptr and indices of the rows in `index`."""
        first, last = self.indptr[index], self.indptr[index + 1]
        start = np.concatenate([np.zeros(1, np.int64), np.cumsum(last - first)])
        at = np.arange(start[-1]) + np.repeat(first - start[:-1], last - first)
        return start, self.indices[at]


def aligned(
    V: Any, shape: tuple[int, int], row_labels: LabelArray | None, col_labels: LabelArray | None
) -> Source:
    """Return V with the rows and columns of the posterior, matched by label where V has labels."""
    data, places = observations(V), []
    sides = zip(
        ("row", "column"),
        (row_labels, col_labels),
        shape,
        (data.row_labels, data.col_labels),
        data.shape,
        strict=True,
    )
    for axis, labels, size, given, now in sides:
        if given is None and now != size:
            raise DataError(
                f"the entries have shape {data.shape}, the posterior {shape}; give labels, or entries of that shape"
            )
        places.append(require_known(align_labels(labels, size, given, now, axis), labels, size, given, axis))
    if data.row_labels is None and data.col_labels is None:
        return data
    i, j, values = data.entries(np.arange(data.stored))
    return Observations.from_coo(
        places[0][i], places[1][j], values, shape, data.absent,
        weights=data.entry_weights, zero_weight=data.zero_weight,
    )  # fmt: skip
