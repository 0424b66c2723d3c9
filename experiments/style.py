"""Colours and panels of the plots: the colours can be told apart by colour-blind readers (Okabe and Ito 2008)."""

from __future__ import annotations

from typing import Any

COLOURS = {"PSGLD": "#0072B2", "SGLD": "#E69F00", "LD": "#009E73", "Gibbs": "#D55E00", "DSGD": "#CC79A7"}
INK, PALE = "#222222", "#bbbbbb"


def panels(rows: int, cols: int, width: float = 3.6, height: float = 2.9) -> tuple[Any, Any]:
    """Return a figure and its axes, (rows, cols)."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width * cols, height * rows), layout="constrained")
    axes = figure.subplots(rows, cols, squeeze=False)
    for axis in axes.flat:
        axis.spines[["top", "right"]].set_visible(False)
        axis.tick_params(labelsize=8)
    return figure, axes


def label(axis: Any, title: str, x: str, y: str) -> None:
    """Set the title and the labels of an axis."""
    axis.set_title(title, fontsize=9)
    axis.set_xlabel(x, fontsize=8)
    axis.set_ylabel(y, fontsize=8)


def duration(seconds: float | None) -> str:
    """Return a duration in words that a reader takes in."""
    if seconds is None:
        return "never"
    for unit, scale in (("h", 3600.0), ("min", 60.0), ("s", 1.0), ("ms", 1e-3)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds * 1e6:.3g} µs"
