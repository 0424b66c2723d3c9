"""What `psgld plan` predicts for ten problems, and what they take: processor time and memory, in separate processes."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, final

import numpy as np
from scipy import sparse

import psgld
from psgld.tools import forecast as plan
from psgld.tools.forecast import Size
from psgld.tools.rehearsal import most_resident, rehearse

from .harness import Row, Settings
from .problems import popular_cells


@final
@dataclass(frozen=True)
class Problem:
    """A problem; `entries` = 0: dense. `passes` over the data, as many as take some seconds."""

    rows: int
    cols: int
    entries: int
    rank: int
    likelihood: str
    passes: int
    absent: str | None = None

    def smaller(self) -> Problem:
        """Return a tiny one of its form."""
        return replace(self, rows=60, cols=40, entries=self.entries and 600, rank=3, passes=60)

    def save(self, folder: Path) -> Path:
        """Write its data to a file."""
        rng = np.random.default_rng(0)
        if not self.entries:
            path = folder / "dense.npy"
            np.save(path, rng.poisson(3.0, (self.rows, self.cols)).astype(np.float32))
            return path
        path = folder / "sparse.npz"
        cells = popular_cells((self.rows, self.cols), self.entries, 0.7)
        values = rng.integers(1, 6, len(cells)).astype(np.float32)
        matrix = sparse.coo_array((values, (cells // self.cols, cells % self.cols)), (self.rows, self.cols))
        sparse.save_npz(path, matrix.tocsr(), compressed=False)
        return path


PROBLEMS = (
    Problem(943, 1682, 90_000, 16, "gaussian", 3000),
    Problem(6040, 3706, 900_000, 32, "gaussian", 300),
    Problem(6040, 3706, 900_000, 32, "poisson", 300),
    Problem(71_000, 71_000, 9_300_000, 50, "poisson", 24),
    Problem(78_000, 186_000, 390_000, 20, "gaussian", 80),
    Problem(3430, 6906, 320_000, 20, "poisson", 400, "zero"),
    Problem(20_000, 3000, 1_500_000, 50, "poisson", 120),
    Problem(3000, 30_000, 2_000_000, 64, "gaussian", 80),
    Problem(512, 512, 0, 32, "poisson", 2000),
    Problem(200, 150, 0, 4, "gaussian", 20_000),
)
"""Shapes of MovieLens-100K and -1M, of large and sparse data, of words in texts, and dense ones."""


_SIZES = (
    (Size(20_000, 3000, 1_500_000, 50), 6, 1),
    (Size(60_000, 8000, 1_000_000, 50), 15, 1),
    (Size(3000, 30_000, 2_000_000, 32), 4, 1),
    (Size(20_000, 3000, 1_500_000, 50), 6, 2),
)
"""Sizes without a file, B, and threads: for the cost model."""


def run(settings: Settings) -> Iterator[Row]:
    """Compare prediction and run of ten problems in files, then of sizes; the bars are for ratios of at least 1."""
    yield from _files(settings)
    seconds = 0.02 if settings.quick else 0.5
    for size, blocks, threads in _SIZES:
        if settings.quick:
            size = replace(size, entries=size.entries // 50)
        machine = plan.measured(size.rank, seconds, threads)
        predicted = plan.forecast(size, machine, blocks).iteration
        took = plan.iteration_seconds(size, blocks, threads, seconds)
        yield Row(
            f"plan, {size.rows} × {size.cols}, K={size.rank}, {threads} thread(s): predicted / took",
            predicted / took,
            note=f"{1e3 * predicted:.2f} ms, {1e3 * took:.2f} ms an iteration",
        )


def _files(settings: Settings) -> Iterator[Row]:
    for problem in PROBLEMS[:: 9 if settings.quick else 1]:
        small = problem.smaller() if settings.quick else problem
        with tempfile.TemporaryDirectory() as folder:
            path = str(small.save(Path(folder)))
            predicted, took = (_child(mode, path, small) for mode in ("plan", "sample"))
        name = f"plan, {small.rows:,} × {small.cols:,}, {small.entries:,} entries, K={small.rank}: "
        for what, bar, unit, scale in (("seconds", 1.5, "s", 1.0), ("bytes", 1.2, "MB", 1e6)):
            ratio = predicted[what] / took[what]
            yield Row(
                name + what, max(ratio, 1 / ratio), bar,
                note=f"{predicted[what] / scale:.3g} {unit} predicted, {took[what] / scale:.3g} {unit} taken",
            )  # fmt: skip


def _child(mode: str, path: str, problem: Problem) -> dict[str, float]:
    """Predict or run a problem in a process of its own, on one thread."""
    arguments = [path, problem.rank, problem.likelihood, problem.passes, problem.absent or ""]
    command = [sys.executable, "-m", "benchmarks.planning", mode, *map(str, arguments)]
    found: dict[str, float] = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    return found


def _main(mode: str, path: str, rank: str, likelihood: str, passes: str, absent: str) -> None:
    warnings.simplefilter("ignore")
    data = psgld.observations(path, absent or None)
    model = psgld.FactorModel(int(rank), likelihood, bias=likelihood == "gaussian")
    sampler, engine, clock = psgld.PSGLD(), psgld.Threads(1), time.process_time
    cycle = sampler.cycle(data)
    counts: dict[str, Any] = {
        "draws": 10,
        "tune": int(passes) * cycle // 2,
        "thin": int(passes) * cycle // 20,
    }
    if mode == "plan":
        found = rehearse(data, model, sampler, engine, tuple(counts.values()), 1, clock=clock)
        result = {"seconds": found.seconds, "bytes": found.memory}
    else:
        start = clock()
        psgld.sample(data, model, sampler=sampler, engine=engine, chains=1, progress=False, **counts)
        result = {"seconds": clock() - start, "bytes": most_resident()}
    print(json.dumps(result))


if __name__ == "__main__":
    _main(*sys.argv[1:])
