"""How much memory and how many cores there are, on a machine that is all files."""

import os

import pytest

import psgld
from psgld.system import limits

FREE = {"proc/meminfo": "MemTotal: 9000 kB\nMemAvailable: 1000 kB\n"}


def group(folder, limit, used, cache, active=0):
    """A group of version 2 or, below `memory`, 1."""
    first = "sys/fs/cgroup/memory" in folder
    names = ("memory.limit_in_bytes", "memory.usage_in_bytes") if first else ("memory.max", "memory.current")
    total = "total_" if first else ""
    stat = f"anon 7\n{total}inactive_file {cache}\n{total}active_file {active}\nfile 9\nslab_reclaimable 0\n"
    return dict(
        zip((*(f"{folder}/{n}" for n in names), f"{folder}/memory.stat"), (limit, used, stat), strict=True)
    )


CASES = {
    "nothing is told": ({}, None),
    "no groups": (FREE, 1_024_000),
    "no limit": (
        FREE | {"proc/self/cgroup": "0::/job\n"} | group("sys/fs/cgroup/job", "max", "5", 3),
        1_024_000,
    ),
    "a limit, some of it cache": (
        FREE | {"proc/self/cgroup": "0::/job\n"} | group("sys/fs/cgroup/job", "5000", "3000", 500),
        2500,
    ),
    "a limit, all but reached by files that were read": (
        FREE | {"proc/self/cgroup": "0::/job\n"} | group("sys/fs/cgroup/job", "5000", "4900", 300, 4000),
        4400,
    ),
    "a group whose name is no text": (FREE | {"proc/self/cgroup": b"0::/caf\xe9\n"}, 1_024_000),
    "the limit of an outer group": (
        FREE
        | {"proc/self/cgroup": "0::/job/step\n"}
        | group("sys/fs/cgroup/job/step", "max", "10", 0)
        | group("sys/fs/cgroup/job", "5000", "4000", 0),
        1000,
    ),
    "of a container": (
        FREE | {"proc/self/cgroup": "0::/not/seen/here\n"} | group("sys/fs/cgroup", "600\n", "100\n", 0),
        500,
    ),
    "version 1": (
        FREE
        | {"proc/self/cgroup": "3:cpu,cpuacct:/a\n2:memory:/job\n0::/\n"}
        | group("sys/fs/cgroup/memory/job", "700", "800", 50)
        | group("sys/fs/cgroup/memory", "9223372036854771712", "800", 50),
        0,
    ),
    "a limit larger than what is free": (
        FREE | {"proc/self/cgroup": "0::/job\n"} | group("sys/fs/cgroup/job", "9000000", "1", 0),
        1_024_000,
    ),
}


def machine(files, folder, monkeypatch):
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    monkeypatch.setattr(limits, "_ROOT", folder)


@pytest.mark.parametrize("case", CASES)
def test_least_of_what_is_free_and_what_is_allowed(case, tmp_path, monkeypatch):
    files, expected = CASES[case]
    machine(files, tmp_path, monkeypatch)
    assert limits.available_memory() == expected


V1 = "sys/fs/cgroup/cpu/job"


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, 8),
        ({"proc/self/cgroup": "0::/job\n", "sys/fs/cgroup/job/cpu.max": "max 100000\n"}, 8),
        ({"proc/self/cgroup": "0::/job\n", "sys/fs/cgroup/job/cpu.max": "300000 100000\n"}, 3),
        ({"proc/self/cgroup": "0::/job\n", "sys/fs/cgroup/job/cpu.max": "5000000 100000\n"}, 8),
        ({"proc/self/cgroup": "0::/job/step\n", "sys/fs/cgroup/job/cpu.max": "150000 100000\n"}, 2),
        ({"proc/self/cgroup": "0::/job\n", "sys/fs/cgroup/job/cpu.max": "10000 100000\n"}, 1),
        (
            {
                "proc/self/cgroup": "4:cpu,cpuacct:/job\n",
                f"{V1}/cpu.cfs_quota_us": "400000\n",
                f"{V1}/cpu.cfs_period_us": "100000\n",
            },
            4,
        ),
        (
            {
                "proc/self/cgroup": "4:cpu,cpuacct:/job\n",
                f"{V1}/cpu.cfs_quota_us": "-1\n",
                f"{V1}/cpu.cfs_period_us": "100000\n",
            },
            8,
        ),
    ],
)
def test_cores_of_a_quota(files, expected, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    machine(files, tmp_path, monkeypatch)
    assert limits.available_cores() == expected
    assert psgld.Threads().workers == expected


def test_this_machine():
    found = limits.available_memory()
    assert found is None or found > 0
    assert 1 <= limits.available_cores() <= os.cpu_count()
