"""The self-check: versions, machine, a test run and its speed."""

from __future__ import annotations

import os
import platform
import time
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

from .. import _core
from ..datasets import synthetic
from ..engines import Threads
from ..errors import PsgldError
from ..models import FactorModel
from ..sample import sample
from ..samplers import PSGLD
from ..system.limits import available_memory
from ..system.version import __version__

REQUIRED = ("numpy", "scipy", "tqdm")
OPTIONAL = {
    "pandas": "data frames",
    "polars": "data frames",
    "zarr": "stores",
    "pyarrow": "Parquet files",
    "matplotlib": "plots",
    "scikit-learn": "estimators",
    "arviz-stats": "R-hat and ESS",
    "xarray": "stores and ArviZ",
    "mpi4py": "runs on several machines",
    "jax": "runs on GPUs",
}
"""Optional packages and their uses."""

_SIDE, _RANK, _BLOCKS = 512, 32, 8


def examine() -> dict[str, Any]:
    """Return versions, machine, self-check and speed, serialisable as JSON.

    Examples
    --------
    >>> examine()["check"]["ok"]
    True
    """
    return {
        "psgld": __version__,
        "python": platform.python_version(),
        "required": {name: installed(name) for name in REQUIRED},
        "optional": {name: installed(name) for name in OPTIONAL},
        "platform": platform.platform(),
        "cores": Threads().workers,
        "memory_available": available_memory(),
        "instruction_set": _core.instruction_set,
        "PSGLD_ISA": os.environ.get("PSGLD_ISA"),
        "check": check(),
        "speed": speed(),
    }


def installed(name: str) -> str | None:
    """Return the version of a package, or None if it is not installed."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def check() -> dict[str, Any]:
    """Sample a small model; check that predictions are near the truth, and draws the same on one and two threads."""
    truth = synthetic(60, 40, rank=2, likelihood="poisson", seed=0)
    model = FactorModel(2, "poisson")
    sizes: dict[str, Any] = {"draws": 50, "tune": 500, "chains": 1, "progress": False}
    try:
        runs = [sample(truth.V, model, sampler=PSGLD(blocks=4), engine=Threads(n), **sizes) for n in (1, 2)]
    except PsgldError as error:
        return {"ok": False, "problem": str(error)}
    if not np.array_equal(runs[0].W, runs[1].W):
        return {"ok": False, "problem": "one and two threads give different draws"}
    mean = runs[0].predict(np.repeat(np.arange(60), 40), np.tile(np.arange(40), 60)).mean
    away = float(np.sqrt(np.mean((mean - truth.mu.ravel()) ** 2)) / truth.mu.std())
    if not away < 0.5:
        return {"ok": False, "problem": f"predictions are {away:.2f} sd from the truth, expected at most 0.5"}
    return {"ok": True, "problem": None}


def speed(seconds: float = 0.5) -> dict[str, float]:
    """Return iterations and entries per second of a dense Poisson model of rank 32 on all cores."""
    V = np.random.default_rng(0).poisson(4.0, (_SIDE, _SIDE)).astype(np.float32)
    model, sampler = FactorModel(_RANK, "poisson"), PSGLD(blocks=_BLOCKS)

    def timed(iterations: int) -> float:
        start = time.perf_counter()
        sample(V, model, sampler=sampler, draws=1, tune=0, thin=iterations, chains=1, progress=False)
        return time.perf_counter() - start

    few = 50
    timed(few)
    # The difference of two runs excludes the time of the setup.
    once = timed(few)
    many = few + max(few, int(seconds / max(once / few, 1e-6)))
    rate = (many - few) / max(timed(many) - once, 1e-9)
    return {"iterations_per_second": rate, "entries_per_second": rate * _SIDE * _SIDE / _BLOCKS}


def text(report: dict[str, Any]) -> str:
    """Return the report of `examine` as text."""
    memory, isa, verdict = report["memory_available"], report["PSGLD_ISA"], report["check"]
    lines = [("psgld", report["psgld"]), ("Python", report["python"])]
    lines += [(name, found or "NOT INSTALLED") for name, found in report["required"].items()]
    lines += [
        (name, found or f"not installed (optional, for {OPTIONAL[name]})")
        for name, found in report["optional"].items()
    ]
    lines += [
        ("platform", report["platform"]),
        ("cores", str(report["cores"])),
        ("memory", "unknown" if memory is None else f"{memory / 2**30:.1f} GiB available"),
        ("instructions", report["instruction_set"] + (f" (PSGLD_ISA={isa})" if isa else "")),
        ("self-check", "ok" if verdict["ok"] else f"FAILED: {verdict['problem']}"),
        (
            "speed",
            f"{report['speed']['entries_per_second'] / 1e6:,.0f} million entries per second "
            f"({_SIDE} × {_SIDE}, rank {_RANK}, {report['cores']} threads)",
        ),
    ]
    return "\n".join(f"{name:<14}{value}" for name, value in lines)
