"""How shards lie in a Zarr group, on disk or behind any URL that Zarr can open.

    zarr.json                     the manifest, under attributes/psgld: shape, counts, checksums, format version
    row_strips, col_strips        the strip of each row and column
    row_counts, col_counts        how many entries each has
    block_entries                 entries of each block, row strip × column strip
    row_labels/{text,ends}        labels, where there are any: integers, or UTF-8 text and where each label ends
    indices, values               columns and values of the entries, (strip, entry): a chunk is a strip, or part of one

A strip ends where its number of entries says; what is behind is padding. Its rows are those that `row_strips` gives
it, in order; `row_counts` tells where each begins.

Arrays are stored as they are, little-endian, without compression. The manifest is written last: without it, the
shards are not complete.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from ...errors import DataError
from ...system.zarr_arrays import plain_array, zarr_library
from ..labels import LabelArray

FORMAT, VERSION = "psgld-shards", 1

CHUNK = 1 << 22
"""Elements of a chunk of a Zarr array, at most."""

_HELD = 1 << 20
"""Elements of small strips that are written in one go."""


def zarr() -> Any:
    """Import Zarr, or say how to get it."""
    return zarr_library("shards need Zarr")


def local_path(path: Any) -> Path | None:
    """Return the absolute path of a folder here; None for other URLs and for Zarr stores.

    Zarr takes the name of a relative folder out of its files wherever it occurs: in `s`, "s/indices/" is "indice".
    """
    where = os.fspath(path) if isinstance(path, os.PathLike) else path
    if not isinstance(where, str):
        return None
    where = where.removeprefix("file://")  # fsspec would not make folders there
    return None if "://" in where else Path(os.path.abspath(where))


def open_group(path: Any, mode: str) -> Any:
    """Open (mode "r") or make (mode "w-") a group."""
    where = local_path(path) or path
    try:
        return zarr().open_group(where, mode=mode, zarr_format=3, use_consolidated=False)
    except FileNotFoundError:
        there = isinstance(where, Path) and where.is_dir()
        what = f"{path} is a directory without shards" if there else f"no shards at {path}"
        raise DataError(f"{what}: give a file, or what psgld shard has written") from None
    except (FileExistsError, zarr().errors.ContainsGroupError):
        raise DataError(f"{path} exists; give a new place, or remove it first") from None
    except (ImportError, ValueError) as error:  # fsspec, what it needs for a scheme, or no such scheme
        raise DataError(
            f"cannot open {path}: {error}; pip install psgld[remote], or what that names"
        ) from None


def create(group: Any, name: str, shape: tuple[int, ...], dtype: Any) -> Any:
    """Make an array to be filled; its chunks hold one row, or part of one."""
    kind = np.dtype(np.dtype(dtype).newbyteorder("<").str)  # of C's two 64-bit integers, the usual one
    settings = {"write_empty_chunks": True}  # a chunk that is not there is a fault, not zeros
    return group.create_array(
        name, shape=shape, dtype=kind, chunks=chunks_of(shape), compressors=None, config=settings
    )


def chunks_of(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of the chunks of an array."""
    length = max(shape[-1], 1)
    pieces = -(-length // CHUNK)  # of equal size: the last one is padded
    return (*(1 for _ in shape[:-1]), -(-length // pieces))


@final
class StripWriter:
    """Writes an array of strips in order; small ones several at a time, as each call of Zarr takes a millisecond."""

    def __init__(self, array: Any) -> None:
        self._array = array
        self._first = 0
        self._held: NDArray[Any] = np.zeros((_HELD // max(1, array.shape[1]), array.shape[1]), array.dtype)

    def write(self, strip: int, done: int, elements: NDArray[Any]) -> None:
        """Write elements of a strip of which `done` are there already."""
        place = slice(done, done + len(elements))
        if len(self._held) == 0:
            if len(elements):
                self._array[strip, place] = elements
            return
        while strip >= self._first + len(self._held):
            self.flush()
        self._held[strip - self._first, place] = elements

    def flush(self) -> None:
        """Write what is held."""
        last = min(self._first + len(self._held), self._array.shape[0])
        if last > self._first:
            self._array[self._first : last] = self._held[: last - self._first]
        self._held[:] = 0
        self._first = last


def write(group: Any, name: str, array: NDArray[Any]) -> str:
    """Write a 1-D array and return its checksum."""
    into = create(group, name, array.shape, array.dtype)
    if len(array):
        into[:] = array
    return checksum(array)


def read(group: Any, name: str, sha256: str, where: str, part: Any = slice(None)) -> NDArray[Any]:
    """Read an array or a part of it, and refuse it if it is missing or not as it was written."""
    called = name if part == slice(None) else f"{name} of strip {part[0]}"
    try:
        array = np.ascontiguousarray(plain_array(group, name)[part])
    except KeyError:
        raise DataError(f"{where}: {called} is missing; shard the data again") from None
    except (OSError, ValueError) as error:
        raise DataError(f"{where}: {called} cannot be read ({error}); shard the data again") from error
    if checksum(array) != sha256:
        raise DataError(f"{where}: {called} is missing or has a wrong checksum; shard the data again")
    return array


def checksum(array: NDArray[Any]) -> str:
    """Return the SHA-256 of the elements, little-endian, in hexadecimal."""
    return hashlib.sha256(little_endian(array).data).hexdigest()


def little_endian(array: NDArray[Any]) -> NDArray[Any]:
    """Return the elements as they are stored."""
    return np.ascontiguousarray(array, array.dtype.newbyteorder("<"))


def write_labels(group: Any, side: str, labels: LabelArray | None) -> dict[str, str] | None:
    """Write the labels of a side and return their checksums; `read.py` reads them."""
    if labels is None:
        return None
    if labels.dtype.kind == "i":
        return {"integers": write(group, f"{side}_labels/integers", labels)}
    encoded = [label.encode() for label in labels.tolist()]
    text = np.frombuffer(b"".join(encoded), np.uint8)
    ends = np.cumsum([len(label) for label in encoded], dtype=np.int64)
    return {
        "text": write(group, f"{side}_labels/text", text),
        "ends": write(group, f"{side}_labels/ends", ends),
    }
