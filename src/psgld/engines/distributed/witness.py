"""The witness: a process that reports which rank was killed, ran out of memory, or lost its machine.

`mpiexec` ends all ranks when one is killed, so no rank can report it. The witness runs next to rank 0, in its own
session, with a connection to each rank. The first connection that breaks without notice belongs to the rank that was
killed; the others break later. A rank that fails asks the witness before it prints its error. Only the first to ask may
print, since several ranks may notice the same failure. This file runs as a script (`start`) and imports nothing of
the package.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
import selectors
import signal
import socket
import struct
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import Any, final

_LEAVING, _REPORTING, _WELCOME = b".", b"!", b"+"
_REACH, _PATIENCE = 2.0, 10.0
"""Time-outs in seconds for connecting to the witness, and for its answer; after them a rank runs without a witness."""

_GRACE = 2.0
"""Seconds that `mpiexec` has to end the job."""

_ALIVE = {"TCP_KEEPIDLE": 2, "TCP_KEEPINTVL": 1, "TCP_KEEPCNT": 4}
"""A machine that does not answer for six seconds is lost."""


# -- on the ranks ------------------------------------------------------------------------------------------


def start(size: int) -> str:
    """Start the witness of a job; return its address for `Connection.to`, or "" if it cannot be started."""
    try:
        with socket.create_server(("", 0)) as listener:
            secret = secrets.token_hex(8)
            arguments = map(str, (listener.fileno(), size, secret, os.getpid()))
            subprocess.Popen(
                [sys.executable, "-I", "-S", __file__, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[listener.fileno()],
                start_new_session=True,
            )
            return json.dumps([secret, listener.getsockname()[1], _addresses()])
    except OSError:
        return ""


def _addresses() -> list[str]:
    """Return the addresses of this machine."""
    found = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        for _, name in socket.if_nameindex():
            with contextlib.suppress(OSError):
                asked = struct.pack("256s", name.encode()[:15])
                answer = fcntl.ioctl(any_socket.fileno(), 0x8915, asked)  # SIOCGIFADDR
                found.append(socket.inet_ntoa(answer[20:24]))
    with contextlib.suppress(OSError):
        found += [str(a[4][0]) for a in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)]
    return list(dict.fromkeys(["127.0.0.1", *found]))


@final
class Connection:
    """A rank's connection to the witness. It breaks when the rank ends."""

    def __init__(self, to: socket.socket) -> None:
        self._socket: socket.socket | None = to

    @classmethod
    def to(cls, where: str, rank: int) -> Connection | None:
        """Connect a rank to the witness; None if it cannot be reached."""
        if not where:
            return None
        secret, port, addresses = json.loads(where)
        for address in addresses:
            with contextlib.suppress(OSError):
                connected = socket.create_connection((address, port), timeout=_REACH)
                connected.settimeout(_PATIENCE)
                hello = {"secret": secret, "rank": rank, "pid": os.getpid(), "host": socket.gethostname()}
                connected.sendall(json.dumps(hello).encode() + b"\n")
                if connected.recv(1) == _WELCOME:
                    return cls(connected)
                connected.close()
        return None

    def leave(self) -> None:
        """Tell the witness that this rank ends normally."""
        self._say(_LEAVING)

    def may_report(self) -> bool:
        """Return whether this rank may report why the job ends: True for the first rank that asks.

        True also if the witness does not answer.
        """
        connected = self._socket
        self._say(_REPORTING)
        if connected is not None:
            with contextlib.suppress(OSError):
                connected.settimeout(1.0)
                return connected.recv(1) != _REPORTING
        return True

    def _say(self, word: bytes) -> None:
        connected, self._socket = self._socket, None
        if connected is not None:
            with contextlib.suppress(OSError):
                connected.sendall(word)


# -- the witness -------------------------------------------------------------------------------------------


@dataclass
class _Rank:
    """A rank, from the line of JSON with which it connects."""

    text: bytes = b""
    number: int = -1
    pid: int = 0
    host: str = ""


def _watch(listener: socket.socket, size: int, secret: str, parent: int) -> int:
    """Hold the connections until all ranks have ended normally, or one breaks; return the exit code.

    `mpiexec` waits until the witness, too, has closed stderr: it must not outlive rank 0, its parent process, for long.
    """
    selector = selectors.DefaultSelector()
    selector.register(listener, selectors.EVENT_READ)
    pids: dict[int, int] = {}
    nobody_until = time.monotonic() + 60.0
    while len(selector.get_map()) > 1 or not pids:
        if not pids and time.monotonic() > nobody_until:
            return 1
        orphaned = os.getppid() != parent
        events = [key for key, _ in selector.select(0.0 if orphaned else 1.0)]
        if orphaned and not pids and not events:
            _print(f"a rank of {size} ended without an error, before the ranks were connected")
            return 1
        heard = [(key, _receive(key.fileobj)) for key in events if key.fileobj is not listener]
        asked = [key.fileobj for key, words in heard if _REPORTING in words]
        if asked:
            _choose_reporter(asked[0], selector)
            return 0
        for key, words in heard:
            known: _Rank = key.data
            introduced = known.number >= 0
            if not introduced and words:
                if not _introduced(known, words, secret):
                    continue
                pids[known.number] = known.pid
                with contextlib.suppress(OSError):  # it may have ended meanwhile
                    key.fileobj.sendall(_WELCOME)  # type: ignore[union-attr]
            elif introduced and not words:
                _report(known, size, pids, selector)
                return 1
            if not words or words.endswith(_LEAVING):
                selector.unregister(key.fileobj)
                key.fileobj.close()  # type: ignore[union-attr]
        if len(heard) < len(events):
            connected, _ = listener.accept()
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for name, seconds in _ALIVE.items():
                if hasattr(socket, name):
                    connected.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), seconds)
            selector.register(connected, selectors.EVENT_READ, _Rank())
    return 0


def _receive(connected: Any) -> bytes:
    try:
        return bytes(connected.recv(4096))
    except OSError:
        return b""


def _introduced(known: _Rank, words: bytes, secret: str) -> bool:
    known.text += words
    if not known.text.endswith(b"\n"):
        return False
    try:
        hello = json.loads(known.text)
        if hello["secret"] != secret:
            return False
        known.number, known.pid, known.host = int(hello["rank"]), int(hello["pid"]), str(hello["host"])
    except (ValueError, KeyError, TypeError):
        return False
    return True


def _choose_reporter(reporter: Any, selector: selectors.BaseSelector) -> None:
    """Allow one rank (or none) to report why the job ends, and tell the others not to."""
    for key in list(selector.get_map().values()):
        if key.data is not None:
            with contextlib.suppress(OSError):
                key.fileobj.send(_WELCOME if key.fileobj is reporter else _REPORTING)  # type: ignore[union-attr]


def _report(rank: _Rank, size: int, pids: dict[int, int], selector: selectors.BaseSelector) -> None:
    """Print which rank ended. If `mpiexec` does not end the others, kill rank 0, so that it does."""
    _choose_reporter(None, selector)
    # A rank that is not connected yet may have been killed first.
    others = [other for other in range(size) if other not in pids]
    if others:
        *most, last = sorted([rank.number, *others])
        _print(f"rank {', '.join(map(str, most))} or {last} of {size} ended without an error")
    else:
        _print(f"rank {rank.number} of {size} ended without an error (process {rank.pid} on {rank.host})")
    first = pids.get(0)
    end = time.monotonic() + _GRACE
    while first is not None and rank.number != 0:
        gone = [k for k, _ in selector.select(0.1) if k.data is not None and k.data.number == 0]
        if gone and not _receive(gone[0].fileobj):
            return
        if time.monotonic() > end:
            with contextlib.suppress(OSError):
                os.kill(first, signal.SIGKILL)
            return


def _print(what: str) -> None:
    why = "it was killed, ran out of memory, or its machine is lost; run again with resume"
    os.write(2, f"psgld: {what}: {why}\n".encode())


if __name__ == "__main__":
    sys.exit(_watch(socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2]), sys.argv[3], int(sys.argv[4])))
