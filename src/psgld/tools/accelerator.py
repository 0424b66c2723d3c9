"""The self-check of `JAX()`: devices, the same chain as the reference, time per iteration beside the core's."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from ..data.observations import Observations
from ..data.source import Source
from ..dynamics.probes import Probes
from ..engines import JAX, Engine, Reference, Threads
from ..errors import in_bytes
from ..models import Exponential, FactorModel, Poisson
from ..samplers import PSGLD

_ITERATIONS, _AGREES = 64, 1e-4
"""The number of iterations after which both engines are compared, and the largest relative difference."""

_SECONDS = 0.5


def examine(rank: int = 50) -> dict[str, Any]:
    """Return devices, self-check and times per iteration, serialisable as JSON."""
    engine = JAX()
    from ..engines.accelerated.devices import described

    problems = {"dense 1024 × 1024": _dense(), "sparse 10,000 × 2,000, 1 M entries": _sparse()}
    times = {
        name: {
            "jax": iteration_seconds(data, engine, rank, _SECONDS),
            "core": iteration_seconds(data, Threads(), rank, _SECONDS),
        }
        for name, data in problems.items()
    }
    return {
        "devices": described(),
        "check": check(),
        "rank": rank,
        "seconds": times,
        "threads": Threads().workers,
    }


def check() -> dict[str, Any]:
    """Run 64 iterations of a small model on JAX, in float32, and on the reference, in float64; compare the factors."""
    V = np.random.default_rng(0).poisson(4.0, (60, 40))
    ends = []
    for engine, dtype in ((JAX(), "float32"), (Reference(), "float64")):
        chain = _chain(Observations.from_dense(V), engine, 4, PSGLD(4, dtype=dtype))
        chain.advance(_ITERATIONS)
        ends.append(chain.factors.factor(0))
    away = float(np.abs(ends[0] - ends[1]).max() / np.abs(ends[1]).max())
    problem = None if away < _AGREES else f"{away:.1e} from the reference, at most {_AGREES:.0e} is rounding"
    return {"ok": problem is None, "problem": problem, "difference": away}


def iteration_seconds(data: Source, engine: Engine, rank: int, seconds: float) -> float:
    """Return the time per iteration of a chain with the default sampler, without the time of compiling it."""
    chain = _chain(data, engine, rank, PSGLD())
    cycle = chain.setup.cycle
    chain.advance(40 * cycle)  # to the steps with momentum

    def timed(cycles: int) -> float:
        start = time.perf_counter()
        chain.advance(cycles * cycle)
        chain.factors.sums()  # waits for the device
        return time.perf_counter() - start

    once = timed(4) / 4
    cycles = max(4, int(seconds / max(once, 1e-6)))
    return float(min(timed(cycles) for _ in range(2)) / cycles / cycle)


def _chain(data: Source, engine: Engine, rank: int, sampler: PSGLD) -> Any:
    model = FactorModel(rank, Poisson(), Exponential(1.0), Exponential(1.0))
    setup = sampler.prepare(data, model, engine, tune=0)
    return setup.chain(0, Probes.of(data, 0), engine)


def _dense() -> Source:
    return Observations.from_dense(np.random.default_rng(0).poisson(4.0, (1024, 1024)).astype(np.float32))


def _sparse() -> Source:
    rng, shape, n = np.random.default_rng(0), (10_000, 2_000), 1_000_000
    rows, cols = np.divmod(rng.choice(shape[0] * shape[1], n, replace=False), shape[1])
    values = rng.integers(1, 6, n).astype(np.float32)
    return Observations.from_coo(rows, cols, values, shape, "unobserved")


def text(report: dict[str, Any]) -> str:
    """Return the report of `examine` as text."""
    verdict = report["check"]
    lines = [
        ("device", f"{d['kind']} ({d['platform']})" + (f", {in_bytes(d['memory'])}" if d["memory"] else ""))
        for d in report["devices"]
    ]
    agrees = (
        f"ok: {verdict['difference']:.1e} from the reference"
        if verdict["ok"]
        else f"FAILED: {verdict['problem']}"
    )
    lines.append(("self-check", agrees))
    for name, found in report["seconds"].items():
        ratio = found["core"] / found["jax"]
        faster = f"JAX() {ratio:.3g} × faster" if ratio > 1 else f"Threads() {1 / ratio:.3g} × faster"
        lines.append(
            (
                "iteration",
                f"{name}, K = {report['rank']}: {found['jax'] * 1e3:.3g} ms on JAX(), {found['core'] * 1e3:.3g} ms on "
                f"{report['threads']} thread(s): {faster}",
            )
        )
    ratios = [found["core"] / found["jax"] for found in report["seconds"].values()]
    choice = (
        "JAX()"
        if min(ratios) > 1
        else "Threads()"
        if max(ratios) <= 1
        else "by the form of the data, as above"
    )
    lines.append(("engine", choice))
    return "\n".join(f"{name:<14}{value}" for name, value in lines)
