"""The witness of an MPI job while its ranks are still connecting: it reports, and ends with rank 0."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

import psgld

JOB = """
import os, sys, witness
where = witness.start(4)
connections = [witness.Connection.to(where, int(rank)) for rank in sys.argv[1:]]
assert None not in connections
os.kill(os.getpid(), 9)
"""


@pytest.mark.parametrize(
    ("connected", "told"),
    [
        ("", r"a rank of 4 ended without an error, before the ranks were connected"),
        ("1", r"rank 0, 1, 2 or 3 of 4 ended without an error"),
        ("1 3", r"rank 0, (?:1 or 2|2 or 3) of 4 ended without an error"),
        ("0 1 2 3", r"rank [0-3] of 4 ended without an error \(process \d+ on \S+\)"),
    ],
)
def test_ranks_killed_while_they_connect(connected, told):
    """One line names all ranks that may have been killed, and the witness ends: mpiexec waits for its stderr."""
    folder = Path(psgld.__file__).parent / "engines" / "distributed"
    start = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", JOB, *connected.split()],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=50,  # a witness that nobody connects to ends after 60 s
    )
    assert done.returncode == -9
    assert re.fullmatch(f"psgld: (?:{told}): it was killed, ran out of memory, or .*\n", done.stderr), (
        done.stderr
    )
    assert time.monotonic() - start < 20
