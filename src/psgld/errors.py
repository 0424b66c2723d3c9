"""The errors a user can meet. Each message says what was wrong, the value seen, what is allowed, what to do."""

from __future__ import annotations

import sys
import warnings


class PsgldError(Exception):
    """Base of every error raised on purpose by psgld."""


class DataError(PsgldError, ValueError):
    """The data cannot be used as given (shape, values, labels, a file's contents)."""


class ModelError(PsgldError, ValueError):
    """The model, or its combination with the data or the sampler, does not exist."""


class SamplingError(PsgldError, RuntimeError):
    """Sampling could not start or could not continue."""


class PsgldWarning(UserWarning):
    """A choice was made on the user's behalf that deserves a look."""


def in_bytes(n: float) -> str:
    """Return a number of bytes in words.

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
    """Warn at the line of the user's code, however many calls of psgld lie between."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] == "psgld":
        level, frame = level + 1, frame.f_back
    warnings.warn(message, PsgldWarning, stacklevel=level)
