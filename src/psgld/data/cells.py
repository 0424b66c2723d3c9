"""Entries of V by position, with values and weights: those that a result keeps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from .source import Source

FIELDS = {"rows": "int64", "cols": "int64", "values": "float64", "weights": "float64"}
"""The arrays of a file, and their types."""


@final
@dataclass(frozen=True, eq=False)
class Cells:
    """Rows, columns and values of entries; `weights` is None if each counts once."""

    rows: NDArray[np.int64]
    cols: NDArray[np.int64]
    values: NDArray[np.float64]
    weights: NDArray[np.float64] | None = None

    @classmethod
    def of(cls, data: Source) -> Cells:
        """Return the stored entries of data."""
        rows, cols, values = data.entries(np.arange(data.stored))
        return cls(rows, cols, values.astype(np.float64), _floats(data.entry_weights))

    @classmethod
    def checked(cls, arrays: Mapping[str, NDArray[Any]], shape: tuple[int, int]) -> Cells:
        """Return entries read from a file; raise ValueError if they do not fit a matrix of that shape."""
        if set(arrays) != set(FIELDS):
            raise ValueError(f"entries have the arrays {sorted(arrays)}, expected {sorted(FIELDS)}")
        size = len(arrays["rows"])
        for name, a in arrays.items():
            if a.shape != (size,) or a.dtype != FIELDS[name]:
                raise ValueError(
                    f"{name} of entries is {a.dtype} of shape {a.shape}, expected {size} numbers"
                )
        for name, n in zip(("rows", "cols"), shape, strict=True):
            if size and not 0 <= arrays[name].min() <= arrays[name].max() < n:
                raise ValueError(f"{name} of entries do not all lie in 0 to {n - 1}")
        weights = arrays["weights"]
        if not np.isfinite(arrays["values"]).all() or not ((weights > 0) & (weights < np.inf)).all():
            raise ValueError("values of entries are not finite, or weights not positive")
        return cls(
            arrays["rows"], arrays["cols"], arrays["values"], None if (weights == 1).all() else weights
        )

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return what a file holds."""
        weights = np.ones(len(self)) if self.weights is None else self.weights
        return {"rows": self.rows, "cols": self.cols, "values": self.values, "weights": weights}

    def part(self, at: Any) -> Cells:
        """Return some of the entries."""
        weights = None if self.weights is None else self.weights[at]
        return Cells(self.rows[at], self.cols[at], self.values[at], weights)

    def some(self, most: int, seed: int = 0) -> Cells:
        """Return at most that many of the entries: of more, a random sample in their order."""
        if len(self) <= most:
            return self
        return self.part(np.sort(np.random.default_rng(seed).choice(len(self), most, replace=False)))

    def __len__(self) -> int:
        return len(self.rows)


def _floats(x: NDArray[Any] | None) -> NDArray[np.float64] | None:
    return None if x is None else x.astype(np.float64)
