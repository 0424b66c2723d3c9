"""One owner of a store at a time: a lock that is there before the store is, and that a crash releases.

The lock is the system's (flock) on a file beside the store, `.run.zarr.lock`, in which its owner says who it is. The
system forgets it when the process ends, however it ends; the file goes when the run is over.
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

_MOST, _LOOKS = 1000, 50
"""Bytes that are read of what an owner says, and how often before it is taken to say nothing."""


@contextmanager
def owned(path: Path) -> Iterator[None]:
    """Own a store, whether it is there already or not; raise DataError if another run does."""
    if not path.parent.is_dir():
        raise DataError(f"cannot write {path}: there is no directory {path.parent}; make it first")
    file = path.with_name(f".{path.name}.lock")
    handle = _take(path, file)
    try:
        yield
    finally:
        # First the name goes, then the lock: who finds the name without a lock has found a new file.
        with suppress(OSError):
            file.unlink()
        os.close(handle)


def _take(path: Path, file: Path) -> int:
    """Return the open file whose lock is ours."""
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
        os.close(handle)  # its last owner took the name away in between: once more


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
    """Return whether an open file is still the one of that name."""
    try:
        return os.path.samestat(os.fstat(handle), os.stat(file, follow_symlinks=False))
    except FileNotFoundError:
        return False


def _introduction() -> bytes:
    since = datetime.now().astimezone().isoformat(" ", "seconds")
    return json.dumps({"process": os.getpid(), "host": socket.gethostname(), "since": since}).encode()


def _owner(handle: int) -> str:
    """Return who owns the lock, if that can be read; it may be about to say so."""
    for _ in range(_LOOKS):
        with suppress(OSError, ValueError, KeyError, TypeError):
            said = json.loads(os.pread(handle, _MOST, 0))
            process, host, since = int(said["process"]), str(said["host"]), str(said["since"])
            return " ".join(f" (process {process} on {host[:100]}, since {since[:40]})".splitlines())
        time.sleep(0.01)
    return ""
