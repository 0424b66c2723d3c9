"""Validates the arrays of shards: their metadata before memory is allocated, their elements once they are read."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ... import _core
from ...errors import DataError
from ...system.archive import check_memory
from ...system.zarr_arrays import plain_array
from ..labels import FloatArray, IntArray, LabelArray
from .manifest import PARTS, faulty
from .store import chunks_of, read
from .totals import Totals

KINDS = {"row_strips": np.uint16, "col_strips": np.uint16, "indices": np.int32}
"""Data types of the arrays that are not int64."""


class Sides(NamedTuple):
    """The arrays of the rows, of the columns and of the blocks: strip numbers, and numbers of entries."""

    row_strips: NDArray[np.uint16]
    col_strips: NDArray[np.uint16]
    row_counts: IntArray
    col_counts: IntArray
    block_entries: IntArray


def array_on_disk(group: Any, name: str, kind: Any, where: str, ndim: int = 1) -> Any:
    """Return an array; raise DataError unless it has this type, the expected chunks, and is complete on disk."""
    try:
        array = plain_array(group, name)
    except KeyError:
        raise faulty(where, f"{name} is missing") from None
    except DataError:
        raise
    except Exception as error:  # Zarr raises many kinds of exceptions on invalid metadata
        raise faulty(where, f"{name} cannot be read ({error})") from error
    kind = np.dtype(kind)
    if array.ndim != ndim or array.dtype.newbyteorder("=") != kind:
        raise faulty(where, f"{name} is not an array of {kind} with {ndim} dimension(s)")
    if array.chunks != chunks_of(array.shape):
        raise faulty(where, f"{name} has chunks of {array.chunks}, expected {chunks_of(array.shape)}")
    pieces = [-(-n // chunk) for n, chunk in zip(array.shape, array.chunks, strict=True)]
    if array.nbytes_stored() < math.prod(pieces) * math.prod(array.chunks) * kind.itemsize:
        missing = _first_missing(array, pieces)
        raise faulty(where, f"{name} is missing" if ndim == 1 else f"{name} of strip {missing} is missing")
    return array


def check_sides_on_disk(group: Any, manifest: dict[str, Any], where: str) -> None:
    """Raise DataError unless strip numbers and counts have the sizes given in the manifest."""
    (rows, cols), blocks = manifest["shape"], manifest["blocks"]
    for name, size in zip(Sides._fields, (rows, cols, rows, cols, blocks**2), strict=True):
        array = array_on_disk(group, name, KINDS.get(name, np.int64), where)
        if array.shape != (size,):
            raise faulty(where, f"{name} has {array.shape[0]} elements, expected {size}")
        check_memory(size * array.dtype.itemsize, f"{where}: {name}")


def read_sides(group: Any, manifest: dict[str, Any], where: str) -> Sides:
    """Read strip numbers and counts, and check them."""
    sums, kinds = manifest["arrays"], (KINDS.get(name, np.int64) for name in Sides._fields)
    sides = Sides(
        *(
            read(group, name, sums[name], where).astype(kind, copy=False)
            for name, kind in zip(Sides._fields, kinds, strict=True)
        )
    )
    check_sides(sides, manifest, where)
    return sides


def check_strips_on_disk(group: Any, manifest: dict[str, Any], where: str) -> None:
    """Raise DataError if a strip is missing, or is shorter than its number of entries."""
    for name in PARTS:
        array = array_on_disk(group, name, KINDS.get(name, manifest["dtype"]), where, ndim=2)
        room = (manifest["blocks"], max(strip["entries"] for strip in manifest["strips"]))
        if array.shape[0] != room[0] or array.shape[1] < room[1]:
            raise faulty(where, f"{name} has shape {array.shape}, expected ({room[0]}, {room[1]} or more)")
        check_memory(room[1] * array.dtype.itemsize, f"{where}: {name} of a strip")


def _first_missing(array: Any, pieces: list[int]) -> int:
    """Return the number of the first strip with a missing or truncated chunk."""
    from zarr.core.sync import sync

    whole = math.prod(array.chunks) * array.dtype.itemsize
    for chunk in np.ndindex(*pieces):
        key = f"{array.path}/{array.metadata.encode_chunk_key(chunk)}"
        try:
            if sync(array.store.getsize(key)) < whole:
                return int(chunk[0])
        except FileNotFoundError:
            return int(chunk[0])
    return 0


def check_sides(sides: Sides, manifest: dict[str, Any], where: str) -> None:
    """Raise DataError if a strip number is out of range, a strip is empty, or counts do not add up."""
    blocks, entries = manifest["blocks"], sides.block_entries.reshape(manifest["blocks"], -1)
    if entries.min() < 0 or entries.max() > manifest["stored"]:
        raise faulty(where, f"blocks have {entries.min()} to {entries.max()} entries")
    of_strip = [strip["entries"] for strip in manifest["strips"]]
    for name, strips, counts, most, sums in (
        ("row", sides.row_strips, sides.row_counts, manifest["shape"][1], entries.sum(axis=1, dtype=float)),
        (
            "column",
            sides.col_strips,
            sides.col_counts,
            manifest["shape"][0],
            entries.sum(axis=0, dtype=float),
        ),
    ):
        if strips.max() >= blocks:
            raise faulty(where, f"a {name} is in strip {strips.max()} of {blocks}")
        if not np.bincount(strips, minlength=blocks).all():
            raise faulty(where, f"a {name} strip has no {name}s")
        if counts.min() < 0 or counts.max() > most:
            raise faulty(where, f"{name}s have {counts.min()} to {counts.max()} entries of {most}")
        if not np.array_equal(np.bincount(strips, counts, blocks), sums):
            raise faulty(where, f"the counts of the {name}s do not add up to those of the blocks")
    if entries.sum(axis=1, dtype=float).tolist() != of_strip:
        raise faulty(where, "the entries of the blocks do not add up to those of the strips")


def check_strip(
    b: int, indptr: IntArray, indices: NDArray[np.int32], values: FloatArray, sides: Sides, manifest: dict[str, Any],
    where: str,
) -> Totals:  # fmt: skip
    """Check every entry of a strip, and return the sums over its values."""
    counts = np.zeros(manifest["blocks"], np.int64)
    fault, at, *sums = _core.inspect_rows(indptr, indices, values, sides.col_strips, counts)
    if fault != "none":
        what = {
            "index": f"column {indices[at]} of {manifest['shape'][1]}",
            "order": f"column {indices[at]} after column {indices[at - 1]}",
            "value": f"the value {values[at]}",
        }
        raise faulty(where, f"strip {b} has {what[fault]}")
    if not np.array_equal(counts, sides.block_entries.reshape(manifest["blocks"], -1)[b]):
        raise faulty(where, f"the entries of strip {b} do not add up to those of its blocks")
    found = Totals(len(values), *sums)
    if found.least < manifest["min"] or found.largest > manifest["max"]:
        ends = f"{manifest['min']} to {manifest['max']}"
        raise faulty(
            where, f"strip {b} has values from {found.least} to {found.largest}, the manifest says {ends}"
        )
    return found


def check_totals(found: Totals, manifest: dict[str, Any], where: str) -> None:
    """Raise DataError if the sums in the manifest differ from those of the values by more than rounding error."""
    size = max(abs(found.least), abs(found.largest))
    rounding = {
        "min": 0.0,
        "max": 0.0,
        "total": 1e-9 * found.n * size,
        "deviation": 1e-6 * found.deviation + found.n * (1e-12 * size) ** 2,
    }
    seen = {"min": found.least, "max": found.largest, "total": found.total, "deviation": found.deviation}
    for name, value in seen.items():
        if not (math.isfinite(value) and abs(value - manifest[name]) <= rounding[name]):
            raise faulty(where, f"the values have {name} = {value}, the manifest says {manifest[name]}")


def check_labels(labels: LabelArray, side: str, where: str) -> None:
    """Raise DataError if a label occurs more than once."""
    ordered = labels if (labels[1:] > labels[:-1]).all() else np.sort(labels)
    twice = np.flatnonzero(ordered[1:] == ordered[:-1])
    if len(twice):
        raise faulty(where, f"the {side} label {ordered[twice[0]].item()!r} occurs more than once")


def decoded(text: NDArray[np.uint8], ends: IntArray, side: str, where: str) -> LabelArray:
    """Return labels decoded from UTF-8 text; label i ends at byte `ends[i]`."""
    starts = np.concatenate([np.zeros(1, np.int64), ends[:-1]])
    if (starts > ends).any() or starts.min() < 0 or ends[-1] != len(text):
        raise faulty(where, f"the ends of the {side} labels do not match their text")
    check_memory(4 * len(ends) * int((ends - starts).max()), f"{where}: the {side} labels")
    whole = text.tobytes()
    try:
        names = [whole[a:b].decode() for a, b in zip(starts.tolist(), ends.tolist(), strict=True)]
    except UnicodeDecodeError as error:
        raise faulty(where, f"the {side} labels are not UTF-8 ({error.reason})") from None
    return np.array(names, dtype=str)


def read_labels(
    group: Any, side: str, size: int, sums: dict[str, str] | None, where: str
) -> LabelArray | None:
    """Return the labels that `write_labels` wrote; raise DataError unless there are `size` distinct ones."""
    if sums is None:
        return None
    arrays = {}
    for name, sha in sums.items():
        path = f"{side}_labels/{name}"
        array = array_on_disk(group, path, np.uint8 if name == "text" else np.int64, where)
        if name != "text" and array.shape != (size,):
            raise faulty(where, f"there are {array.shape[0]} {side} labels, expected {size}")
        check_memory(array.nbytes, f"{where}: {path}")
        arrays[name] = read(group, path, sha, where)
    if "integers" in arrays:
        labels: LabelArray = arrays["integers"].astype(np.int64, copy=False)
    else:
        labels = decoded(arrays["text"], arrays["ends"].astype(np.int64, copy=False), side, where)
    check_labels(labels, side, where)
    return labels
