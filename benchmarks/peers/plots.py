"""Curves of the score of held-out entries against wall time, one line per peer and variant."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .results import disturbed

_SCORES = {
    "ratings": ("rmse", "test RMSE"),
    "counts": ("log_density", "held-out log likelihood per count"),
}
_ROOM = 0.15
"""The share of the range of final scores that is shown beyond them: starts are far off."""


def curves(results: dict[str, Any], path: Path) -> bool:
    """Draw the curves of a problem; return whether it has any with undisturbed times."""
    runs = [run for run in results["runs"] if len(run.get("curve", ())) > 1 and not disturbed(run)]
    if results["kind"] not in _SCORES or not runs:
        return False
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot as plt

    score, label = _SCORES[results["kind"]]
    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    peers = list(dict.fromkeys(run["peer"] for run in runs))
    styles = ("-", "--", ":", "-.")
    for run in runs:
        same = [r["variant"] for r in runs if r["peer"] == run["peer"]]
        points = [(p["seconds"], p[score]) for p in run["curve"] if score in p]
        axes.plot(
            *zip(*points, strict=True), styles[same.index(run["variant"]) % len(styles)],
            color=f"C{peers.index(run['peer'])}", lw=1.4, label=f"{run['peer']}, {run['variant']}",
        )  # fmt: skip
    axes.set(xscale="log", xlabel="seconds", ylabel=label, title=results["problem"])
    bars = results["about"].get("bars", [])
    axes.set_ylim(*_limits([[p[score] for p in run["curve"] if score in p] for run in runs], bars))
    for bar in bars:
        axes.axhline(bar, color="0.85", lw=0.8, zorder=0)
    axes.legend(fontsize="small", frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    plt.close(figure)
    return True


def _limits(scores: list[list[float]], bars: list[float]) -> tuple[float, float]:
    """Return limits that show where each curve ends, its best value, and the bars."""
    shown = [value for curve in scores for value in (curve[-1], min(curve), max(curve))]
    ends = sorted(curve[-1] for curve in scores)
    middle = ends[len(ends) // 2]
    spread = 3 * sorted(abs(end - middle) for end in ends)[len(ends) // 2] or 0.1 * abs(middle)
    inside = [value for value in shown if abs(value - middle) <= spread]
    low, high = min(inside + bars), max(inside + bars)
    room = _ROOM * (high - low) or 0.01
    return low - room, high + room
