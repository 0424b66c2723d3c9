"""Encodes labels as 0, 1, 2, … and converts entries to compressed sparse rows (CSR).

Labels are integers or strings. They are sorted, so the codes do not depend on the order of the entries.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, date, datetime
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .. import _core
from ..checks import is_integer, unmasked
from ..errors import DataError
from ..system.archive import check_memory

FloatArray = NDArray[np.floating[Any]]
IntArray = NDArray[np.int64]
LabelArray = NDArray[Any]
"""A 1-D array of int64 or of str."""

DUPLICATES = ("error", "sum", "mean", "last")

_INTEGER = re.compile(r"0|-?[1-9][0-9]*")
"""Text in the canonical form of an integer. "+5", "-0" and "007" are not, and stay strings."""
_ZEROS = re.compile(r"(\.[0-9]*?)0+$")
_SHOWN = 5


class Csr(NamedTuple):
    """Compressed sparse rows: columns sorted within each row, no duplicates, stored zeros kept."""

    indptr: IntArray
    indices: NDArray[np.int32]
    values: FloatArray


class Coded(NamedTuple):
    """A column of labels as ``labels[codes]``."""

    codes: NDArray[np.int32]
    labels: LabelArray


def encode(column: Any, what: str = "label") -> Coded:
    """Encode a column of labels: codes are positions among the sorted distinct labels.

    Integers (and floats without a fraction) become int64, everything else becomes str; times are in ISO 8601.
    """
    column = unmasked(column, f"{what}s")
    if column.ndim != 1:
        raise DataError(f"the {what}s must be a 1-D array, got {column.ndim} dimensions")
    if column.dtype.kind in "mM":
        _refuse_nulls(int(np.count_nonzero(np.isnat(column))), what)
        times, codes = np.unique(column, return_inverse=True)
        names = np.array([_name(time) for time in times], dtype=str)
        return _encode_objects(names[codes].tolist(), what)
    if column.dtype.kind in "OS":
        return _encode_objects(column.tolist(), what)
    if column.dtype.kind == "f":
        _refuse_nulls(int(np.count_nonzero(np.isnan(column))), what)
        if np.all(column == np.trunc(column)) and np.all(np.abs(column) < 2.0**63):
            column = column.astype(np.int64)
        else:
            return _encode_objects(column.tolist(), what)
    if column.dtype.kind == "u" and column.size and int(column.max()) >= 2**63:
        column = column.astype(str)
    if column.dtype.kind in "iu":
        return _encode_integers(column.astype(np.int64, copy=False))
    return _encode_objects(column.astype(str).tolist(), what)


def merge(parts: Sequence[Coded]) -> Coded:
    """Concatenate encoded columns. If one part has strings, all labels become strings."""
    if all(part.labels.dtype.kind == "i" for part in parts):
        everything = np.concatenate([part.labels for part in parts])
    else:
        everything = np.concatenate([part.labels.astype(str) for part in parts])
    common = encode(everything)
    starts = np.cumsum([0, *(len(part.labels) for part in parts)])
    codes = [common.codes[start:][part.codes] for start, part in zip(starts, parts, strict=False)]
    return Coded(np.concatenate(codes), common.labels)


def tidy_text(parts: Sequence[Coded]) -> list[Coded]:
    """Strip white space from the labels of a text file, and convert them to integers if all are.

    "007" is not an integer here: converted, it would become 7.
    """
    stripped = [np.array([label.strip() for label in part.labels.tolist()], dtype=str) for part in parts]
    if all(_INTEGER.fullmatch(label) for labels in stripped for label in labels.tolist()):
        # An integer beyond int64 stays a string.
        with suppress(OverflowError):
            stripped = [labels.astype(np.int64) for labels in stripped]
    return [Coded(part.codes, labels) for part, labels in zip(parts, stripped, strict=True)]


def check_labels(labels: Any, axis: str) -> LabelArray | None:
    """Return the user's labels, one per row or column, as an array; raise DataError if some are not distinct."""
    if labels is None:
        return None
    codes, names = encode(labels, f"{axis} label")
    if len(names) < len(codes):
        twice = names[np.bincount(codes) > 1]
        raise DataError(f"{axis} labels must be distinct, {_some(twice)} occur more than once")
    return names[codes]


def find_labels(labels: LabelArray | None, wanted: Any, size: int, axis: str, remedy: str = "") -> IntArray:
    """Return the indices of the wanted labels; raise a DataError that names the unknown ones, and the remedy."""
    wanted = np.atleast_1d(unmasked(wanted, f"{axis} labels"))
    if wanted.ndim != 1:
        raise DataError(f"{axis} labels must be 1-D, got {wanted.ndim} dimensions")
    if wanted.size == 0:
        return np.empty(0, np.int64)
    codes, names = encode(wanted, f"{axis} label")
    at = match_labels(labels, size, names)
    _refuse_unknown(names[at < 0], labels, size, axis, remedy)
    return at[codes]


def match_labels(labels: LabelArray | None, size: int, wanted: LabelArray) -> IntArray:
    """Return the index of each wanted label among those of `size` rows or columns, -1 where there is none.

    Labels are compared by value, never by position. Integers are compared as integers, anything else as text, so that
    "12" finds 12 (a command line has only text). Without labels, the indices 0, 1, 2, … are the labels.
    """
    if labels is None or labels.dtype.kind == "i":
        keys, possible = _integers(wanted)
    else:
        keys, possible = wanted.astype(str), np.ones(len(wanted), bool)
    if labels is None:
        return np.where(possible & (keys >= 0) & (keys < size), keys, -1).astype(np.int64)
    if size == 0:
        return np.full(len(wanted), -1, np.int64)
    order = np.argsort(labels, kind="stable")
    at = order[np.minimum(np.searchsorted(labels, keys, sorter=order), size - 1)]
    return np.where(possible & (labels[at] == keys), at, -1).astype(np.int64)


def align_labels(
    labels: LabelArray | None, size: int, given: LabelArray | None, given_size: int, axis: str
) -> IntArray:
    """Return the index in a first data set of each row (or column) of a second one, -1 where there is none.

    Labels of the second data set (`given`) are matched by value. Without them, rows are matched by position: if the
    first data set has labels, both must have the same number of rows.
    """
    if given is not None:
        return match_labels(labels, size, given)
    if labels is not None and given_size != size:
        raise DataError(
            f"{given_size} {axis}s without labels cannot be matched with {size} that have labels ({_some(labels)}); "
            f"give the labels of the {axis}s, or all {size} in that order"
        )
    index = np.arange(given_size)
    return np.where(index < size, index, -1)


def require_known(
    at: IntArray, labels: LabelArray | None, size: int, given: LabelArray | None, axis: str
) -> IntArray:
    """Return `at`, the result of `align_labels`; raise a DataError that names labels that were not found."""
    missing = np.flatnonzero(at < 0)
    _refuse_unknown(named(given, missing), labels, size, axis)
    return at


def _refuse_unknown(
    unknown: LabelArray, labels: LabelArray | None, size: int, axis: str, remedy: str = ""
) -> None:
    if len(unknown):
        have = f"0 to {size - 1}" if labels is None else _some(labels)
        said = f"{len(unknown)} unknown {axis} label(s): {_some(unknown)}; known are {have}"
        raise DataError(f"{said}; {remedy}" if remedy else said)


def _integers(names: LabelArray) -> tuple[IntArray, NDArray[np.bool_]]:
    """Return labels as int64 and a mask of those that are integers: text only in canonical form, within 64 bits."""
    if names.dtype.kind == "i":
        return names.astype(np.int64, copy=False), np.ones(len(names), bool)
    numbers = [int(name) if _INTEGER.fullmatch(name) else None for name in names.tolist()]
    possible = [number is not None and -(2**63) <= number < 2**63 for number in numbers]
    found = [number if ok else 0 for number, ok in zip(numbers, possible, strict=True)]
    return np.array(found, dtype=np.int64), np.array(possible, dtype=bool)


def _encode_integers(column: IntArray) -> Coded:
    if column.size == 0:
        return Coded(np.empty(0, np.int32), column)
    low = int(column.min())
    span = int(column.max()) - low + 1
    if span > max(4 * column.size, 2**20):
        labels, codes = np.unique(column, return_inverse=True)
        return Coded(codes.astype(np.int32), labels)
    # A lookup table over the range is ten times faster than sorting.
    seen = np.zeros(span, bool)
    seen[column - low] = True
    number = np.cumsum(seen, dtype=np.int32) - np.int32(1)
    return Coded(number[column - low], np.flatnonzero(seen) + low)


def _encode_objects(column: list[Any], what: str) -> Coded:
    if not all(type(x) is str for x in column):
        _refuse_nulls(sum(map(_is_null, column)), what)
        if all(isinstance(x, (int, np.integer)) and not isinstance(x, bool) for x in column):
            with suppress(OverflowError):
                return _encode_integers(np.array(column, dtype=np.int64))
        column = [_name(x) for x in column]
    names = sorted(set(column))
    number = dict(zip(names, range(len(names)), strict=True))
    codes = np.fromiter(map(number.__getitem__, column), np.int32, len(column))
    return Coded(codes, np.array(names, dtype=str))


def _name(x: Any) -> str:
    """Return a label as a string. A time gives the same string whatever its library and unit.

    A time with a time zone is converted to UTC, as in NumPy, Arrow and Parquet.
    """
    if isinstance(x, bytes):
        return x.decode(errors="backslashreplace")
    if isinstance(x, float | np.floating) and np.isfinite(x) and x == np.trunc(x):
        return str(int(x))  # as in a column of floats without fractions: 1.0 is the label 1
    if isinstance(x, np.datetime64):
        minutes = np.datetime_data(x)[0] in ("h", "m")  # NumPy would omit the seconds
        return _short_time(str(x.astype("M8[s]") if minutes else x))
    if isinstance(x, datetime) and x.tzinfo is not None:
        x = x.astimezone(UTC).replace(tzinfo=None)
    return _short_time(x.isoformat()) if isinstance(x, date) else str(x)


def _short_time(text: str) -> str:
    """Return an ISO 8601 time without trailing zeros: "2020-01-31T00:00:00.000" becomes "2020-01-31".

    Libraries and versions differ in their default unit; without this the same time would give different labels.
    """
    return _ZEROS.sub(r"\1", text).removesuffix(".").removesuffix("T00:00:00")


def _is_null(x: Any) -> bool:
    try:
        return x is None or bool(x != x)
    except TypeError:  # pandas.NA: its comparisons have no truth value
        return True


def _refuse_nulls(count: int, what: str) -> None:
    if count:
        raise DataError(f"{count} null {what}(s); drop those entries first")


def _some(labels: LabelArray) -> str:
    """Return the first few labels as text."""
    shown = ", ".join(repr(label) for label in labels[:_SHOWN].tolist())
    return shown + (", …" if len(labels) > _SHOWN else "")


def missing_as_nan(X: Any) -> Any:
    """Return X with masked entries as NaN, if it is a masked array or a list of masked rows; else X itself."""
    if isinstance(X, list | tuple) and any(isinstance(row, np.ma.MaskedArray) for row in X):
        X = np.ma.array(X)
    if not isinstance(X, np.ma.MaskedArray):
        return X
    values = real(X.data, X.ndim)
    return np.where(np.ma.getmaskarray(X), values.dtype.type(np.nan), values)


def real(values: Any, ndim: int = 1) -> FloatArray:
    """Return an array of float64, or of float32 if it was that; raise DataError if it is not of real numbers."""
    try:
        array = unmasked(values, "values")
    except DataError:
        raise
    except ValueError as error:
        raise DataError(f"the values are not a {ndim}-D array: {error}") from None
    if array.ndim != ndim:
        raise DataError(f"the values must be a {ndim}-D array, got {array.ndim} dimension(s)")
    if array.dtype.kind not in "fiub":
        remedy = "; if they are, convert them: values.astype(float)" if array.dtype.kind in "OUST" else ""
        raise DataError(f"the values must be real numbers, got an array of {array.dtype}{remedy}")
    single = array.dtype.kind == "f" and array.dtype.itemsize == 4
    return array.astype(np.float32 if single else np.float64, copy=False)


def canonical(
    rows: Any,
    cols: Any,
    values: Any,
    shape: tuple[int, int],
    duplicates: str,
    names: Sequence[LabelArray | None],
) -> Csr:
    """Return entries given by index as compressed rows; error messages use the labels in `names`."""
    check_duplicates(duplicates)
    check_shape(shape, len(values))
    for axis, index, size in zip(("row", "column"), (rows, cols), shape, strict=True):
        low, high = int(index.min()), int(index.max())
        if low < 0 or high >= size:
            raise DataError(f"{axis} indices must lie in 0 to {size - 1}, got {low} to {high}")
    count, first = _core.find_non_finite(values)
    if count:
        pair = _pair(names, rows[first], cols[first])
        raise DataError(f"{count} value(s) are NaN or infinite, the first ({values[first]}) at {pair}")
    if rows.dtype != cols.dtype:
        rows, cols = rows.astype(np.int64), cols.astype(np.int64)
    check_memory(
        8 * (shape[0] + 1) + 12 * len(values),
        f"a {shape[0]:,} × {shape[1]:,} matrix of {len(values):,} entries",
    )
    try:
        indptr, indices, merged, n_twice, i, j = _core.canonical_csr(rows, cols, values, *shape, duplicates)
    except MemoryError:
        raise DataError(
            f"not enough memory for {len(values):,} entries of a {shape[0]:,} × {shape[1]:,} matrix; check its shape: "
            "rows and columns without entries use memory, too; with labels (from_chunks) they are left out"
        ) from None
    if n_twice and duplicates == "error":
        raise DataError(
            f"{n_twice} duplicate(s), for example at {_pair(names, i, j)}; "
            "choose duplicates='sum', 'mean' or 'last' in psgld.observations to merge them"
        )
    return Csr(indptr, indices, merged)


def check_duplicates(duplicates: object) -> None:
    """Raise DataError unless `duplicates` is one of `DUPLICATES`."""
    if duplicates not in DUPLICATES:
        raise DataError(f"duplicates must be 'error', 'sum', 'mean' or 'last', got {duplicates!r}")


def indices(index: Any, axis: str) -> NDArray[Any]:
    """Return a contiguous 1-D array of int32 or int64; floats without a fraction are converted."""
    array = unmasked(index, f"{axis} indices")
    if array.ndim != 1:
        raise DataError(f"{axis} indices must be a 1-D array, got {array.ndim} dimension(s)")
    if array.dtype.kind == "f" and np.all(array == np.trunc(array)) and np.all(np.abs(array) < 2.0**63):
        array = array.astype(np.int64)
    if array.dtype.kind not in "iu":
        raise DataError(
            f"{axis} indices must be integers, got {array.dtype}; from_frame and from_chunks take labels"
        )
    return np.ascontiguousarray(array, dtype=np.int32 if array.dtype == np.int32 else np.int64)


def as_shape(shape: Any) -> tuple[int, int]:
    """Return (I, J) as two ints; raise DataError unless it is a pair of integers."""
    try:
        rows, cols = shape
    except (TypeError, ValueError):
        rows = cols = None
    if not is_integer(rows) or not is_integer(cols):
        raise DataError(f"shape must be two integers (rows, columns), got {shape!r}")
    return int(rows), int(cols)


def check_shape(shape: Sequence[int], stored: int) -> None:
    """Raise DataError if there are no rows, columns or entries, or too many for 32-bit indices."""
    if min(shape) < 1 or stored < 1:
        raise DataError(f"empty: {shape[0]} rows, {shape[1]} columns, {max(stored, 0)} observed entries")
    if max(shape) > 2**31 - 1:
        raise DataError(f"at most 2147483647 rows and columns are possible, got {shape[0]} × {shape[1]}")


def _pair(names: Sequence[LabelArray | None], row: int, col: int) -> str:
    """Return the labels of an entry as text."""
    i, j = (
        int(at) if given is None else given.tolist()[at] for at, given in zip((row, col), names, strict=True)
    )
    return f"row {i!r}, column {j!r}"


def named(labels: LabelArray | None, index: NDArray[np.int64]) -> LabelArray:
    """Return the labels at indices; without labels, the indices."""
    return index.copy() if labels is None else labels[index]


def frame(columns: dict[str, Any]) -> Any:
    """Return a pandas DataFrame."""
    try:
        import pandas
    except ImportError:
        raise DataError("to_frame needs pandas: pip install pandas") from None
    return pandas.DataFrame(columns)
