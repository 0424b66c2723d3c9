"""Plots of aligned components: sizes, loadings with bands, maps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...data.labels import named
from ...errors import DataError
from ...runs.draws import check_factors
from ...runs.result import Result
from ..components import Components
from ..components import components as aligned
from .axes import GREY, INK, PALE, axes, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_COMPONENTS, _NAMED, _LINES = 40, 12, 400


def components(posterior: Result, ax: Axes | None = None) -> Axes:
    """Plot the share of each component, with 90 % intervals; the colour tells how stable it is."""
    ax, found = axes(ax), _found(posterior)
    count = min(len(found), _MOST_COMPONENTS)
    share = found.alignment.share.reshape(-1, len(found))[:, :count]
    low, high = np.quantile(share, [0.05, 0.95], axis=0)
    k, stable = np.arange(1, count + 1), found.stability[:count]
    bars = ax.bar(k, share.mean(axis=0), color=PALE)
    for bar, one in zip(bars, stable, strict=True):
        bar.set_alpha(float(0.25 + 0.75 * one))
    ax.vlines(k, low, high, color=INK, lw=1.5, label="90 % of the draws")
    shown = "" if count == len(found) else f" (the largest {count} of {len(found)})"
    of = "Σ μ" if posterior.model.nonnegative else "the sum of squares of W H"
    ax.set(title=f"Components{shown}", xlabel="component (pale: unstable)", ylabel=f"share of {of}")
    ax.locator_params(axis="x", integer=True)
    ax.legend(loc="upper right", fontsize="small")
    return ax


def dictionary(posterior: Result, component: int = 1, ax: Axes | None = None) -> Axes:
    """Plot the loadings of all rows in one component (a number from 1), averaged after alignment, with 90 % bands."""
    return _loadings(posterior, component, "rows", ax)


def activations(posterior: Result, component: int = 1, ax: Axes | None = None) -> Axes:
    """Plot the loadings of all columns in one component, as `dictionary` does those of the rows."""
    return _loadings(posterior, component, "cols", ax)


def factor_map(posterior: Result, x: int = 1, y: int = 2, side: str = "cols", ax: Axes | None = None) -> Axes:
    """Plot columns (or rows, `side` "rows") by their mean loadings in two components; the outermost are named."""
    found, (a, b) = _found(posterior), (_checked(posterior, k) for k in (x, y))
    mean = found.mean(side)
    u, v = mean[a - 1], mean[b - 1]
    ax = axes(ax, (5.5, 5.0))
    ax.plot(u, v, ".", color=PALE, ms=5)
    labels = named(posterior.labels[0 if side == "rows" else 1], np.arange(len(u)))
    far = np.argsort(-np.hypot(u / (u.std() or 1.0), v / (v.std() or 1.0)), kind="stable")[:_NAMED]
    for k, name in zip(far, labels[far].tolist(), strict=True):
        ax.annotate(plain(name), (u[k], v[k]), fontsize="x-small", xytext=(3, 3), textcoords="offset points")
    what = "Rows" if side == "rows" else "Columns"
    ax.set(title=f"{what} by two components", xlabel=f"component {a}", ylabel=f"component {b}")
    return ax


def _loadings(posterior: Result, component: int, side: str, ax: Axes | None) -> Axes:
    found, k = _found(posterior), _checked(posterior, component) - 1
    band = found.band(side)
    mean, low, high = (x[k] for x in (band.mean, band.low, band.high))
    at = np.arange(len(mean))
    ax = axes(ax, (7.0, 3.0))
    if len(at) > _LINES:
        ax.fill_between(at, low, high, color=PALE, lw=0, label="90 % of the draws")
        ax.plot(at, mean, color=INK, lw=0.8, label="mean")
    else:
        ax.vlines(at, low, high, color=PALE, lw=max(1.0, min(4.0, 300 / len(at))), label="90 % of the draws")
        ax.plot(at, mean, ".", color=INK, label="mean")
    ax.axhline(0.0, color=GREY, lw=0.6)
    name = "row" if side == "rows" else "column"
    ax.set(
        title=f"Component {k + 1} of the {name}s (stability {found.stability[k]:.2f})",
        xlabel=name,
        ylabel="loading",
    )
    ax.legend(loc="best", fontsize="small")
    return ax


def _found(posterior: Result) -> Components:
    check_factors(posterior.draws)
    return aligned(posterior)


def _checked(posterior: Result, component: Any) -> int:
    rank = posterior.model.rank
    if isinstance(component, bool) or component not in range(1, rank + 1):
        raise DataError(f"component must be an integer from 1 to {rank}, got {component!r}")
    return int(component)
