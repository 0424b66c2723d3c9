"""The targets, and trying one input: what counts as a finding."""

from __future__ import annotations

import contextlib
import faulthandler
import random
import resource
import signal
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from .archives import try_archive, try_posterior
from .commands import command_line
from .originals import MARKER, Originals
from .posteriors import load_arrays, load_file, load_store
from .shards import try_blocks, try_shards
from .stores import try_checkpoint, try_store
from .tables import read_damaged, read_market, read_text

PATIENCE = 30
MEMORY = 3 << 29
"""Bytes of address space that an input may take; asked for more, the system says no."""

TARGETS: dict[str, tuple[int, Callable[[random.Random, Originals], None]]] = {
    "posterior, bytes": (10, load_file),
    "posterior, arrays": (6, load_arrays),
    "posterior, numbers": (8, try_posterior),
    "store": (6, load_store),
    "store, right checksums": (12, try_store),
    "store, checkpoints": (8, try_checkpoint),
    "shards, right checksums": (10, try_shards),
    "shards, blocks": (4, try_blocks),
    "data, arrays": (10, try_archive),
    "text, bytes": (5, lambda r, h: read_damaged(r, h, ".csv", ".tsv", ".dat", ".txt", ".csv.gz")),
    "text, fields": (5, read_text),
    "Parquet": (3, lambda r, h: read_damaged(r, h, ".parquet")),
    "Matrix Market": (3, lambda r, h: read_damaged(r, h, ".mtx")),
    "Matrix Market, words": (2, read_market),
    "NumPy and SciPy": (3, lambda r, h: read_damaged(r, h, ".npy", ".npz")),
    "command line": (5, command_line),
}
"""Shares of the inputs in percent, and what makes and tries one."""


def attempt(target: str, number: int, have: Originals) -> str | None:
    """Try one input; return what went wrong, if anything did."""
    wrong = guarded(lambda: TARGETS[target][1](random.Random(f"{target} {number}"), have))
    marker = have.work / MARKER
    if marker.exists():
        marker.unlink()
        return "a pickle was read"
    return wrong


def guarded(work: Callable[[], None]) -> str | None:
    """Do it; return what went wrong, if anything did. Not enough memory is an answer."""
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"), _patience(), _little_memory():
            warnings.simplefilter("ignore")
            work()
    except MemoryError:
        return None
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        last = next((frame for frame in reversed(frames) if frame.filename != __file__), frames[-1])
        return f"{type(error).__name__}: {str(error)[:400]} ({Path(last.filename).name}:{last.lineno})"
    return None


@contextlib.contextmanager
def _little_memory() -> Iterator[None]:
    """Take at most so much memory more than now."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    with open("/proc/self/statm") as file:
        now = int(file.read().split()[0]) * resource.getpagesize()
    if now < 1 << 40:  # more is a sanitizer's
        resource.setrlimit(resource.RLIMIT_AS, (now + MEMORY, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


@contextlib.contextmanager
def _patience() -> Iterator[None]:
    def late(*_: Any) -> None:
        raise AssertionError(f"no answer after {PATIENCE} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(PATIENCE)
    # What does not come back to Python ends with the process, which counts as a crash.
    faulthandler.dump_traceback_later(PATIENCE + 5, exit=True)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
