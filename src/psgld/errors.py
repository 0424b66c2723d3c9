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
    """Sampling could not start or could not go on."""


class PsgldWarning(UserWarning):
    """A choice was made on the user's behalf that deserves a look."""


def warn(message: str) -> None:
    """Warn at the line of the user's code, however many calls of psgld lie between."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] == "psgld":
        level, frame = level + 1, frame.f_back
    warnings.warn(message, PsgldWarning, stacklevel=level)
