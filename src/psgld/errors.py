"""Exceptions and warnings. Each message states what is wrong, the value found, the allowed values, and a remedy."""

from __future__ import annotations

import sys
import warnings


class PsgldError(Exception):
    """Base class of all exceptions that psgld raises itself."""


class DataError(PsgldError, ValueError):
    """The data are invalid: shape, values, labels, or the content of a file."""


class ModelError(PsgldError, ValueError):
    """A setting of the model or sampler is invalid, or is not supported with the data, the sampler or the engine."""


class SamplingError(PsgldError, RuntimeError):
    """Sampling could not start, or could not continue."""


class PsgldWarning(UserWarning):
    """A default was chosen, or a result was found, that the user should check."""


def in_bytes(n: float) -> str:
    """Return a number of bytes as text with a unit.

    Examples
    --------
    >>> in_bytes(2_500_000), in_bytes(12)
    ('2.5 MB', '12 B')
    """
    for unit, scale in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if n >= scale:
            return f"{n / scale:.3g} {unit}"
    return f"{n:.0f} B"


def warn(message: str) -> None:
    """Issue a `PsgldWarning` that points to the line of the user's code that called psgld."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] == "psgld":
        level, frame = level + 1, frame.f_back
    warnings.warn(message, PsgldWarning, stacklevel=level)
