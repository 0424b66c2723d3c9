"""Atomic writes: to a temporary file, which is then renamed. Arrays are stored as NumPy `.npz`, never as pickles."""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import struct
import threading
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tokenize import TokenError
from typing import Any, BinaryIO, final

import numpy as np
from numpy.typing import NDArray

from .archive import read_npz

_LARGE, _BUFFER = 1 << 18, 1 << 20
"""Bytes from which on a file is written with direct I/O, and bytes of the buffer for it."""

_own = threading.local()
"""The buffer of each thread that writes."""

DAMAGE = (
    *(KeyError, ValueError, TypeError, IndexError, AttributeError, EOFError, OSError, MemoryError),
    *(zipfile.BadZipFile, NotImplementedError, RuntimeError, OverflowError, zlib.error),
    *(SyntaxError, TokenError, struct.error),
)
"""Exceptions that NumPy, zipfile and JSON raise on a file of another format, truncated or tampered with."""


def write_arrays(path: Path, arrays: Mapping[str, Any]) -> None:
    """Write arrays by name to an `.npz`, atomically."""
    plain: dict[str, Any] = {name: np.asarray(a) for name, a in arrays.items()}
    _write(path, lambda file: np.savez(file, **plain))


def read_arrays(path: Path, names: Iterable[str] | None = None) -> dict[str, NDArray[Any]]:
    """Return the arrays of an `.npz`, or some of them; raise one of `DAMAGE` if that fails."""
    return read_npz(path, names)


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Context manager that yields a temporary path, and renames the file written there to `path` on success."""
    beside = _beside(path)
    try:
        yield beside
        sync(beside)
        os.replace(beside, path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    sync(path.parent)


def write_bytes(path: Path, *parts: bytes | memoryview) -> None:
    """Write these parts to a file, atomically."""
    _write(path, lambda file: _fill(file, parts))


@final
class Several:
    """Context manager that writes several files, each atomically, and syncs them to disk together at the end.

    All files are first written to temporary ones; at the end these are synced, then renamed.
    """

    def __init__(self) -> None:
        self._beside: dict[Path, Path] = {}

    def write(self, path: Path, *parts: bytes | memoryview) -> None:
        """Write these parts to a temporary file, to be renamed to `path` at the end."""
        beside = _beside(path)
        self._beside[path] = beside
        with open(beside, "wb") as file:
            _fill(file, parts)

    def __enter__(self) -> Several:
        return self

    def __exit__(self, failed: type[BaseException] | None, *_: object) -> None:
        try:
            if failed is None:
                for beside in self._beside.values():
                    sync(beside)
                for path, beside in self._beside.items():
                    os.replace(beside, path)
                for folder in {path.parent for path in self._beside}:
                    sync(folder)
        finally:
            for beside in self._beside.values():
                beside.unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Flush a file, or the entries of a directory, to disk (fsync)."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _fill(file: BinaryIO, parts: Sequence[bytes | memoryview]) -> None:
    if sum(memoryview(part).nbytes for part in parts) < _LARGE:
        file.writelines(parts)
    else:
        _write_directly(file.fileno(), parts)


def _write_directly(file: int, parts: Iterable[bytes | memoryview]) -> None:
    """Write with direct I/O: for a large file, copying to the page cache takes longer than writing to disk.

    Direct I/O needs memory and file offsets aligned to pages, hence a buffer. The end of the file, shorter than a page,
    is written through the cache, and so is all of it if the file system does not support direct I/O.
    """
    if not hasattr(_own, "buffer"):
        _own.buffer = memoryview(mmap.mmap(-1, _BUFFER))
    buffer, filled = _own.buffer, 0
    direct = _set_direct(file, True)
    for part in parts:
        rest = memoryview(part).cast("B")
        while rest.nbytes:
            n = min(rest.nbytes, _BUFFER - filled)
            buffer[filled : filled + n] = rest[:n]
            rest, filled = rest[n:], filled + n
            if filled == _BUFFER:
                direct = _write_out(file, buffer, direct)
                filled = 0
    if direct:
        _set_direct(file, False)
    _write_out(file, buffer[:filled], False)


def _write_out(file: int, content: memoryview, direct: bool) -> bool:
    """Write all of `content`; return whether direct I/O is still possible."""
    while content.nbytes:
        try:
            content = content[os.write(file, content) :]
        except OSError as error:
            if not direct or error.errno != errno.EINVAL:
                raise
            direct = _set_direct(file, False)  # the file system needs a larger alignment
    return direct


def _set_direct(file: int, wanted: bool) -> bool:
    """Turn direct I/O on or off; return whether it is on."""
    flag = getattr(os, "O_DIRECT", 0)
    flags = fcntl.fcntl(file, fcntl.F_GETFL)
    try:
        fcntl.fcntl(file, fcntl.F_SETFL, flags | flag if wanted else flags & ~flag)
    except OSError:
        return False
    return wanted and bool(flag)


def _beside(path: Path) -> Path:
    """Return a temporary path in the same directory, unique to this process and thread."""
    return path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident():x}.partial")


def _write(path: Path, fill: Callable[[BinaryIO], Any]) -> None:
    with whole_file(path) as beside, open(beside, "wb") as file:
        fill(file)
