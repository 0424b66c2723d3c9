"""The benchmarks run, in tiny sizes; their figures are not tests."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from benchmarks.__main__ import BENCHMARKS, main
from benchmarks.peers import __main__ as peers
from benchmarks.peers import results
from benchmarks.peers.page import section
from benchmarks.peers.problems import QUICK, with_threads
from benchmarks.peers.record import Problem, Record, Triples
from benchmarks.peers.registry import Peer, Variant
from benchmarks.peers.run import Limits, fitted
from benchmarks.versus import compare
from scipy.stats import norm, poisson

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", BENCHMARKS)
def test_prints_rows(name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(ROOT)  # some start programs of theirs
    monkeypatch.setattr(sys, "argv", ["benchmarks", "--quick", name])
    main()
    printed = capsys.readouterr().out.splitlines()[1:]
    assert printed
    for row in printed:
        least = -1.0 if "added" in row else 0.0  # a ratio minus 1
        assert len(row) > 60 and (float(row[59:69]) >= least or "not measured" in row)


def test_an_unknown_name_is_one_clear_line() -> None:
    command = [sys.executable, "-m", "benchmarks", "nonsense"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode != 0
    assert "no benchmark nonsense; there are import, dense" in done.stderr


def test_two_checkouts_are_compared() -> None:
    here, there = compare(sys.executable, "sample, small", rounds=1, pairs=1)
    assert here > 0.0 and there > 0.0


def test_peers_on_tiny_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each fit runs in a process of its own; its curve and the page are written."""
    monkeypatch.setattr(results, "MOST_OTHERS", np.inf)
    peers.main(["--quick", "--output", str(tmp_path)])
    ratings, counts = (
        json.loads((tmp_path / f"{name}-tiny.json").read_text()) for name in ("ratings", "counts")
    )
    (ours,) = ratings["runs"]
    assert "failure" not in ours, ours
    curve = ours["curve"]
    assert [point["kept"] for point in curve].count(True) == 20
    assert all(np.diff([point["seconds"] for point in curve]) > 0)
    assert curve[-1]["rmse"] < 2.0 and 0.5 < curve[-1]["coverage"] <= 1.0 and ours["memory"] > 0
    assert {run["peer"] for run in counts["runs"]} == {"psgld", "scikit-learn"}
    assert all(-4.0 < run["curve"][-1]["log_density"] < -1.0 for run in counts["runs"])
    page = (tmp_path / "peers.md").read_text()
    assert "| psgld, defaults |" in page and "| scikit-learn, KL |" in page and "shape 0.3: -" in page
    assert (tmp_path / "peers" / "ratings-tiny.png").stat().st_size > 1000
    monkeypatch.setattr(results, "MOST_OTHERS", -1.0)  # a busy machine: scores are shown, times are not
    peers.main(["--quick", "--page-only", "--output", str(tmp_path)])
    busy = (tmp_path / "peers.md").read_text()
    assert "times are not shown" in busy and ".png" not in busy
    assert f"| psgld, defaults | {curve[-1]['rmse']:.4f} |" in busy


def test_a_peer_that_fails_is_reported() -> None:
    pair = with_threads(QUICK["counts, tiny"](Path()), 1)
    variant = Variant("counts", "defaults", {})
    done = fitted(Peer("nobody", "nonsense", None, (variant,)), variant, pair, Limits(60.0))
    assert "No module named" in done["failure"]
    assert done["failure"] in section({"runs": [done], "kind": "counts", **_ABOUT})


_ABOUT = {"shape": [4, 3], "train": 9, "test": 3, "about": {"rank": 2, "threads": 1}, "machine": "one"}


def test_scores_of_peers_are_those_of_the_mixture_over_draws() -> None:
    rng = np.random.default_rng(0)
    mu = rng.normal(size=(5, 4000))
    values = rng.normal(mu[rng.integers(5, size=4000), np.arange(4000)], 0.5)
    cells = Triples(np.zeros(4000, int), np.arange(4000), values)
    out = io.StringIO()
    record = Record(Problem("ratings", (1, 4000), cells, cells, {"range": [-9.0, 9.0]}), out)
    record.again()
    with record.aside():
        time.sleep(0.2)
        for n, draw in enumerate(mu):
            record.draw(n, draw, 0.5)
    last = json.loads(out.getvalue().splitlines()[-1])
    assert last["seconds"] < 0.1
    assert last["rmse"] == pytest.approx(np.sqrt(np.mean((mu.mean(axis=0) - values) ** 2)))
    assert last["log_density"] == pytest.approx(np.log(norm.pdf(values, mu, 0.5).mean(axis=0)).mean())
    assert last["coverage"] == pytest.approx(0.9, abs=0.015)


def test_held_out_counts_of_peers_have_a_poisson_likelihood() -> None:
    problem = QUICK["counts, tiny"](Path()).problem
    W, H = np.full((40, 3), 0.6), np.full((3, 30), 1.0)
    out = io.StringIO()
    i, j, values = problem.test
    Record(problem, out).estimate(1, (W @ H)[i, j], float((W @ H).sum()))
    test = np.zeros(problem.shape)
    test[i, j] = values
    log = poisson.logpmf(test, (W @ H) / 9).sum() / values.sum()
    assert json.loads(out.getvalue().splitlines()[-1])["log_density"] == pytest.approx(log)
