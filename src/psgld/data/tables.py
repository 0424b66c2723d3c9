"""Reads entries from tables of pandas, polars and pyarrow, and chooses their row, column and value columns."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import DataError, warn
from .labels import Coded, FloatArray, encode, real
from .weights import list_weights

Column = str | int | None
"""A column by name or by position; None for the default one."""

FRAMES = ("pandas", "polars", "pyarrow")

_ROLES = {"row": ("row",), "column": ("col", "column"), "value": ("value",)}
_INDEX = re.compile(r"(unnamed: ?[0-9]+|__index_level_[0-9]+__|index|)")
_TIME = re.compile(r"(unix_?)?time(_?stamp)?|date(_?time)?")
"""Names of columns, in lower case, that are used as row, column or value only if there are no others."""


LABEL_NAME = re.compile(
    r"(row|col|column|user|item|movie|film|product|customer|document|doc|word)s?([ _-]?id)?", re.IGNORECASE
)
"""Names that columns of labels usually have."""


class Triples(NamedTuple):
    """Entries with encoded labels, and their weights, if they have any."""

    rows: Coded
    cols: Coded
    values: FloatArray
    weights: FloatArray | None = None


def triples(rows: Any, cols: Any, values: Any, weights: Any = None) -> Triples:
    """Encode the labels of entries; raise DataError unless rows, columns and values have the same length."""
    values = real(values)
    if weights is not None:
        weights = list_weights(weights, len(values))
    coded = Triples(encode(rows, "row label"), encode(cols, "column label"), values, weights)
    lengths = len(coded.rows.codes), len(coded.cols.codes), len(coded.values)
    if len(set(lengths)) > 1:
        raise DataError(
            "rows, columns and values must have the same length, got {}, {} and {}".format(*lengths)
        )
    return coded


def is_frame(x: object) -> bool:
    """Return whether x is a table of pandas, polars or pyarrow, without importing any of them."""
    return _library(x) in FRAMES and type(x).__name__ in ("DataFrame", "Table", "RecordBatch")


def frame_triples(
    frame: Any, row: Column = None, col: Column = None, value: Column = None, weight: Column = None
) -> Triples:
    """Return the entries in three columns of a data frame, and their weights in a fourth one, if it is named."""
    names = list(frame.schema.names if _library(frame) == "pyarrow" else frame.columns)
    if row is None and col is None and value is None and _is_matrix(frame, names):
        raise DataError(
            f"a table of {len(names)} columns of one type, {_listed(names)}, may be a matrix; if so, give its values "
            "(frame.to_numpy()), else name the columns of row, column and value (Observations.from_frame)"
        )
    columns = []
    for role, at in zip((*_ROLES, "weight"), choose_columns(names, row, col, value, weight), strict=False):
        column, nulls = column_of(frame, at)
        if nulls:
            raise DataError(f"{nulls} null(s) in column {names[at]!r} ({role}); drop those entries first")
        columns.append(column)
    return triples(*columns)


def _is_matrix(frame: Any, names: Sequence[Any]) -> bool:
    """Return whether a table may be the matrix itself: numeric columns of one type, more than 3 or with fractions."""
    kinds = {
        str(kind).lower() for kind in (frame.schema.types if _library(frame) == "pyarrow" else frame.dtypes)
    }
    lower = [str(name).strip().lower() for name in names]
    if len(kinds) != 1 or any(name in lower for role in _ROLES.values() for name in role):
        return False
    columns = [at for at, name in enumerate(lower) if not (_INDEX.fullmatch(name) or _TIME.fullmatch(name))]
    if not next(iter(kinds)).startswith(("int", "uint", "float", "double")) or len(columns) < 3:
        return False
    labels = (column_of(frame, at)[0] for at in columns[:2])  # may be floats without fractions
    return len(columns) > 3 or any(bool(np.any(column != np.rint(column))) for column in labels)


def _listed(names: Sequence[Any]) -> str:
    return ", ".join(repr(name) for name in names[:5]) + (", …" if len(names) > 5 else "")


def _library(x: object) -> str:
    return type(x).__module__.split(".")[0]


def column_of(frame: Any, at: int) -> tuple[NDArray[Any], int]:
    """Return a column as an array, and its number of nulls."""
    if _library(frame) == "pandas":
        column = frame.iloc[:, at]
        return column.to_numpy(), int(column.isna().sum())
    if _library(frame) == "polars":
        column = frame.to_series(at)
        try:
            return column.to_numpy(), column.null_count()
        except Exception as error:  # some types of polars do not exist in NumPy, such as Int128
            raise DataError(
                f"column {column.name!r} of {column.dtype} has no NumPy equivalent; cast it to Int64, Float64 or String"
            ) from error
    column = frame.column(at)
    return column.to_numpy(zero_copy_only=False), column.null_count


def choose_columns(
    names: Sequence[Any], row: Column, col: Column, value: Column, weight: Column = None
) -> list[int]:
    """Return the positions of the row, column and value columns, and of the weights, if their column is named.

    By default these are the columns named row, col (or column) and value, else the first unused columns; an index or
    a time is used only if there are no others. If other columns than an index, or a time at the end, remain unused, a
    warning says which were chosen.
    """
    lower = [str(name).strip().lower() for name in names]
    chosen = [_position(names, wanted) for wanted in (row, col, value)]
    weights = [at] if (at := _position(names, weight)) is not None else []
    for i, usual in enumerate(_ROLES.values()):
        if chosen[i] is None:
            chosen[i] = next((lower.index(name) for name in usual if name in lower), None)
    free = [at for at in range(len(names)) if at not in (*chosen, *weights)]
    likely = [at for at in free if not (_INDEX.fullmatch(lower[at]) or _TIME.fullmatch(lower[at]))]
    order = iter(likely if len(likely) >= chosen.count(None) else free)
    found = [next(order, None) if at is None else at for at in chosen]
    complete = [at for at in found if at is not None]
    if len(complete) < 3:
        raise DataError(f"three columns are needed (row, column, value), got {list(names)}")
    if len({*complete, *weights}) < 3 + len(weights):
        roles = (
            "row, column, value and weight must be four" if weights else "row, column and value must be three"
        )
        raise DataError(f"{roles} different columns of {list(names)}")
    doubtful = (
        not _INDEX.fullmatch(lower[at]) and not (_TIME.fullmatch(lower[at]) and at > max(complete))
        for at in free
        if at not in complete
    )
    if None in chosen and isinstance(names[0], str) and any(doubtful):
        taken = ", ".join(repr(names[at]) for at in complete)
        warn(
            f"row, column and value are read from {taken}, of {len(names)} columns; name the columns to use others"
        )
    return complete + weights


def _position(names: Sequence[Any], wanted: Column) -> int | None:
    if wanted is None:
        return None
    if wanted in names:
        return names.index(wanted)
    if isinstance(wanted, int) and 0 <= wanted < len(names):
        return wanted
    raise DataError(f"no column {wanted!r}; the columns are {list(names)}")
