"""The errors a user can meet. Each message says what was wrong, the value seen, what is allowed, what to do."""

from __future__ import annotations


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
