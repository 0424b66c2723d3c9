"""A cache of block files for later runs: never visible half written, never shared with other users.

A file is written under a temporary name and renamed when it is complete. A process that has mapped it keeps its
contents, even if the file is renamed or deleted. A lock on a temporary file shows that its writer is still running.
"""

from __future__ import annotations

import atexit
import errno
import fcntl
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import final

_OPEN = os.O_CLOEXEC | os.O_NOFOLLOW


@final
class BlockFolder:
    """A folder that is held open: files are opened relative to it, even if its path changes."""

    def __init__(self, path: Path, number: int) -> None:
        self.path, self._number = path, number

    @contextmanager
    def found(self, name: str) -> Iterator[int]:
        """Open a complete file; raise OSError if there is none, or if another user owns it."""
        file = os.open(name, os.O_RDONLY | os.O_NONBLOCK | _OPEN, dir_fd=self._number)
        try:
            status = os.fstat(file)
            if not stat.S_ISREG(status.st_mode):
                raise OSError(errno.EINVAL, "it is not a regular file")
            if status.st_uid != os.geteuid():
                raise OSError(errno.EPERM, "another user owns it")
            yield file
        finally:
            os.close(file)

    @contextmanager
    def new(self, name: str) -> Iterator[int]:
        """Open a file for writing. On success it replaces the file `name`; otherwise it is deleted."""
        part, file = self._part(name)
        try:
            yield file
            os.fsync(file)
            with suppress(OSError):  # renaming failed: this run uses the file, later ones will not find it
                os.replace(part, name, src_dir_fd=self._number, dst_dir_fd=self._number)
        finally:
            with suppress(OSError):
                os.unlink(part, dir_fd=self._number)
            os.close(file)

    def _part(self, name: str) -> tuple[str, int]:
        """Create a file with a unique name, and lock it."""
        while True:
            part = f"{name}-{secrets.token_hex(8)}.part"
            file = os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL | _OPEN, 0o600, dir_fd=self._number)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.fstat(file).st_nlink:
                    return part, file
            except BlockingIOError:
                pass
            except OSError:  # no locks on this file system: then no other process can lock it and delete it
                return part, file
            os.close(file)  # another process deleted it before it was locked: try again

    def sweep(self) -> None:
        """Remove temporary files whose writers were killed: their locks are gone."""
        for part in os.listdir(self._number):
            if not (part.startswith("blocks-") and part.endswith(".part")):
                continue
            with suppress(OSError):
                file = os.open(part, os.O_RDWR | os.O_NONBLOCK | _OPEN, dir_fd=self._number)
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    os.unlink(part, dir_fd=self._number)
                finally:
                    os.close(file)


@contextmanager
def block_folder(beside: Path | None) -> Iterator[BlockFolder]:
    """Open the folder of blocks: PSGLD_BLOCKS, or `blocks` in the folder of the shards, or a private temporary one."""
    path = _given() or (beside and _beside(beside)) or _private()
    number = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        folder = BlockFolder(path, number)
        folder.sweep()
        yield folder
    finally:
        os.close(number)


def _given() -> Path | None:
    name = os.environ.get("PSGLD_BLOCKS")
    if not name:
        return None
    folder = Path(name)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _beside(shards: Path) -> Path | None:
    folder = shards / "blocks"
    with suppress(OSError):
        folder.mkdir(exist_ok=True)
        if os.access(folder, os.W_OK | os.X_OK):
            return folder
    return None


def _private() -> Path:
    """Return a temporary folder that only this user can read."""
    folder = Path(tempfile.gettempdir()) / f"psgld-blocks-{os.geteuid()}"
    with suppress(OSError):
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.lstat()  # another user may have created it, as a link or a folder of their own
        if stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o077:
            return folder
    return _of_this_process()


@cache
def _of_this_process() -> Path:
    folder = tempfile.mkdtemp(prefix="psgld-blocks-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)
