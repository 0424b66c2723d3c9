"""A switch that holds every frame for a while, where the kernel has no `netem`: `python delay_line.py SECONDS PORT …`.

A frame that comes in at time t goes out at t + delay, to the port where its receiver was last seen, else to all others.
Frames are as large as the sender made them (64 kB: no segmentation, no checksums), so that few pass a second.
"""

from __future__ import annotations

import os
import select
import socket
import sys
import time
from collections import deque
from contextlib import suppress

_PACKET, _VNET_HDR, _IGNORE_OUTGOING, _ALL_PROTOCOLS = 263, 15, 23, 3  # SOL_PACKET and its options; ETH_P_ALL
_RCVBUFFORCE, _HEADER, _LARGEST = 33, 10, 1 << 17


def opened(port: str) -> socket.socket:
    """Return a socket that sees the frames that arrive at a port, with what the kernel left undone on them."""
    end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ALL_PROTOCOLS))
    end.setsockopt(_PACKET, _VNET_HDR, 1)
    end.setsockopt(_PACKET, _IGNORE_OUTGOING, 1)
    end.setsockopt(socket.SOL_SOCKET, _RCVBUFFORCE, 1 << 26)
    end.bind((port, 0))
    end.setblocking(False)
    return end


def forward(delay: float, ports: list[socket.socket]) -> None:
    """Pass frames on, for ever."""
    held: deque[tuple[float, socket.socket, bytes]] = deque()  # in order of time: all wait equally long
    seen: dict[bytes, socket.socket] = {}
    while True:
        patience = max(0.0, held[0][0] - time.monotonic()) if held else None
        for port in select.select(ports, [], [], patience)[0]:
            with suppress(OSError):  # the link went down
                frame = port.recv(_LARGEST)
                seen[frame[_HEADER + 6 : _HEADER + 12]] = port
                held.append((time.monotonic() + delay, port, frame))
        now = time.monotonic()
        while held and held[0][0] <= now:
            _, port, frame = held.popleft()
            known = seen.get(frame[_HEADER : _HEADER + 6])
            for out in (p for p in ports if p is not port) if known is None else (known,):
                with suppress(OSError):  # a link that is down or full loses frames
                    out.send(frame)


def main() -> None:
    with suppress(OSError):  # frames must not wait for a core while ranks compute; it sleeps most of the time
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))
    forward(float(sys.argv[1]), [opened(name) for name in sys.argv[2:]])


if __name__ == "__main__":
    main()
