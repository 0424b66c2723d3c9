"""Strong and weak scaling over ranks, on this machine and over hosts with 1 Gb/s and 0.2 ms, beside `psgld plan`.

Strong: the same matrix on more ranks. Weak: the matrix once more below for each rank. The ranks measure in one job what
`psgld doctor --mpi` measures, and then iterations: `mpiexec -n R python -m benchmarks.scaling FOLDER ROUNDS`.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import psgld
from psgld.tools import forecast as plan
from psgld.tools import network

from . import cluster, problems
from .harness import Row, Settings
from .ring import _BLOCKS, _RANK, _chain, _iteration, _patient_barrier

_HERE, _GIGABITS, _DELAY = "this machine", 1.0, 2e-4
_THERE = f"hosts, {_GIGABITS:g} Gb/s, {_DELAY * 1e3:g} ms"


def run(settings: Settings) -> Iterator[Row]:
    mpi = cluster.find("MPICH") or cluster.find("Open MPI")
    if mpi is None:
        note = "not measured: no MPI, pip install 'psgld[mpi]'"
        yield Row("scaling: 2 ranks, predicted / took", float("nan"), note=note)
        return
    most = 2  # more ranks than cores would measure the operating system
    with tempfile.TemporaryDirectory() as folder:
        problem = problems.sparse_problem(settings.quick)
        np.savez(Path(folder) / "problem.npz", rows=problem.row, cols=problem.col, values=problem.data)
        np.save(Path(folder) / "shape.npy", problem.shape)
        program = [sys.executable, "-m", "benchmarks.scaling", folder, str(settings.choose(6, 1))]
        alone = _answer([str(mpi.mpiexec), "-n", "1", *program], mpi.local)
        found = {_HERE: _answer([str(mpi.mpiexec), "-n", str(most), *program], mpi.local)}
        if not cluster.missing():
            with cluster.Cluster(most, _GIGABITS, _DELAY) as hosts:
                found[_THERE] = _answer(hosts.command(mpi, most, program), mpi.environment)
    yield _row("strong", _HERE, 1, alone, alone)
    for where, times in found.items():
        yield _row("strong", where, most, times, alone)
        yield _row("weak", where, most, times, alone)
        steps = ", ".join(
            f"{s['bytes'] / 1e3:.0f} kB {1e6 * s['seconds']:.0f} µs" for s in times["network"]["ring"]
        )
        yield Row(
            f"ring step, {where}, {most} ranks: microseconds",
            1e6 * times["network"]["latency"],
            note=f"and {8e-9 * times['network']['bandwidth']:.3g} Gb/s: {steps}; {times['network']['library']}",
        )
    if _THERE not in found:
        note = f"not measured: {cluster.missing()}"
        yield Row(f"strong, {_THERE}, {most} ranks: predicted / took", float("nan"), note=note)


def _row(kind: str, where: str, ranks: int, times: dict[str, Any], alone: dict[str, Any]) -> Row:
    took, predicted, one = times[kind], times[f"{kind} predicted"], alone["strong"]
    gain = f"{one / took:.2f} times as fast as 1" if kind == "strong" else f"{took / one:.2f} times that of 1"
    return Row(
        f"{kind}, {where}, {ranks} rank(s): predicted / took",
        predicted / took,
        note=f"{1e3 * predicted:.2f} ms, {1e3 * took:.2f} ms an iteration, error {100 * (predicted / took - 1):+.0f} %"
        + (f"; {gain}" if ranks > 1 else ""),
    )


def _answer(command: list[str], environment: dict[str, str]) -> dict[str, Any]:
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return dict(json.loads(done.stdout.splitlines()[-1]))


# -- what a rank does --------------------------------------------------------------------------------------


def _measure(folder: Path, rounds: int) -> None:
    from mpi4py import MPI

    comm, engine = MPI.COMM_WORLD, psgld.MPI(1)
    seconds = 0.5 if rounds > 1 else 0.02
    with np.load(folder / "problem.npz") as file:
        rows, cols, values = (file[name] for name in ("rows", "cols", "values"))
    shape = tuple(int(n) for n in np.load(folder / "shape.npy"))
    found: dict[str, Any] = {}
    if engine.ranks > 1:
        found["network"] = network.measure(_RANK, 1, seconds)
        speed = {name: found["network"][name] for name in ("entry", "coefficient", "latency", "bandwidth")}
        machine = plan.Machine(**speed)
    else:
        machine = plan.measured(_RANK, seconds)
    chains = {}
    for kind, times in (("strong", 1), ("weak", engine.ranks)):
        if kind == "weak" and engine.ranks == 1:
            continue
        more = np.concatenate([rows + q * shape[0] for q in range(times)])
        taller = (times * shape[0], shape[1])
        data = psgld.Observations.from_coo(
            more, np.tile(cols, times), np.tile(values, times), taller, absent="unobserved"
        )
        chains[kind] = _chain(data, problems.paper(_BLOCKS, 1e-6), engine)
        size = plan.Size(*taller, times * len(rows), _RANK)
        found[f"{kind} predicted"] = plan.forecast(size, machine, _BLOCKS, engine.ranks, "identity").iteration
    for _ in range(rounds):
        for kind, chain in chains.items():
            _patient_barrier(comm)
            found[kind] = min(found.get(kind, float("inf")), _iteration(chain, 2))
    if engine.rank == 0:
        print(json.dumps(found))


if __name__ == "__main__":
    _measure(Path(sys.argv[1]), int(sys.argv[2]))
