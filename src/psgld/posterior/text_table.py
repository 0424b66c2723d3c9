"""Tables as text, for results that are printed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

_WIDEST = 40


def text_table(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return rows under a header in aligned columns, numbers to the right; a float has four digits.

    Examples
    --------
    >>> print(text_table(("label", "mean"), [("a", 1.0), ("bc", 0.25)]))
    label  mean
    a         1
    bc     0.25
    """
    rows = [list(row) for row in rows]
    cells = [list(header), *([_text(cell) for cell in row] for row in rows)]
    widths = [max(len(row[k]) for row in cells) for k in range(len(header))]
    right = [bool(rows) and not isinstance(rows[0][k], str) for k in range(len(header))]
    return "\n".join(
        "  ".join(
            cell.rjust(w) if r else cell.ljust(w) for cell, w, r in zip(row, widths, right, strict=True)
        ).rstrip()
        for row in cells
    )


def _text(cell: Any) -> str:
    if cell is None:
        return ""
    text = f"{cell:.4g}" if isinstance(cell, float) else str(cell)
    text = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
    return text if len(text) <= _WIDEST else text[: _WIDEST - 1] + "…"
