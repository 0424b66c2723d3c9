"""How much memory there is: what the machine has free, or what a container or a batch job may still take."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath

_ROOT = Path("/")

_FILES = {
    # of cgroups version 2 and 1: where they are, limit, what is used, what of that is cache which can be dropped
    "": ("sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"),
    "memory": (
        "sys/fs/cgroup/memory",
        "memory.limit_in_bytes",
        "memory.usage_in_bytes",
        "total_inactive_file",
    ),
}


def available_memory() -> int | None:
    """Return the bytes that can be allocated without swapping or being killed, where the system tells."""
    return min((*_free(_ROOT), *_left_to_groups(_ROOT)), default=None)


def _free(root: Path) -> Iterator[int]:
    yield from _entry(root / "proc/meminfo", "MemAvailable:", 1024)


def _left_to_groups(root: Path) -> Iterator[int]:
    """Yield what is left to each of the groups that this process belongs to, one within the other."""
    for line in _lines(root / "proc/self/cgroup"):
        _, controllers, path = line.split(":", 2)
        for name in set(controllers.split(",")) & set(_FILES):
            top, limit, used, cache = _FILES[name]
            group = PurePosixPath(path.lstrip("/"))
            for part in (group, *group.parents):
                folder = root / top / part
                try:
                    most, now = (int((folder / file).read_text()) for file in (limit, used))
                except (OSError, ValueError):  # not there, or without a limit: "max"
                    continue
                yield max(0, most - now + sum(_entry(folder / "memory.stat", cache)))


def _entry(file: Path, name: str, unit: int = 1) -> Iterator[int]:
    """Yield the number after a name in a file, if both are there."""
    for line in _lines(file):
        words = line.split()
        if words and words[0] == name:
            yield int(words[1]) * unit


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text().splitlines()
    except OSError:
        return []
