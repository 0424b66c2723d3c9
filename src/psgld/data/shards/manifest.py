"""Validates the manifest of shards: its keys, types and ranges, before anything else uses it.

A checksum shows that shards did not change since they were written, not that their author can be trusted. So the
manifest is validated here, and its statements about the arrays in `contents.py`.
"""

from __future__ import annotations

import re
import reprlib
from collections.abc import Callable
from typing import Any

from ...checks import is_integer
from ...errors import DataError
from ..observations import ABSENT

ARRAYS = ("row_strips", "col_strips", "row_counts", "col_counts", "block_entries")
"""The arrays that are read at once."""

PARTS = ("indices", "values")
"""The arrays that are read strip by strip."""

_ROUNDING = 1e-6
"""Relative rounding error of sums over many values, and of float32."""

_LARGEST = 1.7976931348623157e308
_SHA256 = re.compile("[0-9a-f]{64}")


def faulty(where: str, what: str) -> DataError:
    """Return the error for shards that `psgld.shard` cannot have written."""
    return DataError(f"{where}: {what}; shard the data again")


def check_manifest(manifest: dict[str, Any], where: str) -> None:
    """Raise DataError if a key is missing, or a value has the wrong type or is out of range."""
    for key, (allowed, is_allowed) in _KEYS.items():
        if key not in manifest:
            raise faulty(where, f"the manifest has no {key!r}")
        if not is_allowed(manifest[key]):
            raise faulty(
                where, f"{key!r} of the manifest must be {allowed}, got {reprlib.repr(manifest[key])}"
            )
    (rows, cols), stored, strips = manifest["shape"], manifest["stored"], manifest["strips"]
    blocks, entries = manifest["blocks"], sum(strip["entries"] for strip in strips)
    if stored > rows * cols:
        raise faulty(where, f"the manifest has {stored} entries in {rows} × {cols} cells")
    if blocks > min(rows, cols) or len(strips) != blocks:
        raise faulty(
            where, f"the manifest has {blocks} blocks and {len(strips)} strips for {rows} × {cols} cells"
        )
    if entries != stored:
        raise faulty(
            where, f"the strips of the manifest have {entries} entries in total, but 'stored' is {stored}"
        )
    if manifest["min"] > manifest["max"]:
        raise faulty(where, f"the manifest has values from {manifest['min']} to {manifest['max']}")
    _check_moments(manifest, where)


def _check_moments(manifest: dict[str, Any], where: str) -> None:
    """Raise DataError if the mean or the variance is impossible for values between min and max."""
    low, high, total, deviation = (float(manifest[key]) for key in ("min", "max", "total", "deviation"))
    mean, variance = total / manifest["stored"], deviation / manifest["stored"]
    slack, range_ = _ROUNDING * max(abs(low), abs(high)), high - low
    # Products, because a power raises OverflowError.
    if not low - slack <= mean <= high + slack or variance > range_ * range_ + slack * slack:
        raise faulty(
            where, f"the manifest has mean {mean} and variance {variance} for values from {low} to {high}"
        )


def _integer(low: int, high: int) -> Callable[[Any], bool]:
    return lambda x: is_integer(x) and low <= x <= high


def _finite(x: Any) -> bool:
    # Compared, not converted to float: an integer of any length is valid JSON, and may overflow.
    return isinstance(x, int | float) and not isinstance(x, bool) and -_LARGEST <= x <= _LARGEST


def _shape(x: Any) -> bool:
    return isinstance(x, list) and len(x) == 2 and all(map(_integer(1, 2**31 - 1), x))


def _sums(x: Any, *names: str) -> bool:
    """Return whether x has a SHA-256 for each name, and nothing else."""
    return (
        isinstance(x, dict)
        and x.keys() == set(names)
        and all(isinstance(sha, str) and _SHA256.fullmatch(sha) for sha in x.values())
    )


def _labels(x: Any) -> bool:
    return x is None or _sums(x, "integers") or _sums(x, "text", "ends")


def _strips(x: Any) -> bool:
    return isinstance(x, list) and all(
        isinstance(strip, dict)
        and _integer(0, 2**53)(strip.get("entries"))
        and _sums(strip.get("sha256"), *PARTS)
        for strip in x
    )


_KEYS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "shape": ("two integers from 1 to 2147483647", _shape),
    "stored": ("an integer from 1 to 2^53", _integer(1, 2**53)),
    "blocks": ("an integer from 1 to 65535", _integer(1, 65535)),
    "absent": ("'unobserved' or 'zero'", lambda x: isinstance(x, str) and x in ABSENT),
    "absent_chosen": ("true or false", lambda x: isinstance(x, bool)),
    "dtype": ("'float32' or 'float64'", lambda x: isinstance(x, str) and x in ("float32", "float64")),
    "total": ("a finite number", _finite),
    "deviation": ("a finite number >= 0", lambda x: _finite(x) and x >= 0),
    "min": ("a finite number", _finite),
    "max": ("a finite number", _finite),
    "arrays": ("a SHA-256 for each array", lambda x: _sums(x, *ARRAYS)),
    "row_labels": ("null or the SHA-256 of labels", _labels),
    "col_labels": ("null or the SHA-256 of labels", _labels),
    "strips": ("a list of entries and SHA-256 sums", _strips),
}
"""The allowed values of each key, in words and as a predicate."""
