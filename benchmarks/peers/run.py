"""One fit in a process of its own: pinned threads, a limit of time; a variant with its grid; effective sample sizes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from .. import harness
from .environments import ROOT, NotInstalledError, python_of
from .problems import Pair
from .record import Problem
from .registry import Peer, Settings, Variant

Result = dict[str, Any]
_POOLS = "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"
_BETTER = {"ratings": ("rmse", -1), "counts": ("log_density", 1), "clicks": ("hit_rate", 1)}
"""The score on validation data by which settings are chosen, and its sign."""


@dataclass(frozen=True)
class Limits:
    """Seconds per fit, and whether all peers run in this interpreter's environment (for tests)."""

    seconds: float
    here: bool = False


def fitted(peer: Peer, variant: Variant, pair: Pair, limits: Limits) -> Result:
    """Fit a variant to a problem: its settings, scores and curve; or its failure."""
    result: Result = {"peer": peer.name, "variant": variant.name, "date": date.today().isoformat()}
    if peer.requirements is None:
        result["revision"] = _revision()
    try:
        limits = replace(limits, seconds=min(limits.seconds, peer.most_seconds))
        python = sys.executable if _is_here(peer, limits) else str(_python(peer))
        problem, settings, tried = _tuned(python, peer, variant, pair, limits)
        result |= {"settings": settings, "tried": tried}
        return result | _run(python, peer.script, problem, settings, limits.seconds)
    except (NotInstalledError, FitError) as failure:
        return result | {"failure": str(failure)}


class FitError(Exception):
    """A fit failed; the message is its last line."""


def _revision() -> str:
    """Return the commit of this checkout, if it is one."""
    command = ["git", "rev-parse", "--short", "HEAD"]
    try:
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()
    except OSError:
        return ""


def _is_here(peer: Peer, limits: Limits) -> bool:
    return limits.here or peer.requirements is None


def _python(peer: Peer) -> Path:
    return python_of(peer.name.lower(), peer.requirements or ())


def _tuned(
    python: str, peer: Peer, variant: Variant, pair: Pair, limits: Limits
) -> tuple[Problem, Settings, list[Any]]:
    """Return the problem, with the error on validation data; the best settings; and the score of each tried."""
    grid = variant.grid or ((variant.settings,) if _is_point(peer, variant) else ())
    if not grid or pair.validation is None:
        return pair.problem, variant.settings, []
    name, sign = _BETTER[variant.kind]
    scores = []
    for settings in (variant.settings | entry for entry in grid):
        curve = _run(python, peer.script, pair.validation, settings, limits.seconds)["curve"]
        scores.append((curve[-1].get(name, -sign * np.inf) if curve else -sign * np.inf, settings))
    best, settings = max(scores, key=lambda pair: sign * float(pair[0]))
    tried = [{"settings": _short(s, variant), name: score} for score, s in scores] if variant.grid else []
    about = {"validation_rmse": float(best)} if variant.kind == "ratings" else {}
    return replace(pair.problem, about=pair.problem.about | about), settings, tried


def _is_point(peer: Peer, variant: Variant) -> bool:
    """Whether a point estimate of ratings needs the error on validation data, for the density of its predictions."""
    return variant.kind == "ratings" and peer.script in ("libmf", "cmfrec")


def _short(settings: Settings, variant: Variant) -> Settings:
    """Return the settings that the grid varies."""
    return {name: settings[name] for name in variant.grid[0]}


def _run(python: str, script: str, problem: Problem, settings: Settings, limit: float) -> Result:
    """Run the worker, and return the curve and what else it noted, up to the limit of time."""
    with tempfile.TemporaryDirectory() as folder:
        path, out, log = (Path(folder) / name for name in ("problem.npz", "out.jsonl", "log.txt"))
        problem.save(path)
        others, start = harness.others(), time.perf_counter()
        command = [python, "-m", f"{__package__}.worker", script, str(path), json.dumps(settings), str(out)]
        with log.open("w") as printed:
            process = subprocess.Popen(
                command, cwd=ROOT, stdout=printed, stderr=subprocess.STDOUT,
                env=_environment(problem.about["threads"]),
            )  # fmt: skip
            try:
                code = process.wait(limit)
            except subprocess.TimeoutExpired:
                process.kill()
                code = process.wait()
        result = _read(out)
        result["others"] = round(max(0.0, harness.others() - others) / (time.perf_counter() - start), 2)
        if process.returncode < 0 and result["curve"]:
            result["stopped"] = f"stopped after {limit:.0f} s"
        elif code:
            raise FitError(_last_line(log, limit if code < 0 else None))
    return result


def _environment(threads: int) -> dict[str, str]:
    own = {name: str(threads) for name in _POOLS}
    own["XLA_FLAGS"] = f"--xla_cpu_multi_thread_eigen={'true' if threads > 1 else 'false'}"
    return os.environ | own | {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONWARNINGS": "ignore"}


def _read(out: Path) -> Result:
    """Gather the lines of a worker: points of the curve, traces of the means, and notes."""
    result: Result = {"curve": []}
    traces = []
    for line in _lines(out):
        if "passes" not in line:
            result |= line
            continue
        traces.append(line.pop("mu", None))
        result["curve"].append(line)
    kept = [trace for trace in traces if trace]
    if len(kept) >= 10:
        result |= _effective(np.array(kept), result["curve"])
    return result


def _lines(out: Path) -> Iterator[dict[str, Any]]:
    for line in out.read_text().splitlines() if out.exists() else ():
        try:
            yield json.loads(line)
        except ValueError:  # the process was stopped while it wrote
            return


def _effective(trace: Any, curve: list[dict[str, Any]]) -> Result:
    """Return the median effective number of draws of μ, by the seconds in which the kept draws were made."""
    from arviz_stats.base import array_stats

    ess = [float(array_stats.ess(column[None], chain_axis=0, draw_axis=1)) for column in trace.T]
    before = [point for point in curve if not point["kept"]]
    start = before[-1] if before else {"seconds": 0.0, "cpu": 0.0}
    wall, cpu = (curve[-1][clock] - start[clock] for clock in ("seconds", "cpu"))
    median = float(np.median(ess))
    return {
        "ess": median,
        "ess_per_second": median / wall if wall else None,
        "ess_per_cpu_second": median / cpu if cpu else None,
        "mu_mean": trace.mean(axis=0).tolist(),
        "mu_sd": trace.std(axis=0).tolist(),
    }


def _last_line(log: Path, limit: float | None) -> str:
    if limit is not None:
        return f"no result within {limit:.0f} s"
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return (lines or ["no message"])[-1][:200]
