"""Measures latency and bandwidth between the ranks of a running job.

A step of the ring, in which each rank sends s bytes to the next and receives s bytes from the previous one, takes

    t(s) = latency + s / bandwidth

fitted by relative least squares to steps of several sizes, with all ranks at the same time, as in a run. Each link is
also timed separately, to find slow ones.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..engines import MPI
from ..engines.distributed import ranks
from ..engines.distributed.mpi import library, world
from ..errors import ModelError
from . import forecast as plan

_SIZES = (8, 4096, 65_536, 262_144, 1_048_576, 4_194_304)
_LONG = 1_048_576
_SHOWN = 8


def measure(rank: int = 50, threads: int = 1, seconds: float = 0.3) -> dict[str, Any]:
    """Return hosts, links, ring steps, sums and the speed of a core, serialisable as JSON; all ranks must call it.

    Parameters
    ----------
    rank : K of the model whose speed is measured, on all ranks at once, as ranks on one machine share its memory.
    threads : threads per rank in this measurement.
    seconds : approximate duration of each step, and of each of the two problems of `forecast.measured`.
    """
    engine = MPI(threads)
    if engine.ranks < 2:
        raise ModelError(
            "messages are measured between 2 ranks or more, got 1; start several: mpiexec -n 2 psgld doctor --mpi"
        )
    names = [record["host"] for record in ranks.everyones(world(), {"host": platform.node()})]
    times = [_step(size, seconds) for size in _SIZES]
    latency, bandwidth = fit(_SIZES, times)
    machine = plan.measured(rank, seconds, threads)
    speed = (
        ranks.total(world(), np.array([machine.entry, machine.coefficient, machine.efficiency]))
        / engine.ranks
    )
    return {
        "ranks": engine.ranks,
        "hosts": names,
        "library": library(),
        "links": _links(),
        "ring": [{"bytes": s, "seconds": t} for s, t in zip(_SIZES, times, strict=True)],
        "sum_seconds": _together(lambda: ranks.total(world(), np.zeros(4096)), seconds),
        "latency": latency,
        "bandwidth": bandwidth,
        "rank": rank,
        "threads": threads,
        "entry": float(speed[0]),
        "coefficient": float(speed[1]),
        "efficiency": float(speed[2]),
    }


def fit(sizes: Sequence[int], times: Sequence[float]) -> tuple[float, float]:
    """Return the latency and bandwidth that fit t = latency + size / bandwidth by relative least squares.

    Examples
    --------
    >>> latency, bandwidth = fit([10, 1000, 100_000], [1e-4 + s / 1e9 for s in (10, 1000, 100_000)])
    >>> f"{latency:.1e} {bandwidth:.1e}"
    '1.0e-04 1.0e+09'
    """
    s, t = np.array(sizes, float), np.array(times)
    table = np.stack([1 / t, s / t], axis=1)
    (latency, slope), *_ = np.linalg.lstsq(table, np.ones(len(t)))
    # If long messages use another protocol than short ones, the intercept may be negative.
    if latency <= 0:
        latency, slope = float(t.min()), max(float(slope), 1e-18)
    return float(latency), float(1 / max(slope, 1e-18))


def _step(size: int, seconds: float) -> float:
    """Return the seconds per step of the ring, on the slowest rank."""
    comm = world()
    here, number = comm.rank, comm.size
    out, back = np.zeros(size, np.uint8), np.zeros(size, np.uint8)

    def once() -> None:
        receive = comm.irecv(back, (here - 1) % number)
        comm.wait([receive, comm.isend(out, (here + 1) % number)])

    return _together(once, seconds)


def _links() -> list[dict[str, Any]]:
    """Return latency and bandwidth of each link, from round trips between its two ranks only.

    Links that share no rank are timed at the same time.
    """
    comm = world()
    here, number = comm.rank, comm.size
    pairs = [(r, (r + 1) % number) for r in range(number if number > 2 else 1)]
    found: NDArray[np.float64] = np.zeros((len(pairs), 2))
    # Links 0, 2, 4, … then 1, 3, 5, …; the last one separately, because it may share a rank with the first.
    last = len(pairs) - 1
    turns = [range(0, last, 2), range(1, last, 2), range(last, last + 1)]
    for turn in turns:
        for link in turn:
            if here not in pairs[link]:
                continue
            other = sum(pairs[link]) - here
            for column, (size, calls) in enumerate(((8, 50), (_LONG, 2))):
                work = _there_and_back(other, size, first=here == pairs[link][0])
                found[link, column] = _timed(work, calls) / 2
        ranks.total(world(), np.zeros(1))  # a barrier before the next turn
    found = ranks.total(world(), found) / 2  # the mean of both ends
    return [
        {"from": a, "to": b, "latency": float(short), "bandwidth": float(_LONG / max(long - short, 1e-12))}
        for (a, b), (short, long) in zip(pairs, found, strict=True)
    ]


def _there_and_back(other: int, size: int, first: bool) -> Callable[[], None]:
    comm, buffer = world(), np.zeros(size, np.uint8)

    def once() -> None:
        for sends in (first, not first):
            comm.wait([comm.isend(buffer, other) if sends else comm.irecv(buffer, other)])

    return once


def _together(work: Callable[[], object], seconds: float) -> float:
    """Return the seconds per call that all ranks make, on the slowest rank."""
    work()
    once = _timed(work, 1)
    calls = int(ranks.from_first(world(), np.array([seconds / 5 / max(once, 1e-7)]))[0])
    times = np.zeros(world().size)
    times[world().rank] = _timed(work, max(1, min(1000, calls)))
    return float(ranks.total(world(), times).max())


def _timed(work: Callable[[], object], calls: int) -> float:
    """Return the seconds per call: the minimum of several rounds."""
    times = []
    for _ in range(5):
        start = time.perf_counter()
        for _ in range(calls):
            work()
        times.append((time.perf_counter() - start) / calls)
    return min(times)


def text(report: dict[str, Any]) -> str:
    """Return the report of `measure` as text."""
    hosts, links = report["hosts"], report["links"]
    lines = [
        ("ranks", f"{report['ranks']} on {len(set(hosts))} host(s), {report['library']}"),
        ("ring step", "all ranks at once"),
        *(
            (
                "",
                f"{_bytes(step['bytes']):>8} {step['seconds'] * 1e6:>10,.1f} µs"
                f"{step['bytes'] * 8e-9 / step['seconds']:>10.3g} Gb/s",
            )
            for step in report["ring"]
        ),
        ("sum", f"{report['sum_seconds'] * 1e6:,.1f} µs for 32 kB over all ranks"),
        (
            "links",
            "one by one" if len(links) <= _SHOWN else f"one by one; the {_SHOWN} slowest of {len(links)}",
        ),
    ]
    slowest = sorted(sorted(links, key=lambda k: k["bandwidth"])[:_SHOWN], key=lambda k: k["from"])
    lines += [
        (
            "",
            f"{k['from']} {hosts[k['from']]} – {k['to']} {hosts[k['to']]}: "
            f"{k['latency'] * 1e6:,.1f} µs, {k['bandwidth'] * 8e-9:.3g} Gb/s",
        )
        for k in slowest
    ]
    lines += [
        (
            "speed",
            f"K = {report['rank']}, {report['threads']} thread(s), all ranks at once: {_speed(report)}",
        ),
        ("plan", f"psgld plan … {options(report)}"),
    ]
    return "\n".join(f"{name:<12}{value}".rstrip() for name, value in lines)


def options(report: dict[str, Any]) -> str:
    """Return the options of `psgld plan` for the measured network."""
    return f"--latency {report['latency'] * 1e6:.4g} --bandwidth {report['bandwidth'] * 8e-9:.4g}"


def _speed(report: dict[str, Any]) -> str:
    stride = plan.Size(1, 1, 1, report["rank"]).stride
    return f"{report['entry'] * stride * 1e9:.3g} ns per entry, {report['coefficient'] * 1e9:.3g} ns per coefficient"


def _bytes(n: int) -> str:
    return f"{n} B" if n < 1024 else f"{n // 1024} kB" if n < 2**20 else f"{n // 2**20} MB"
