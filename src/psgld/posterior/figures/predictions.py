"""Plots of predictions: against held-out values, and how sure they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...runs.result import Result
from ..calibration import least_level, promised, share_within
from ..held_out import entries
from ..predict import Prediction
from .axes import ALERT, GREY, INK, PALE, axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Floats = NDArray[np.float64]

MOST = 4000
"""Entries that are used: a random sample of more."""

_EXAMPLES, _CELLS, _GROUPS = 24, 1000, 8


def observed(posterior: Result, test: Any = None, ax: Axes | None = None) -> Axes:
    """Plot held-out values against predicted means, with the means of groups of similar predictions."""
    prediction, values, note = held_out_pairs(posterior, test)
    ax = axes(ax)
    spread = 0.0 if posterior.model.likelihood.levels is None else 0.15
    jitter = np.random.default_rng(0).uniform(-spread, spread, len(values))
    ax.plot(prediction.mean, values + jitter, ".", ms=3, color=PALE, label=note)
    ends = [float(prediction.mean.min()), float(prediction.mean.max())]
    ax.plot(ends, ends, color=GREY, lw=1, ls="--", label="equal")
    x, y, error = (np.array(column) for column in zip(*_grouped(prediction.mean, values), strict=True))
    ax.errorbar(x, y, 2 * error, fmt="o", color=INK, ms=5, label="means of groups, ± 2 standard errors")
    ax.set(title="Are predictions right on average?", xlabel="predicted mean", ylabel="held-out value")
    ax.legend(loc="upper left", fontsize="small")
    return ax


def calibration(posterior: Result, test: Any = None, ax: Axes | None = None) -> Axes:
    """Plot the share of held-out values inside the central predictive interval of each level, against the level."""
    prediction, values, note = held_out_pairs(posterior, test)
    ax = axes(ax)
    levels = np.linspace(0.0, 1.0, 101)
    share = share_within(levels, least_level(prediction, values))
    band = 2.0 * np.sqrt(levels * (1.0 - levels) / len(values))
    ax.fill_between(levels, levels - band, levels + band, color="0.88", label="chance (±2 sd)")
    ax.plot([0, 1], [0, 1], color=GREY, lw=1, ls="--", label="as promised")
    ax.plot(levels[1:-1], share[1:-1], color=INK, lw=2, label=note)
    low, high = prediction.interval(0.9)
    held = float(np.mean((low <= values) & (values <= high)))
    level = float(promised(prediction, low, high).mean())
    ax.plot(level, held, "o", color=INK)
    ax.annotate(
        f"90 % intervals\nhold {100 * held:.1f} %",
        (level, held),
        (0.97, 0.6),
        ha="right",
        arrowprops={"arrowstyle": "-", "color": "0.5"},
    )
    rmse = np.sqrt(np.mean((values - prediction.mean) ** 2))
    text = f"RMSE {rmse:.3g}; of a constant {values.std():.3g}"
    ax.text(0.97, 0.04, text, transform=ax.transAxes, ha="right")
    ax.set(xlabel="level of the interval", ylabel="share of held-out values inside", xlim=(0, 1), ylim=(0, 1))
    ax.set_title("Do the intervals keep their promise?")
    ax.legend(loc="upper left", fontsize="small")
    return ax


def coverage(posterior: Result, test: Any = None, ax: Axes | None = None, level: float = 0.9) -> Axes:
    """Plot the share of held-out values inside intervals, in groups of similar predictions, with what was promised.

    Intervals of discrete values hold at least `level`; what they promise is their probability under the model.
    """
    prediction, values, note = held_out_pairs(posterior, test)
    ax = axes(ax)
    low, high = prediction.interval(level)
    inside = ((low <= values) & (values <= high)).astype(np.float64)
    x, held, error = (np.array(column) for column in zip(*_grouped(prediction.mean, inside), strict=True))
    _, expected, _ = zip(*_grouped(prediction.mean, promised(prediction, low, high)), strict=True)
    ax.errorbar(x, held, 2 * error, fmt="o", color=INK, label=f"held ({note}, ± 2 standard errors)")
    ax.plot(x, expected, "_", ms=14, mew=2, color=ALERT, label="promised")
    ax.set(title=f"What {level:.0%} intervals hold", xlabel="predicted mean", ylabel="share inside")
    ax.set_ylim(min(0.5, float((held - 2 * error).min()) - 0.02), 1.02)
    ax.legend(loc="lower left", fontsize="small")
    return ax


def certainty(posterior: Result, ax: Axes | None = None) -> Axes:
    """Plot the sd of the mean and that of a new observation over random cells."""
    prediction, ax = random_cells(posterior), axes(ax)
    ax.plot(prediction.mean, prediction.new_sd, ".", ms=3, color=PALE, label="of a new observation")
    ax.plot(prediction.mean, prediction.sd, ".", ms=3, color=INK, label="of the mean")
    ax.set(title="How sure, over random cells?", xlabel="posterior mean μ", ylabel="standard deviation")
    ax.set_ylim(0, 1.05 * min(prediction.new_sd.max(), 3.0 * np.quantile(prediction.new_sd, 0.95)))
    ax.legend(loc="best", fontsize="small", markerscale=3)
    return ax


def examples(posterior: Result, test: Any = None, ax: Axes | None = None) -> Axes:
    """Plot predictions of a few cells, in the order of their means, and the values held out."""
    prediction, values = random_cells(posterior), None
    if test is not None or posterior.held_out is not None:
        prediction, values, _ = held_out_pairs(posterior, test)
    ax = axes(ax)
    few = np.random.default_rng(0).permutation(len(prediction))[:_EXAMPLES]
    few = few[np.argsort(prediction.mean[few])]
    x = np.arange(len(few))
    for level, width in ((0.5, 5.0), (0.9, 2.0)):
        low, high = (bound[few] for bound in prediction.interval(level))
        ax.vlines(x, low, high, color=PALE, lw=width, label=f"{level:.0%} interval")
    ax.plot(x, prediction.mean[few], "o", ms=4, color=INK, label="posterior mean")
    if values is not None:
        seen = values[few]
        inside = (low <= seen) & (seen <= high)
        ax.plot(x[inside], seen[inside], "x", color="0.15", ms=6, label="held out, inside 90%")
        ax.plot(x[~inside], seen[~inside], "x", color=ALERT, ms=6, mew=2, label="held out, outside")
    of = "held-out values" if values is not None else "cells"
    ax.set(title=f"Predictions of {len(few)} random {of}", xlabel="in the order of the means", ylabel="value")
    ax.set_xticks([])
    bottom, top = ax.get_ylim()
    ax.set_ylim(bottom, top + 0.3 * (top - bottom))  # room for the legend
    ax.legend(loc="upper left", fontsize="small", ncols=2, framealpha=0.9)
    return ax


def held_out_pairs(posterior: Result, test: Any) -> tuple[Prediction, Floats, str]:
    """Return the predictions of held-out entries, their values, and how many these are, in words."""
    cells = entries(posterior, test)
    chosen = np.sort(np.random.default_rng(0).permutation(len(cells))[:MOST])
    note = f"{len(chosen):,} held-out values" + (f" of {len(cells):,}" if len(chosen) < len(cells) else "")
    pairs = Prediction(posterior.draws, posterior.model.likelihood, cells.rows[chosen], cells.cols[chosen])
    return pairs, cells.values[chosen], note


def random_cells(posterior: Result) -> Prediction:
    """Return the predictions of random cells."""
    rng = np.random.default_rng(0)
    rows, cols = (rng.integers(n, size=_CELLS) for n in posterior.shape)
    return Prediction(posterior.draws, posterior.model.likelihood, rows, cols)


def _grouped(by: Floats, values: Floats) -> list[tuple[float, float, float]]:
    """Return the mean of `by`, the mean of the values and its standard error, in groups of equal size by `by`."""
    groups = np.array_split(np.argsort(by, kind="stable"), min(_GROUPS, len(by)))
    return [
        (float(by[at].mean()), float(values[at].mean()), float(values[at].std() / np.sqrt(len(at))))
        for at in groups
    ]
