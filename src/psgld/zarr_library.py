"""Zarr, imported when it is needed, and left without a traceback."""

from __future__ import annotations

import atexit
from contextlib import suppress
from typing import Any

from .errors import DataError

_PATIENCE = 10.0
"""Seconds that the end of a process waits for Zarr's thread."""


def zarr_library(what: str, otherwise: str = "") -> Any:
    """Return Zarr, or say what needs it, how to get it and what else could be done."""
    try:
        import zarr
    except ImportError:
        raise DataError(f"{what}: pip install 'psgld[store]'{otherwise}") from None
    # What is registered last is called first: before Zarr's own end, which its import has registered.
    atexit.unregister(_end_the_loop)
    atexit.register(_end_the_loop)
    return zarr


def _end_the_loop() -> None:
    """Stop the event loop of Zarr's thread, and wait until it has stopped.

    Zarr does so itself when the process ends, but waits a fifth of a second only, then closes the loop, stopped or
    not: on a busy machine that prints "Cannot close a running event loop".
    """
    with suppress(ImportError, AttributeError, RuntimeError):  # another version of Zarr, or nothing to stop
        from zarr.core import sync

        loop, thread = sync.loop[0], sync.iothread[0]
        if loop is not None and thread is not None and thread.is_alive():
            loop.call_soon_threadsafe(loop.stop)
            thread.join(_PATIENCE)
