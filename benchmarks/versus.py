"""Two checkouts in one run: `python -m benchmarks.versus FOLDER`, whose .venv has that checkout built.

Each case runs in turns in both, on one thread; compared are the least processor times of many short rounds, in
several pairs of processes, since the addresses of a process change its speed, too.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path
from typing import final

from .harness import Row
from .versus_cases import CASES

_BAR = 1.03


@final
class Checkout:
    """A process that runs one case with the Python of a checkout."""

    def __init__(self, python: str, case: str) -> None:
        command = [python, "-P", str(Path(__file__).with_name("versus_cases.py")), case]
        threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=os.environ | threads
        )
        self.best = float("inf")

    def line(self) -> str:
        """Return the next line that the process prints."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline().strip()
        if not line:
            raise RuntimeError(f"{self.process.args!r} ended with {self.process.wait()}")
        return line

    def round(self) -> None:
        """Run the case once more."""
        assert self.process.stdin is not None
        print(file=self.process.stdin, flush=True)
        self.best = min(self.best, float(self.line()))

    def end(self) -> float:
        """End the process, and return its least time."""
        self.process.communicate()
        return self.best


def compare(other: str, case: str, rounds: int, pairs: int) -> tuple[float, float]:
    """Return the least times of the case, here and with the other Python."""
    least = [float("inf")] * 2
    for _ in range(pairs):
        two = [Checkout(python, case) for python in (sys.executable, other)]
        for checkout in two:
            assert checkout.line() == "ready"
        for n in range(rounds):
            for checkout in two[:: 1 if n % 2 else -1]:  # neither always follows the other
                checkout.round()
        least = [min(best, checkout.end()) for best, checkout in zip(least, two, strict=True)]
    return least[0], least[1]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.versus", description=__doc__)
    parser.add_argument("folder", type=Path, help="the other checkout, with a .venv")
    parser.add_argument("names", nargs="*", metavar="NAME", help="cases that begin so; all by default")
    parser.add_argument("--rounds", type=int, default=20, help="of a pair of processes (%(default)s)")
    parser.add_argument("--pairs", type=int, default=2, help="of processes (%(default)s)")
    args = parser.parse_args()
    python = str((args.folder / ".venv/bin/python").absolute())
    for case in CASES:
        if not args.names or case.startswith(tuple(args.names)):
            here, there = compare(python, case, args.rounds, args.pairs)
            print(
                Row(f"{case}: here / there", here / there, _BAR, note=f"{here:.4f} s, {there:.4f} s"),
                flush=True,
            )


if __name__ == "__main__":
    main()
