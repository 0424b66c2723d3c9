"""A page to share: the verdict, accuracy, components, a look-up of rows and the diagnostics in one HTML file.

The page makes no request: style, script and data are inside, and its content security policy allows nothing else. The
script only fills in the look-up; charts and tables are there without it.
"""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any

from ...errors import DataError
from ...runs.draws import check_factors
from ...runs.result import Result
from ...system.atomic import write_bytes
from ..components import components
from .accuracy import accuracy
from .page import page
from .rows import look_up
from .words import diagnosis, verdict

__all__ = ["write_report"]

_TOP = 5
"""Rows, and columns, listed per component (and end, if the factors are real-valued)."""


def write_report(
    posterior: Result, path: str | PathLike[str], test: Any = None, data: Any = None, title: str | None = None
) -> dict[str, Any]:
    """Write the page and return what was written, serialisable as JSON; `Posterior.report` says what it takes."""
    path = Path(path)
    if path.suffix not in (".html", ".htm"):
        raise DataError(f"{path}: the report is a page; give a name that ends in .html")
    check_factors(posterior.draws)
    scores = accuracy(posterior, test, data)
    found = diagnosis(posterior)
    parts = components(posterior, _TOP)
    rows = look_up(posterior, parts.alignment, data)
    said = verdict(posterior, found, scores)
    text = page(posterior, title or "Report on a matrix factorisation", said, scores, found, parts, rows)
    content = text.encode("utf-8")
    write_bytes(path, content)
    return {
        "output": str(path),
        "bytes": len(content),
        "verdict": said.tone,
        "said": [said.headline, *said.sentences],
        "rows": len(rows.text["rows"]),
    }
