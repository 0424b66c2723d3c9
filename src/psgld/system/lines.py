"""Lines of text files, block by block, plain or gzipped. A line has an end: a few kilobytes can unpack to gigabytes."""

from __future__ import annotations

import gzip
import io
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any

from ..errors import DataError

_BLOCK = 1 << 24
"""Characters that are read at a time."""

_LONGEST = 1 << 24
"""Characters of a line, at most."""


def open_text(path: Path, errors: str = "strict") -> Any:
    """Open a text file, unpacking it on the way if it is gzipped."""
    opener: Any = gzip.open if path.suffix == ".gz" else open
    return opener(path, "rt", encoding="utf-8-sig", errors=errors)


def blocks_of_lines(file: Any, size: int | None = None) -> Iterator[list[str]]:
    """Yield lists of whole lines, of about `size` characters each."""
    while text := file.read(size or _BLOCK):
        text += file.readline(_LONGEST)
        if not text.endswith("\n") and file.read(1):
            raise DataError(f"a line of more than {_LONGEST:,} characters; is it a table?")
        yield io.StringIO(text).readlines()


def first_lines(path: Path, n: int) -> list[str]:
    """Return the first lines of a file that are not blank."""
    with open_text(path) as file:
        lines = chain.from_iterable(blocks_of_lines(file, 1 << 16))
        return list(islice((line for line in lines if line.strip()), n))
