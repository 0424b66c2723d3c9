"""Fit one peer: `python -m benchmarks.peers.worker PEER PROBLEM.npz SETTINGS OUT`, in the environment of the peer.

SETTINGS is JSON. Each point of the curve is a line of JSON in OUT, since peers print what they like.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import os
import sys
from pathlib import Path

from .record import Problem, Record, peak_memory


def main() -> None:
    peer, path, settings, out = sys.argv[1:]
    problem = Problem.load(Path(path))
    if hasattr(
        os, "sched_setaffinity"
    ):  # some start as many threads as there are cores, whatever they are told
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: problem.about["threads"]])
    fit = importlib.import_module(f"{__package__}.fits.{peer}")
    with Path(out).open("w") as lines:
        record = Record(problem, lines)
        record.again()
        fit.fit(problem, json.loads(settings), record)
        record.note(version=importlib.metadata.version(fit.PACKAGE), memory=peak_memory())


if __name__ == "__main__":
    main()
