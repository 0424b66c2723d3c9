"""Tables that name cells of a matrix that has been sampled: pairs to predict, entries to test."""

from __future__ import annotations

import csv
import re
import zlib
from argparse import Namespace
from collections.abc import Iterator, Sequence
from gzip import BadGzipFile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..data.labels import LabelArray, encode, match_labels, merge
from ..data.observations import observations
from ..data.readers import naming, read_file, read_parquet_labels
from ..data.tables import LABEL_NAME, Column, Triples
from ..data.text import DELIMITERS, split_line
from ..errors import DataError
from ..posterior.posterior import Posterior
from ..system.lines import blocks_of_lines, first_lines, open_text
from .output import say

Labels = NDArray[Any]


def read_entries(
    path: Path, row: Column, col: Column, value: Column, weight: Column = None
) -> tuple[Labels, Labels, Labels, Labels | None]:
    """Read a file of entries: row labels, column labels, values, weights. A pair may come several times."""
    found = read_file(path, row, col, value, weight)
    if isinstance(found, list) and found and isinstance(found[0], Triples):
        rows, cols = merge([part.rows for part in found]), merge([part.cols for part in found])
        values = np.concatenate([part.values for part in found])
        if not len(values):
            raise DataError(f"{path.name}: there are no entries in it")
        weights = None if weight is None else np.concatenate([part.weights for part in found])
        return rows.labels[rows.codes], cols.labels[cols.codes], values.astype(np.float64), weights
    data = observations(found)
    i, j, values = data.entries(np.arange(data.stored))
    names = zip((i, j), (data.row_labels, data.col_labels), strict=True)
    rows_cols = [at if labels is None else labels[at] for at, labels in names]
    return rows_cols[0], rows_cols[1], values.astype(np.float64), data.entry_weights


def read_test(args: Namespace, posterior: Posterior) -> tuple[Labels, Labels, Labels]:
    """Read the held-out entries of --test: labels that the posterior knows, values that its likelihood allows."""
    rows, cols, values, _ = read_entries(args.test, args.row, args.col, args.value)
    keep = select_known(posterior, rows, cols, args.skip_unknown)
    with naming(args.test):
        posterior.model.check_values(values[keep])
    return rows[keep], cols[keep], values[keep]


def read_pairs(path: Path, row: Column, col: Column, posterior: Posterior) -> tuple[Labels, Labels]:
    """Read the row and column labels of text (a header is optional) or of Parquet; other columns are ignored."""
    if path.suffix == ".parquet" and path.is_file():
        labels = read_parquet_labels(path, lambda names: _columns(names, row, col, header=True))
        if not len(labels[0]):
            raise DataError(f"{path.name}: there are no pairs in it")
        with naming(path):
            r, c = encode(labels[0], "row label"), encode(labels[1], "column label")
        return r.labels[r.codes], c.labels[c.codes]
    table = list(_lines(path))
    if not table:
        raise DataError(f"{path.name}: the file is empty")
    first = table[0][1]
    named = isinstance(row, str) or isinstance(col, str)
    header = named or _is_header(first, row, col, posterior)
    at = _columns(first, row, col, header)
    if header and not named and not all(LABEL_NAME.fullmatch(first[k]) for k in at):
        say(f"note: {path.name}, line {table[0][0]}: taken as a header, the data has no such labels: {first}")
    pairs = []
    for number, fields in table[1:] if header else table:
        if len(fields) <= max(at) or not (fields[at[0]] and fields[at[1]]):
            raise DataError(f"{path.name}, line {number}: a row and a column label are needed, got {fields}")
        pairs.append((fields[at[0]], fields[at[1]]))
    if not pairs:
        raise DataError(f"{path.name}: there are no pairs below the header")
    rows, cols = zip(*pairs, strict=True)
    return np.array(rows, dtype=str), np.array(cols, dtype=str)


def _lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the number and the fields of each line that is not blank."""
    if not path.exists():
        raise DataError(f"no such file: {path}")
    if not path.is_file():
        raise DataError(f"{path} is a directory or a pipe; pairs are read from a file")
    try:
        start = first_lines(path, 10)
        counts = {delimiter: {len(split_line(line, delimiter)) for line in start} for delimiter in DELIMITERS}
        delimiter = next((d for d, number in counts.items() if len(number) == 1 and number != {1}), ",")
        with open_text(path) as file:
            every = (line for block in blocks_of_lines(file) for line in block)
            for number, line in enumerate(every, 1):
                if line.strip():
                    yield number, split_line(line, delimiter)
    except UnicodeDecodeError as error:
        raise DataError(f"{path.name}: not UTF-8 text: {error}") from None
    except (EOFError, BadGzipFile, zlib.error, csv.Error) as error:
        raise DataError(f"{path.name}: cannot be read: {error}") from None


def _columns(first: Sequence[str], row: Column, col: Column, header: bool) -> tuple[int, int]:
    """Return the positions of the row and the column labels: as asked for, as named, else the first two."""
    lower = [name.lower() for name in first] if header else []
    at = []
    for wanted, usual, default in ((row, ("row",), 0), (col, ("col", "column"), 1)):
        if wanted is None:
            at.append(next((lower.index(name) for name in usual if name in lower), default))
        elif isinstance(wanted, int):
            at.append(wanted)
        elif wanted in first:
            at.append(first.index(wanted))
        else:
            raise DataError(f"no column {wanted!r}; the columns are {list(first)}")
    if max(at) >= len(first) or at[0] == at[1]:
        raise DataError(f"a row and a column are needed, got {list(first)}")
    return at[0], at[1]


def _is_header(first: Sequence[str], row: Column, col: Column, posterior: Posterior) -> bool:
    """Say whether neither label of the first line can be one of the data."""
    at = _columns(first, row, col, header=True)
    sides = zip(at, (posterior.row_labels, posterior.col_labels), posterior.shape, strict=True)
    return not any(_possible(first[k], labels, size) for k, labels, size in sides)


def _possible(name: str, labels: LabelArray | None, size: int) -> bool:
    if labels is None or labels.dtype.kind == "i":
        return _is_integer(name)
    return bool(known(labels, size, np.array([name]))[0])


def _is_integer(name: str) -> bool:
    return (
        re.fullmatch(r"[+-]?[0-9]{1,18}", name) is not None
    )  # "+5" is no label, but no name of a column either


def known(labels: LabelArray | None, size: int, wanted: Labels) -> NDArray[np.bool_]:
    """Say which of the wanted labels the data has."""
    codes, names = encode(wanted)
    return np.asarray((match_labels(labels, size, names) >= 0)[codes])


def select_known(posterior: Posterior, rows: Labels, cols: Labels, skip: bool) -> NDArray[np.bool_]:
    """Return which pairs the data knows; raise if some are unknown, or with `skip` say how many."""
    rows_known = known(posterior.row_labels, posterior.shape[0], rows)
    cols_known = known(posterior.col_labels, posterior.shape[1], cols)
    both = rows_known & cols_known
    if both.all():
        return both
    unknown = [
        f"{len(names)} unknown {axis} label(s): {', '.join(map(repr, names[:5].tolist()))}"
        + (", …" if len(names) > 5 else "")
        for axis, names in (("row", np.unique(rows[~rows_known])), ("column", np.unique(cols[~cols_known])))
        if len(names)
    ]
    if not skip:
        raise DataError(f"{'; '.join(unknown)}; --skip-unknown leaves them out")
    if not both.any():
        raise DataError(f"none of the {len(rows)} pairs is in the data; {'; '.join(unknown)}")
    say(f"note: {np.count_nonzero(~both)} of {len(rows)} pairs left out; {'; '.join(unknown)}")
    return both
