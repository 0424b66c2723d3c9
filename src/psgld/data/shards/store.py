"""The layout of shards in a Zarr group, on disk or at any URL that Zarr can open.

    zarr.json                     the manifest, under attributes/psgld: shape, counts, checksums, format version
    row_strips, col_strips        the strip of each row and column
    row_counts, col_counts        the number of entries of each row and column
    block_entries                 the number of entries of each block, row strip × column strip
    row_labels/{text,ends}        labels, if there are any: integers, or UTF-8 text and the end of each label in it
    indices, values               columns and values of the entries, (strip, entry): a chunk is a strip, or part of one

A strip is padded after its number of entries. Its rows are those with its number in `row_strips`, in order;
`row_counts` gives the length of each.

Arrays are stored little-endian, without compression. The manifest is written last: without it, the shards are
incomplete.
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
"""The largest number of elements of a chunk of a Zarr array."""

_HELD = 1 << 20
"""Elements of small strips that are buffered and written in one call."""


def zarr() -> Any:
    """Return the module zarr; raise a DataError with the command that installs it if it is missing."""
    return zarr_library("shards need Zarr")


def local_path(path: Any) -> Path | None:
    """Return the absolute path of a local directory; None for other URLs and for Zarr stores.

    It is absolute because Zarr removes the name of a relative directory from paths wherever it occurs: in `s`,
    "s/indices/" becomes "indice".
    """
    where = os.fspath(path) if isinstance(path, os.PathLike) else path
    if not isinstance(where, str):
        return None
    where = where.removeprefix("file://")  # fsspec would not make directories there
    return None if "://" in where else Path(os.path.abspath(where))


def open_group(path: Any, mode: str) -> Any:
    """Open (mode "r") or create (mode "w-") a group."""
    where = local_path(path) or path
    try:
        return zarr().open_group(where, mode=mode, zarr_format=3, use_consolidated=False)
    except FileNotFoundError:
        there = isinstance(where, Path) and where.is_dir()
        what = f"{path} is a directory without shards" if there else f"no shards at {path}"
        raise DataError(f"{what}; give a file, or a directory that psgld shard wrote") from None
    except (FileExistsError, zarr().errors.ContainsGroupError):
        raise DataError(f"{path} exists; give another path, or remove it first") from None
    except (
        ImportError,
        ValueError,
    ) as error:  # fsspec or its package for a scheme is missing, or unknown scheme
        raise DataError(
            f"cannot open {path}: {error}; pip install psgld[remote], or the package named there"
        ) from None


def create(group: Any, name: str, shape: tuple[int, ...], dtype: Any) -> Any:
    """Create an array to be filled; a chunk is one row, or part of one."""
    kind = np.dtype(np.dtype(dtype).newbyteorder("<").str)  # normalises long and long long, both of 64 bits
    settings = {"write_empty_chunks": True}  # so that a missing chunk is an error, not zeros
    return group.create_array(
        name, shape=shape, dtype=kind, chunks=chunks_of(shape), compressors=None, config=settings
    )


def chunks_of(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of the chunks of an array."""
    length = max(shape[-1], 1)
    pieces = -(-length // CHUNK)  # of equal size; the last one is padded
    return (*(1 for _ in shape[:-1]), -(-length // pieces))


@final
class StripWriter:
    """Writes an array of strips in order; small strips are buffered, as each call of Zarr takes a millisecond."""

    def __init__(self, array: Any) -> None:
        self._array = array
        self._first = 0
        self._held: NDArray[Any] = np.zeros((_HELD // max(1, array.shape[1]), array.shape[1]), array.dtype)

    def write(self, strip: int, done: int, elements: NDArray[Any]) -> None:
        """Write elements of a strip, after the first `done`."""
        place = slice(done, done + len(elements))
        if len(self._held) == 0:
            if len(elements):
                self._array[strip, place] = elements
            return
        while strip >= self._first + len(self._held):
            self.flush()
        self._held[strip - self._first, place] = elements

    def flush(self) -> None:
        """Write the buffered strips."""
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
    """Return an array or a part of it; raise DataError if it is missing or its checksum is wrong."""
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
    """Return the array in little-endian byte order, as it is stored."""
    return np.ascontiguousarray(array, array.dtype.newbyteorder("<"))


def write_labels(group: Any, side: str, labels: LabelArray | None) -> dict[str, str] | None:
    """Write the labels of the rows or columns, and return their checksums; `read_labels` reads them."""
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
