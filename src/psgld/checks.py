"""Checks of arguments: integers, numbers, arrays of numbers, paths."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from .errors import DataError


def is_integer(x: object) -> TypeGuard[int]:
    """Return whether x is an integer of Python or NumPy; booleans are not."""
    return isinstance(x, int | np.integer) and not isinstance(x, bool)


def is_number(x: object) -> TypeGuard[float]:
    """Return whether x is a number of Python or NumPy, which may be inf or NaN; booleans are not."""
    return isinstance(x, int | float | np.number) and not isinstance(x, bool)


def as_numbers(x: Any, what: str) -> NDArray[np.float64]:
    """Return x as an array of float64; raise DataError if it is not of real numbers."""
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
    """Return x as an array; raise DataError if entries are masked, because `np.asarray` ignores masks."""
    pieces = x if isinstance(x, list | tuple) else [x]
    masks = [np.ma.getmaskarray(piece) for piece in pieces if isinstance(piece, np.ma.MaskedArray)]
    masked = sum(int(np.count_nonzero(mask)) for mask in masks)
    if masked:
        raise DataError(f"{masked} of the {what} are masked; drop those entries first")
    return np.asarray(x)


def as_path(path: Any, what: str = "the path") -> Path:
    """Return a `Path`; raise DataError if `path` is neither a str nor path-like."""
    if not isinstance(path, str | PathLike):
        raise DataError(f"{what} must be a str or a pathlib.Path, got {path!r}")
    return Path(path)
