"""Reads lines of plain or gzipped text block by block. Lines have a maximal length: gzip can expand kilobytes to
gigabytes.
"""

from __future__ import annotations

import gzip
import io
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any

from ..errors import DataError

_BLOCK = 1 << 24
"""The number of characters read at a time."""

_LONGEST = 1 << 24
"""The largest number of characters of a line."""


def open_text(path: Path, errors: str = "strict") -> Any:
    """Open a text file, plain or gzipped."""
    opener: Any = gzip.open if path.suffix == ".gz" else open
    return opener(path, "rt", encoding="utf-8-sig", errors=errors)


def blocks_of_lines(file: Any, size: int | None = None) -> Iterator[list[str]]:
    """Yield lists of whole lines, of about `size` characters each."""
    while text := file.read(size or _BLOCK):
        text += file.readline(_LONGEST)
        if not text.endswith("\n") and file.read(1):
            raise DataError(
                f"a line has more than {_LONGEST:,} characters; give a table with one entry per line"
            )
        yield io.StringIO(text).readlines()


def first_lines(path: Path, n: int) -> list[str]:
    """Return the first `n` lines of a file that are not blank."""
    with open_text(path) as file:
        lines = chain.from_iterable(blocks_of_lines(file, 1 << 16))
        return list(islice((line for line in lines if line.strip()), n))
