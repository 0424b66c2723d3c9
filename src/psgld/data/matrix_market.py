"""Reads untrusted Matrix Market files: a damaged one raises ValueError. (SciPy's own reader may crash on one.)"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..system.lines import blocks_of_lines, open_text

_LINES = 1 << 20
"""Lines parsed at a time."""

_FORMATS = ("coordinate", "array")
_FIELDS = ("real", "double", "integer", "pattern")
_MIRROR = {"general": 0.0, "symmetric": 1.0, "hermitian": 1.0, "skew-symmetric": -1.0}
"""Symmetries, and the factor of an entry mirrored at the diagonal (0: it is not mirrored)."""


def open_market(path: Path) -> Any:
    """Open a plain or gzipped file as text. Comments may be in any encoding; the rest is ASCII."""
    return open_text(path, errors="replace")


def read_market(path: Path) -> Any:
    """Return a `scipy.sparse` matrix (format coordinate) or an array (format array)."""
    with open_market(path) as file:
        every = (line for block in blocks_of_lines(file) for line in block)
        form, field, mirror = _header(next(every, ""))
        lines = (line for line in every if line.strip() and not line.startswith("%"))
        sizes = [int(word) for word in next(lines, "").split()]
        if len(sizes) != (3 if form == "coordinate" else 2) or min(sizes) < 0:
            raise ValueError(
                f"the sizes are {sizes}, expected rows, columns and, for a sparse matrix, entries"
            )
        if mirror and sizes[0] != sizes[1]:
            raise ValueError(f"a symmetric matrix must be square, got {sizes[0]} × {sizes[1]}")
        if form == "array":
            return _array(lines, sizes[0], sizes[1], mirror)
        return _coordinates(lines, sizes[0], sizes[1], sizes[2], field == "pattern", mirror)


def _header(line: str) -> tuple[str, str, float]:
    words = line.lower().split()
    if len(words) != 5 or words[:2] != ["%%matrixmarket", "matrix"]:
        raise ValueError("the first line must be: %%MatrixMarket matrix FORMAT FIELD SYMMETRY")
    form, field, symmetry = words[2:]
    for word, allowed in ((form, _FORMATS), (field, _FIELDS), (symmetry, tuple(_MIRROR))):
        if word not in allowed:
            raise ValueError(f"{word!r} in the first line is not one of {', '.join(allowed)}")
    if form == "array" and field == "pattern":
        raise ValueError("a dense matrix cannot be a pattern")
    return form, field, _MIRROR[symmetry]


def _coordinates(
    lines: Iterable[str], rows: int, cols: int, entries: int, pattern: bool, mirror: float
) -> Any:
    from scipy.sparse import coo_matrix

    table = _table(lines, [("i", "i8"), ("j", "i8"), *([] if pattern else [("v", "f8")])], entries)
    i, j = table["i"] - 1, table["j"] - 1
    v = np.ones(entries) if pattern else table["v"]
    for name, at, size in (("row", i, rows), ("column", j, cols)):
        if entries and not 0 <= at.min() <= at.max() < size:
            raise ValueError(f"{name} indices must lie in 1 to {size}, got {at.min() + 1} to {at.max() + 1}")
    if mirror:
        off = i != j
        i, j, v = (np.concatenate(two) for two in ((i, j[off]), (j, i[off]), (v, mirror * v[off])))
    return coo_matrix((v, (i, j)), shape=(rows, cols))


def _array(lines: Iterable[str], rows: int, cols: int, mirror: float) -> NDArray[np.float64]:
    """Return a dense matrix. The file is in column-major order, for a symmetric one only its lower triangle."""
    skew = mirror < 0
    expected = rows * (rows - 1 if skew else rows + 1) // 2 if mirror else rows * cols
    values = _table(lines, [("v", "f8")], expected)["v"]
    if not mirror:
        return np.ascontiguousarray(values.reshape(cols, rows).T)
    whole = np.zeros((rows, rows))
    j, i = np.triu_indices(rows, 1 if skew else 0)
    whole[j, i] = mirror * values
    whole[i, j] = values
    return whole


def _table(lines: Iterable[str], columns: list[tuple[str, str]], expected: int) -> NDArray[Any]:
    """Return the lines as a structured array; raise ValueError unless there are `expected` lines."""
    lines, parts, found = iter(lines), [], 0
    while block := list(islice(lines, _LINES)):
        parts.append(np.loadtxt(block, np.dtype(columns), comments=None, ndmin=1))
        found += len(block)
    if found != expected:
        raise ValueError(f"{found} entries, expected {expected}")
    return np.concatenate(parts) if parts else np.empty(0, np.dtype(columns))
