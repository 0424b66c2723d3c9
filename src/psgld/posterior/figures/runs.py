"""Plots of runs: traces, the parts of the matrix, comparison of models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import DataError
from ...runs.result import Result
from .axes import ALERT, GREY, INK, axes, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_NUMBERED = 16


def trace(posterior: Result, ax: Axes | None = None) -> Axes:
    """Plot the log posterior of each chain, burn-in shaded; what lies far below at the start is cut off."""
    ax = axes(ax)
    before, after = posterior.warmup, posterior.sample_stats
    iteration = np.concatenate([before["iteration"], after["iteration"]], axis=1)
    lp = np.concatenate([before["lp"], after["lp"]], axis=1)
    for chain in range(posterior.chains):
        ax.plot(iteration[chain], lp[chain], lw=0.9, alpha=0.8)
    tune = int(posterior.settings["tune"])
    if tune:
        ax.axvspan(0, tune, color="0.92", zorder=0)
        ax.annotate("burn-in", (0.5 * tune, 0.02), xycoords=ax.get_xaxis_transform(), ha="center", color=GREY)
    ax.set_xlim(0, int(iteration.max()))
    seen = lp[:, before["lp"].shape[1] // 5 :]
    low, high = float(seen.min()), float(lp.max())
    height = (high - low) or 1.0
    ax.set_ylim(low - 0.05 * height, high + 0.05 * height)
    which = "1 chain" if posterior.chains == 1 else f"one line for each of {posterior.chains} chains"
    ax.set(
        title="Log posterior: level after burn-in?", xlabel=f"iteration ({which})", ylabel="log p(W, H, V)"
    )
    ax.ticklabel_format(axis="y", style="plain", useOffset=False)
    ax.yaxis.set_major_formatter(lambda y, _: f"{y:,.6g}")
    return ax


def parts(posterior: Result, part: int = 0, ax: Axes | None = None) -> Axes:
    """Plot the blocks of the matrix, coloured by part, with one part outlined: its blocks share no row and no column.

    Strips have about equal numbers of entries; the plot shows them equally wide.
    """
    blocks = posterior.settings.get("blocks")
    if not blocks:
        raise DataError(f"the sampler {posterior.settings['sampler']['name']} has no blocks; PSGLD has")
    if not 0 <= part < blocks:
        raise DataError(f"part must be an integer from 0 to {blocks - 1}, got {part!r}")
    ax = axes(ax, (4.6, 4.6))
    row, col = np.indices((blocks, blocks))
    number = (col - row) % blocks
    ax.imshow(number, cmap="Blues", vmin=-blocks / 3, vmax=1.6 * blocks, aspect="equal")
    for b, c in zip(*np.nonzero(number == part), strict=True):
        ax.add_patch(_outline(float(c), float(b)))
    if blocks <= _NUMBERED:
        for b, c in np.ndindex(number.shape):
            ax.text(c, b, str(number[b, c]), ha="center", va="center", fontsize="small")
    ax.set(
        title=f"{blocks} parts of {blocks} blocks; part {part} outlined",
        xlabel="column strip",
        ylabel="row strip",
    )
    ax.locator_params(integer=True)
    return ax


def _outline(x: float, y: float) -> Any:
    from matplotlib.patches import Rectangle

    return Rectangle((x - 0.48, y - 0.48), 0.96, 0.96, fill=False, ec=ALERT, lw=2.0)


def comparison(found: Any, ax: Axes | None = None) -> Axes:
    """Plot how much lower the predictive density of each model of a `Comparison` is than that of the best.

    With ± one standard error of the difference.
    """
    ax = axes(ax, (7.0, 1.2 + 0.4 * len(found.names)))
    y, at = np.arange(len(found.names)), found.names.index(found.choice)
    ax.axvline(0.0, color=GREY, lw=1, ls="--")
    ax.errorbar(-found.elpd_diff, y, xerr=found.dse, fmt="o", color=INK, capsize=3)
    ax.plot(-found.elpd_diff[at], at, "o", ms=12, mfc="none", mec=ALERT, label="recommended")
    ax.set_yticks(y, [plain(name) for name in found.names])
    ax.invert_yaxis()
    ax.set(
        title="Which model predicts best?",
        xlabel=f"log predictive density of {found.entries:,} entries, less that of the best (± one standard error)",
    )
    ax.legend(loc="best", fontsize="small")
    return ax
