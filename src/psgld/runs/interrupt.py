"""Ctrl-C during sampling: the first stops the chains and keeps their draws, the second raises KeyboardInterrupt.

SIGTERM, which batch systems send before they kill a process, ends it at once, unless `like_ctrl_c` is used.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import final


@final
class Interrupt:
    """A context in which SIGINT sets a flag instead of raising. It has an effect in the main thread only.

    If SIGINT is ignored, it stays ignored, as for background jobs of a shell and under `nohup`.
    """

    def __init__(self) -> None:
        self.asked = False
        self._old: object = None

    def __enter__(self) -> Interrupt:
        ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
        if threading.current_thread() is threading.main_thread() and not ignored:
            self._old = signal.signal(signal.SIGINT, self._handle)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._old is not None:
            signal.signal(signal.SIGINT, self._old)  # type: ignore[arg-type]

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True


@contextmanager
def like_ctrl_c(number: int = signal.SIGTERM) -> Iterator[None]:
    """Handle the first signal of this number like Ctrl-C, and ignore later ones. A handler of the user is kept."""
    ours = threading.current_thread() is threading.main_thread()
    if not ours or signal.getsignal(number) != signal.SIG_DFL:
        yield
        return

    def once(number: int, frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_IGN)
        handler = signal.getsignal(signal.SIGINT)
        if not callable(handler):  # SIGINT is ignored, as for background jobs of a shell
            raise KeyboardInterrupt
        handler(signal.SIGINT, frame)

    signal.signal(number, once)
    try:
        yield
    finally:
        signal.signal(number, signal.SIG_DFL)
