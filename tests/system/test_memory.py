"""Out of memory: the address space of a child is lowered step by step through everything that takes memory.

Each attempt ends in success, in MemoryError or in an error of psgld of one line: never in a signal, in std::terminate
or in a wait without end. The child is this file, run with the name of a case.
"""

from __future__ import annotations

import ctypes
import importlib.util
import json
import os
import resource
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import psgld
from psgld import _core

STEPS = 6
"""Attempts with less memory than is enough."""

HERE = not {"asan", "tsan"} & set(
    os.environ.get("LD_PRELOAD", "").replace("lib", " ").replace(".", " ").split()
)
pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="RLIMIT_AS is for Linux"),
    pytest.mark.skipif(not HERE, reason="the sanitizer reserves terabytes"),
]


def counts(rows: int = 2000, cols: int = 200) -> Any:
    return np.random.default_rng(0).poisson(2.0, (rows, cols)).astype(np.float32)


def fit(likelihood: str = "poisson", V: Any = None, **options: Any) -> psgld.Posterior:
    given = {"draws": 10, "tune": 4, "thin": 1, "chains": 1, "engine": psgld.Threads(3), "progress": False}
    return psgld.sample(counts() if V is None else V, psgld.FactorModel(16, likelihood), **given | options)


def fits(*args: Any, **options: Any) -> Callable[[], object]:
    return lambda: fit(*args, **options)


def fold_in() -> Callable[[], object]:
    """Rows of many entries: it is the workers that run out of memory."""
    post, new = fit(V=counts(4, 20_000), draws=2), counts(3, 20_000)
    return lambda: post.fold_in(new, sweeps=1)


def fold_in_gaussian() -> Callable[[], object]:
    post, new = fit("gaussian"), counts()
    return lambda: post.fold_in(new, sweeps=1)


def predict() -> Callable[[], object]:
    post = fit()
    rows, cols = np.divmod(np.arange(50_000), 200)

    def ask() -> None:
        p = post.predict(rows, cols)
        for found in (p.mean, p.new_sd, p.interval(0.9), p.exceeds(2.0), p.draws[0]):
            assert np.isfinite(found).all()

    return ask


def recommend() -> Callable[[], object]:
    post = fit()

    def ask() -> None:
        for policy in ("mean", "ucb", "thompson"):
            post.recommend(n=5, policy=policy, exclude_seen=False)

    return ask


def load(name: str) -> Callable[[], object]:
    path = Path(tempfile.mkdtemp()) / name
    fit(draws=60).save(path)

    def ask() -> None:
        assert np.isfinite(psgld.load(path).W).all()

    return ask


def many_draws() -> Callable[[], object]:
    """A worker that runs out of memory in the midst of an iteration; the chain can be used afterwards."""
    grid_of = np.arange(64), np.array([0, 32, 64])
    grid = _core.Grid32(np.ones((64, 64)), np.empty((0, 0)), False, 0.0, 0, 64, *grid_of, *grid_of)
    chain, pool, one = (
        _core.Chain32(grid, 4, False, "poisson", 1e-30, False, 1.0, False),
        _core.Pool(3),
        np.ones(6),
    )
    draws = np.full((6, len(grid.chunk_entries(False)[0])), 8, np.int32)
    too_many = draws.copy()
    too_many[3, -1] = 2**31 - 1

    def advance(number: Any) -> None:
        chain.advance(pool, 1, np.zeros(6, np.int32), 1e-3 * one, one, number, 0, 2)

    def ask() -> None:
        if resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY:
            with pytest.raises(MemoryError):
                advance(too_many)
        advance(draws)

    return ask


def threads() -> Callable[[], object]:
    return lambda: _core.Pool(64)


CASES: dict[str, Callable[[], Callable[[], object]]] = {
    "psgld": fits,
    "psgld, chains": lambda: fits(V=counts(300, 50), chains=3, draws=100),
    "psgld, gaussian": lambda: fits("gaussian"),
    "Gibbs": lambda: fits(V=counts(1000, 100), sampler=psgld.Gibbs()),
    "BPMFGibbs": lambda: fits("gaussian", V=counts(1000, 100), sampler=psgld.BPMFGibbs()),
    "fold_in": fold_in,
    "fold_in, gaussian": fold_in_gaussian,
    "predict": predict,
    "recommend": recommend,
    "load npz": lambda: load("run.npz"),
    "load zarr": lambda: load("run.zarr"),
    "many draws": many_draws,
    "threads": threads,
}


def attempt(ask: Callable[[], object], headroom: int) -> str:
    """Return how an attempt with so many bytes more ends."""
    ctypes.CDLL(None).malloc_trim(0)  # what an attempt before has left over
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + headroom, resource.RLIM_INFINITY))
    try:
        ask()
        return "ok"
    except MemoryError:
        return "MemoryError"
    except psgld.PsgldError as error:
        return type(error).__name__ if "\n" not in str(error) else f"several lines: {error}"
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def main(name: str) -> None:
    """Print how the attempts end; first one without a limit, which also imports what is imported late."""
    warnings.simplefilter("ignore")
    ask = CASES[name]()
    ask()
    enough, ends = 1 << 16, []
    while enough < 1 << 33 and (not ends or ends[-1] != "ok"):
        enough *= 2
        ends.append(attempt(ask, enough))
    ends += [attempt(ask, int(enough * (step + 0.5) / STEPS)) for step in range(STEPS)]
    ends.append(attempt(ask, 4 * enough))
    print(json.dumps(ends))


@pytest.mark.parametrize("name", CASES)
def test_it_is_an_error_or_a_success(name):
    if "zarr" in name and importlib.util.find_spec("zarr") is None:
        pytest.skip("needs zarr")
    # What malloc has reserved for later would be memory beyond the limit.
    malloc = {"MALLOC_ARENA_MAX": "1", "MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TOP_PAD_": "0"}
    environment = os.environ | malloc | {"OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", __file__, name],
        capture_output=True, text=True, timeout=120, env=environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    ends = json.loads(done.stdout)
    assert ends[-1] == "ok", ends
    assert set(ends) <= {"ok", "MemoryError", "DataError", "SamplingError", "ModelError"}, ends


if __name__ == "__main__":
    main(sys.argv[1])
