"""A cluster in a box: the same bits over hosts as on threads, hosts that are cut off, and going on without them."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from benchmarks import cluster
from mpi_case import draw, record, soon

import psgld

HERE = Path(__file__).parents[1]
PATH = os.pathsep.join([str(Path(psgld.__file__).parents[1]), str(HERE)])
PATIENCE, SILENCE = 5.0, 13.0
"""Seconds that ranks wait for each other, and that TCP waits for a host."""

try:
    import mpi4py  # noqa: F401

    MISSING = cluster.missing()
except ImportError:
    MISSING = "mpi4py is not installed; pip install 'psgld[mpi]'"

needs_hosts = pytest.mark.skipif(bool(MISSING), reason=MISSING or "-")


@pytest.fixture(scope="module")
def hosts():
    """Three hosts, 1 Gb/s and 0.2 ms from each other."""
    with cluster.Cluster(3, gigabits=1.0, delay=2e-4) as found:
        yield found


@pytest.fixture(params=["Open MPI", "MPICH"])
def mpi(request):
    found = cluster.find(request.param)
    if found is None:
        pytest.skip(f"there is no {request.param}; make build/openmpi, or pip install 'psgld[mpi]'")
    return found


def start(hosts, mpi, ranks, program):
    """Start a program on the first hosts, one rank each."""
    command = hosts.command(mpi, ranks, [sys.executable, *map(str, program)], hosts=list(range(1, ranks + 1)))
    env = {**mpi.environment, "PYTHONPATH": PATH, "PSGLD_PATIENCE": str(PATIENCE)}
    return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def ended(hosts, job, timeout):
    """Return what a job printed; end it if it does not end."""
    try:
        return job.communicate(timeout=timeout)[0]
    except subprocess.TimeoutExpired:
        for host in range(1, hosts.hosts + 1):
            hosts.kill(host)
        pytest.fail(f"not ended after {timeout} s: {job.communicate()[0]}")


@needs_hosts
@pytest.mark.parametrize("ranks", [2, 3])
def test_same_bits_as_threads(hosts, mpi, ranks, tmp_path):
    cases = "dense,ratings,zeros" if ranks == 2 else "sparse,identity-momentum"
    options = [f"cases={cases}", "blocks=6", "threads=1"]
    job = start(hosts, mpi, ranks, [HERE / "mpi_case.py", "compare", tmp_path, *options])
    printed = ended(hosts, job, 60)
    assert job.returncode == 0, printed
    for case in cases.split(","):
        with soon():
            expected = record(draw(case, 6, psgld.Threads(2)))
        assert len(list(tmp_path.glob(f"{case}-6-rank*.npz"))) == ranks - 1
        with np.load(tmp_path / f"{case}-6.npz") as found:
            for name in expected:
                np.testing.assert_array_equal(found[name], expected[name], err_msg=f"{case} {name}")


@pytest.mark.alone
@needs_hosts
def test_messages_take_the_links(hosts, mpi):
    """The ranks know that they are on different hosts, and a megabyte takes its time through the wire."""
    code = (
        "import time, numpy as np; from mpi4py import MPI; c = MPI.COMM_WORLD; b = np.zeros(1 << 20, np.uint8); "
        "n = c.Split_type(MPI.COMM_TYPE_SHARED).size; c.Barrier(); t = time.perf_counter(); "
        "c.Sendrecv(b, 1 - c.rank, recvbuf=b.copy(), source=1 - c.rank); "
        "found = c.gather((MPI.Get_processor_name(), n, time.perf_counter() - t)); "
        "print(found) if c.rank == 0 else None"
    )
    printed = ended(hosts, start(hosts, mpi, 2, ["-c", code]), 30)
    found = ast.literal_eval(re.search(r"^\[\(.*\)\]$", printed, re.MULTILINE)[0])
    assert [(name, together) for name, together, _ in found] == [("host1", 1), ("host2", 1)]
    assert all(seconds > 0.8 * 2**23 / 1e9 for *_, seconds in found)  # 1 Gb/s


@pytest.mark.alone
@needs_hosts
def test_a_host_is_cut_off_and_the_run_goes_on_without_it(hosts, mpi, tmp_path):
    """Three hosts; the third is cut off; two go on, and the second's ranks are killed; one goes on to the end."""
    file, store = tmp_path / "counts.npy", tmp_path / "run.zarr"
    np.save(file, np.random.default_rng(0).poisson(4.0, (90, 60)))
    model = ["--rank", 3, "--likelihood", "poisson", "--blocks", 6, "--chains", 1, "--threads", 1]
    length = ["--tune", 20, "--draws", 200, "--thin", 100]
    fit = ["-m", "psgld", "fit", file, *model, *length]
    whole = [*fit, "-o", tmp_path / "whole.npz"]
    go_on = [*fit, "-o", store, "--resume"]
    often = [*go_on, "--checkpoint-every", 0]
    alone = {"env": {**os.environ, "PYTHONPATH": PATH}, "check": True, "capture_output": True}

    job = start(hosts, mpi, 3, often)
    after_a_checkpoint(job, store)
    hosts.cut(3)
    since = time.monotonic()
    try:
        printed = ended(hosts, job, PATIENCE + SILENCE + 10)
        if mpi.name == "MPICH":  # Open MPI 5.0.11 loses the code with the daemon of the host
            assert job.returncode != 0
        told = re.findall(r"^psgld: .*$", printed, re.MULTILINE)
        assert len(told) == 1, printed  # the witness, or the first rank that hears nothing
        assert re.search("rank [01] of 3 failed|rank 2 of 3 ended", told[0]), printed
        assert "resume" in told[0] and "Traceback" not in printed
        while hosts.processes(3, "psgld fit") and time.monotonic() < since + PATIENCE + SILENCE + 10:
            time.sleep(0.1)
        assert not hosts.processes(3, "psgld fit")  # it has ended by itself, too
    finally:
        hosts.kill(3)
        hosts.mend(3)

    job = start(hosts, mpi, 2, often)
    after_a_checkpoint(job, store)
    assert hosts.kill(2, "psgld fit") >= 1
    since = time.monotonic()
    printed = ended(hosts, job, 20)
    assert time.monotonic() - since < 10 and job.returncode != 0
    assert "Traceback" not in printed

    subprocess.run([sys.executable, *map(str, go_on)], **alone)
    subprocess.run([sys.executable, *map(str, whole)], **alone)
    found, expected = psgld.load(store), psgld.load(tmp_path / "whole.npz")
    for name in ("W", "H", "row_rate", "col_rate"):
        np.testing.assert_array_equal(getattr(found.draws, name), getattr(expected.draws, name), err_msg=name)
    np.testing.assert_array_equal(found.sample_stats["lp"], expected.sample_stats["lp"])


def after_a_checkpoint(job, store):
    """Return when there is a checkpoint that was not there before."""

    def stamp():
        return max((path.stat().st_mtime_ns for path in store.rglob("*.npz")), default=0)

    before, deadline = stamp(), time.monotonic() + 40
    while stamp() <= before:
        assert job.poll() is None, job.communicate()[0]
        assert time.monotonic() < deadline
        time.sleep(0.01)


@needs_hosts
def test_nothing_is_left_behind():
    with cluster.Cluster(2) as found:
        sleeper = subprocess.Popen(found.on(2, ["sleep", "60"]))
        listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True).stdout
        assert listed.count(found.name) == 3
    assert sleeper.wait(timeout=5) != 0
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True).stdout
    assert found.name not in listed


def test_what_is_missing_is_told(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert cluster.missing.__wrapped__() == "network namespaces need root"
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setenv("PATH", "")
    assert "there is no ip; apt-get install iproute2" in cluster.missing.__wrapped__()


def test_patience_is_checked(monkeypatch):
    from psgld.engines import communicator

    for bad in ("0", "-1", "soon", "nan"):
        monkeypatch.setenv("PSGLD_PATIENCE", bad)
        with pytest.raises(psgld.ModelError, match=f"PSGLD_PATIENCE must be a positive .* got '{bad}'"):
            communicator._longest.__wrapped__()
