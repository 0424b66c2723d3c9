"""PSGLD and DSGLD on the same ranks: what they send, counted as it is sent, and the time of an iteration.

As many strips, or workers, as ranks. PSGLD passes a strip of H on at each iteration; each chain of DSGLD takes all of W
and H along at each hop. The ranks measure by themselves: `mpiexec -n R python -m benchmarks.hopping FOLDER ROUNDS`.
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

_RANK, _RANKS = 50, 2
_STEP = 1e-6
_EVERY = (1, 10)
_ROUND = 20
"""Iterations of each chain that are timed at once: a multiple of what lies between two hops."""


def run(settings: Settings) -> Iterator[Row]:
    program = mpiexec()
    if program is None:
        yield Row("DSGLD / PSGLD on MPI", float("nan"), note="not measured: no MPI, pip install 'psgld[mpi]'")
        return
    with tempfile.TemporaryDirectory() as folder:
        problem = problems.sparse_problem(settings.quick)
        np.savez(Path(folder) / "problem.npz", rows=problem.row, cols=problem.col, values=problem.data)
        np.save(Path(folder) / "shape.npy", problem.shape)
        command = ranks_of(_RANKS, program, "hopping", folder, settings.choose(5, 1))
        done = subprocess.run(command, env=environment(), capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(done.stderr)
    found = json.loads(done.stdout.splitlines()[-1])
    ring = found["ring"]
    for every in _EVERY:
        hops = found[str(every)]
        name = "hop each time" if every == 1 else f"hop every {every}"
        yield Row(
            f"bytes an iteration: DSGLD, {name} / PSGLD",
            hops["bytes"] / ring["bytes"],
            note=f"{hops['bytes'] / 1e6:.2f} MB, {ring['bytes'] / 1e6:.2f} MB, by all of {_RANKS} ranks",
        )
        yield Row(
            f"time of an iteration: DSGLD, {name} / PSGLD",
            hops["seconds"] / ring["seconds"],
            note=f"{1e3 * hops['seconds']:.2f} ms, {1e3 * ring['seconds']:.2f} ms; {found['library']}",
        )


# -- what a rank does --------------------------------------------------------------------------------------


def _chains(data: psgld.Observations, sampler: Any, engine: psgld.MPI, number: int) -> list[Any]:
    model = problems.fixed(_RANK, psgld.Poisson(), 4.5)
    setup = sampler.prepare(data, model, engine, 0)
    return [setup.chain(key, Probes.of(data, 0), engine) for key in range(number)]  # key % S: where it starts


def _advance(chain: Any, n: int) -> None:
    """Run n iterations in the loop itself: no hyperparameters, no metric."""
    parts, scales = chain.setup.schedule.parts(chain.iteration + 1, n, chain.setup.grid.part_sizes, chain.key)
    chain.factors.advance(Stretch(chain.iteration + 1, parts, np.full(n, 1e-9), scales))
    chain.iteration += n


def _ring(chains: list[Any]) -> None:
    _advance(chains[0], _ROUND)


def _hops(chains: list[Any]) -> None:
    stay = chains[0].setup.stay
    for _ in range(_ROUND // stay):
        chains[0].setup.engine.hop(
            [chain.factors for chain in chains], [chain.next_part() for chain in chains]
        )
        for chain in chains:
            _advance(chain, stay)


def _measure(folder: Path, rounds: int) -> None:
    from mpi4py import MPI

    from psgld.engines.distributed import ranks

    engine = psgld.MPI(1)
    with np.load(folder / "problem.npz") as file:
        rows, cols, values = (file[name] for name in ("rows", "cols", "values"))
    shape = tuple(int(n) for n in np.load(folder / "shape.npy"))
    data = psgld.Observations.from_coo(rows, cols, values, shape, absent="unobserved")
    cases: dict[str, tuple[list[Any], Callable[[list[Any]], None], str]] = {
        "ring": (_chains(data, problems.paper(engine.ranks, _STEP), engine, 1), _ring, "ring")
    }
    for every in _EVERY:
        sampler = psgld.DSGLD(engine.ranks, every, step_size=_STEP, metric="identity")
        cases[str(every)] = _chains(data, sampler, engine, engine.ranks), _hops, "hops"
    found: dict[str, Any] = {name: {"seconds": float("inf")} for name in cases}
    for turn in range(rounds + 1):
        for name, (chains, move, counted) in cases.items():
            before = sum(chain.factors.sent[counted] for chain in chains)
            engine.any(False)
            start = time.perf_counter()
            move(chains)
            engine.any(False)  # all are done
            seconds = time.perf_counter() - start
            sent = sum(
                ranks.everyones_number(
                    engine.communicator, sum(c.factors.sent[counted] for c in chains) - before
                )
            )
            if turn:
                found[name]["seconds"] = min(found[name]["seconds"], seconds / _ROUND / len(chains))
            found[name]["bytes"] = sent / _ROUND / len(chains)
    if engine.rank == 0:
        found["library"] = MPI.Get_library_version().split(",")[0].split("\n")[0].strip()
        print(json.dumps(found))


if __name__ == "__main__":
    _measure(Path(sys.argv[1]), int(sys.argv[2]))
