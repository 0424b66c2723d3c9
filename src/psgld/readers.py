"""Tables and files of entries: data frames, delimited text, Parquet, Matrix Market, NumPy and SciPy files."""

from __future__ import annotations

import csv
import math
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from . import _core
from .archive import check_memory, read_npy, read_npz
from .errors import DataError, warn
from .labels import Coded, FloatArray, IntArray, encode, real, tidy_text
from .lines import blocks_of_lines, first_lines, open_text
from .market import read_market
from .sparse import saved_entries

Column = str | int | None
"""A column by name or by position; None takes the usual one."""

FRAMES = ("pandas", "polars", "pyarrow")
TEXT = (".csv", ".tsv", ".txt", ".dat", ".data")
ALLOWED = (*TEXT, ".parquet", ".mtx", ".npy", ".npz")

_ROLES = {"row": ("row",), "column": ("col", "column"), "value": ("value",)}
_INDEX = re.compile(r"(unnamed: ?[0-9]+|index|)")
_TIME = re.compile(r"(unix_?)?time(_?stamp)?|date(_?time)?")
"""Names of columns, in small letters, that are hardly a row, a column or a value where there are others."""
_NO_VALUE = ("", "na", "n/a", "nil", "none", "null", "-", "?", ".")
"""What stands, in small letters, for a value that is missing."""
_UNUSUAL_INTEGER = re.compile(r"(?:^|[\s,;|:\"])(?:\+|-?0[0-9]|-0(?![.0-9eE]))", re.MULTILINE)
"""An integer that would come back in another form if it were read as a number: a label such as 007, +5 or -0."""

DELIMITERS = (
    "::",
    "\t",
    ";",
    "|",
    ",",
    None,
)  # None: any white space; before it, the rarest in labels first
_ENTRY = 16
"""Bytes of an entry in memory, at least: two coded labels and a value."""
_NUMBERS = np.dtype([("row", "i8"), ("column", "i8"), ("value", "f8")])
_STRINGS = np.dtype([("row", "O"), ("column", "O"), ("value", "f8")])


class Triples(NamedTuple):
    """Entries with coded labels."""

    rows: Coded
    cols: Coded
    values: FloatArray


def triples(rows: Any, cols: Any, values: Any) -> Triples:
    """Code the labels of loose entries and check that there are as many of each."""
    coded = Triples(encode(rows, "row label"), encode(cols, "column label"), real(values))
    lengths = len(coded.rows.codes), len(coded.cols.codes), len(coded.values)
    if len(set(lengths)) > 1:
        raise DataError("rows, columns and values must be as many, got {}, {} and {}".format(*lengths))
    return coded


def is_frame(x: object) -> bool:
    """Tell whether x is a table of pandas, polars or pyarrow, without importing any of them."""
    return _library(x) in FRAMES and type(x).__name__ in ("DataFrame", "Table", "RecordBatch")


def frame_triples(frame: Any, row: Column = None, col: Column = None, value: Column = None) -> Triples:
    """Take three columns of a data frame."""
    names = list(frame.schema.names if _library(frame) == "pyarrow" else frame.columns)
    if row is None and col is None and value is None and _is_matrix(frame, names):
        raise DataError(
            f"a table of {len(names)} columns of one type, {_listed(names)}: a matrix? then give its values "
            "(frame.to_numpy()); or say which columns hold row, column and value (Observations.from_frame)"
        )
    columns = []
    for role, at in zip(_ROLES, choose_columns(names, row, col, value), strict=True):
        column, nulls = _column(frame, at)
        if nulls:
            raise DataError(f"{nulls} null(s) in column {names[at]!r} ({role}); drop those entries first")
        columns.append(column)
    return triples(*columns)


def _is_matrix(frame: Any, names: Sequence[Any]) -> bool:
    """Say whether a table may well be the matrix itself: numbers of one type, more than three columns or fractions."""
    kinds = {
        str(kind).lower() for kind in (frame.schema.types if _library(frame) == "pyarrow" else frame.dtypes)
    }
    lower = [str(name).strip().lower() for name in names]
    if len(kinds) != 1 or any(name in lower for role in _ROLES.values() for name in role):
        return False
    columns = [at for at, name in enumerate(lower) if not (_INDEX.fullmatch(name) or _TIME.fullmatch(name))]
    if not next(iter(kinds)).startswith(("int", "uint", "float", "double")) or len(columns) < 3:
        return False
    labels = (_column(frame, at)[0] for at in columns[:2])  # may be floats, but whole
    return len(columns) > 3 or any(bool(np.any(column != np.rint(column))) for column in labels)


def _listed(names: Sequence[Any]) -> str:
    return ", ".join(repr(name) for name in names[:5]) + (", …" if len(names) > 5 else "")


def _library(x: object) -> str:
    return type(x).__module__.split(".")[0]


def _column(frame: Any, at: int) -> tuple[NDArray[Any], int]:
    """Return a column as an array, and how many nulls it has."""
    if _library(frame) == "pandas":
        column = frame.iloc[:, at]
        return column.to_numpy(), int(column.isna().sum())
    if _library(frame) == "polars":
        column = frame.to_series(at)
        try:
            return column.to_numpy(), column.null_count()
        except Exception as error:  # polars has types that NumPy has not, such as Int128
            raise DataError(
                f"column {column.name!r} of {column.dtype} is no array of NumPy; cast it to Int64, Float64 or String"
            ) from error
    column = frame.column(at)
    return column.to_numpy(zero_copy_only=False), column.null_count


def choose_columns(names: Sequence[Any], row: Column, col: Column, value: Column) -> list[int]:
    """Find the positions of the row, column and value columns.

    A role that is not given goes to the column of that name (row, col or column, value), else to the first
    column that is still free; an index or a time only if there are no others. If more are left than an index, or a
    time at the end, a warning says which were taken.
    """
    lower = [str(name).strip().lower() for name in names]
    chosen = [_position(names, wanted) for wanted in (row, col, value)]
    for i, usual in enumerate(_ROLES.values()):
        if chosen[i] is None:
            chosen[i] = next((lower.index(name) for name in usual if name in lower), None)
    free = [at for at in range(len(names)) if at not in chosen]
    likely = [at for at in free if not (_INDEX.fullmatch(lower[at]) or _TIME.fullmatch(lower[at]))]
    order = iter(likely if len(likely) >= chosen.count(None) else free)
    found = [next(order, None) if at is None else at for at in chosen]
    complete = [at for at in found if at is not None]
    if len(complete) < 3:
        raise DataError(f"three columns are needed (row, column, value), got {list(names)}")
    if len(set(complete)) < 3:
        raise DataError(f"row, column and value must be three different columns of {list(names)}")
    doubtful = (
        not _INDEX.fullmatch(lower[at]) and not (_TIME.fullmatch(lower[at]) and at > max(complete))
        for at in free
        if at not in complete
    )
    if None in chosen and isinstance(names[0], str) and any(doubtful):
        taken = ", ".join(repr(names[at]) for at in complete)
        warn(
            f"row, column and value are taken from {taken}, of {len(names)} columns; name others if that is wrong"
        )
    return complete


def _position(names: Sequence[Any], wanted: Column) -> int | None:
    if wanted is None:
        return None
    if wanted in names:
        return names.index(wanted)
    if isinstance(wanted, int) and 0 <= wanted < len(names):
        return wanted
    raise DataError(f"no column {wanted!r}; the columns are {list(names)}")


def read_file(path: Path, row: Column, col: Column, value: Column) -> Any:
    """Read a file: an array, a sparse matrix, a mapping of saved arrays, or an iterable of triples."""
    if path.is_dir():
        raise DataError(f"{path} is a directory, a file is needed")
    if not path.exists():
        raise DataError(f"no such file: {path}")
    suffix = Path(path.stem if path.suffix == ".gz" else path.name).suffix.lower()
    if suffix not in ALLOWED or (path.suffix == ".gz" and suffix not in (*TEXT, ".mtx")):
        raise DataError(
            f"{path.name}: unknown kind of file {suffix!r}; allowed are {', '.join(ALLOWED)}, "
            f"and .gz of .mtx and of text"
        )
    with _reading(path):
        if suffix == ".parquet":
            return _read_parquet(path, row, col, value)
        if suffix == ".mtx":
            return read_market(path)
        if suffix == ".npy":
            return read_npy(path)
        if suffix == ".npz":
            return _read_npz(path)
        return _read_text(path, row, col, value)


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Name the file in errors about its entries."""
    try:
        yield
    except DataError as error:
        if path.name in str(error):
            raise
        raise DataError(f"{path.name}: {error}") from None


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Name the file in whatever is said of it while it is read, by us and by others."""
    try:
        with naming(path):
            yield
    except DataError:
        raise
    except UnicodeDecodeError as error:
        raise DataError(f"{path.name}: not UTF-8 text: {error.reason}") from None
    except Exception as error:  # whatever NumPy, SciPy and pyarrow say of a damaged file
        why = " ".join(str(error).split())[:300] or type(error).__name__
        raise DataError(f"{path.name}: cannot be read: {why}") from error


def _read_npz(path: Path) -> Any:
    arrays = read_npz(path)
    if "psgld" in arrays:
        return arrays
    if "format" not in arrays:
        names = ", ".join(list(arrays)[:5])
        raise DataError(f"{path.name}: neither saved by psgld nor by scipy.sparse.save_npz; it holds {names}")
    return saved_entries(arrays)


def _open_parquet(path: Path) -> Any:
    try:
        from pyarrow import parquet
    except ImportError:
        raise DataError(f"{path.name}: reading Parquet needs pyarrow: pip install pyarrow") from None
    return parquet.ParquetFile(path)


def read_parquet_labels(path: Path, choose: Callable[[list[str]], tuple[int, int]]) -> list[NDArray[Any]]:
    """Read two columns of labels, of which `choose` tells the positions from the names of all columns."""
    with _reading(path), _open_parquet(path) as file:
        names = file.schema_arrow.names
        check_memory(file.metadata.num_rows * _ENTRY, path.name)
        table = file.read()
        read = [(names[at], *_column(table, at)) for at in choose(names)]
        for name, _, nulls in read:
            if nulls:
                raise DataError(f"{path.name}: {nulls} null(s) in column {name!r}; drop those pairs first")
        return [column for _, column, _ in read]


def _read_parquet(path: Path, row: Column, col: Column, value: Column) -> Iterable[Triples]:
    with _open_parquet(path) as file:
        names = file.schema_arrow.names
        three = [names[at] for at in choose_columns(names, row, col, value)]
        check_memory(file.metadata.num_rows * _ENTRY, path.name)
        return [frame_triples(batch, *three) for batch in file.iter_batches(1 << 20, columns=three)]


class _Layout(NamedTuple):
    delimiter: str | None
    columns: list[int]
    header: bool
    width: int
    """Fields of the first line."""


def _read_text(path: Path, row: Column, col: Column, value: Column) -> list[Triples]:
    layout = _layout(path, row, col, value)
    try:
        return [triples(*arrays) for arrays in _parse(path, layout, _NUMBERS)]
    except ValueError:
        # Labels that are no integers, or a bad line: the second reading tells.
        chunks = [triples(*arrays) for arrays in _parse(path, layout, _STRINGS)]
    rows = tidy_text([chunk.rows for chunk in chunks])
    cols = tidy_text([chunk.cols for chunk in chunks])
    return [Triples(r, c, chunk.values) for r, c, chunk in zip(rows, cols, chunks, strict=True)]


def stream_text(
    path: Path, row: Column, col: Column, value: Column
) -> Iterator[tuple[IntArray | Coded, IntArray | Coded, FloatArray]]:
    """Read delimited text block by block; a block with labels that are no integers has strings for labels."""
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
    """Parse lines, of which `done` came before: plain numbers in the core, others with NumPy's compiled reader."""
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
        delimiter = "\x1f"  # NumPy takes one character only
        lines = [line.replace("::", delimiter) for line in lines]
    with warnings.catch_warnings():
        # Older versions of NumPy cut "1.5" to the integer 1, with a warning.
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


def _layout(path: Path, row: Column, col: Column, value: Column) -> _Layout:
    """Find the delimiter, the columns and whether there is a header from the first lines."""
    lines = first_lines(path, 10)
    if not lines:
        raise DataError(f"{path.name}: the file is empty")
    needed = 1 + max([2, *(at for at in (row, col, value) if isinstance(at, int))])
    possible = [d for d in DELIMITERS if len(split_line(lines[0], d)) >= needed]
    if not possible:
        raise DataError(f"{path.name}, line 1: no delimiter gives {needed} fields: {_short(lines[0])}")
    even = (d for d in possible if len({len(split_line(line, d)) for line in lines}) == 1)
    delimiter = next(even, possible[0])
    fields = split_line(lines[0], delimiter)
    named = any(isinstance(column, str) for column in (row, col, value))
    if not named:
        at = choose_columns(range(len(fields)), row, col, value)
        named = _is_header([split_line(line, delimiter) for line in lines], at)
    columns = choose_columns(fields if named else range(len(fields)), row, col, value)
    return _Layout(delimiter, columns, named, len(fields))


def _is_header(table: list[list[str]], at: list[int]) -> bool:
    """Tell whether the first of some lines has names in it; "12,7,abc" and "ann,x,NA" are bad lines, not headers."""
    (row, col, value), *others = ([fields[k] for k in at if k < len(fields)] for fields in table)
    if not _is_number(value):
        return value.lower() not in _NO_VALUE and not (_is_number(row) and _is_number(col))
    # pandas calls a column that has no name 0: "user,item,0".
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
    return field.isascii() and "_" not in field  # Python reads 1_000, NumPy does not


def _explain(path: Path, lines: list[str], done: int, layout: _Layout, error: ValueError) -> NoReturn:
    """Raise with the number and the content of the first bad line of a block."""
    numbered = ((number, line) for number, line in enumerate(lines, done + 1) if line.strip())
    for number, line in islice(numbered, 1 if layout.header and done == 0 else 0, None):
        problem = _problem(split_line(line, layout.delimiter), layout)
        if problem:
            raise DataError(f"{path.name}, line {number}: {problem}: {_short(line)}") from None
    raise DataError(f"{path.name}, after line {done}: {error}") from None


def _surplus(line: str, layout: _Layout) -> bool:
    """Tell whether a line has fields that the first has not: a decimal comma, or a header without a name for each."""
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
        return f"value {value!r} is not a number"
    if not math.isfinite(float(value)):
        return f"value {value!r} is not finite"
    return f"{len(fields)} fields, the first line has {layout.width}" if any(fields[layout.width :]) else None


def _short(line: str) -> str:
    line = line.strip()
    return line if len(line) <= 60 else line[:59] + "…"
