"""Entries to score a posterior with: their indices, values and weights, and which of them it was trained on."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..checks import as_numbers
from ..data.cells import Cells
from ..data.labels import find_labels
from ..data.seen import aligned
from ..data.tables import frame_triples, is_frame
from ..errors import DataError
from ..runs.draws import Draws
from ..runs.result import Result
from .cavity import cavity_densities, has_cavity
from .predict import Floats, Prediction
from .psis import excess, loo

_CELLS = 4_000_000
"""Log densities held at a time."""


def entries(posterior: Result, test: Any = None) -> Cells:
    """Return the entries of `test`: a tuple (rows, cols, values), or any data of `sample`; None: those held out.

    If absent entries of the data are zeros, all cells, row by row.
    """
    if isinstance(test, Cells):
        return test
    if test is None:
        if posterior.held_out is None:
            raise DataError(
                "no entries were held out of the data; give test, or sample what psgld.split(V, 0.1) returns"
            )
        return posterior.held_out
    if is_frame(test):  # in which a pair may come several times
        rows, cols, values, _ = frame_triples(test)
        test = rows.labels[rows.codes], cols.labels[cols.codes], values
    if not (isinstance(test, tuple) and len(test) == 3):
        return Cells.of(aligned(test, posterior.shape, *posterior.labels).filled())
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
    return Cells(i, j, values)


def trained_on(posterior: Result, cells: Cells) -> NDArray[np.bool_]:
    """Return for each cell whether it was observed when the posterior was sampled."""
    if posterior.seen is None or posterior.seen.absent == "zero":
        return np.ones(len(cells), bool)
    return stored_in(posterior, cells)


def stored_in(posterior: Result, cells: Cells) -> NDArray[np.bool_]:
    """Return for each cell whether its value was among the stored entries of the data."""
    if posterior.seen is None:  # all cells were stored, or an older version wrote the file
        rows, cols = posterior.shape
        return np.full(len(cells), posterior.settings.get("entries") == rows * cols)
    return posterior.seen.holds(cells.rows, cells.cols, posterior.shape[1])


def densities(
    posterior: Result, draws: Draws, cells: Cells, trained: NDArray[np.bool_]
) -> tuple[Floats, Floats]:
    """Return log p(v_n | V) under some of the draws, and k̂; of an entry that was trained on, of leave-one-out.

    k̂ is -inf where nothing had to be left out. Leave-one-out densities of normal observations come from the moments of
    η, others from importance ratios, corrected for the number of draws.
    """
    likelihood = posterior.model.likelihood
    out, tail = np.empty(len(cells)), np.full(len(cells), -np.inf)
    step = max(1, _CELLS // draws.phi.size)
    for first in range(0, len(cells), step):
        at = slice(first, first + step)
        part = cells.part(at)
        each = Prediction(draws, likelihood, part.rows, part.cols).log_densities(part.values)
        out[at] = np.logaddexp.reduce(each, axis=0) - np.log(len(each))
        seen = np.flatnonzero(trained[at])
        if len(seen) and has_cavity(likelihood):
            where = part.rows[seen], part.cols[seen], part.values[seen]
            out[first + seen], tail[first + seen] = cavity_densities(draws, likelihood, *where)
        elif len(seen):
            found, tail[first + seen] = loo(each[:, seen])
            out[first + seen] = found - excess(each[:, seen])
    return out, tail
