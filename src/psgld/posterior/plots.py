"""Plots of a posterior. matplotlib is imported on first use; no global state of pyplot is changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .posterior import Posterior
from .predict import Prediction

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Test = tuple[ArrayLike, ArrayLike, ArrayLike]
"""Held-out rows, columns (in the labels of the data, if it had any) and values."""

_MOST_PAIRS, _EXAMPLES, _MOST_COMPONENTS = 4000, 24, 40
_INK, _PALE, _ALERT = "#1f4e79", "#9dbcd9", "#c0392b"


def overview(posterior: Posterior, test: Test | None = None) -> Figure:
    """Plot traces, calibration, uncertainty and predictions, in four panels.

    The trace of the log posterior; whether intervals hold as much of the held-out data as they promise
    (without held-out data: how sure the means are); examples of predictions; the sizes of the components.

    Parameters
    ----------
    posterior
        What `sample` returned, with its draws.
    test
        Held-out (rows, cols, values).

    Returns
    -------
    matplotlib.figure.Figure
        Write it with `.savefig("overview.png")`.

    Examples
    --------
    >>> import psgld
    >>> from psgld import datasets, plots
    >>> data = datasets.ratings(users=60, items=40, entries=800)
    >>> post = psgld.sample(data.V, psgld.FactorModel(2, "gaussian", bias=True), draws=20, chains=1)
    >>> figure = plots.overview(post, data.test)
    >>> len(figure.axes)
    4
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11.0, 8.0), layout="constrained")
    axes = figure.subplots(2, 2)
    rows, cols = posterior.shape
    model = posterior.model
    figure.suptitle(
        f"{rows:,} × {cols:,}, rank {model.rank}, {model.likelihood.name} likelihood", weight="bold"
    )
    prediction, values = _some_pairs(posterior, test)
    trace(posterior, axes[0, 0])
    if values is None:
        certainty(prediction, axes[0, 1])
    else:
        calibration(prediction, values, axes[0, 1])
    examples(prediction, values, axes[1, 0])
    components(posterior, axes[1, 1])
    for ax in axes.flat:
        ax.spines[["top", "right"]].set_visible(False)
    return figure


def trace(posterior: Posterior, ax: Axes) -> None:
    """Draw the log posterior of each chain, burn-in shaded; what lies far below at the start is cut off."""
    before, after = posterior.warmup, posterior.sample_stats
    iteration = np.concatenate([before["iteration"], after["iteration"]], axis=1)
    lp = np.concatenate([before["lp"], after["lp"]], axis=1)
    for chain in range(posterior.chains):
        ax.plot(iteration[chain], lp[chain], lw=0.9, alpha=0.8)
    tune = int(posterior.settings["tune"])
    if tune:
        ax.axvspan(0, tune, color="0.92", zorder=0)
        ax.annotate(
            "burn-in", (0.5 * tune, 0.02), xycoords=ax.get_xaxis_transform(), ha="center", color="0.4"
        )
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


def calibration(prediction: Prediction, values: NDArray[np.float64], ax: Axes) -> None:
    """Draw the share of values inside the central predictive interval of each level, against the level."""
    levels = np.linspace(0.0, 1.0, 101)
    share = np.searchsorted(np.sort(least_level(prediction, values)), levels, side="right") / len(values)
    band = 2.0 * np.sqrt(levels * (1.0 - levels) / len(values))
    ax.fill_between(levels, levels - band, levels + band, color="0.88", label="chance (±2 sd)")
    ax.plot([0, 1], [0, 1], color="0.4", lw=1, ls="--", label="as promised")
    ax.plot(levels[1:-1], share[1:-1], color=_INK, lw=2, label=f"{len(values):,} held-out values")
    low, high = prediction.interval(0.9)
    held = float(np.mean((low <= values) & (values <= high)))
    ax.plot(0.9, held, "o", color=_INK)
    ax.annotate(
        f"90 % intervals\nhold {100 * held:.1f} %",
        (0.9, held),
        (0.97, 0.6),
        ha="right",
        arrowprops={"arrowstyle": "-", "color": "0.5"},
    )
    rmse = np.sqrt(np.mean((values - prediction.mean) ** 2))
    note = f"RMSE {rmse:.3g}; of a constant {values.std():.3g}"
    ax.text(0.97, 0.04, note, transform=ax.transAxes, ha="right")
    ax.set(xlabel="level of the interval", ylabel="share of held-out values inside", xlim=(0, 1), ylim=(0, 1))
    ax.set_title("Do the intervals keep their promise?")
    ax.legend(loc="upper left", fontsize="small")


def least_level(prediction: Prediction, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the level of the narrowest central predictive interval that holds each value."""
    draws = prediction.new_draws()
    # A value between the draws n - 1 and n (from 0) is about the quantile (n - ½) / (S - 1).
    last = max(len(draws) - 1, 1)
    below, up_to = (((draws < values).sum(0) - 0.5) / last, ((draws <= values).sum(0) - 0.5) / last)
    return np.asarray(np.maximum.reduce([2.0 * below - 1.0, 1.0 - 2.0 * up_to, np.zeros(len(values))]))


def certainty(prediction: Prediction, ax: Axes) -> None:
    """Draw the sd of the mean and that of a new observation over random cells."""
    ax.plot(prediction.mean, prediction.new_sd, ".", ms=3, color=_PALE, label="of a new observation")
    ax.plot(prediction.mean, prediction.sd, ".", ms=3, color=_INK, label="of the mean")
    ax.set(title="How sure, over random cells?", xlabel="posterior mean μ", ylabel="standard deviation")
    ax.set_ylim(0, 1.05 * min(prediction.new_sd.max(), 3.0 * np.quantile(prediction.new_sd, 0.95)))
    ax.legend(loc="best", fontsize="small", markerscale=3)


def examples(prediction: Prediction, values: NDArray[np.float64] | None, ax: Axes) -> None:
    """Draw predictions of a few cells, in the order of their means, and the values held out."""
    few = np.random.default_rng(0).permutation(len(prediction))[:_EXAMPLES]
    few = few[np.argsort(prediction.mean[few])]
    x = np.arange(len(few))
    for level, width in ((0.5, 5.0), (0.9, 2.0)):
        low, high = (bound[few] for bound in prediction.interval(level))
        ax.vlines(x, low, high, color=_PALE, lw=width, label=f"{level:.0%} interval")
    ax.plot(x, prediction.mean[few], "o", ms=4, color=_INK, label="posterior mean")
    if values is not None:
        seen = values[few]
        inside = (low <= seen) & (seen <= high)
        ax.plot(x[inside], seen[inside], "x", color="0.15", ms=6, label="held out, inside 90%")
        ax.plot(x[~inside], seen[~inside], "x", color=_ALERT, ms=6, mew=2, label="held out, outside")
    of = "held-out values" if values is not None else "cells"
    ax.set(title=f"Predictions of {len(few)} random {of}", xlabel="in the order of the means", ylabel="value")
    ax.set_xticks([])
    bottom, top = ax.get_ylim()
    ax.set_ylim(bottom, top + 0.3 * (top - bottom))  # room for the legend
    ax.legend(loc="upper left", fontsize="small", ncols=2, framealpha=0.9)


def components(posterior: Posterior, ax: Axes) -> None:
    """Draw the sizes |w_k| |h_k| of the components, sorted in each draw: their order means nothing."""
    draws = posterior.draws
    sizes = np.sqrt(_squares(draws.W) * _squares(draws.H)).reshape(-1, posterior.model.rank)
    sizes = -np.sort(-sizes, axis=1)[:, :_MOST_COMPONENTS]
    k = np.arange(1, sizes.shape[1] + 1)
    mean = sizes.mean(axis=0)
    low, high = np.quantile(sizes, [0.05, 0.95], axis=0)
    ax.bar(k, mean, color=_PALE)
    ax.vlines(k, low, high, color=_INK, lw=1.5, label="90 % of the draws")
    shown = "" if len(k) == posterior.model.rank else f" (the largest {len(k)} of {posterior.model.rank})"
    ax.set(title=f"Sizes of the components{shown}", xlabel="component, largest first", ylabel="|wₖ| |hₖ|")
    ax.locator_params(axis="x", integer=True)
    ax.legend(loc="upper right", fontsize="small")


def comparison(found: Any, ax: Axes | None = None) -> Axes:
    """Draw how much lower the predictive density of each model of a `Comparison` is than that of the best.

    With ± one standard error of the difference. Returns the axes; without `ax`, those of a new figure.
    """
    if ax is None:
        from matplotlib.figure import Figure

        ax = Figure(figsize=(7.0, 1.2 + 0.4 * len(found.names)), layout="constrained").subplots()
    y = np.arange(len(found.names))
    at = found.names.index(found.choice)
    ax.axvline(0.0, color="0.6", lw=1, ls="--")
    ax.errorbar(-found.elpd_diff, y, xerr=found.dse, fmt="o", color=_INK, capsize=3)
    ax.plot(-found.elpd_diff[at], at, "o", ms=12, mfc="none", mec=_ALERT, label="recommended")
    ax.set_yticks(y, found.names)
    ax.invert_yaxis()
    ax.set(
        title="Which model predicts best?",
        xlabel=f"log predictive density of {found.entries:,} entries, less that of the best (± one standard error)",
    )
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(loc="best", fontsize="small")
    return ax


def _squares(factor: NDArray[Any]) -> NDArray[np.float64]:
    """Return Σ x² of each component, (chain, draw, K)."""
    return np.asarray(np.einsum("cdnk,cdnk->cdk", factor, factor, dtype=np.float64))


def _some_pairs(posterior: Posterior, test: Test | None) -> tuple[Prediction, NDArray[np.float64] | None]:
    """Return the predictions of held-out entries and their values, or of random cells; not too many."""
    rng = np.random.default_rng(0)
    if test is None:
        rows, cols = (rng.integers(n, size=_MOST_PAIRS // 4) for n in posterior.shape)
        return Prediction(posterior.draws, posterior.model.likelihood, rows, cols), None
    values = np.asarray(test[2], np.float64)
    chosen = np.sort(rng.permutation(len(values))[:_MOST_PAIRS])
    rows, cols = (np.asarray(labels)[chosen] for labels in test[:2])
    return posterior.predict(rows, cols), values[chosen]
