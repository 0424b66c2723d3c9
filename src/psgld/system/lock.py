"""A lock that gives one run at a time the right to write to a store; a crash releases it.

The lock is a system lock (flock) on a file next to the store, `.run.zarr.lock`, which is created before the store. The
file names the process that holds the lock. The system releases the lock when the process ends, for any reason; the file
is removed at the end of the run.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

from ..errors import DataError, warn

_MOST, _ATTEMPTS = 1000, 50
"""Bytes read of the name of the holder, and attempts to read it."""


@contextmanager
def owned(path: Path) -> Iterator[None]:
    """Hold the lock of a store, existing or not, within a block; raise DataError if another run holds it."""
    if not path.parent.is_dir():
        raise DataError(f"cannot write {path}: there is no directory {path.parent}; make it first")
    file = path.with_name(f".{path.name}.lock")
    handle = _take(path, file)
    try:
        yield
    finally:
        # The file is removed before the lock is released: so a file that is found without a lock is a new one.
        with suppress(OSError):
            file.unlink()
        os.close(handle)


def _take(path: Path, file: Path) -> int:
    """Return the handle of the lock file, locked by this process."""
    while True:
        try:
            handle = os.open(file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise DataError(f"cannot write {path}: {error.strerror or error} ({file.name})") from error
        try:
            if _locked(handle, path) and _is(handle, file):
                os.ftruncate(handle, 0)
                os.write(handle, _introduction())
                return handle
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)  # the last holder removed the file in the meantime: try again


def _locked(handle: int, path: Path) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise DataError(
            f"{path} is being written by another run{_owner(handle)}; wait for it, or stop it"
        ) from None
    except OSError:
        warn(f"{path} is on a file system without locks: make sure that no other run writes to it")
    return True


def _is(handle: int, file: Path) -> bool:
    """Return whether an open file is still the one at that path."""
    try:
        return os.path.samestat(os.fstat(handle), os.stat(file, follow_symlinks=False))
    except FileNotFoundError:
        return False


def _introduction() -> bytes:
    since = datetime.now().astimezone().isoformat(" ", "seconds")
    return json.dumps({"process": os.getpid(), "host": socket.gethostname(), "since": since}).encode()


def _owner(handle: int) -> str:
    """Return the holder of the lock as text, or "" if it is unknown; the holder may be about to write its name."""
    for _ in range(_ATTEMPTS):
        with suppress(OSError, ValueError, KeyError, TypeError):
            holder = json.loads(os.pread(handle, _MOST, 0))
            process, host, since = int(holder["process"]), str(holder["host"]), str(holder["since"])
            return " ".join(f" (process {process} on {host[:100]}, since {since[:40]})".splitlines())
        time.sleep(0.01)
    return ""
