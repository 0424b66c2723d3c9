"""Helpers of this package: the array type, checks of numbers, log-sum-exp."""

from __future__ import annotations

import math
from collections.abc import Callable
from numbers import Real

import numpy as np
from numpy.typing import ArrayLike, NDArray

from psgld.errors import ModelError
from psgld.models.namespace import namespace

Array = NDArray[np.float64]

_CHUNK = 1 << 16  # terms computed at a time: half a megabyte, so that they stay in cache


def real(x: ArrayLike) -> Array:
    """Return `x` as an array of float64; an array of another library is returned unchanged."""
    foreign = namespace(x) is not np
    return x if foreign else np.asarray(x, dtype=np.float64)  # type: ignore[return-value]


def positive(owner: str, name: str, value: object, remedy: str = "") -> float:
    """Return `value` as a float; raise ModelError unless it is a finite number > 0."""
    number = float(value) if isinstance(value, Real) and not isinstance(value, bool) else math.nan
    if not 0.0 < number < math.inf:
        tail = f"; {remedy}" if remedy else ""
        raise ModelError(f"{owner}: {name} must be a finite number > 0, got {value!r}{tail}")
    return number


def optional_positive(owner: str, name: str, value: object) -> float | None:
    """Return `value` as `positive` does, or None (learnt from the data) if it is None."""
    return None if value is None else positive(owner, name, value, f"leave {name} out to have it learnt")


def log_sum_exp(terms: Callable[[slice], Array], size: int, width: int) -> Array:
    """Return log Σ_m exp(terms[i, m]) for i < size, with `width` terms each; `terms` computes a slice of rows."""
    out = np.empty(size)
    rows = max(1, _CHUNK // width)
    for first in range(0, size, rows):
        part = slice(first, min(first + rows, size))
        block = terms(part)
        top = block.max(axis=1)
        block -= top[:, None]
        out[part] = top + np.log(np.exp(block, out=block).sum(axis=1))
    return out


def total(terms: ArrayLike, weights: Array | None = None) -> float:
    """Return Σ terms, or Σ w terms."""
    return float(np.sum(terms if weights is None else weights * np.asarray(terms)))
