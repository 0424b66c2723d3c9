"""Files that are written all or nothing: first beside, then renamed. Arrays in NumPy's `.npz`, never pickles."""

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
"""Bytes from which a file is written past the system's cache, and of the buffer for that."""

_own = threading.local()
"""The buffer of a thread that writes."""

DAMAGE = (
    *(KeyError, ValueError, TypeError, IndexError, AttributeError, EOFError, OSError, MemoryError),
    *(zipfile.BadZipFile, NotImplementedError, RuntimeError, OverflowError, zlib.error),
    *(SyntaxError, TokenError, struct.error),
)
"""What NumPy, zipfile and JSON raise on a file that is something else, cut off or tampered with."""


def write_arrays(path: Path, arrays: Mapping[str, Any]) -> None:
    """Write arrays by name to an `.npz`."""
    plain: dict[str, Any] = {name: np.asarray(a) for name, a in arrays.items()}
    _write(path, lambda file: np.savez(file, **plain))


def read_arrays(path: Path, names: Iterable[str] | None = None) -> dict[str, NDArray[Any]]:
    """Read the arrays of an `.npz`, or some of them; raise one of `DAMAGE` if that cannot be done."""
    return read_npz(path, names)


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Give out a name beside, and rename the file that was written there when the block ends; all or nothing."""
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
    """Write a file of these parts."""
    _write(path, lambda file: _fill(file, parts))


@final
class Several:
    """Files that are written all or nothing each, and wait for the disk once, when the block ends.

    Until then none of them is there: first all are written beside, then the disk takes them in, then they get
    their names.
    """

    def __init__(self) -> None:
        self._beside: dict[Path, Path] = {}

    def write(self, path: Path, *parts: bytes | memoryview) -> None:
        """Write a file of these parts."""
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
    """Have the disk take in a file, or the names in a folder."""
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
    """Write past the system's cache, which would take most of the time of a large file: a processor's, not the disk's.

    That needs memory and places in the file at multiples of a page, hence a buffer; what is left at the end of the file
    goes the usual way. So does all of it where the file system knows no other.
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
    """Write all of it; return whether the cache can still be passed by."""
    while content.nbytes:
        try:
            content = content[os.write(file, content) :]
        except OSError as error:
            if not direct or error.errno != errno.EINVAL:
                raise
            direct = _set_direct(file, False)  # a file system that wants larger multiples
    return direct


def _set_direct(file: int, wanted: bool) -> bool:
    """Ask the system to pass its cache by; return whether it does."""
    flag = getattr(os, "O_DIRECT", 0)
    flags = fcntl.fcntl(file, fcntl.F_GETFL)
    try:
        fcntl.fcntl(file, fcntl.F_SETFL, flags | flag if wanted else flags & ~flag)
    except OSError:
        return False
    return wanted and bool(flag)


def _beside(path: Path) -> Path:
    """Return another name in the same folder, of this process and thread alone."""
    return path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident():x}.partial")


def _write(path: Path, fill: Callable[[BinaryIO], Any]) -> None:
    with whole_file(path) as beside, open(beside, "wb") as file:
        fill(file)
