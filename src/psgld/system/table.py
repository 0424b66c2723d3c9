"""Tables as text: columns aligned, numbers to the right."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence


def table(columns: Mapping[str, Sequence[object]], indent: str = "", left: Container[str] = ()) -> str:
    """Return columns under their names; floats to four digits, the first column and those of `left` to the left.

    Examples
    --------
    >>> print(table({"name": ["a", "bc"], "x": [1.0, 22.5]}))
    name     x
    a        1
    bc    22.5
    """
    cells = [[name, *map(_text, column)] for name, column in columns.items()]
    widths = [max(map(len, column)) for column in cells]
    lines = []
    for line in zip(*cells, strict=True):
        words = [
            word.ljust(width) if k == 0 or name in left else word.rjust(width)
            for k, (name, word, width) in enumerate(zip(columns, line, widths, strict=True))
        ]
        lines.append(indent + "  ".join(words).rstrip())
    return "\n".join(lines)


def _text(x: object) -> str:
    return f"{x:.4g}" if isinstance(x, float) else str(x)
