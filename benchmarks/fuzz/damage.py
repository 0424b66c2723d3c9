"""Ways to damage bytes, JSON and arrays."""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

ODD = (
    *(
        "",
        " ",
        "0",
        "-0",
        "1",
        "2",
        "-1",
        "1.5",
        "1e3",
        "1e999",
        "-inf",
        "nan",
        "NaN",
        "None",
        "x",
        "ü☃",
        "\x00",
        "\ufeff",
    ),
    *(
        "9" * 18,
        "9" * 25,
        "-" + "9" * 25,
        "0x10",
        "007",
        "1_000",
        "١",
        '"',
        "'",
        "a,b",
        "#",
        "%",
        "::",
        "a" * 300,
    ),
)
"""Fields that readers trip over."""


def damaged(rng: random.Random, whole: bytes, other: bytes = b"") -> bytes:
    """Return bytes with one to four places flipped, cut out, doubled, swapped, overwritten, or taken from elsewhere."""
    content = bytearray(whole)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        n = len(content)
        if not n:
            break
        at, length = rng.randrange(n), rng.choice((1, 1, 2, 4, 8, 32))
        match rng.randrange(8):
            case 0:
                content[at] ^= 1 << rng.randrange(8)
            case 1:
                content[at] = rng.choice((0, 10, 32, 127, 255, rng.randrange(256)))
            case 2:
                del content[at:]
            case 3:
                del content[at : at + length]
            case 4:
                content[at:at] = content[rng.randrange(n) :][:length]
            case 5:
                content[at:at] = rng.randbytes(length)
            case 6:
                b = rng.randrange(n)
                content[at : at + length], content[b : b + length] = (
                    content[b : b + length],
                    content[at : at + length],
                )
            case _:
                source = other or whole
                start = rng.randrange(len(source))
                content[at : at + length] = source[start : start + length]
    return bytes(content)


def nonsense(rng: random.Random, value: Any) -> Any:
    """Return JSON with something else somewhere in it."""
    if isinstance(value, dict) and value and rng.random() < 0.9:
        name = rng.choice(sorted(value))
        if rng.random() < 0.1:
            return {n: v for n, v in value.items() if n != name}
        return {**value, name: nonsense(rng, value[name])}
    if isinstance(value, list) and value and rng.random() < 0.7:
        at = rng.randrange(len(value))
        return [*value[:at], nonsense(rng, value[at]), *value[at + 1 :]]
    return rng.choice(
        (None, True, -1, 0, 1, 3, 2**31, 2**63, 1e300, "", "x", "gaussian", [], [1], {}, {"name": "x"})
    )


def odd_array(rng: random.Random, a: np.ndarray) -> np.ndarray:
    """Return another array instead of one."""
    match rng.randrange(7):
        case 0:
            return a.reshape(-1)
        case 1:
            return a[..., :-1] if a.ndim else np.zeros(3)
        case 2:
            return a.astype(
                rng.choice(("float16", "float64", "int64", "uint8", "bool", "complex64", "S5", "U3"))
            )
        case 3:
            return a[None]
        case 4:
            return np.array(rng.choice((0, -1, 2**40, np.nan, "x")))
        case 5:
            return np.full_like(a, rng.choice((0, 1, 100))) if a.dtype.kind != "U" else a[::-1]
        case _:
            return np.swapaxes(a, 0, -1) if a.ndim else a


def or_same(change: Callable[..., Any], rng: random.Random, a: Any) -> Any:
    """Change an array, if it can be changed in that way."""
    try:
        return change(rng, a)
    except (ValueError, TypeError, OverflowError, IndexError):
        return a


_INTEGERS = (0, 1, -1, 2, 5, 100, 2**15, 2**16, 2**31 - 1, 2**31, -(2**31), 2**40, 2**62, 2**63 - 1, -(2**63))
_FLOATS = (0.0, -0.0, 1.0, -1.0, np.nan, np.inf, -np.inf, 1e-45, 1e38, -1e38, 1e300, 2.0**31, 0.5)


def odd_numbers(rng: random.Random, a: np.ndarray) -> np.ndarray:
    """Return an array of the same shape and type in which one to all of the numbers are others, many of them near."""
    a = np.array(a)
    if a.dtype.kind not in "iufb" or not a.size:
        return a
    flat = a.reshape(-1)
    some = rng.choice((1, 1, 2, a.size))
    with np.errstate(all="ignore"):
        for at in rng.sample(range(a.size), min(some, a.size)):
            match rng.randrange(4):
                case 0:
                    flat[at] = flat[at] + a.dtype.type(1)
                case 1:
                    flat[at] = flat[at] - a.dtype.type(1) if a.dtype.kind != "b" else not flat[at]
                case 2:
                    flat[at] = flat[rng.randrange(a.size)]
                case _ if a.dtype.kind == "f":
                    flat[at] = rng.choice(_FLOATS)
                case _:
                    flat[at] = np.array(rng.choice(_INTEGERS)).astype(a.dtype)
    if rng.random() < 0.15:
        flat[:] = flat[::-1].copy()
    return a


class _Marks:
    """An object whose pickle makes a file when it is read."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> Any:
        return open, (str(self.marker), "w")


def pickle_that_marks(marker: Path) -> bytes:
    """Return a pickle that leaves a file behind if anybody reads it."""
    return pickle.dumps(_Marks(marker), protocol=2)


def objects_that_mark(marker: Path, n: int = 1) -> np.ndarray:
    """Return an array of objects: NumPy would write it as a pickle that leaves a file behind."""
    out = np.empty(n, object)
    out[:] = [_Marks(marker)] * n
    return out
