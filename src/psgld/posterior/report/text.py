"""Text of a page: labels from the data are cleaned and escaped, numbers are written in few digits."""

from __future__ import annotations

import html
import math
import unicodedata
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...data.labels import named
from ...models.modes import NAMES
from ...runs.result import Result

_LONGEST = 80


def clean(label: Any) -> str:
    """Return a label on one line: control characters, also those that reverse text, are shown by their numbers.

    Examples
    --------
    >>> clean("a\u202eb\\n")
    'a⟨U+202E⟩b⟨U+000A⟩'
    """
    text = "".join(_visible(c) for c in str(label))
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _visible(c: str) -> str:
    return f"⟨U+{ord(c):04X}⟩" if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp") else c


def esc(text: str) -> str:
    """Return text for HTML, also for the values of attributes; labels in it are cleaned, lines stay."""
    return html.escape("".join(c if c == "\n" else _visible(c) for c in text), quote=True)


def label(text: Any) -> str:
    """Return a label of the data for HTML, isolated from the direction of the text around it."""
    return f"<bdi>{html.escape(clean(text), quote=True)}</bdi>"


def titles(posterior: Result, axis: int, index: NDArray[np.int64]) -> list[str]:
    """Return the labels of rows (axis 0) or columns, cleaned; without labels, "row 3"."""
    names = named(posterior.labels[axis], index).tolist()
    word = f"{NAMES[axis].dim} " if posterior.labels[axis] is None else ""
    return [f"{word}{clean(name)}" for name in names]


def number(x: float, digits: int = 3) -> str:
    """Return a number for readers: a few digits, separators of thousands, a true minus sign.

    Examples
    --------
    >>> number(1234.5), number(-0.12345), number(float("nan"))
    ('1,234', '−0.123', '–')
    """
    if not math.isfinite(x):
        return "–"
    size = math.floor(math.log10(abs(x))) if x else 0
    if x and (size < -4 or size > 8):
        return f"{x:.{digits - 1}e}".replace("-", "−")
    return f"{x:,.{max(0, digits - 1 - max(size, -3))}f}".replace("-", "−")


def percent(x: float, digits: int = 0) -> str:
    """Return a fraction as a percentage."""
    return f"{100 * x:.{digits}f} %" if math.isfinite(x) else "–"


def table(caption: str, header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """Return a table; cells are HTML already, the first of each row is its header."""
    head = "".join(f'<th scope="col">{name}</th>' for name in header)
    lines = "".join(
        f'<tr><th scope="row">{first}</th>' + "".join(f"<td>{cell}</td>" for cell in rest) + "</tr>"
        for first, *rest in rows
    )
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{caption}"><table><caption>{caption}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table></div>"
    )


def details(summary: str, inside: str) -> str:
    """Return a part that is opened by hand."""
    return f"<details><summary>{summary}</summary>{inside}</details>"
