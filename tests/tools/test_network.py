"""`psgld doctor --mpi`: a line through the times, one report for all ranks, and a plan that takes it."""

from __future__ import annotations

import json

import numpy as np
import pytest
from mpi_job import mpiexec, needs_mpi

from psgld.cli import main
from psgld.tools import forecast as plan
from psgld.tools import network

SIZE = ["--rows", "1e6", "--cols", "1e5", "--entries", "1e9", "--rank", "50"]
PROBLEM = ["plan", *SIZE, "--ranks", "16", "--blocks", "16", "--json"]


def test_fit_finds_the_line():
    sizes = [8, 4096, 65_536, 1_048_576]
    latency, bandwidth = network.fit(sizes, [2e-4 + s / 1.25e8 for s in sizes])
    assert latency == pytest.approx(2e-4) and bandwidth == pytest.approx(1.25e8)
    rng = np.random.default_rng(0)
    noisy = [(2e-4 + s / 1.25e8) * rng.uniform(0.9, 1.1) for s in sizes]
    latency, bandwidth = network.fit(sizes, noisy)
    assert latency == pytest.approx(2e-4, rel=0.15) and bandwidth == pytest.approx(1.25e8, rel=0.15)


@pytest.mark.parametrize("times", [[1e-6, 1e-5, 1e-2], [1e-3, 1e-3, 1e-3], [1e-2, 1e-3, 1e-4]])
def test_fit_is_positive_for_odd_times(times):
    latency, bandwidth = network.fit([8, 65_536, 1_048_576], times)
    assert 0 < latency < 1 and 0 < bandwidth < np.inf
    plan.Machine(latency=latency, bandwidth=bandwidth)


@needs_mpi
@pytest.mark.alone  # it compares times
@pytest.mark.parametrize("ranks", [2, 3])
def test_doctor_on_ranks(ranks, tmp_path, capsys):
    done = mpiexec(ranks, "doctor", "--mpi", "--json", "--rank", 4, program=("-m", "psgld"))
    assert done.stderr == ""
    (line,) = done.stdout.splitlines()  # of rank 0 only
    report = json.loads(line)
    assert report["ranks"] == len(report["hosts"]) == ranks
    assert [(k["from"], k["to"]) for k in report["links"]] == [
        (r, (r + 1) % ranks) for r in range(ranks if ranks > 2 else 1)
    ]
    assert all(k["latency"] > 0 and k["bandwidth"] > 0 for k in report["links"])
    times = [step["seconds"] for step in report["ring"]]
    assert len(times) == 6 and min(times) > 0 and times[-1] > times[0]
    text = network.text(report)
    assert f"{ranks} on 1 host(s)" in text and "4 MB" in text
    assert f"psgld plan … {network.options(report)}" in text

    file = tmp_path / "network.json"
    file.write_text(line)
    assert main([*PROBLEM, "--network", str(file)]) == 0
    machine = json.loads(capsys.readouterr().out)["machine"]
    for name in ("latency", "bandwidth", "entry", "coefficient"):
        assert machine[name] == report[name]
    assert main([*PROBLEM, "--network", str(file), "--latency", "7"]) == 0  # what is given counts more
    assert json.loads(capsys.readouterr().out)["machine"]["latency"] == pytest.approx(7e-6)


@needs_mpi
def test_one_rank_has_nobody_to_send_to(capsys):
    assert main(["doctor", "--mpi"]) == 2
    assert (
        "between 2 ranks or more, got 1; start several: mpiexec -n 2 psgld doctor --mpi"
        in capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "is not JSON"),
        ("[1]", "has no latency, got None"),
        ('{"latency": 1e-5, "bandwidth": "fast"}', "has no bandwidth, got 'fast'"),
        ('{"latency": -1}', "has no latency, got -1"),
    ],
)
def test_a_file_that_is_no_report(text, told, tmp_path, capsys):
    file = tmp_path / "network.json"
    file.write_text(text)
    assert main([*PROBLEM, "--network", str(file)]) == 2
    error = capsys.readouterr().err
    assert told in error and "psgld doctor --mpi --json" in error and error.count("\n") == 1
    assert main([*PROBLEM, "--network", str(tmp_path / "absent.json")]) == 2
