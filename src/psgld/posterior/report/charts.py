"""The charts of a page, each with a caption and its numbers as a table."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...runs.result import Result
from .accuracy import Accuracy
from .svg import Chart, ends
from .text import details, label, number, percent, table, titles

_POINTS = 250


def figure(title: str, svg: str, caption: str, numbers: str = "") -> str:
    """Return a chart under a heading."""
    below = details("Numbers", numbers) if numbers else ""
    return f"<figure><h3>{title}</h3>{svg}<figcaption>{caption}</figcaption>{below}</figure>"


def observed(s: Accuracy) -> str:
    """Return predicted against observed means, in groups."""
    mean, value, error, count = s.bins
    both = ends(mean, value - 2 * error, value + 2 * error)
    chart = Chart(both, both, "predicted mean", "observed mean")
    chart.line(both, both, "diagonal")
    chart.bars(mean, value - 2 * error, value + 2 * error)
    chart.dots(
        mean,
        value,
        titles=[f"predicted {number(a)}, observed {number(b)}" for a, b in zip(mean, value, strict=True)],
    )
    svg = chart.svg("Observed against predicted means, in groups of entries; on the diagonal they agree")
    rows = [
        (number(a), number(b), number(c), f"{int(n):,}")
        for a, b, c, n in zip(mean, value, error, count, strict=True)
    ]
    return figure(
        "Are the predictions right on average?", svg,
        "Each point is a group of entries with similar predictions. Points on the line: right on average. "
        "Bars: two standard errors.",
        table("Predicted and observed means", ("predicted", "observed", "standard error", "entries"), rows),
    )  # fmt: skip


def calibration(s: Accuracy) -> str:
    """Return the share of values in intervals of each level."""
    chart = Chart((0, 1), (0, 1), "probability of the interval", "share of values inside", percent=True)
    spread = 2 * np.sqrt(s.levels * (1 - s.levels) / len(s.values))
    chart.band(s.levels, np.maximum(s.levels - spread, 0), np.minimum(s.levels + spread, 1))
    chart.line((0, 1), (0, 1), "diagonal")
    chart.line(s.levels, s.inside, "curve")
    svg = chart.svg("Share of values inside intervals, against the probability that the intervals promise")
    some = [5, 10, 15, 20, 25, 30, 35, 40, 45]
    rows = [(percent(s.levels[k]), percent(s.inside[k], 1)) for k in some]
    return figure(
        "Do intervals keep their promise?", svg,
        "On the dashed line, intervals hold as many values as they promise. Below it they are too narrow, above it "
        "too wide. Shaded: chance.",
        table("Calibration", ("promised", "held"), rows),
    )  # fmt: skip


def examples(posterior: Result, s: Accuracy) -> str:
    """Return predictions of some entries, with intervals and what was observed."""
    at = s.examples[np.argsort(s.mean[s.examples], kind="stable")]
    x = np.arange(1, len(at) + 1)
    low, high, values = s.low[at], s.high[at], s.values[at]
    inside = (low <= values) & (values <= high)
    chart = Chart(
        (0.3, len(at) + 0.7), ends(low, high, values), "entries, by predicted mean", "value", whole=True
    )
    chart.bars(x, low, high, "interval")
    chart.dots(x, s.mean[at])
    chart.crosses(x[inside], values[inside], "inside")
    chart.crosses(x[~inside], values[~inside], "outside")
    svg = chart.svg("Predicted means and 90 % intervals of some entries, and the values observed")
    rows = [
        (str(k), label(a), label(b), number(m), f"{number(lo)} to {number(hi)}", number(v))
        for k, a, b, m, lo, hi, v in zip(
            x, titles(posterior, 0, s.rows[at]), titles(posterior, 1, s.cols[at]),
            s.mean[at], low, high, values, strict=True,
        )
    ]  # fmt: skip
    header = ("number", "row", "column", "predicted", "90 % interval", "observed")
    return figure(
        f"{len(at)} entries at random", svg,
        f"Bars: 90 % intervals. Dots: predicted means. Crosses: what was observed, {int(inside.sum())} of "
        f"{len(at)} inside.",
        table("Examples", header, rows),
    )  # fmt: skip


def groups(fit: dict[str, Any]) -> str:
    """Return the means of the data and of the model in groups of rows and columns: all that is known of the data."""
    v, mu = np.array([*fit["rows"], *fit["cols"]]).T
    both = ends(v, mu)
    chart = Chart(both, both, "mean of the model", "mean of the data")
    chart.line(both, both, "diagonal")
    chart.dots(mu, v)
    rows = [(number(a), number(b)) for a, b in zip(mu, v, strict=True)]
    return figure(
        "Does the model fit the data it was trained on?",
        chart.svg("Means of the data against means of the model, in groups of rows and columns"),
        "Groups of rows and of columns at monitored training entries. This shows fit, not predictive accuracy.",
        table("Means in groups", ("model", "data"), rows),
    )


def traces(posterior: Result) -> str:
    """Return the log posterior along each chain."""
    before, after = posterior.warmup, posterior.sample_stats
    x = np.concatenate([before["iteration"], after["iteration"]], axis=1)
    y = np.concatenate([before["lp"], after["lp"]], axis=1)
    late = y[:, before["lp"].shape[1] // 3 :]
    chart = Chart((0, float(x.max())), ends(late), "iteration", "log posterior", x_ticks=4)
    tune = float(posterior.settings["tune"])
    chart.band((0, tune), (chart.y[0],) * 2, (chart.y[1],) * 2)
    step = max(1, x.shape[1] // _POINTS)
    for c in range(posterior.chains):
        chart.line(x[c, ::step], y[c, ::step], f"chain chain{c % 4}")
    rows = [
        (str(c + 1), number(after["lp"][c].mean(), 6), number(after["lp"][c].std()))
        for c in range(posterior.chains)
    ]
    return figure(
        "Log posterior along the chains",
        chart.svg("Traces of the log posterior, one line per chain; burn-in shaded"),
        "One line per chain. Shaded: burn-in, which is not used. Converged chains are level and overlap.",
        table("Log posterior", ("chain", "mean", "standard deviation"), rows),
    )


def shares(found: Any) -> str:
    """Return the share of each component."""
    share = found.alignment.share.reshape(-1, len(found))
    k = np.arange(1, len(found) + 1)
    low, high = np.quantile(share, [0.05, 0.95], axis=0)
    chart = Chart(
        (0.3, len(found) + 0.7),
        (0.0, float(high.max()) * 1.05),
        "component",
        "share",
        percent=True,
        whole=True,
    )
    chart.bars(k, np.zeros(len(k)), share.mean(axis=0), "column")
    chart.bars(k, low, high)
    return chart.svg("Share of each component, with 90 % intervals")
