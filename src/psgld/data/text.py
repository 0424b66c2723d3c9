"""Reads delimited text: detects the delimiter and the header, parses lines, and reports the number of a bad line."""

from __future__ import annotations

import csv
import math
import re
import warnings
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from .. import _core
from ..errors import DataError, warn
from ..system.lines import blocks_of_lines, first_lines, open_text
from .labels import Coded, FloatArray, IntArray, real, tidy_text
from .tables import Column, Triples, choose_columns, triples

_NO_VALUE = ("", "na", "n/a", "nil", "none", "null", "-", "?", ".")
"""Strings, in lower case, that mark a missing value."""
_UNUSUAL_INTEGER = re.compile(r"(?:^|[\s,;|:\"])(?:\+|-?0[0-9]|-0(?![.0-9eE]))", re.MULTILINE)
"""An integer that would change if it were read as a number and written again: a label such as 007, +5 or -0."""

DELIMITERS = (
    "::",
    "\t",
    ";",
    "|",
    ",",
    None,
)  # in the order of trial, the rarest in labels first; None: any white space
_NUMBERS = np.dtype([("row", "i8"), ("column", "i8"), ("value", "f8")])
_STRINGS = np.dtype([("row", "O"), ("column", "O"), ("value", "f8")])


class _Layout(NamedTuple):
    delimiter: str | None
    columns: list[int]
    header: bool
    width: int
    """The number of fields of the first line."""
    name: str = "value"
    """What the third column holds."""


def read_text(path: Path, row: Column, col: Column, value: Column, weight: Column = None) -> list[Triples]:
    """Read a whole file of delimited text; the weights, if they have a column, by a second pass over it."""
    layout = _layout(path, row, col, value, weight)
    if weight is not None:
        *three, at = layout.columns
        values = _read(path, layout._replace(columns=three))
        weights = _read(path, layout._replace(columns=[*three[:2], at], name="weight"))
        return [v._replace(weights=w.values) for v, w in zip(values, weights, strict=True)]
    return _read(path, layout)


def _read(path: Path, layout: _Layout) -> list[Triples]:
    """Read three columns of a file."""
    try:
        return [triples(*arrays) for arrays in _parse(path, layout, _NUMBERS)]
    except ValueError:
        # Either labels are not integers or a line is bad: parsing with string labels decides.
        chunks = [triples(*arrays) for arrays in _parse(path, layout, _STRINGS)]
    rows = tidy_text([chunk.rows for chunk in chunks])
    cols = tidy_text([chunk.cols for chunk in chunks])
    return [Triples(r, c, chunk.values) for r, c, chunk in zip(rows, cols, chunks, strict=True)]


def stream_text(
    path: Path, row: Column, col: Column, value: Column
) -> Iterator[tuple[IntArray | Coded, IntArray | Coded, FloatArray]]:
    """Read delimited text block by block; a block with labels that are not integers gets string labels."""
    layout = _layout(path, row, col, value)
    done = 0
    with open_text(path) as file:
        for lines in blocks_of_lines(file):
            try:
                rows, cols, values = _parse_block(path, lines, done, layout, _NUMBERS)
                yield rows, cols, real(values)
            except ValueError:
                names = triples(*_parse_block(path, lines, done, layout, _STRINGS))
                yield tidy_text([names.rows])[0], tidy_text([names.cols])[0], names.values
            done += len(lines)


def _parse(path: Path, layout: _Layout, dtype: np.dtype[Any]) -> Iterator[list[NDArray[Any]]]:
    """Parse a file block by block; a bad line raises with its number."""
    done = 0
    with open_text(path) as file:
        for lines in blocks_of_lines(file):
            yield _parse_block(path, lines, done, layout, dtype)
            done += len(lines)


def _parse_block(
    path: Path, lines: list[str], done: int, layout: _Layout, dtype: np.dtype[Any]
) -> list[NDArray[Any]]:
    """Parse the lines after the first `done`: plain numbers in the core, others with NumPy's compiled reader."""
    if dtype is _NUMBERS and layout.delimiter is not None:
        first = next((at for at, line in enumerate(lines) if line.strip()), 0) + 1
        text = "".join(lines[first:] if layout.header and done == 0 else lines)
        plain = _core.parse_entries(text, layout.delimiter, layout.columns, layout.width)
        if plain is not None:
            return list(plain)
    data = [line for line in lines if line.strip()]
    if layout.header and done == 0:
        data = data[1:]
    try:
        if dtype is not _STRINGS and _UNUSUAL_INTEGER.search("".join(data)):
            raise ValueError("a number in an unusual form may be a label, such as a postcode")
        if any(_surplus(line, layout) for line in data):
            raise ValueError("a line has more fields than the first")
        arrays = _load(data, layout, dtype)
        if not np.isfinite(arrays[2]).all():
            raise ValueError("a value is not finite")
    except ValueError as error:
        if dtype is _STRINGS:
            _explain(path, lines, done, layout, error)
        raise
    if dtype is _STRINGS and any("" in map(str.strip, labels) for labels in arrays[:2]):
        _explain(path, lines, done, layout, ValueError("a label is missing"))
    return arrays


def _load(lines: list[str], layout: _Layout, dtype: np.dtype[Any]) -> list[NDArray[Any]]:
    if not lines:
        return [np.empty(0, dtype[name]) for name in dtype.names or ()]
    delimiter = layout.delimiter
    quote = '"' if delimiter is not None and len(delimiter) == 1 else None
    if delimiter == "::":
        delimiter = "\x1f"  # NumPy allows one character only
        lines = [line.replace("::", delimiter) for line in lines]
    with warnings.catch_warnings():
        # Older versions of NumPy truncate "1.5" to the integer 1, with a warning.
        warnings.simplefilter("error", DeprecationWarning)
        try:
            table = np.loadtxt(
                lines, dtype, None, delimiter, usecols=layout.columns, quotechar=quote, ndmin=1
            )
        except DeprecationWarning as warning:
            raise ValueError(str(warning)) from None
    if len(table) != len(lines):
        raise ValueError("a quoted field spans several lines")
    return [table[name] for name in dtype.names or ()]


_UNIX_TIME = re.compile(r"[0-9]{9,}(\.[0-9]*)?")


def _layout(path: Path, row: Column, col: Column, value: Column, weight: Column = None) -> _Layout:
    """Detect the delimiter, the columns and a header from the first lines."""
    lines = first_lines(path, 10)
    if not lines:
        raise DataError(f"{path.name}: the file is empty")
    needed = 1 + max([2, *(at for at in (row, col, value, weight) if isinstance(at, int))])
    possible = [d for d in DELIMITERS if len(split_line(lines[0], d)) >= needed]
    if not possible:
        raise DataError(f"{path.name}, line 1: no delimiter gives {needed} fields: {_short(lines[0])}")
    even = (d for d in possible if len({len(split_line(line, d)) for line in lines}) == 1)
    delimiter = next(even, possible[0])
    fields = split_line(lines[0], delimiter)
    named = any(isinstance(column, str) for column in (row, col, value, weight))
    if not named:
        at = choose_columns(range(len(fields)), row, col, value, weight)[:3]
        named = _is_header([split_line(line, delimiter) for line in lines], at)
    columns = choose_columns(fields if named else range(len(fields)), row, col, value, weight)
    unused = [field for at, field in enumerate(fields) if at not in columns]
    if not named and None in (row, col, value) and not all(_UNIX_TIME.fullmatch(field) for field in unused):
        warn(
            f"{path.name} has {len(fields)} columns and no header; row, column and value are read from columns "
            f"{', '.join(str(at) for at in columns[:3])}; give their positions, from 0, to use others"
        )
    return _Layout(delimiter, columns, named, len(fields))


def _is_header(table: list[list[str]], at: list[int]) -> bool:
    """Return whether the first line is a header; "12,7,abc" and "ann,x,NA" are bad lines, not headers."""
    (row, col, value), *others = ([fields[k] for k in at if k < len(fields)] for fields in table)
    if not _is_number(value):
        return value.lower() not in _NO_VALUE and not (_is_number(row) and _is_number(col))
    # pandas writes a column without a name as 0: "user,item,0".
    numbers = bool(others) and all(_is_number(label) for other in others for label in other[:2])
    return value == "0" and numbers and not _is_number(row) and not _is_number(col)


def split_line(line: str, delimiter: str | None) -> list[str]:
    """Return the fields of a line; delimiter None is any white space."""
    line = line.rstrip("\r\n")
    if delimiter is None or len(delimiter) > 1:
        return [field.strip() for field in line.split(delimiter)]
    return [field.strip() for field in next(csv.reader([line], delimiter=delimiter))]


def _is_number(field: str) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return field.isascii() and "_" not in field  # Python accepts 1_000, NumPy does not


def _explain(path: Path, lines: list[str], done: int, layout: _Layout, error: ValueError) -> NoReturn:
    """Raise a DataError with the number and the content of the first bad line of a block."""
    numbered = ((number, line) for number, line in enumerate(lines, done + 1) if line.strip())
    for number, line in islice(numbered, 1 if layout.header and done == 0 else 0, None):
        problem = _problem(split_line(line, layout.delimiter), layout)
        if problem:
            raise DataError(f"{path.name}, line {number}: {problem}: {_short(line)}") from None
    raise DataError(f"{path.name}, after line {done}: {error}") from None


def _surplus(line: str, layout: _Layout) -> bool:
    """Return whether a line has more fields than the first: a decimal comma, or a header that lacks names."""
    delimiter, width = layout.delimiter, layout.width
    many = len(line.split()) > width if delimiter is None else line.count(delimiter) >= width
    return many and any(split_line(line, delimiter)[width:])


def _problem(fields: list[str], layout: _Layout) -> str | None:
    needed = max(layout.columns) + 1
    if len(fields) < needed:
        return f"{len(fields)} field(s), at least {needed} are needed"
    row, col, value = (fields[at] for at in layout.columns)
    if not row or not col:
        return "a row or column label is missing"
    if not _is_number(value):
        return f"{layout.name} {value!r} is not a number"
    if not math.isfinite(float(value)):
        return f"{layout.name} {value!r} is not finite"
    return f"{len(fields)} fields, the first line has {layout.width}" if any(fields[layout.width :]) else None


def _short(line: str) -> str:
    line = line.strip()
    return line if len(line) <= 60 else line[:59] + "…"
