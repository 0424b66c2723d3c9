"""The paper's largest set on one machine: 683,584 × 4,580,288, 640 M entries, K=50, T=10, B=120, inside 20 GB.

A base matrix of 10 M entries tiled 8 × 8, sharded as it is made, sampled from disk. `make bench-largest` runs it: it
takes minutes and 20 GB of disk. The time that an iteration takes of all cores together is compared with what the
throw-away prototype would take on one at its rates on a smaller problem, where a row has 8 entries a block and not 1:
measured before and after (`--prototypes`), else 9.3 ns an entry and 1.14 ns a coefficient, seen on a quiet machine.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import psgld
from psgld.dynamics.probes import Probes

from . import problems, prototype
from .harness import Row

BASE, ENTRIES, TILES, RANK, BLOCKS, ITERATIONS = (85_448, 572_536), 10_000_000, 8, 50, 120, 10
ENTRY, COEFFICIENT = 9.3e-9, 1.14e-9


def status(name: str) -> float:
    """Return a size from the process's status, in GB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(name)) / 1e9


def tiles(number: int) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Give out the entries of the base matrix once a tile."""
    rng = np.random.default_rng(1)
    cells = np.unique(rng.integers(0, BASE[0] * BASE[1], ENTRIES + 5000))
    rows, cols = np.divmod(
        np.delete(cells, rng.choice(len(cells), len(cells) - ENTRIES, replace=False)), BASE[1]
    )
    rows, cols = rows.astype(np.int32), cols.astype(np.int32)
    values = rng.integers(1, 6, ENTRIES).astype(np.float32)
    for a in range(number):
        for b in range(number):
            for first in range(0, ENTRIES, 1 << 21):
                part = slice(first, first + (1 << 21))
                yield rows[part] + a * BASE[0], cols[part] + b * BASE[1], values[part]


def rates(prototypes: Path | None) -> tuple[float, float]:
    """Return the prototype's seconds an entry and a coefficient."""
    if prototypes is None:
        return ENTRY, COEFFICIENT
    return prototype.sparse_rates(prototypes, problems.BLOCKS, 3 * problems.BLOCKS)


def run(number: int, blocks: int, threads: int, folder: Path, prototypes: Path | None) -> Iterator[Row]:
    shape = (number * BASE[0], number * BASE[1])
    start = time.perf_counter()
    shards = psgld.shard(tiles(number), folder / "shards", blocks, shape=shape)
    seconds = time.perf_counter() - start
    yield Row("sharding: million entries a second", shards.stored / seconds / 1e6, note=f"{seconds:.0f} s")
    yield Row("sharding: peak memory, GB", status("VmHWM"), note="with the base matrix, 0.2 GB")

    start = time.perf_counter()
    model = psgld.FactorModel(RANK, psgld.Poisson(), psgld.Exponential(1.0), psgld.Exponential(1.0))
    sampler, engine = (
        psgld.PSGLD(step_size=psgld.Power(1e-7, 0.51), metric=psgld.Identity()),
        psgld.Threads(threads),
    )
    setup = sampler.prepare(shards, model, engine, 0)
    chain = setup.chain(0, Probes.of(shards, 0), engine)
    size = sum(file.stat().st_size for file in (folder / "shards" / "blocks").iterdir()) / 1e9
    yield Row(
        "blocks and start: seconds", time.perf_counter() - start, note=f"{size:.1f} GB of blocks on disk"
    )

    before = rates(prototypes)
    chain.advance(1)
    wall, cpu = time.perf_counter(), time.process_time()
    chain.advance(ITERATIONS - 1)
    wall, cpu = (
        (time.perf_counter() - wall) / (ITERATIONS - 1),
        (time.process_time() - cpu) / (ITERATIONS - 1),
    )
    entry, coefficient = map(min, zip(before, rates(prototypes), strict=True))
    expected = shards.stored / blocks * entry + sum(shape) * RANK * coefficient
    yield Row(
        "an iteration: core seconds / the prototype's",
        cpu / expected,
        1.3,
        note=f"{cpu:.3f} s; {expected:.3f} s at {1e9 * entry:.1f} ns an entry, {1e9 * coefficient:.2f} a coefficient",
    )
    yield Row(
        f"an iteration: seconds on the clock, {threads} thread(s)",
        wall,
        note=f"{wall / expected:.2f} of the prototype's on one",
    )
    yield Row(f"T={ITERATIONS} iterations: seconds", wall * ITERATIONS)
    yield Row(
        "peak memory, GB",
        status("VmHWM"),
        20.0,
        note=f"of it now {status('RssAnon'):.1f} GB own and {status('RssFile'):.1f} GB pages of the blocks",
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.largest", description=__doc__)
    parser.add_argument("--tiles", type=int, default=TILES, help="tiles a side (%(default)s)")
    parser.add_argument("--blocks", type=int, default=BLOCKS, help="B (%(default)s)")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--folder", type=Path, help="where 20 GB are free; a temporary one by default")
    parser.add_argument(
        "--prototypes", type=Path, help="folder of the throw-away kernels, to be measured too"
    )
    args = parser.parse_args()
    prototypes = prototype.usable(args.prototypes)
    print(f"{args.tiles}² tiles of 10 M entries, B={args.blocks}, load {os.getloadavg()[0]:.1f}", flush=True)
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        for row in run(args.tiles, args.blocks, args.threads, Path(folder), prototypes):
            print(row, flush=True)


if __name__ == "__main__":
    main()
