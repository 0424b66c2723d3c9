"""Charts as SVG inside a page: colours are those of its style sheet, sizes fit a phone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from .text import esc

WIDTH, HEIGHT = 360, 250
_LEFT, _RIGHT, _TOP, _BOTTOM = 62, 20, 10, 38

Numbers = NDArray[Any] | Sequence[float]


@final
@dataclass
class Chart:
    """A chart with linear axes; marks are added one after another, then `svg` returns the whole."""

    x: tuple[float, float]
    y: tuple[float, float]
    x_title: str
    y_title: str
    x_ticks: int = 5
    percent: bool = False
    whole: bool = False
    parts: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.x, self.y = (_wide(*ends) for ends in (self.x, self.y))

    def at(self, x: float, y: float) -> tuple[float, float]:
        """Return the place of a point in the chart."""
        u = (x - self.x[0]) / (self.x[1] - self.x[0])
        v = (y - self.y[0]) / (self.y[1] - self.y[0])
        u, v = (min(max(w, 0.0), 1.0) for w in (u, v))
        return round(_LEFT + u * (WIDTH - _LEFT - _RIGHT), 1), round(
            HEIGHT - _BOTTOM - v * (HEIGHT - _TOP - _BOTTOM), 1
        )

    def line(self, x: Numbers, y: Numbers, style: str) -> None:
        """Add a line through points."""
        points = " ".join("{},{}".format(*self.at(float(a), float(b))) for a, b in zip(x, y, strict=True))
        self.parts.append(f'<polyline class="{style}" points="{points}"/>')

    def band(self, x: Numbers, low: Numbers, high: Numbers) -> None:
        """Add the area between two lines."""
        there = [*zip(x, low, strict=True), *reversed([*zip(x, high, strict=True)])]
        points = " ".join("{},{}".format(*self.at(float(a), float(b))) for a, b in there)
        self.parts.append(f'<polygon class="band" points="{points}"/>')

    def bars(self, x: Numbers, low: Numbers, high: Numbers, style: str = "bar") -> None:
        """Add vertical lines."""
        for a, b, c in zip(x, low, high, strict=True):
            (u, v), (_, w) = self.at(float(a), float(b)), self.at(float(a), float(c))
            self.parts.append(f'<line class="{style}" x1="{u}" x2="{u}" y1="{v}" y2="{w}"/>')

    def dots(self, x: Numbers, y: Numbers, style: str = "dot", titles: Sequence[str] = ()) -> None:
        """Add points; a title says what a point is."""
        for k, (a, b) in enumerate(zip(x, y, strict=True)):
            u, v = self.at(float(a), float(b))
            title = f"<title>{esc(titles[k])}</title>" if titles else ""
            self.parts.append(f'<circle class="{style}" cx="{u}" cy="{v}" r="3.5">{title}</circle>')

    def crosses(self, x: Numbers, y: Numbers, style: str) -> None:
        """Add crosses."""
        for a, b in zip(x, y, strict=True):
            u, v = self.at(float(a), float(b))
            self.parts.append(f'<path class="{style}" d="M{u - 4:.1f} {v - 4:.1f}l8 8m0 -8l-8 8"/>')

    def svg(self, description: str) -> str:
        """Return the chart; the description is read aloud in its place."""
        return (
            f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{esc(description)}">'
            f"{self._axes()}{''.join(self.parts)}</svg>"
        )

    def _axes(self) -> str:
        out = []
        bottom, right = HEIGHT - _BOTTOM, WIDTH - _RIGHT
        for y in ticks(*self.y, 6):
            _, v = self.at(self.x[0], y)
            out.append(f'<line class="grid" x1="{_LEFT}" x2="{right}" y1="{v}" y2="{v}"/>')
            out.append(f'<text class="tick end" x="{_LEFT - 5}" y="{v + 4}">{self._tick(y)}</text>')
        places = ticks(*self.x, self.x_ticks)
        for x in [x for x in places if x == round(x)] if self.whole else places:
            u, _ = self.at(x, self.y[0])
            text = f"{x:,.0f}" if self.whole else self._tick(x)
            out.append(f'<text class="tick middle" x="{u}" y="{bottom + 15}">{text}</text>')
        middle = (_TOP + bottom) / 2
        out.append(f'<line class="axis" x1="{_LEFT}" x2="{right}" y1="{bottom}" y2="{bottom}"/>')
        out.append(
            f'<text class="tick middle" x="{(_LEFT + right) / 2}" y="{HEIGHT - 5}">{esc(self.x_title)}</text>'
        )
        out.append(
            f'<text class="tick middle" transform="translate(11 {middle}) rotate(-90)">{esc(self.y_title)}</text>'
        )
        return "".join(out)

    def _tick(self, x: float) -> str:
        return f"{100 * x:.0f} %" if self.percent else short(x)


def short(x: float) -> str:
    """Return the number of a tick: thousands and millions by a letter."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(x) >= size:
            return f"{x / (1e3 if letter == 'k' else size):.6g}{letter}".replace("-", "−")
    return f"{x:.6g}".replace("-", "−")


def ticks(low: float, high: float, count: int) -> list[float]:
    """Return about `count` round numbers between two ends.

    Examples
    --------
    >>> ticks(0.0, 1.0, 5)
    [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    """
    raw = (high - low) / count
    size = 10.0 ** math.floor(math.log10(raw))
    step = next(size * m for m in (1, 2, 2.5, 5, 10) if size * m >= raw * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [float(f"{k * step:.12g}") + 0.0 for k in range(first, math.floor(high / step + 1e-9) + 1)]


def ends(*arrays: Any, room: float = 0.05) -> tuple[float, float]:
    """Return the smallest and the largest number, with some room."""
    both = np.concatenate([np.ravel(np.asarray(a, np.float64)) for a in arrays])
    both = both[np.isfinite(both)]
    low, high = (float(both.min()), float(both.max())) if len(both) else (0.0, 1.0)
    return low - room * (high - low), high + room * (high - low)


def _wide(low: float, high: float) -> tuple[float, float]:
    return (low, high) if high > low else (low - 0.5 * (abs(low) or 1.0), high + 0.5 * (abs(high) or 1.0))
