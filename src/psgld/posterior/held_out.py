"""Entries to score a posterior with: their indices and values, and which of them it was trained on."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..checks import as_numbers
from ..data.labels import find_labels
from ..data.seen import aligned
from ..data.source import Source
from ..data.tables import frame_triples, is_frame
from ..errors import DataError
from ..runs.result import Result

Indices = NDArray[np.int64]


def entries(posterior: Result, test: Any) -> tuple[Indices, Indices, NDArray[np.float64]]:
    """Return rows, columns and values of the entries of `test`: a tuple of those, or any data of `sample`.

    If absent entries of the data are zeros, all cells, row by row.
    """
    if is_frame(test):  # in which a pair may come several times
        rows, cols, values, _ = frame_triples(test)
        test = rows.labels[rows.codes], cols.labels[cols.codes], values
    if not (isinstance(test, tuple) and len(test) == 3):
        data = aligned(test, posterior.shape, *posterior.labels).filled()
        i, j, stored = data.entries(np.arange(data.stored))
        return i, j, stored.astype(np.float64)
    values = as_numbers(test[2], "values")
    i, j = (
        find_labels(labels, given, size, axis)
        for labels, given, size, axis in zip(
            posterior.labels, test[:2], posterior.shape, ("row", "column"), strict=True
        )
    )
    if not len(i) == len(j) == values.size or values.ndim != 1:
        raise DataError(
            f"as many rows, columns and values are needed; got {len(i)}, {len(j)} and {values.size}"
        )
    return i, j, values


def entry_weights(posterior: Result, test: Any) -> NDArray[np.float64] | None:
    """Return the weights of the entries of `test`, in the order of `entries`; None if each counts once."""
    if not (isinstance(test, Source) and test.weighted):
        return None
    weights = aligned(test, posterior.shape, *posterior.labels).filled().entry_weights
    return None if weights is None else weights.astype(np.float64)


def trained_on(posterior: Result, rows: Indices, cols: Indices) -> NDArray[np.bool_]:
    """Return for each cell whether it was observed when the posterior was sampled."""
    seen = posterior.seen
    if seen is None or seen.absent == "zero":
        return np.ones(len(rows), bool)
    width = posterior.shape[1]
    known = np.repeat(np.arange(posterior.shape[0]), np.diff(seen.indptr)) * width + seen.indices
    return np.isin(rows * width + cols, known)
