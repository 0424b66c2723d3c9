"""The throw-away kernels, compiled where they may be found: a floor to beat."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path


def usable(folder: Path | None) -> Path | None:
    """Return the folder; None, with a word why, where the processor lacks what these kernels are written for."""
    if folder is not None and "avx512f" not in Path("/proc/cpuinfo").read_text():
        print("  (the prototypes need AVX-512, which this processor has not: not measured)", file=sys.stderr)
        return None
    return folder


@cache
def _compiled(source: Path) -> str:
    target = Path(tempfile.mkdtemp(prefix="psgld-prototype-")) / source.stem
    flags = ["-O3", "-march=native", "-std=c++20", "-pthread"]
    subprocess.run(["g++", *flags, str(source), "-o", str(target)], check=True)
    return str(target)


def _figure(command: list[str], pattern: str) -> float:
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found = re.search(pattern, printed)
    if found is None:
        raise RuntimeError(f"{command} printed nothing like {pattern}: {printed}")
    return float(found.group(1))


def dense_seconds(folder: Path, size: int, blocks: int, iterations: int, threads: int) -> float:
    """Return the prototype's time on the dense problem."""
    command = [_compiled(folder / "dense2.cpp"), *map(str, (size, blocks, iterations, threads, 1e-5))]
    return _figure(command, r": ([\d.]+) s, ")


def sparse_seconds(folder: Path, blocks: int, iterations: int) -> float:
    """Return the prototype's time for an iteration on the sparse problem, K = 64, one thread."""
    return _sparse_figure(folder, blocks, iterations, r"([\d.]+) ms/iter") / 1e3


def sparse_rates(folder: Path, blocks: int, iterations: int) -> tuple[float, float]:
    """Return the prototype's seconds an entry and seconds a coefficient on the sparse problem, the least of three."""
    rates = [
        [1e-9 * _sparse_figure(folder, blocks, iterations, rf"([\d.]+) {unit}") for _ in range(3)]
        for unit in ("ns/nnz", "ns/coef")
    ]
    return min(rates[0]), min(rates[1])


def _sparse_figure(folder: Path, blocks: int, iterations: int, pattern: str) -> float:
    return _figure([_compiled(folder / "sparse.cpp"), str(blocks), str(iterations)], pattern)
