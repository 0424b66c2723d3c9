"""The look-up of a page: the best columns of each row with intervals, and what explains each of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from ...data.labels import find_labels, named
from ...data.seen import aligned
from ...runs.result import Result
from ..align import Alignment
from ..explain import own_entries, responses
from ..predict import Prediction
from ..recommend import recommend
from .text import titles

Floats = NDArray[np.float64]
Own = tuple[NDArray[np.int64], Floats | None, Floats]
"""The entries of a row: columns, values if they are available, weights."""

BEST, ENTRIES, TERMS = 10, 3, 3
"""Columns per row; own entries and terms named per column."""

MOST_ROWS, _MOST_ENTRIES = 2000, 2000
"""Rows that can be looked up, those with most entries; entries of a row that are compared."""

_CHUNK = 4_000_000
"""Draws of μ held at a time."""

_SOME, _CANDIDATES = 40, 4
"""Draws by which candidates are chosen, if μ is not η itself, and how many there are per column that is shown."""

NO_TERM = np.iinfo(np.uint16).max

_SURE = 4.0
"""Standard errors by which the effect of an entry that is named differs from 0: the largest of many is compared."""


@final
@dataclass(frozen=True, eq=False)
class LookUp:
    """Text and arrays of the look-up.

    rows, columns, terms     labels; arrays have indices into columns and terms, the largest of their type for none
    best                     (rows, BEST) columns, the highest mean first
    mean, low, high          (rows, BEST) posterior mean, and the interval of a new observation
    term, term_value         (rows, BEST, TERMS) the largest contributions to η
    entry, entry_sign        (rows, BEST, ENTRIES) the row's own entries that count most, and the signs of their effects
    entry_value              (rows, BEST, ENTRIES) their values; empty if the data is not given
    """

    text: dict[str, Any]
    arrays: dict[str, NDArray[Any]]
    complete: bool


def look_up(posterior: Result, alignment: Alignment, data: Any) -> LookUp:
    """Return the look-up of all rows, or of those with most entries."""
    p = posterior
    counts = np.full(p.shape[0], p.shape[1]) if p.seen is None else np.diff(p.seen.indptr)
    index = np.sort(np.argsort(-counts, kind="stable")[:MOST_ROWS])
    best, mean = _best(p, index)
    there = best >= 0
    pairs = Prediction(p.draws, p.model.likelihood, index[np.nonzero(there)[0]], best[there])
    ends = np.full((2, *there.shape), np.nan)
    ends[:, there] = pairs.interval(0.9)
    terms, values = _terms(p, alignment, index, best)
    entry, sign, value = _entries(p, index, best, data)
    columns, (best, entry) = _renumbered(best, entry)
    text = {
        "rows": titles(p, 0, index),
        "columns": titles(p, 1, columns),
        "terms": _names(p),
        "values": data is not None,
        "entries": p.seen is not None,
        "new": _only_new(p),
        "scale": None if (levels := p.model.likelihood.levels) is None else [levels[0], levels[-1]],
    }
    arrays = {
        "best": best, "mean": mean.astype(np.float32), "low": ends[0].astype(np.float32),
        "high": ends[1].astype(np.float32), "term": terms, "term_value": values, "entry": entry,
        "entry_sign": sign, "entry_value": value if data is not None else value[:0],
        "count": counts[index].astype(np.uint32),
    }  # fmt: skip
    return LookUp(text, arrays, len(index) == p.shape[0])


def _best(p: Result, index: NDArray[np.int64]) -> tuple[NDArray[Any], Floats]:
    """Return the columns of the highest means for each row, -1 where there are no more, and these means.

    If μ is not η itself, all draws at all cells would take long: candidates are chosen by some of the draws.
    """
    n, some = min(BEST, p.shape[1]), p
    if not p.model.likelihood.identity:
        n = min(_CANDIDATES * BEST, p.shape[1])
        step = -(-p.draws.phi.size // _SOME)
        some = replace(p, draws=p.draws.each(lambda a: a.reshape(1, -1, *a.shape[2:])[:, ::step]))
    found = recommend(some, named(p.row_labels, index), n, "mean", exclude_seen=_only_new(p))
    there = ~np.isnan(found.score)
    cols = np.full(there.shape, -1)
    cols[there] = find_labels(p.col_labels, found.cols[there], p.shape[1], "column")
    mean = np.full(there.shape, -np.inf)
    mean[there] = Prediction(p.draws, p.model.likelihood, index[np.nonzero(there)[0]], cols[there]).mean
    order = np.argsort(-mean, axis=1, kind="stable")[:, :BEST]
    mean = np.take_along_axis(mean, order, axis=1)
    return np.take_along_axis(cols, order, axis=1), np.where(np.isfinite(mean), mean, np.nan)


def _only_new(p: Result) -> bool:
    """Return whether columns that a row has an entry for are left out: not if most cells were observed."""
    return p.seen is not None and len(p.seen.indices) < 0.5 * p.shape[0] * p.shape[1]


def _names(p: Result) -> list[str]:
    names = [f"component {k + 1}" for k in range(p.model.rank)]
    return names + (["this row in general", "this column in general"] if p.model.bias else [])


def _terms(
    p: Result, found: Alignment, index: NDArray[np.int64], best: NDArray[Any]
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the largest terms of η at each pair, by number, and their means over the draws."""
    d, count = p.draws, min(TERMS, len(_names(p)))
    which = np.full((*best.shape, count), NO_TERM, np.uint16)
    value = np.zeros((*best.shape, count), np.float32)
    for r, i in enumerate(index.tolist()):
        cols = best[r][best[r] >= 0]
        w = found.factor(d, 0, np.array([i]))
        x = (w * found.factor(d, 1, cols)).mean(axis=(0, 1))
        if d.row_bias is not None and d.col_bias is not None:
            own = np.full((len(cols), 1), d.row_bias[:, :, i].mean(dtype=np.float64))
            each = d.col_bias[:, :, cols].mean(axis=(0, 1), dtype=np.float64)[:, None]
            x = np.hstack([x, own, each])
        order = np.argsort(-np.abs(x), axis=1, kind="stable")[:, :count]
        which[r, : len(cols)], value[r, : len(cols)] = order, np.take_along_axis(x, order, axis=1)
    return which, value


def _entries(
    p: Result, index: NDArray[np.int64], best: NDArray[Any], data: Any
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return the own entries that count most for each column of each row, the signs of their effects, their values."""
    shape = (*best.shape, ENTRIES)
    which = np.full(shape, -1)
    signs, value = np.zeros(shape, np.int8), np.zeros(shape, np.float32)
    for r, own, x, error in _covaried(p, index, best, data):
        cols, values, weights = own
        mine = best[r][best[r] >= 0]
        x, error = x * weights, error * weights
        x[(np.abs(x) < _SURE * error) | (cols == mine[:, None])] = 0.0
        order = np.argsort(-np.abs(x), axis=1, kind="stable")[:, :ENTRIES]
        top = np.take_along_axis(x, order, axis=1)
        at = slice(0, len(mine)), slice(0, order.shape[1])
        which[r][at] = np.where(top == 0.0, -1, cols[order])
        signs[r][at] = np.sign(top)
        value[r][at] = 0.0 if values is None else values[order]
    return which, signs, value


def _covaried(
    p: Result, index: NDArray[np.int64], best: NDArray[Any], data: Any
) -> Iterator[tuple[int, Own, Floats, Floats]]:
    """Yield rows, their entries, and the covariances of these with the predictions, with standard errors."""
    source = None if data is None else aligned(data, p.shape, p.row_labels, p.col_labels)
    waiting: list[tuple[int, Own]] = []
    for r, i in enumerate(index.tolist()):
        cols, values, weights = own_entries(p, i, source)
        some = slice(_MOST_ENTRIES)
        values = None if values is None else values[some]
        if len(cols) and (best[r] >= 0).any():
            waiting.append((r, (cols[some], values, weights[some])))
        many = sum(len(own[0]) for _, own in waiting) * p.draws.phi.size > _CHUNK
        if waiting and (many or r + 1 == len(index)):
            yield from _together(p, index, best, waiting)
            waiting = []


def _together(
    p: Result, index: NDArray[np.int64], best: NDArray[Any], some: list[tuple[int, Own]]
) -> Iterator[tuple[int, Own, Floats, Floats]]:
    """Yield the covariances of some rows: the draws of all their pairs are computed in one call."""
    targets = [best[r][best[r] >= 0] for r, _ in some]
    rows = index[[r for r, _ in some]]
    mine = Prediction(
        p.draws, p.model.likelihood, np.repeat(rows, [len(t) for t in targets]), np.concatenate(targets)
    ).draws
    entries = [own for _, own in some]
    values = (
        None if entries[0][1] is None else np.concatenate([own[1] for own in entries if own[1] is not None])
    )
    own_rows = np.repeat(rows, [len(own[0]) for own in entries])
    y = responses(p, own_rows, np.concatenate([own[0] for own in entries]), values)
    first = second = 0
    for (r, own), target in zip(some, targets, strict=True):
        a, b = mine[:, first : first + len(target)], y[:, second : second + len(own[0])]
        first, second = first + len(target), second + len(own[0])
        yield r, own, *_covariances(a, b)


def _covariances(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Return the covariances of the columns of x and y over the draws, and their standard errors."""
    size = len(x)
    x, y = x - x.mean(axis=0), y - y.mean(axis=0)
    covariance = (
        np.einsum("sa,sb->ab", x, y) / size
    )  # products this small are slower with the threads of a BLAS
    square = np.einsum("sa,sb->ab", x**2, y**2) / size
    return covariance, np.sqrt(np.maximum(square - covariance**2, 0.0) / size)


def _renumbered(*tables: NDArray[Any]) -> tuple[NDArray[Any], list[NDArray[Any]]]:
    """Return the columns that are named anywhere, and the tables with their places among these."""
    used = np.unique(np.concatenate([t[t >= 0] for t in tables]))
    kind = np.uint16 if len(used) <= np.iinfo(np.uint16).max else np.uint32
    out = [np.where(t >= 0, np.searchsorted(used, t), np.iinfo(kind).max).astype(kind) for t in tables]
    return used.astype(np.int64), out
