"""Writes shards in one pass over the entries, with the memory of a few batches.

Rows are assigned to strips as they appear (`Dealer`); columns at the end, when their counts are known. Batches are
written to a temporary file, grouped by strip. At the end each strip is read back and sorted into compressed rows, a
window of rows at a time.
"""

from __future__ import annotations

import hashlib
import math
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from threading import get_ident
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from ... import _core
from ...checks import is_integer
from ...errors import DataError, ModelError
from ..labels import Csr, LabelArray, canonical, check_duplicates, check_shape
from ..observations import ABSENT
from ..partition import balanced, check_blocks
from ..readers import naming
from ..tables import Column
from .ahead import ahead
from .manifest import PARTS
from .read import Shards
from .sides import Dealer, Side
from .spool import Grouped, Spool
from .store import (
    FORMAT,
    VERSION,
    StripWriter,
    create,
    little_endian,
    local_path,
    open_group,
    write,
    write_labels,
)
from .stream import Batch, open_stream
from .totals import Totals

_BATCH = 1 << 20
"""The least number of entries that are grouped by strip at a time."""

_WINDOW = 1 << 23
"""The number of entries that are sorted at a time."""


def shard(
    source: Any,
    path: str | PathLike[str] | Any,
    blocks: int,
    *,
    columns: tuple[Column, Column, Column] = (None, None, None),
    shape: tuple[int, int] | None = None,
    absent: str | None = None,
    duplicates: str = "error",
    seed: int = 0,
) -> Shards:
    """Partition data of any size into B row strips on disk, in one pass and with bounded memory.

    Parameters
    ----------
    source : the path of a Parquet, Matrix Market or delimited text file; an iterator of chunks, each a data frame or
        (row labels, column labels, values); or anything that `observations` accepts.
    path : where to write: a directory, a URL that Zarr can open, or a Zarr store. It must not exist.
    blocks : B, the number of strips.
    columns : row, column and value columns of a table, by name or position.
    shape : (I, J), if the labels of the entries are indices; without it, indices are positions among sorted labels.
    absent, duplicates : as for `Observations`.
    seed : seed of the random assignment of rows and columns to strips.

    Returns
    -------
    Shards
        The shards, opened; pass them to `psgld.sample`.

    Examples
    --------
    >>> import psgld
    >>> chunks = iter([(["ann", "bob"], [7, 9], [5.0, 3.0]), (["ann", "cid"], [9, 7], [4.0, 1.0])])
    >>> psgld.shard(chunks, "shards", blocks=2)
    Shards(3 × 2, 4 stored, 2 strips, absent='unobserved', float32, at shards)
    """
    _check(blocks, absent, duplicates, seed)
    local = local_path(path)
    target = open_group(path, "w-") if local is None else _claimed(local)
    folder = tempfile.mkdtemp(prefix="psgld-", dir=local.parent if local else None)
    try:
        with naming(Path(source)) if isinstance(source, str | PathLike) else nullcontext():
            rows, cols, batches = open_stream(source, columns, shape)
            spool = Spool(Path(folder) / "entries")
            try:
                gathered = _gather(rows, cols, batches, spool, Dealer(blocks, seed))
                _write(target, gathered, spool, blocks, seed, absent, duplicates)
            finally:
                spool.close()
    except BaseException:
        if local:
            shutil.rmtree(local, ignore_errors=True)  # incomplete shards are useless
        raise
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return Shards.open(path)


def _claimed(folder: Path) -> Any:
    """Return a new group in a directory; of several processes that write to it at the same time, one succeeds.

    The group is made under a temporary name and renamed, which fails if the directory is not empty.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise DataError(f"{folder} exists; give another path, or remove it first")
    folder.parent.mkdir(parents=True, exist_ok=True)
    beside = folder.with_name(f".{folder.name}.{os.getpid()}-{get_ident():x}")
    try:
        open_group(beside, "w-")
        os.rename(beside, folder)
    except OSError:
        raise DataError(f"{folder} exists; give another path, or remove it first") from None
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return open_group(folder, "r+")


def _check(blocks: int, absent: str | None, duplicates: str, seed: object) -> None:
    if not is_integer(seed) or seed < 0:
        raise ModelError(f"seed must be an integer >= 0, got {seed!r}")
    if not is_integer(blocks) or not 1 <= blocks <= 65535:
        raise ModelError(f"blocks must be an integer from 1 to 65535, got {blocks!r}")
    if absent not in (None, *ABSENT):
        raise DataError(f"absent must be 'unobserved' or 'zero', got {absent!r}")
    check_duplicates(duplicates)


@final
@dataclass(eq=False)
class _Gathered:
    """Labels, strips and counts after the pass over the entries."""

    rows: Side
    cols: Side
    dealer: Dealer
    row_counts: NDArray[np.int64]
    col_counts: NDArray[np.int64]


def _gather(rows: Side, cols: Side, batches: Iterator[Batch], spool: Spool, dealer: Dealer) -> _Gathered:
    """Read all entries once, as a pipeline: one batch is read while the one before is grouped and another written."""
    found = _Gathered(rows, cols, dealer, np.zeros(0, np.int64), np.zeros(0, np.int64))
    for grouped in ahead(_grouped(found, batches)):
        spool.add(grouped)
    found.row_counts = _longer(found.row_counts, len(rows))
    found.col_counts = _longer(found.col_counts, len(cols))
    return found


def _grouped(found: _Gathered, batches: Iterator[Batch]) -> Iterator[Grouped]:
    waiting: list[tuple[NDArray[np.int32], NDArray[np.int32], Any]] = []
    for batch in batches:
        _refuse_non_finite(batch)
        waiting.append((found.rows.codes(batch.rows), found.cols.codes(batch.cols), batch.values))
        if sum(len(values) for _, _, values in waiting) >= _BATCH:
            yield _group(found, waiting)
            waiting = []
    if waiting:
        yield _group(found, waiting)


def _group(found: _Gathered, waiting: list[Any]) -> Grouped:
    """Group a batch by strip, and count the entries of its rows and columns."""
    rows, cols, values = (
        np.ascontiguousarray(arrays[0] if len(arrays) == 1 else np.concatenate(arrays))
        for arrays in zip(*waiting, strict=True)
    )
    found.row_counts = _longer(found.row_counts, len(found.rows))
    found.col_counts = _longer(found.col_counts, len(found.cols))
    strips = found.dealer.strips(len(found.rows))
    return Grouped(
        *_core.group_entries(
            strips, rows, cols, values, found.dealer.blocks, found.row_counts, found.col_counts
        )
    )


def _longer(counts: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    return np.concatenate([counts, np.zeros(size - len(counts), np.int64)]) if size > len(counts) else counts


def _refuse_non_finite(batch: Batch) -> None:
    count, first = _core.find_non_finite(np.ascontiguousarray(batch.values))
    if count:
        raise DataError(
            f"{count} value(s) of a batch are NaN or infinite, the first is {batch.values[first]}; drop those entries"
        )


@final
@dataclass(eq=False)
class _Sorted:
    """The inputs of sorting the strips (indices, strips and positions of codes), and the resulting counts."""

    shape: tuple[int, int]
    labels: tuple[LabelArray | None, LabelArray | None]
    row_strips: NDArray[np.uint16]  # of each index
    col_strips: NDArray[np.uint16]
    col_index: NDArray[np.int32]  # of each code
    local: NDArray[np.int32]  # position of each row code in its strip
    raw_counts: NDArray[np.int64]  # of each row index, before duplicates are merged
    row_counts: NDArray[np.int64]
    col_counts: NDArray[np.int64]
    totals: Totals = field(default_factory=Totals)


def _write(
    target: Any, found: _Gathered, spool: Spool, blocks: int, seed: int, absent: str | None, duplicates: str
) -> None:
    side = _sorted(found, blocks, seed)
    merging = duplicates in ("sum", "mean")  # float32 may not represent sums exactly
    dtype = np.dtype(np.float32 if spool.single and not merging else np.float64)
    entries = np.zeros((blocks, blocks), np.int64)
    fullest = int(np.bincount(side.row_strips, side.raw_counts, blocks).max())
    writers = tuple(
        StripWriter(create(target, part, (blocks, fullest), kind))
        for part, kind in zip(PARTS, (np.int32, dtype), strict=True)
    )
    digests = [{part: hashlib.sha256() for part in PARTS} for _ in range(blocks)]
    for b, done, csr in ahead(_sorted_windows(side, spool, dtype, duplicates, entries)):
        for part, writer in zip(PARTS, writers, strict=True):
            array = getattr(csr, part)
            writer.write(b, done, array)
            digests[b][part].update(little_endian(array).data)
    for writer in writers:
        writer.flush()
    strips = [
        {"entries": n, "sha256": {part: digest.hexdigest() for part, digest in sums.items()}}
        for n, sums in zip(entries.sum(axis=1).tolist(), digests, strict=True)
    ]
    arrays = {
        name: write(target, name, array)
        for name, array in (
            ("row_strips", side.row_strips),
            ("col_strips", side.col_strips),
            ("row_counts", side.row_counts),
            ("col_counts", side.col_counts),
            ("block_entries", entries.ravel()),
        )
    }
    totals = side.totals
    if not (math.isfinite(totals.total) and math.isfinite(totals.deviation)):
        raise DataError(
            f"values from {totals.least} to {totals.largest} have no finite variance; rescale them"
        )
    target.attrs["psgld"] = {
        "format": FORMAT,
        "version": VERSION,
        "shape": list(side.shape),
        "stored": totals.n,
        "blocks": blocks,
        "seed": seed,
        "absent": absent or "unobserved",
        "absent_chosen": absent is not None,
        "dtype": dtype.name,
        "total": totals.total,
        "deviation": totals.deviation,
        "min": totals.least,
        "max": totals.largest,
        "arrays": arrays,
        "row_labels": write_labels(target, "row", side.labels[0]),
        "col_labels": write_labels(target, "col", side.labels[1]),
        "strips": strips,
    }


def _sorted(found: _Gathered, blocks: int, seed: int) -> _Sorted:
    """Assign indices to the codes, and the columns to strips."""
    shape = len(found.rows), len(found.cols)
    check_shape(shape, int(found.row_counts.sum()))
    (row_index, row_labels), (col_index, col_labels) = found.rows.finish(), found.cols.finish()
    check_blocks(blocks, shape)
    strip_of_code = found.dealer.strips(shape[0])
    row_strips = np.empty_like(strip_of_code)
    raw_counts, col_counts = np.empty_like(found.row_counts), np.empty_like(found.col_counts)
    row_strips[row_index], raw_counts[row_index] = strip_of_code, found.row_counts
    col_counts[col_index] = found.col_counts
    # The position of a row in its strip: rows of a strip are in the order of their indices.
    order = np.argsort(row_strips, kind="stable")
    first = np.searchsorted(row_strips[order], np.arange(blocks))
    place = np.empty(shape[0], np.int32)
    place[order] = np.arange(shape[0]) - first[row_strips[order]]
    cols = balanced(np.random.default_rng([seed, 1]).permutation(shape[1]), col_counts, blocks)
    col_strips = np.empty(shape[1], np.uint16)
    col_strips[cols.order] = np.repeat(np.arange(blocks), np.diff(cols.bounds))
    return _Sorted(
        shape, (row_labels, col_labels), row_strips, col_strips, col_index, place[row_index],
        raw_counts, np.zeros(shape[0], np.int64), np.zeros(shape[1], np.int64),
    )  # fmt: skip


def _sorted_windows(
    side: _Sorted, spool: Spool, dtype: np.dtype[Any], duplicates: str, block_entries: NDArray[np.int64]
) -> Iterator[tuple[int, int, Csr]]:
    """Sort the strips window by window; yield the strip, its number of entries before the window, the window as CSR."""
    for b in range(len(block_entries)):
        rows = np.flatnonzero(side.row_strips == b)
        counts = side.raw_counts[rows]
        done = 0
        for window in _windows(counts):
            ids = rows[window.start : window.stop]
            total = int(counts[window.start : window.stop].sum())
            entries = spool.strip(b, total, dtype, side.local, side.col_index, window)
            csr = _compressed(entries, ids, side, duplicates)
            side.row_counts[ids] = np.diff(csr.indptr)
            side.col_counts += np.bincount(csr.indices, minlength=side.shape[1])
            block_entries[b] += np.bincount(side.col_strips[csr.indices], minlength=len(block_entries))
            side.totals.add(Totals.of(csr.values))
            yield b, done, csr
            done += len(csr.values)


def _windows(counts: NDArray[np.int64]) -> Iterator[range]:
    """Yield windows of rows of a strip, with about `_WINDOW` entries each at most, but at least one row."""
    ends = np.cumsum(counts)
    start = 0
    while start < len(counts):
        before = int(ends[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, before + _WINDOW, side="right")))
        yield range(start, stop)
        start = stop


def _compressed(entries: Any, ids: NDArray[np.int64], side: _Sorted, duplicates: str) -> Csr:
    rows, cols, values = entries
    if len(values) == 0:
        return Csr(np.zeros(len(ids) + 1, np.int64), np.zeros(0, np.int32), values)
    row_labels, col_labels = side.labels
    names = ids if row_labels is None else row_labels[ids]
    return canonical(rows, cols, values, (len(ids), side.shape[1]), duplicates, (names, col_labels))
