"""What this process may take of the machine: memory and cores, also in a container or a job of a batch system.

Those limit a process by its control groups (cgroups, version 2 or 1), which are folders one within the other: a limit
of any of them holds.
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
"""Bytes of address space of a thread of Python: its stack, and what it allocates to begin with."""

_TOPS = {"": "sys/fs/cgroup", "memory": "sys/fs/cgroup/memory", "cpu": "sys/fs/cgroup/cpu"}
"""Where the groups are: of version 2, and of each kind of version 1."""


def available_memory() -> int | None:
    """Return the bytes that can be allocated without swapping or being killed, where the system tells."""
    free = _entries(_ROOT / "proc/meminfo", "MemAvailable:")
    return min((*(1024 * kilobytes for kilobytes in free), *_memory_left(_ROOT)), default=None)


def check_room_for_threads(n: int) -> None:
    """Raise MemoryError unless the address space has room for n threads more.

    Python waits for ever for a thread that has no memory to begin with.
    """
    size = n * _THREAD
    try:
        mmap.mmap(-1, size).close()
    except OSError as error:
        raise MemoryError(
            f"no room for {n} threads ({in_bytes(size)} of address space); use fewer, or allow more memory"
        ) from error


def available_cores() -> int:
    """Return the number of cores this process may use; of a share of one, that one."""
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:
        cores = os.cpu_count() or 1
    return min(cores, cores_of_quota())


def cores_of_quota() -> int:
    """Return the number of cores that all processes of this container or job may keep busy together."""
    return _cores_allowed(_ROOT)


def _memory_left(root: Path) -> Iterator[int]:
    """Yield what is left to each group; cache of files counts as left, it would be dropped."""
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
    """Return the cores that the quotas of all groups allow: microseconds of work in a period of so many."""
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
    """Yield the folders of the groups of this process that limit a kind of resource."""
    for line in _lines(root / "proc/self/cgroup"):
        _, kinds, path = line.split(":", 2)
        for name in {"", kind} & set(kinds.split(",")):
            group = PurePosixPath(path.lstrip("/"))
            for part in (group, *group.parents):
                yield root / _TOPS[name] / part


def _entries(file: Path, *names: str) -> list[int]:
    """Return the numbers after these names in a file, of those that are there."""
    rows = (line.split() for line in _lines(file))
    return [int(words[1]) for words in rows if words and words[0] in names]


def _numbers(file: Path) -> list[int]:
    """Return the numbers in a file, if it is there and holds nothing else."""
    words = " ".join(_lines(file)).split()
    return [int(word) for word in words] if all(word.lstrip("-").isdigit() for word in words) else []


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text("utf-8", "surrogateescape").splitlines()  # a group may have any name
    except OSError:
        return []
