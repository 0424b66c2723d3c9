"""The ring on MPI: 2 ranks × 1 thread against 2 threads, and how the time falls, or stays, as ranks are added.

The ranks measure by themselves, in one job and in turns: `mpiexec -n R python -m benchmarks.ring FOLDER ROUNDS`.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import psgld
from psgld.dynamics.probes import Probes
from psgld.engines import Stretch

from . import problems
from .harness import Row, Settings
from .launch import environment, mpiexec, ranks_of

_RANK, _BLOCKS = 50, 16
_SAMPLERS: dict[str, Callable[[], psgld.PSGLD]] = {
    "paper": lambda: problems.paper(_BLOCKS, 1e-6),
    "default": lambda: psgld.PSGLD(_BLOCKS, step_size=1e-4),
}


def run(settings: Settings) -> Iterator[Row]:
    program = mpiexec()
    if program is None:
        yield Row(
            "ring: MPI, 2 ranks / 2 threads",
            float("nan"),
            note="not measured: no MPI, pip install 'psgld[mpi]'",
        )
        return
    with tempfile.TemporaryDirectory() as folder:
        problem = problems.sparse_problem(settings.quick)
        np.savez(Path(folder) / "problem.npz", rows=problem.row, cols=problem.col, values=problem.data)
        np.save(Path(folder) / "shape.npy", problem.shape)
        found = {n: _job(program, n, folder, settings.choose(6, 1)) for n in (1, 2)}
    for name in _SAMPLERS:
        times = found[2][name]
        yield Row(
            f"ring, {name}: 2 ranks x 1 thread / 2 threads",
            times["ring"] / times["threads"],
            1.15,
            note=f"{1e3 * times['ring']:.2f} ms, {1e3 * times['threads']:.2f} ms an iteration; "
            f"{times['bytes'] / 1e3:.0f} kB sent; {found[2]['library']}",
        )
    one, two = found[1]["paper"], found[2]["paper"]
    yield Row("ring, strong scaling: 2 ranks, times faster than 1", one["ring"] / two["ring"], least=True)
    yield Row(
        "ring, weak scaling: 2 ranks, twice the rows / 1 rank",
        found[2]["weak"]["ring"] / one["ring"],
        note=f"{1e3 * found[2]['weak']['ring']:.2f} ms, {1e3 * one['ring']:.2f} ms an iteration",
    )


def _job(program: str, ranks: int, folder: str, rounds: int) -> dict[str, Any]:
    command = ranks_of(ranks, program, "ring", folder, rounds)
    done = subprocess.run(command, env=environment(), capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return dict(json.loads(done.stdout.splitlines()[-1]))


# -- what a rank does --------------------------------------------------------------------------------------


def _chain(data: psgld.Observations, sampler: psgld.PSGLD, engine: Any) -> Any:
    model = problems.fixed(_RANK, psgld.Poisson(), 4.5)
    setup = sampler.prepare(data, model, engine, 0)
    chain = setup.chain(0, Probes.of(data, 0), engine)
    chain.advance(_BLOCKS)
    return chain


def _iteration(chain: Any, cycles: int) -> float:
    """Return the time of an iteration in the loop itself: no hyperparameters, no metric."""
    n = cycles * _BLOCKS
    parts, scales = chain.setup.schedule.parts(chain.iteration + 1, n, chain.setup.grid.part_sizes, 0)
    start = time.perf_counter()
    chain.factors.advance(Stretch(chain.iteration + 1, parts, np.full(n, 1e-9), scales))
    seconds = time.perf_counter() - start
    chain.iteration += n
    return seconds / n


def _patient_barrier(comm: Any) -> None:
    """Wait for the others without taking a core from them."""
    request = comm.Ibarrier()
    while not request.Test():
        time.sleep(1e-3)


def _measure(folder: Path, rounds: int) -> None:
    from mpi4py import MPI

    comm, engine = MPI.COMM_WORLD, psgld.MPI(1)
    with np.load(folder / "problem.npz") as file:
        rows, cols, values = (file[name] for name in ("rows", "cols", "values"))
    shape = tuple(int(n) for n in np.load(folder / "shape.npy"))
    data = psgld.Observations.from_coo(rows, cols, values, shape, absent="unobserved")
    chains: dict[str, dict[str, Any]] = {}
    for name, sampler in _SAMPLERS.items():
        chains[name] = {"ring": _chain(data, sampler(), engine)}
        if engine.rank == 0 and engine.ranks > 1:
            chains[name]["threads"] = _chain(data, sampler(), psgld.Threads(engine.ranks))
    if engine.ranks > 1:  # the same matrix once more below, for each rank
        n = engine.ranks
        more = np.concatenate([rows + q * shape[0] for q in range(n)])
        taller = psgld.Observations.from_coo(
            more, np.tile(cols, n), np.tile(values, n), (n * shape[0], shape[1]), absent="unobserved"
        )
        chains["weak"] = {"ring": _chain(taller, _SAMPLERS["paper"](), engine)}
    times: dict[str, Any] = {name: {} for name in chains}
    for _ in range(rounds):
        for name, kinds in chains.items():
            for kind in ("ring", "threads"):
                _patient_barrier(comm)
                if kind in kinds:
                    best = times[name].get(kind, float("inf"))
                    times[name][kind] = min(best, _iteration(kinds[kind], 2))
    for name, kinds in chains.items():
        sent = kinds["ring"].factors.sent["ring"]
        _iteration(kinds["ring"], 1)
        times[name]["bytes"] = (kinds["ring"].factors.sent["ring"] - sent) / _BLOCKS
    if engine.rank == 0:
        times["library"] = MPI.Get_library_version().split(",")[0].split("\n")[0].strip()
        print(json.dumps(times))


if __name__ == "__main__":
    _measure(Path(sys.argv[1]), int(sys.argv[2]))
