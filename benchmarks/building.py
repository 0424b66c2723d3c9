"""From a `scipy.sparse` COO of 10 M entries to blocks: seconds on one core, and memory, in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from . import problems
from .harness import Row, Settings

_CHILD = """
import os, sys, time
import numpy as np
from scipy import sparse
import psgld
def peak():  # not ru_maxrss, which a process inherits from its parent
    lines = open("/proc/self/status").read().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
folder, rows, cols, dtype, core = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], int(sys.argv[5])
os.sched_setaffinity(0, {core})
model = psgld.FactorModel(50, psgld.Poisson(), psgld.Exponential(1.0), psgld.Exponential(1.0))
before = peak()
i, j, v = (np.load(f"{folder}/{name}.npy") for name in (*"ij", dtype))
X = sparse.coo_array((v, (i, j)), shape=(rows, cols))
start = time.perf_counter()
data = psgld.Observations.from_sparse(X, absent="unobserved")
middle = time.perf_counter()
setup = psgld.PSGLD(blocks=15).prepare(data, model, psgld.Threads(1), 1000)
end = time.perf_counter()
print(end - start, middle - start, peak() - before, i.nbytes + j.nbytes + v.nbytes)
"""


def run(settings: Settings) -> Iterator[Row]:
    X = problems.sparse_problem(settings.quick)
    cores = sorted(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as folder:
        for name, array in (
            ("i", X.row),
            ("j", X.col),
            ("float32", X.data),
            ("float64", X.data.astype(float)),
        ):
            np.save(Path(folder) / f"{name}.npy", array)
        for dtype in ("float32", "float64"):
            runs = []
            for turn in range(settings.choose(6, 1)):
                argv = [folder, *map(str, X.shape), dtype, str(cores[turn % len(cores)])]
                printed = subprocess.run(
                    [sys.executable, "-c", _CHILD, *argv], check=True, capture_output=True
                )
                runs.append([float(x) for x in printed.stdout.split()])
            total, reading, peak, size = min(runs)
            yield Row(
                f"blocks from COO, {dtype} values: seconds on one core",
                total,
                1.5,
                note=f"Observations {reading:.2f} s, grid and the rest {total - reading:.2f} s",
            )
            yield Row(
                f"blocks from COO, {dtype} values: peak memory / input",
                peak / size,
                3.0,
                note=f"input {size / 1e6:.0f} MB, which the peak includes",
            )
