"""The benchmarks run, in tiny sizes; their figures are not tests."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.__main__ import BENCHMARKS, main
from benchmarks.versus import compare

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
