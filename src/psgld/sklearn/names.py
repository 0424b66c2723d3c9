"""Names of rows and columns, as data frames have them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..checks import is_integer
from ..data.tables import LABEL_NAME


def is_long_table(X: Any) -> bool:
    """Return whether X is a data frame of entries (row, column, value, …) rather than the matrix itself."""
    columns = getattr(X, "columns", None)
    if columns is None or not 3 <= len(columns) <= 5:
        return False
    return sum(bool(LABEL_NAME.fullmatch(str(name).strip())) for name in columns) == 2


def row_names(X: Any) -> NDArray[Any] | None:
    """Return the index of a pandas DataFrame, if it tells the rows apart by integers or strings."""
    index = getattr(X, "index", None)
    return None if index is None or callable(index) else distinct(index)


def distinct(names: Any) -> NDArray[Any] | None:
    """Return names if all are integers or all strings, and each another; None for others.

    None, too, for 0, 1, 2, …: that is the index that pandas makes for rows without names.
    """
    given = np.asarray(names)
    if given.dtype.kind in "mM":  # times in nanoseconds become integers in lists
        return None
    found: list[Any] = given.tolist()
    alike = all(isinstance(name, str) for name in found) or all(map(is_integer, found))
    if not alike or len(set(found)) < len(found) or found == list(range(len(found))):
        return None
    return np.array(found)


def listed(names: list[Any]) -> str:
    """Return the first names, for a message."""
    return ", ".join(map(repr, names[:5])) + (", …" if len(names) > 5 else "")


def together(old: NDArray[Any] | None, new: NDArray[Any] | None) -> NDArray[Any] | None:
    """Return the names of old and new rows, if all have one and each another."""
    return None if old is None or new is None else distinct([*old.tolist(), *new.tolist()])
