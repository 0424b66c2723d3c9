"""Shards of 10 M entries: from CSV with its peak memory, from Parquet with its speed, in processes of their own."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

import psgld

from . import problems
from .harness import Row, Settings

_CHILD = """
import sys, time
import pyarrow.parquet, zarr  # imported once; what counts is the time of the entries
import psgld
def peak():  # not ru_maxrss, which a process inherits from its parent
    lines = open("/proc/self/status").read().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
start, cpu = time.perf_counter(), time.process_time()
shards = psgld.shard(sys.argv[1], sys.argv[2], int(sys.argv[3]))
print(time.perf_counter() - start, time.process_time() - cpu, peak(), shards.stored)
"""


def run(settings: Settings) -> Iterator[Row]:
    X = problems.sparse_problem(settings.quick)
    blocks = settings.choose(120, 8)
    with tempfile.TemporaryDirectory() as folder:
        frame = pd.DataFrame({"row": X.row.astype(np.int64), "col": X.col.astype(np.int64), "value": X.data})
        files = {kind: Path(folder) / f"ratings.{kind}" for kind in ("parquet", "csv")}
        frame.to_parquet(files["parquet"], index=False)
        frame.to_csv(files["csv"], index=False)
        for kind, file in files.items():
            runs = []
            for turn in range(settings.choose(3 if kind == "parquet" else 1, 1)):
                out = Path(folder) / f"{kind}-{turn}"
                argv = [sys.executable, "-c", _CHILD, str(file), str(out), str(blocks)]
                printed = subprocess.run(argv, check=True, capture_output=True, text=True)
                runs.append([float(x) for x in printed.stdout.split()])
            seconds, cpu, peak, entries = min(runs)
            rate = entries / seconds / 1e6
            if kind == "parquet":
                yield Row(
                    "shards from Parquet: million entries a second",
                    rate,
                    5.0,
                    least=True,
                    note=f"{seconds:.2f} s, {cpu:.2f} s of a core",
                )
            yield Row(
                f"shards from {kind}: peak memory, GB",
                peak / 1e9,
                1.0,
                note=f"{entries / 1e6:.1f} M entries, {rate:.1f} M a second",
            )
        shards = psgld.Shards.open(Path(folder) / "parquet-0")
        rows = shards.block_entries.sum(axis=1)
        parts = np.array([np.trace(np.roll(shards.block_entries, -p, axis=1)) for p in range(blocks)])
        yield Row(
            f"shards: the fullest of {blocks} strips / the mean",
            float(rows.max() / rows.mean()),
            note=f"fullest part / mean {parts.max() / parts.mean():.3f}",
        )
