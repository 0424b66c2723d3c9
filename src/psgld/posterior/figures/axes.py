"""What all plots share: axes of their own figure if none are given, and colours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INK, PALE, ALERT, GREY = "#1f4e79", "#9dbcd9", "#c0392b", "0.4"


def axes(ax: Axes | None, size: tuple[float, float] = (5.5, 4.0)) -> Any:
    """Return the given axes, or new ones in a figure that is unknown to pyplot."""
    if ax is None:
        from matplotlib.figure import Figure

        ax = Figure(figsize=size, layout="constrained").subplots()
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def plain(text: Any) -> str:
    """Return a label as it is: a dollar sign would start mathematics, an unprintable character has no glyph."""
    cleaned = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in str(text)[:40])
    return cleaned.replace("$", r"\$")
