"""The results of a problem, `OUT/NAME.json`: one entry per peer and variant; a new run replaces its own entries."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

from ..coverage import processor
from .problems import Pair
from .run import Result

MOST_OTHERS = 0.3
"""Cores that other programs may take during a fit; its times are not shown if they took more."""


def disturbed(run: Result) -> bool:
    """Return whether the times of a run say more about the machine."""
    return bool(run["others"] > MOST_OTHERS)


def file_of(folder: Path, problem: str) -> Path:
    """Return the file of a problem."""
    return folder / (re.sub(r"[^a-z0-9]+", "-", problem.lower()).strip("-") + ".json")


def described(problem: str, pair: Pair) -> dict[str, Any]:
    """Return what the results of a problem begin with."""
    given = pair.problem
    about = {name: value for name, value in given.about.items() if name != "validation_rmse"}
    return {
        "problem": problem,
        "kind": given.kind,
        "shape": list(given.shape),
        "train": len(given.train.values),
        "test": len(given.test.values),
        "about": about,
        "machine": f"{processor()}, {os.cpu_count()} cores",
        "runs": [],
    }


def merge(path: Path, header: dict[str, Any], result: Result) -> None:
    """Add a result to the file, in place of an older one of the same variant; results of other data are dropped."""
    table = read(path)
    same = {name: table.get(name) for name in header if name != "runs"}
    if same != {name: header[name] for name in same}:
        table = header
    key = result["peer"], result["variant"]
    runs = [run for run in table["runs"] if (run["peer"], run["variant"]) != key]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(table | {"runs": [*runs, result]}, indent=1, ensure_ascii=False) + "\n")


def read(path: Path) -> dict[str, Any]:
    """Return the results so far."""
    return dict(json.loads(path.read_text())) if path.exists() else {}


def seconds_to(curve: list[dict[str, Any]], bar: float, clock: str = "seconds") -> float | None:
    """Return the time after which the RMSE is at most the bar."""
    return next((float(point[clock]) for point in curve if point.get("rmse", bar + 1) <= bar), None)


def seconds_per_pass(curve: list[dict[str, Any]], clock: str = "seconds") -> float | None:
    """Return the time per pass over the data: from the first point to the last, which leaves out the set-up.

    A peer that returns all its draws at once has one time for all of them.
    """
    if not curve or not curve[-1]["passes"]:
        return None
    first, last = curve[0], curve[-1]
    if first[clock] == last[clock]:
        first = {"passes": 0, clock: 0.0}
    return float((last[clock] - first[clock]) / (last["passes"] - first["passes"]))
