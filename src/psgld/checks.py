"""What counts as a number, as numbers or as a path where the user gives one."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from .errors import DataError


def is_integer(x: object) -> TypeGuard[int]:
    """Tell whether x is an integer, of Python or of NumPy; True and False are none."""
    return isinstance(x, int | np.integer) and not isinstance(x, bool)


def is_number(x: object) -> TypeGuard[float]:
    """Tell whether x is a number, of Python or of NumPy, perhaps inf or NaN; True and False are none."""
    return isinstance(x, int | float | np.number) and not isinstance(x, bool)


def as_numbers(x: Any, what: str) -> NDArray[np.float64]:
    """Return real numbers as an array; raise DataError if they are none."""
    try:
        array = unmasked(x, what)
        if array.dtype.kind in "fiubO":
            return array.astype(np.float64, copy=False)
    except DataError:
        raise
    except (TypeError, ValueError):
        pass
    raise DataError(f"{what} must be real numbers, got {x!r}")


def unmasked(x: Any, what: str) -> NDArray[Any]:
    """Return an array; refuse entries that a masked array marks as missing, of which `np.asarray` knows nothing."""
    pieces = x if isinstance(x, list | tuple) else [x]
    masks = [np.ma.getmaskarray(piece) for piece in pieces if isinstance(piece, np.ma.MaskedArray)]
    masked = sum(int(np.count_nonzero(mask)) for mask in masks)
    if masked:
        raise DataError(f"{masked} of the {what} are masked; drop those entries first")
    return np.asarray(x)


def as_path(path: Any, what: str = "the path") -> Path:
    """Return a path; raise DataError if it is none."""
    if not isinstance(path, str | PathLike):
        raise DataError(f"{what} must be a str or a pathlib.Path, got {path!r}")
    return Path(path)
