"""Files of blocks that later runs find again: never seen half written, never shared with other users.

A file is written beside under a name of its own and renamed when it is complete. A process that has it mapped keeps
it, whatever becomes of its name. A lock on a file that is being written tells others that its writer lives.
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
    """A folder that is held open: files are looked up in it, whatever becomes of its path."""

    def __init__(self, path: Path, number: int) -> None:
        self.path, self._number = path, number

    @contextmanager
    def found(self, name: str) -> Iterator[int]:
        """Open a complete file; OSError if there is none, or if it is not one of this user's."""
        file = os.open(name, os.O_RDONLY | os.O_NONBLOCK | _OPEN, dir_fd=self._number)
        try:
            status = os.fstat(file)
            if not stat.S_ISREG(status.st_mode):
                raise OSError(errno.EINVAL, "not a regular file")
            if status.st_uid != os.geteuid():
                raise OSError(errno.EPERM, "the file of another user")
            yield file
        finally:
            os.close(file)

    @contextmanager
    def new(self, name: str) -> Iterator[int]:
        """Open a file to be written. It gets its name when all went well, in place of one that has it; else it goes."""
        part, file = self._part(name)
        try:
            yield file
            os.fsync(file)
            with suppress(OSError):  # a name that cannot be had: the file is used, but not found again
                os.replace(part, name, src_dir_fd=self._number, dst_dir_fd=self._number)
        finally:
            with suppress(OSError):
                os.unlink(part, dir_fd=self._number)
            os.close(file)

    def _part(self, name: str) -> tuple[str, int]:
        """Make a file that nobody else has, and lock it."""
        while True:
            part = f"{name}-{secrets.token_hex(8)}.part"
            file = os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL | _OPEN, 0o600, dir_fd=self._number)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.fstat(file).st_nlink:
                    return part, file
            except BlockingIOError:
                pass
            except OSError:  # no locks here: then nobody takes it for left over, either
                return part, file
            os.close(file)  # somebody took it for left over, between the two

    def sweep(self) -> None:
        """Remove files whose writers were killed: their locks went with them."""
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
    """Open the folder of blocks: PSGLD_BLOCKS, else `blocks` in the folder of the shards, else one of this user."""
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
    """Return a folder among the temporary files that only this user can enter."""
    folder = Path(tempfile.gettempdir()) / f"psgld-blocks-{os.geteuid()}"
    with suppress(OSError):
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.lstat()  # anybody can have made it: a link, a folder of theirs
        if stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o077:
            return folder
    return _of_this_process()


@cache
def _of_this_process() -> Path:
    folder = tempfile.mkdtemp(prefix="psgld-blocks-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)
