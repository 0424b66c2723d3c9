"""The gradient of the blocks of a part whose cells are stored one by one: sums over buckets of rows, without a scatter.

Rows of the outer side gather the rows of the inner side and give the factors e of the entries; rows of the inner side
gather these, and the rows of the outer side. Indices are unsigned: signed ones would be checked for being negative.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from ..base import SumName
from ..reference.update import Model
from .buckets import Buckets, buckets_for, placed
from .sides import Side


class Bucket(NamedTuple):
    """Rows of n ≤ w entries by outer strip and part, (B, B, rows, w)."""

    index: Any
    """The row of the other side of each entry."""
    rows: Any = None
    """The rows themselves, (B, B, rows); only of the outer side."""


class SparseBlocks(NamedTuple):
    """The entries of all blocks, twice: by rows of the outer side, and by rows of the inner side."""

    outer: tuple[Bucket, ...]
    inner: tuple[Bucket, ...]
    value: Any
    """The values in the cells of all buckets of the outer side, (B, B, cells), NaN in cells without an entry."""
    weight: Any
    """Their weights, if they differ."""
    cell: Any
    """The cell of the outer side that has the entry of each cell of the inner side, (B, B, inner cells)."""
    outer_slot: Any
    """The place of each row of a strip among the rows of all buckets, (B, B, R)."""
    inner_slot: Any


class Entries(NamedTuple):
    """The entries of V in outer-major order: rows of the outer and of the inner side, values, weights."""

    outer: NDArray[np.int64]
    inner: NDArray[np.int64]
    values: NDArray[Any]
    weights: NDArray[Any] | None


def sparse_blocks(
    entries: Entries, sides: tuple[Side, Side], sign: int, dtype: Any
) -> tuple[SparseBlocks, NDArray[np.int64]]:
    """Cut the entries into blocks; also return the cell of each entry among those of its block."""
    outer, inner = sides
    blocks, length = outer.rows.shape[0], outer.length
    strip = outer.strip[entries.outer]
    part = sign * (inner.strip[entries.inner] - strip) % blocks
    block = strip * blocks + part
    at = outer.place[entries.outer] % length, inner.place[entries.inner] % inner.length
    first, cells = _by_row(block, at[0], at[1], (blocks, length))
    second, across = _by_row(block, at[1], at[0], (blocks, inner.length))
    weights = entries.weights
    return SparseBlocks(
        tuple(map(Bucket, first.indices, first.rows)),
        tuple(map(Bucket, second.indices)),
        _filled(first, cells, entries.values, dtype, np.nan),
        None if weights is None else _filled(first, cells, weights, dtype, 0.0),
        _filled(second, across, cells, np.uint32, first.buckets.cells),
        first.slot,
        second.slot,
    ), cells


class _Side(NamedTuple):
    """The entries of all blocks by the rows of one side."""

    buckets: Buckets
    indices: list[NDArray[np.uint32]]
    rows: list[NDArray[np.uint32]]
    slot: NDArray[np.uint32]
    block: NDArray[np.int64]


def _by_row(
    block: NDArray[np.int64], row: NDArray[np.int64], other: NDArray[np.int64], shape: tuple[int, int]
) -> tuple[_Side, NDArray[np.int64]]:
    """Place the entries of each block by row; return the cell of each entry in the order given."""
    blocks, length = shape
    order = np.lexsort((other, row, block))
    lengths = np.bincount(block * length + row, minlength=blocks**2 * length).reshape(blocks**2, length)
    buckets = buckets_for(lengths)
    slot = np.empty((blocks**2, length), np.uint32)
    cell = np.empty(len(block), np.int64)
    rows = np.zeros((blocks**2, sum(buckets.rows)), np.uint32)
    start = 0
    for b in range(blocks**2):
        places = placed(lengths[b], buckets)
        slot[b] = places.slot
        held = np.flatnonzero(lengths[b])
        rows[b, places.slot[held]] = held
        cell[order[start : start + len(places.cell)]] = places.cell
        start += len(places.cell)
    cuts = np.cumsum(buckets.rows)[:-1]
    by_bucket = [np.ascontiguousarray(r).reshape(blocks, blocks, -1) for r in np.split(rows, cuts, axis=1)]
    side = _Side(buckets, [], by_bucket, slot.reshape(blocks, blocks, length), block)
    index = _filled(side, cell, other, np.uint32, 0)
    cuts = np.cumsum([w * n for w, n in zip(buckets.widths, buckets.rows, strict=True)])[:-1]
    parts = zip(np.split(index, cuts, axis=2), buckets.widths, strict=True)
    return side._replace(
        indices=[np.ascontiguousarray(x).reshape(blocks, blocks, -1, w) for x, w in parts]
    ), cell


def _filled(
    side: _Side, cell: NDArray[np.int64], values: NDArray[Any], dtype: Any, empty: float
) -> NDArray[Any]:
    """Return values of entries in the cells of all buckets, (B, B, cells)."""
    blocks = side.slot.shape[0]
    out = np.full((blocks**2, side.buckets.cells), empty, dtype)
    out[side.block, cell] = values
    return out.reshape(blocks, blocks, -1)


def sparse_gradients(
    blocks: SparseBlocks, x: Any, y: Any, model: Model, kind: SumName, drawn: Any, zero: float | None
) -> tuple[Any, Any, Any]:
    """Return Σ e y for the rows x of the outer strips, Σ e x for the rows y of the inner ones, and Σ (v - η)².

    e are the scores or weights of the entries; an entry counts as often as it was `drawn`, if that is given. If absent
    entries are zeros, of weight `zero`, e is the difference to that of a zero, which `zeros.py` adds for all cells.
    """
    strips = len(x)
    eta = jnp.concatenate(
        [
            (_rows(x, b.rows)[:, :, None, :] * _rows(y, b.index)).sum(axis=-1).reshape(strips, -1)
            for b in blocks.outer
        ],
        axis=1,
    )
    seen, times = ~jnp.isnan(blocks.value), blocks.weight
    v = jnp.where(seen, blocks.value, 0.0)
    if drawn is not None:
        times = drawn if times is None else times * drawn
    e = jnp.where(seen, _entry_factors(v, eta, times, model, kind, zero), 0.0)
    squares = None
    if model.likelihood.normal:
        squares = jnp.where(seen, _squares(v, eta, times, zero), 0.0).sum(axis=1)
    gx = _at(_sums(e, y, blocks.outer), blocks.outer_slot, x)
    across = _at_cells(jnp.concatenate([e, jnp.zeros((strips, 1), e.dtype)], axis=1), blocks.cell)
    return gx, _at(_sums(across, x, blocks.inner), blocks.inner_slot, y), squares


def _sums(e: Any, y: Any, buckets: tuple[Bucket, ...]) -> list[Any]:
    """Return Σ e y for the rows of each bucket, given the factors e of the entries in all cells."""
    sums, first = [], 0
    for bucket in buckets:
        last = first + bucket.index[0].size
        factors = e[:, first:last].reshape(bucket.index.shape)
        sums.append((factors[..., None] * _rows(y, bucket.index)).sum(axis=2))
        first = last
    return sums


def _entry_factors(v: Any, eta: Any, times: Any, model: Model, kind: SumName, zero: float | None) -> Any:
    """Return the scores or weights of entries, beyond those of zeros."""
    formula: Callable[..., Any] = model.weight if kind == "weight" else model.score
    at = model.guarded(eta)
    e = formula(v, at) if times is None else times * formula(v, at)
    return e if zero is None else e - zero * formula(jnp.zeros_like(v), at)


def _squares(v: Any, eta: Any, times: Any, zero: float | None) -> Any:
    """Return the squared residuals of entries, beyond those of zeros."""
    squares = (v - eta) ** 2 if times is None else times * (v - eta) ** 2
    return squares if zero is None else squares - zero * eta**2


def _rows(x: Any, index: Any) -> Any:
    """Return the rows x[s, index[s]] of each strip s, without a batched gather."""
    strips, length, components = x.shape
    first = (length * jnp.arange(strips, dtype=index.dtype)).reshape(-1, *(1,) * (index.ndim - 1))
    return x.reshape(-1, components).at[index + first].get(mode="promise_in_bounds")


def _at_cells(table: Any, cell: Any) -> Any:
    """Return the factors at cells of each strip."""
    strips, length = table.shape
    first = (length * jnp.arange(strips, dtype=cell.dtype)).reshape(-1, *(1,) * (cell.ndim - 1))
    return table.reshape(-1).at[cell + first].get(mode="promise_in_bounds")


def _at(sums: list[Any], slot: Any, like: Any) -> Any:
    """Return the sums in the order of the rows; 0 for rows without entries."""
    none = jnp.zeros((len(like), 1, like.shape[-1]), like.dtype)
    return _rows(jnp.concatenate([*sums, none], axis=1), slot)
