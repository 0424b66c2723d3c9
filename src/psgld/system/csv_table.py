"""Writes CSV that is safe to open in a spreadsheet: labels that look like formulas get a leading apostrophe."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, final

from ..errors import warn

_STARTS = "=+-@\t\r"
"""Characters that start a formula in a spreadsheet."""


@final
class CsvTable:
    """Writes rows to an open file; `close` warns if cells were changed."""

    def __init__(self, file: Any, header: Iterable[str]) -> None:
        self._writer = csv.writer(file, lineterminator="\n")
        self._first: str | None = None
        self._guarded = 0
        self._writer.writerow(header)

    def write(self, rows: Iterable[Iterable[Any]]) -> None:
        """Write rows of numbers and text."""
        self._writer.writerows([self._cell(cell) for cell in row] for row in rows)

    def close(self) -> None:
        """Warn if cells were written with a leading apostrophe."""
        if self._guarded:
            warn(
                f"{self._guarded} cell(s) that a spreadsheet would run as formulas, the first {self._first!r}, are "
                "written with a leading apostrophe; write Parquet or JSON to keep the labels unchanged"
            )

    def _cell(self, cell: Any) -> Any:
        if not isinstance(cell, str) or cell[:1] not in _STARTS or not cell:
            return cell
        with suppress(ValueError):
            float(cell)  # a number, with its sign
            return cell
        self._first = cell if self._first is None else self._first
        self._guarded += 1
        return "'" + cell
