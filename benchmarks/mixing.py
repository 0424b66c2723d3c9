"""Effective samples of μ per second against another checkout: `python -m benchmarks.mixing FOLDER DIR`.

FOLDER is a checkout whose .venv has it built, DIR holds `ml-1m.zip` (GroupLens). All defaults; one chain on one thread;
processor time without the burn-in, but for the very sparse matrix, whose figure is the time to 400 effective samples.
An effective sample is counted as arviz-stats does, the median over 200 random cells. The standard deviations of μ are
those of 400 cells, over those of the same number of effective samples of a long chain with one part and small steps.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from .harness import Row
from .mixing_cases import CASES, effective

_GAIN, _TIME = 1.5, 0.4
_ENOUGH = 400
_SPREAD = 0.03

Figures = dict[str, float]


def measure(python: str, case: str, folder: Path, file: Path, *options: str) -> Figures:
    """Run a case with the Python of a checkout."""
    command = [python, "-P", str(Path(__file__).with_name("mixing_cases.py")), case, str(folder), str(file)]
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    done = subprocess.run(
        [*command, *options], check=True, capture_output=True, text=True, env=os.environ | threads
    )
    found: Figures = json.loads(done.stdout)
    return found


def spread(file: Path, reference: Path, ess: float) -> float:
    """Return the median ratio of sds, to those of pieces of the reference with as many effective samples.

    The sd of a few effective samples is below that of many.
    """
    mu, truth = np.load(file), np.load(reference)
    length = min(len(truth), max(2, round(len(truth) * ess / effective(truth))))
    starts = np.linspace(0, len(truth) - length, 8).astype(int)
    sds = np.sqrt(np.mean([truth[a : a + length].var(axis=0) for a in starts], axis=0))
    return float(np.median(mu.std(axis=0) / sds))


def to_enough(found: Figures) -> float:
    """Return the seconds to 400 effective samples, burn-in included."""
    return found["burn_in"] + _ENOUGH * found["seconds"] / found["ess"]


def compare(case: str, python: str, args: argparse.Namespace, room: Path) -> None:
    """Print the rows of a case."""
    options = ["--quick"] if args.quick else []
    here, there = (
        measure(p, case, args.data, room / f"{n}.npy", *options)
        for n, p in enumerate((sys.executable, python))
    )
    if "covered" in here:
        a, b = to_enough(here), to_enough(there)
        print(Row(f"{case}: time here / there", a / b, _TIME, note=f"{a:.1f} s, {b:.1f} s"), flush=True)
        off = abs(here["covered"] - 0.9)
        print(Row(f"{case}: |coverage - 0.9|", off, 0.02, note=f"there {there['covered']:.3f}"), flush=True)
        return
    rates = [found["ess"] / found["seconds"] for found in (here, there)]
    note = f"{rates[0]:.3g} and {rates[1]:.3g} per second, B = {here['blocks']:g} and {there['blocks']:g}"
    print(Row(f"{case}: here / there", rates[0] / rates[1], _GAIN, least=True, note=note), flush=True)
    measure(sys.executable, case, args.data, room / "reference.npy", "--reference", *options)
    ratios = [
        spread(room / f"{n}.npy", room / "reference.npy", found["ess"])
        for n, found in enumerate((here, there))
    ]
    off = abs(ratios[0] - 1.0)
    note = f"sd ratios {ratios[0]:.3f} and {ratios[1]:.3f}"
    print(Row(f"{case}: |sd ratio - 1|", off, _SPREAD, note=note), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mixing", description=__doc__)
    parser.add_argument("folder", type=Path, help="the other checkout, with a .venv")
    parser.add_argument("data", type=Path, help="a folder with ml-1m.zip")
    parser.add_argument("names", nargs="*", metavar="NAME", help="cases that begin so; all by default")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: shows that it runs")
    args = parser.parse_args()
    python = str((args.folder / ".venv/bin/python").absolute())
    with tempfile.TemporaryDirectory() as room:
        for case in CASES:
            if not args.names or case.startswith(tuple(args.names)):
                compare(case, python, args, Path(room))


if __name__ == "__main__":
    main()
