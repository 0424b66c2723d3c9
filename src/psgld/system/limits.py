"""The memory and cores that this process may use, also in a container or a batch job.

Containers and batch systems limit a process by control groups (cgroups, version 2 or 1). These are nested directories;
the limits of all of them apply.
"""

from __future__ import annotations

import math
import mmap
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path, PurePosixPath

from ..errors import in_bytes

_ROOT = Path("/")

_THREAD = 12 << 20
"""Bytes of address space of a Python thread: its stack, and its first allocations."""

_TOPS = {"": "sys/fs/cgroup", "memory": "sys/fs/cgroup/memory", "cpu": "sys/fs/cgroup/cpu"}
"""Directories of the groups: version 2, and each controller of version 1."""


def available_memory() -> int | None:
    """Return the bytes that can be allocated without swapping or being killed; None if they are unknown."""
    free = _entries(_ROOT / "proc/meminfo", "MemAvailable:")
    return min((*(1024 * kilobytes for kilobytes in free), *_memory_left(_ROOT)), default=None)


def check_room_for_threads(n: int) -> None:
    """Raise MemoryError unless the address space has room for n more threads.

    Python would wait forever for a thread that cannot allocate memory at its start.
    """
    size = n * _THREAD
    try:
        mmap.mmap(-1, size).close()
    except OSError as error:
        raise MemoryError(
            f"no room for {n} threads ({in_bytes(size)} of address space); use fewer, or allow more memory"
        ) from error


def available_cores() -> int:
    """Return the number of cores that this process may use, rounded up: at least 1."""
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:
        cores = os.cpu_count() or 1
    return min(cores, cores_of_quota())


def cores_of_quota() -> int:
    """Return the number of cores that all processes of this container or job may use in total, rounded up."""
    return _cores_allowed(_ROOT)


def _memory_left(root: Path) -> Iterator[int]:
    """Yield the free memory of each group; the page cache counts as free, because it can be dropped."""
    for group in _groups(root, "memory"):
        for limit, used, prefix in (
            ("memory.max", "memory.current", ""),
            ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_"),
        ):
            for most, now in zip(_numbers(group / limit), _numbers(group / used), strict=False):
                cache = _entries(
                    group / "memory.stat",
                    f"{prefix}inactive_file",
                    f"{prefix}active_file",
                    "slab_reclaimable",
                )
                yield max(0, most - now + sum(cache))


@cache
def _cores_allowed(root: Path) -> int:
    """Return the cores that the quotas of all groups allow; a quota is microseconds of CPU time per period."""
    allowed: float = os.cpu_count() or 1
    for group in _groups(root, "cpu"):
        for quota in (
            _numbers(group / "cpu.max"),
            _numbers(group / "cpu.cfs_quota_us") + _numbers(group / "cpu.cfs_period_us"),
        ):
            if len(quota) == 2 and min(quota) > 0:  # -1, or "max 100000": no limit
                allowed = min(allowed, quota[0] / quota[1])
    return math.ceil(allowed)


def _groups(root: Path, kind: str) -> Iterator[Path]:
    """Yield the directories of the groups of this process that limit a resource (`kind`)."""
    for line in _lines(root / "proc/self/cgroup"):
        _, kinds, path = line.split(":", 2)
        for name in {"", kind} & set(kinds.split(",")):
            group = PurePosixPath(path.lstrip("/"))
            for part in (group, *group.parents):
                yield root / _TOPS[name] / part


def _entries(file: Path, *names: str) -> list[int]:
    """Return the numbers after these names in a file; missing names are skipped."""
    rows = (line.split() for line in _lines(file))
    return [int(words[1]) for words in rows if words and words[0] in names]


def _numbers(file: Path) -> list[int]:
    """Return the numbers in a file; empty if it does not exist or contains anything else."""
    words = " ".join(_lines(file)).split()
    return [int(word) for word in words] if all(word.lstrip("-").isdigit() for word in words) else []


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text("utf-8", "surrogateescape").splitlines()  # a group may have any name
    except OSError:
        return []
