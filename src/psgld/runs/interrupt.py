"""Ctrl-C during sampling: the first asks the chains to stop and keep what they have, a second one insists.

SIGTERM, which batch systems send before they kill, ends a process at once, unless a command asks for `like_ctrl_c`.
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
    """While entered, SIGINT sets a flag instead of raising. Only the main thread may do that; elsewhere, nothing.

    Where SIGINT is ignored it stays so: a shell starts what runs in its background like that, and `nohup` its command.
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
    """Take the first signal of that number for Ctrl-C, if nobody else handles it; those after it do not insist."""
    ours = threading.current_thread() is threading.main_thread()
    if not ours or signal.getsignal(number) != signal.SIG_DFL:
        yield
        return

    def once(number: int, frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_IGN)
        handler = signal.getsignal(signal.SIGINT)
        if not callable(handler):  # ignored: so a shell starts what runs in its background
            raise KeyboardInterrupt
        handler(signal.SIGINT, frame)

    signal.signal(number, once)
    try:
        yield
    finally:
        signal.signal(number, signal.SIG_DFL)
