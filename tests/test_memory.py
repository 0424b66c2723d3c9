"""How much memory there is, on a machine that is all files."""

import pytest

from psgld import memory

FREE = {"proc/meminfo": "MemTotal: 9000 kB\nMemAvailable: 1000 kB\n"}


def group(folder, limit, used, cache):
    """A group of version 2 or, below `memory`, 1."""
    first = "sys/fs/cgroup/memory" in folder
    names = ("memory.limit_in_bytes", "memory.usage_in_bytes") if first else ("memory.max", "memory.current")
    stat = f"anon 7\n{'total_' if first else ''}inactive_file {cache}\nfile 9\n"
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


@pytest.mark.parametrize("case", CASES)
def test_least_of_what_is_free_and_what_is_allowed(case, tmp_path, monkeypatch):
    files, expected = CASES[case]
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(memory, "_ROOT", tmp_path)
    assert memory.available_memory() == expected


def test_this_machine():
    found = memory.available_memory()
    assert found is None or found > 0
