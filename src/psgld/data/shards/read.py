"""Reads shards: shape, counts and moments of V at once, its entries one strip at a time."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from ...errors import DataError
from ...system.archive import check_memory
from ..labels import Csr, FloatArray, IntArray, LabelArray
from ..observations import Observations
from ..partition import Assigned
from ..source import Entries, LabelledEntries, Share, Source, Strip
from .contents import (
    KINDS,
    Sides,
    check_sides_on_disk,
    check_strip,
    check_strips_on_disk,
    check_totals,
    read_labels,
    read_sides,
)
from .manifest import PARTS, check_manifest
from .store import FORMAT, VERSION, local_path, open_group, read
from .totals import Totals


@final
@dataclass(frozen=True, eq=False, repr=False)
class Shards(Source):
    """Observed entries that stay on disk, partitioned into row strips (`psgld.shard` writes them).

    `psgld.sample` accepts shards and reads blocks from disk when it needs them; the partition is that of the shards.
    `load` reads everything into memory.

    Examples
    --------
    >>> import psgld
    >>> V = psgld.datasets.ratings(users=50, items=30, entries=400).V
    >>> shards = psgld.shard(V, "shards", blocks=3)
    >>> shards.strip(0).rows.shape
    (17,)
    """

    shape: tuple[int, int]
    stored: int
    absent: str
    absent_chosen: bool
    row_labels: LabelArray | None
    col_labels: LabelArray | None
    path: Any
    group: Any
    manifest: dict[str, Any]
    share: Share | None = None
    dense: None = field(default=None, init=False)
    csr: None = field(default=None, init=False)

    @classmethod
    def open(cls, path: str | PathLike[str] | Any) -> Shards:
        """Open shards, and check the manifest and that all arrays and strips exist.

        The checksums and entries of arrays and strips are checked when they are read.

        Parameters
        ----------
        path : a directory, a URL that Zarr can open, or a Zarr store.
        """
        group = open_group(path, "r")
        manifest = group.attrs.get("psgld")
        where = str(path)
        if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
            raise DataError(f"{where}: not shards, or incomplete: there is no manifest; shard the data again")
        if (version := manifest.get("version")) != VERSION:
            raise DataError(
                f"{where}: shards of format {version!r}, this version of psgld reads {VERSION}; shard the data again"
            )
        check_manifest(manifest, where)
        check_sides_on_disk(group, manifest, where)
        check_strips_on_disk(group, manifest, where)
        row_labels, col_labels = (
            read_labels(group, side, size, manifest[f"{side}_labels"], where)
            for side, size in zip(("row", "col"), manifest["shape"], strict=True)
        )
        return cls(
            (manifest["shape"][0], manifest["shape"][1]),
            manifest["stored"],
            manifest["absent"],
            manifest["absent_chosen"],
            row_labels,
            col_labels,
            path,
            group,
            manifest,
        )

    @property
    def folder(self) -> Path | None:
        """The directory of the shards, or None if they are not in the local file system."""
        return local_path(self.path)

    # -- strips ------------------------------------------------------------------------------------------

    @property
    def blocks(self) -> int:
        """B, the number of strips."""
        return int(self.manifest["blocks"])

    @property
    def strips(self) -> int:
        """B: the data are stored in strips."""
        return self.blocks

    @property
    def on_disk(self) -> Shards:
        """The shards themselves."""
        return self

    @property
    def cut(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """The strip number of each row and of each column."""
        return self._sides.row_strips, self._sides.col_strips

    @property
    def partition(self) -> Assigned:
        """The strips as a partition: with it, the same data in memory give the same chain, bit for bit."""
        return Assigned(*self.cut)

    @property
    def block_entries(self) -> IntArray:
        """Number of entries of each block, (row strip, column strip)."""
        return self._sides.block_entries.reshape(self.blocks, self.blocks)

    def strip(self, b: int) -> Strip:
        """Return a strip; raise DataError if a checksum is wrong or an entry is invalid."""
        if not 0 <= b < self.blocks:
            raise DataError(f"strips are numbered 0 to {self.blocks - 1}, got {b}")
        sides, where, line = self._sides, str(self.path), self.manifest["strips"][b]
        part = (b, slice(0, line["entries"]))
        indices, values = (
            read(self.group, name, line["sha256"][name], where, part).astype(
                KINDS.get(name, self.manifest["dtype"]), copy=False
            )
            for name in PARTS
        )
        rows = np.flatnonzero(sides.row_strips == b)
        indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(sides.row_counts[rows])])
        self._found[b] = check_strip(b, indptr, indices, values, sides, self.manifest, where)
        return Strip(rows, indptr, indices, values)

    def shared(self, share: Share) -> Shards:
        """Return the shards as seen by one of several processes, each of which reads its own strips.

        `entries`, `sample_entries` and `indices` are then collective: all processes must call them.
        """
        return replace(self, share=share)

    def verify(self) -> None:
        """Read all strips; raise DataError if a checksum is wrong or an entry is invalid."""
        for b in range(self.blocks):
            self.strip(b)
        self.check_totals()

    def check_totals(
        self, strips: range | None = None, total: Callable[[NDArray[Any]], NDArray[Any]] | None = None
    ) -> None:
        """Raise DataError if min, max or sums in the manifest are not those of the values.

        All strips must have been read. If processes have read some `strips` each, the call is collective, with `total`
        as in `Share`.
        """
        table = np.zeros((self.blocks, 5))
        for b in range(self.blocks) if strips is None else strips:
            table[b] = self._found[b].row()
        totals = Totals()
        for n, *sums in (table if total is None else total(table)).tolist():
            totals.add(Totals(int(n), *sums))
        check_totals(totals, self.manifest, str(self.path))

    def load(self, strips: range | None = None) -> Observations:
        """Return the data in memory, rows and columns in their original order; with `strips`, only their rows."""
        counts, some = self._stored_counts(0), range(self.blocks) if strips is None else strips
        if strips is not None:
            counts = np.where(np.isin(self._sides.row_strips, list(strips)), counts, 0)
        indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
        check_memory(int(indptr[-1]) * (4 + np.dtype(self.manifest["dtype"]).itemsize), f"{self.path}")
        indices = np.empty(indptr[-1], np.int32)
        values = np.empty(indptr[-1], self.manifest["dtype"])
        for b in some:
            strip = self.strip(b)
            n = np.diff(strip.indptr)
            to = np.repeat(indptr[strip.rows] - strip.indptr[:-1], n) + np.arange(len(strip.indices))
            indices[to], values[to] = strip.indices, strip.values
        if strips is None:
            self.check_totals()
        return Observations(
            self.shape, None, Csr(indptr, indices, values), len(values), self.absent, self.absent_chosen,
            self.row_labels, self.col_labels, self._totals if strips is None else None,
        )  # fmt: skip

    def split(self, fraction: float = 0.1, seed: Any = 0) -> tuple[Observations, LabelledEntries]:
        """Read everything into memory, and hold out a random fraction of the stored entries."""
        return self.load().split(fraction, seed)

    def filled(self) -> Observations:
        """Return the data in memory: as a dense matrix if absent entries are zeros."""
        return self.load().filled()

    def save(self, path: str | PathLike[str]) -> None:
        """Read everything into memory, and write an .npz file."""
        self.load().save(path)

    # -- the interface of `Source` -----------------------------------------------------------------------

    @property
    def is_sparse(self) -> bool:
        """True: shards are sparse."""
        return True

    @property
    def indptr(self) -> IntArray:
        """Start of each row among the stored entries, shape (I + 1,)."""
        return np.concatenate([np.zeros(1, np.int64), np.cumsum(self._stored_counts(0))])

    @property
    def indices(self) -> NDArray[np.int32]:
        """Columns of the stored entries, all in memory. If processes share the data, only the first has them."""
        if self.share is None:
            return self.load().indices
        mine = self.load(self.share.own).indices
        parts = self.share.exchange([mine, *(mine[:0] for _ in self.share.strips[1:])])
        if self.share.here > 0:
            return mine[:0]
        columns, strips = np.empty(self.stored, np.int32), self._sides.row_strips
        for part, strips_of_part in zip(parts, self.share.strips, strict=True):
            columns[np.repeat(np.isin(strips, strips_of_part), self._stored_counts(0))] = part
        return columns

    @property
    def values(self) -> FloatArray:
        """The stored values, all in memory."""
        return self.load().values

    def value_parts(self) -> Iterator[FloatArray]:
        """Yield the stored values strip by strip, each strip checked first; on ranks, those of the own strips."""
        for b in range(self.blocks) if self.share is None else self.share.own:
            yield self.strip(b).values

    def _stored_counts(self, axis: int) -> IntArray:
        return self._sides.row_counts if axis == 0 else self._sides.col_counts

    @property
    def _totals(self) -> tuple[float, float]:
        """Σv and Σ(v - mean)² of the stored values."""
        return float(self.manifest["total"]), float(self.manifest["deviation"])

    def _total(self) -> float:
        return self._totals[0]

    def _among(self) -> tuple[float, float]:
        return self._totals[1] / self.stored, self._totals[0] / self.stored

    def _least(self) -> float:
        return float(self.manifest["min"])

    def _largest(self) -> float:
        return float(self.manifest["max"])

    def _entries(self, index: IntArray) -> Entries:
        indptr = self.indptr
        rows = np.searchsorted(indptr, index, side="right") - 1
        cols, values = np.zeros(len(index), np.int64), np.zeros(len(index), self.manifest["dtype"])
        for mine, strip in self._strips_of(rows):
            at = strip.indptr[np.searchsorted(strip.rows, rows[mine])] + index[mine] - indptr[rows[mine]]
            cols[mine], values[mine] = strip.indices[at], strip.values[at]
        return rows, self._of_all(cols), self._of_all(values)

    def _cells(self, chosen: IntArray) -> Entries:
        rows, cols = np.divmod(chosen, self.shape[1])
        values = np.zeros(len(chosen), self.manifest["dtype"])
        for mine, strip in self._strips_of(rows):
            if len(strip.values) == 0:
                continue
            cells = np.repeat(strip.rows, np.diff(strip.indptr)) * self.shape[1] + strip.indices
            at = np.minimum(np.searchsorted(cells, chosen[mine]), len(cells) - 1)
            values[mine] = np.where(cells[at] == chosen[mine], strip.values[at], 0)
        return rows, cols, self._of_all(values)

    def _strips_of(self, rows: IntArray) -> Iterator[tuple[IntArray, Strip]]:
        """Yield the strips of this process that contain some of the rows, with the positions of those in `rows`."""
        strips = self._sides.row_strips[rows]
        for b in np.unique(strips).tolist():
            if self.share is None or b in self.share.own:
                yield np.flatnonzero(strips == b), self.strip(b)

    def _of_all(self, found: NDArray[Any]) -> NDArray[Any]:
        """Return the sum over all processes; each has zeros outside its own strips."""
        return found if self.share is None else self.share.total(found)

    def fingerprint(self, exact: bool = True) -> str:
        """Return a SHA-256 of the manifest, which holds the checksums of all strips."""
        return hashlib.sha256(json.dumps([self.manifest, self.absent], sort_keys=True).encode()).hexdigest()

    @cached_property
    def _sides(self) -> Sides:
        """Strip numbers and counts, read and checked once."""
        return read_sides(self.group, self.manifest, str(self.path))

    @cached_property
    def _found(self) -> dict[int, Totals]:
        """Sums over the values of the strips that have been read."""
        return {}

    def __repr__(self) -> str:
        return (
            f"Shards({self.shape[0]} × {self.shape[1]}, {self.stored} stored, {self.blocks} strips, "
            f"absent={self.absent!r}, {self.manifest['dtype']}, at {self.path})"
        )
