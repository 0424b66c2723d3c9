"""The benchmarks run, in tiny sizes; their figures are not tests."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.__main__ import BENCHMARKS

ROOT = Path(__file__).parents[1]


def rows(*arguments: str) -> list[str]:
    command = [sys.executable, "-m", "benchmarks", "--quick", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[1:]


@pytest.mark.parametrize("name", BENCHMARKS)
def test_prints_rows(name: str) -> None:
    printed = rows(name)
    assert printed
    for row in printed:
        assert len(row) > 60 and (float(row[59:69]) >= 0.0 or "not measured" in row)


def test_an_unknown_name_is_one_clear_line() -> None:
    command = [sys.executable, "-m", "benchmarks", "nonsense"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode != 0
    assert "no benchmark nonsense; there are import, dense" in done.stderr
