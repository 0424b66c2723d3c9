"""`import psgld` in a fresh interpreter: its time, and nothing optional."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from functools import partial

from .harness import Row, Settings, in_turns

_TIME = "import time; t = time.perf_counter(); import {0}; print(time.perf_counter() - t)"
_OPTIONAL = (
    "pandas",
    "polars",
    "pyarrow",
    "matplotlib",
    "sklearn",
    "xarray",
    "zarr",
    "arviz",
    "mpi4py",
    "tqdm",
)
_LIST = f"import sys, psgld; print(*(m for m in {_OPTIONAL} if m in sys.modules))"


def _printed(code: str) -> str:
    # With the bytecode that any installation has, even where an environment forbids to write it.
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, env=env)
    return done.stdout.strip()


def _seconds(module: str) -> float:
    return float(_printed(_TIME.format(module)))


def run(settings: Settings) -> Iterator[Row]:
    names = ("psgld", "numpy")
    best = in_turns({name: partial(_seconds, name) for name in names}, settings.choose(10, 1))
    yield Row("import psgld: seconds", best["psgld"], 0.3, note=f"import numpy: {best['numpy']:.3f} s")
    found = _printed(_LIST).split()
    yield Row("import psgld: optional packages imported", len(found), 0, note=" ".join(found))
