"""A Zarr v3 group on disk that grows while a run samples, and can be read at any time.

The draws of a chain are written first, each chunk atomically, then its checkpoint, which has the number of valid draws.
Draws that a killed run wrote after its checkpoint are overwritten when it is resumed.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from threading import get_ident
from typing import Any, ClassVar, Self, final

import numpy as np
from numpy.typing import NDArray

from ..errors import DataError
from ..runs.result import Result
from ..system.atomic import DAMAGE, Several, read_arrays, sync, write_arrays, write_bytes
from ..system.zarr_arrays import plain_array, zarr_library
from . import result_io
from .backend import Labels, RunBackend, already_there, as_stored, cannot_write, damaged
from .layout import POSTERIOR, STATS
from .zarr_create import create_array, create_coordinate

FORMAT = 1
_METADATA = "zarr.json"


def _zarr() -> Any:
    return zarr_library("a .zarr store needs the zarr library", "; or save to .npz")


@final
class ZarrBackend(RunBackend):
    """The arrays of a store, and its header: format, version, model, shape, sizes, settings."""

    suffix: ClassVar[str] = ".zarr"

    def __init__(self, path: Path, header: dict[str, Any], root: Any) -> None:
        super().__init__(path, header)
        self._root = root
        self._arrays: dict[str, Any] = {}
        self._identity = _identity(path)

    @classmethod
    def holds(cls, path: Path) -> bool:
        """Return whether there is a folder; any folder is read as a store."""
        return path.is_dir()

    @classmethod
    def save(cls, result: Result, path: Path) -> None:
        """Write a result atomically, as a store without checkpoints."""
        beside = path.with_name(f".{path.name}.{os.getpid()}-{get_ident():x}.zarr")
        if path.exists():
            raise already_there(path)
        try:
            result_io.write(cls.create(beside, *result_io.parts(result)), result)
            os.rename(beside, path)
        except OSError as error:
            raise cannot_write(path, error) from error
        finally:
            shutil.rmtree(beside, ignore_errors=True)

    @classmethod
    def load(cls, path: Path) -> Result:
        """Read a store into memory; of an unfinished run, the draws up to the last checkpoint."""
        return result_io.read(cls.open(path))

    # -- making and opening ------------------------------------------------------------------------------

    @classmethod
    def create(
        cls, path: Path, header: dict[str, Any], labels: Labels, known: Mapping[str, NDArray[Any]]
    ) -> Self:
        """Create a store atomically, with its labels and the arrays that are known before sampling.

        `known` has these arrays by their paths.
        """
        zarr = _zarr()
        if path.exists():
            raise already_there(path)
        if not path.parent.is_dir():
            raise DataError(f"cannot write {path}: there is no directory {path.parent}; create it first")
        beside = path.with_name(f".{path.name}.new")
        header = {"format": FORMAT, **header}
        try:
            shutil.rmtree(beside, ignore_errors=True)
            store = cls(beside, header, zarr.create_group(beside, zarr_format=3))
            store._create_arrays(labels)
            for name, values in known.items():
                store.write_all(name, values)
            store.write_header(header)
            os.rename(beside, path)
            sync(path.parent)
        except OSError as error:
            shutil.rmtree(beside, ignore_errors=True)
            raise cannot_write(path, error) from error
        return cls(path, header, zarr.open_group(path, mode="r+", use_consolidated=False))

    @classmethod
    def open(cls, path: Path, mode: str = "r") -> Self:
        """Open a store for reading, or for writing (mode "r+"); raise DataError if it is not a store."""
        zarr = _zarr()
        try:
            header = json.loads((path / _METADATA).read_bytes())["attributes"]["psgld"]
            if header["format"] > FORMAT:
                raise DataError(
                    f"{path} was written by a newer psgld (format {header['format']}); upgrade psgld"
                )
            root = zarr.open_group(path, mode=mode, zarr_format=3, use_consolidated=False)
            return cls(path, header, root)
        except DataError:
            raise
        except Exception as error:  # Zarr and JSON raise many types for a damaged file
            raise damaged(path, error) from error

    def begin(self) -> None:
        """Create the folder of the checkpoints; remove incomplete files of a killed run."""
        self._checkpoints.mkdir(exist_ok=True)
        for left in self.path.rglob("*.partial"):
            left.unlink(missing_ok=True)

    def resize(self, draws: int) -> None:
        """Change the number of draws."""
        if draws != self.layout.draws:
            self._create_index(draws)
        super().resize(draws)

    def _resize(self, path: str, shape: tuple[int, ...]) -> None:
        self._array(path).resize(shape)

    def write_header(self, header: dict[str, Any]) -> None:
        """Write the header, with the consolidated metadata of all arrays."""
        nodes = {}
        for folder, _, files in os.walk(self.path):
            if _METADATA in files and Path(folder) != self.path:
                node = json.loads((Path(folder) / _METADATA).read_bytes())
                nodes[Path(folder).relative_to(self.path).as_posix()] = node
        root = {
            "zarr_format": 3,
            "node_type": "group",
            "attributes": {"inference_library": "psgld", "psgld": header},
            "consolidated_metadata": {"kind": "inline", "must_understand": False, "metadata": nodes},
        }
        write_bytes(self.path / _METADATA, json.dumps(root, indent=1).encode())
        self.header = header

    # -- reading and writing -----------------------------------------------------------------------------

    @property
    def _checkpoints(self) -> Path:
        """The folder of the checkpoints, one per chain."""
        return self.path / "checkpoints"

    def checkpoint(self, chain: int) -> Path:
        """Return the path of the checkpoint of a chain."""
        return self._checkpoints / f"{chain}.npz"

    def write_checkpoint(self, chain: int, state: Mapping[str, Any]) -> None:
        """Replace the checkpoint of a chain atomically, by renaming."""
        write_arrays(self.checkpoint(chain), state)

    def read_checkpoint(self, chain: int, names: Iterable[str] | None = None) -> dict[str, Any] | None:
        """Return the checkpoint of a chain, or the arrays `names` of it; None if there is none yet."""
        path = self.checkpoint(chain)
        try:
            return read_arrays(path, names) if path.exists() else None
        except DAMAGE as error:
            raise damaged(path, error) from error

    @property
    def present(self) -> bool:
        """Whether the folder is still the one that was opened."""
        return self._identity is not None and _identity(self.path) == self._identity

    def check(self) -> None:
        """Raise DataError unless all arrays match the header."""
        for path, spec in self.specs.items():
            array = self._array(path)
            if array.shape != spec.shape:
                raise damaged(self.path, f"{path} has shape {array.shape}, expected {spec.shape}")
            if array.dtype != np.dtype(spec.dtype):
                raise damaged(self.path, f"{path} holds {array.dtype}, expected {spec.dtype}")

    def lot(self, path: str) -> int:
        """Return the number of draws per chunk."""
        return int(self._array(path).chunks[1])

    def writing(self) -> Several:
        """Return a context for writing temporary files, which are renamed when it exits."""
        return Several()

    def append(
        self,
        block: Several,
        path: str,
        chain: int,
        first: int,
        values: NDArray[Any],
        only: slice | None = None,
    ) -> None:
        """Write draws (or rows of a trace) of a chain from `first` on; they are in the store when the context exits.

        With `only`, write these rows, which must be complete chunks. Later draws in the last chunk are discarded. The
        chunks are not written by the Zarr library, which takes several times as long.
        """
        several = self.lot(path)
        for k in range(first // several, -(-(first + len(values)) // several)):
            start = max(first, k * several)
            part = values[start - first : (k + 1) * several - first]
            self._write_chunks(block, path, chain, k, start, part, only)

    def _write_chunks(
        self,
        files: Several,
        path: str,
        chain: int,
        k: int,
        start: int,
        values: NDArray[Any],
        only: slice | None,
    ) -> None:
        """Write the k-th chunk along the draws, from draw `start` on: one file per strip of rows."""
        array = self._array(path)
        size, before = array.chunks[1:], start - k * array.chunks[1]
        for file, rows in self._strips(path, chain, k, only):
            part = values[(slice(None), *rows)]
            chunk = np.full(size, array.fill_value, array.dtype) if part.shape != size else part
            if chunk is not part:
                inside = tuple(slice(n) for n in part.shape[1:])
                if before:
                    self._require(file)
                    chunk[(slice(before), *inside)] = array[(chain, slice(start - before, start), *rows)]
                with np.errstate(over="ignore"):
                    chunk[(slice(before, before + len(part)), *inside)] = part
            _write_chunk(files, file, chunk, array.dtype)

    def _strips(
        self, path: str, chain: int, k: int, only: slice | None = None
    ) -> Iterator[tuple[Path, tuple[slice, ...]]]:
        """Yield, for the k-th chunk along the draws, the file of each strip of rows, and its slices of a draw."""
        array = self._array(path)
        shape, size = array.shape[2:], array.chunks[2:]
        for at in itertools.product(*(range(-(-n // c)) for n, c in zip(shape, size, strict=True))):
            rows = tuple(slice(i * c, min(n, (i + 1) * c)) for i, n, c in zip(at, shape, size, strict=True))
            if only is None or only.start <= rows[0].start < only.stop:
                yield self.path.joinpath(path, "c", str(chain), str(k), *map(str, at)), rows

    def write_all(self, path: str, values: NDArray[Any]) -> None:
        """Write an array that is not made of draws."""
        self._array(path)[...] = values

    def read(self, path: str, chain: int, n: int, only: slice | None = None) -> NDArray[Any]:
        """Return the first n draws (or rows of a trace) of a chain; with `only`, only these rows of the draws."""
        for k in range(-(-n // self._array(path).chunks[1])):
            for file, _ in self._strips(path, chain, k, only):
                self._require(file)
        place = (chain, slice(n)) if only is None else (chain, slice(n), only)
        try:
            values = np.asarray(self._array(path)[place])
        except MemoryError:
            raise
        except Exception as error:  # Zarr raises many types for a damaged chunk
            raise damaged(self.path, f"{self._damaged_chunk(path, chain, n)}: {error}") from error
        return as_stored(values)

    def _damaged_chunk(self, path: str, chain: int, n: int) -> str:
        """Return the first chunk of a chain's draws that cannot be read."""
        several = self.lot(path)
        for k in range(-(-n // several)):
            for file, rows in self._strips(path, chain, k):
                try:
                    self._array(path)[(chain, slice(k * several, min(n, (k + 1) * several)), *rows)]
                except Exception:
                    return file.relative_to(self.path).as_posix()
        return path

    def read_all(self, path: str) -> NDArray[Any]:
        """Return an array that is not made of draws."""
        if self._array(path).shape[0]:
            self._require(self.path / path / "c" / "0")
        try:
            return np.asarray(self._array(path)[...])
        except MemoryError:
            raise
        except Exception as error:
            raise damaged(self.path, f"{path}: {error}") from error

    def labels(self, dim: str) -> NDArray[Any] | None:
        """Return the labels of the rows or the columns."""
        path = f"{POSTERIOR}/{dim}"
        if dim not in self.header["labels"]:
            return None
        if self._array(path).dtype.kind != "i":
            self._check_text(path)
        labels = self.read_all(path)
        if labels.shape != (self.shape[dim == "column"],):
            raise damaged(
                self.path,
                f"the labels of {dim}s have shape {labels.shape}, expected {(self.shape[dim == 'column'],)}",
            )
        return labels if labels.dtype.kind == "i" else np.array([str(x) for x in labels.tolist()])

    def _check_text(self, path: str) -> None:
        """Raise DataError if a chunk of text claims a wrong number of labels, for which Zarr would allocate memory."""
        chunk = self.path / path / "c" / "0"
        self._require(chunk)
        with open(chunk, "rb") as file:
            count = int.from_bytes(file.read(4), "little")
        if count != self._array(path).shape[0]:
            raise damaged(self.path, f"{path} claims {count} labels, expected {self._array(path).shape[0]}")

    def _array(self, path: str) -> Any:
        if path not in self._arrays:
            # By default Zarr omits chunks of zeros, so that a missing chunk would look the same.
            try:
                array = plain_array(self._root, path)
            except KeyError:
                raise damaged(self.path, f"{path} is missing") from None
            except (ValueError, TypeError) as error:
                raise damaged(self.path, error) from error
            self._arrays[path] = array.with_config({"write_empty_chunks": True})
        return self._arrays[path]

    def _require(self, chunk: Path) -> None:
        """Raise DataError if a chunk is missing, which Zarr would read as zeros."""
        if not chunk.is_file():
            raise damaged(self.path, f"{chunk.relative_to(self.path)} is missing")

    # -- creation ----------------------------------------------------------------------------------------

    def _create_arrays(self, labels: dict[str, NDArray[Any] | None]) -> None:
        for path, spec in self.specs.items():
            create_array(self._root, path, spec)
        for group in (POSTERIOR, STATS):
            create_coordinate(self._root, f"{group}/chain", np.arange(self.layout.chains))
        self._create_index(self.layout.draws)
        for dim, names in labels.items():
            if names is not None:
                create_coordinate(self._root, f"{POSTERIOR}/{dim}", names)

    def _create_index(self, draws: int) -> None:
        for group in (POSTERIOR, STATS):
            create_coordinate(self._root, f"{group}/draw", np.arange(draws))


def _write_chunk(files: Several, file: Path, chunk: NDArray[Any], dtype: np.dtype[Any]) -> None:
    """Write a chunk in the format of the codecs `bytes` and `crc32c`: little-endian numbers, then their checksum."""
    import google_crc32c

    with np.errstate(over="ignore"):
        plain = np.ascontiguousarray(chunk, dtype.newbyteorder("<"))
    content: Any = plain.reshape(-1).view(np.uint8)
    file.parent.mkdir(parents=True, exist_ok=True)
    files.write(file, content, google_crc32c.value(content).to_bytes(4, "little"))


def _identity(path: Path) -> tuple[int, int] | None:
    """Return the device and inode of a folder, which identify it; None if it is not a store."""
    try:
        (path / _METADATA).stat()
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
