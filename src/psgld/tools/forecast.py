"""Forecasts memory, messages and time of a run on R ranks of c cores.

An iteration reads a part, N / B entries, and updates all K (I + J) coefficients. On R ranks of c cores,

    t = (N / B · K a + K (I + J) · d) / (R c η) + p (latency + 4 w K min(I, J) / B / bandwidth) + o + s / B

with a seconds per entry and component, d seconds per coefficient (K padded to full SIMD vectors), and η the parallel
efficiency of threads. With R > 1 each rank sends one strip of H to the next rank, and p messages share a link. If a
rank has m = B / R > 1 strips, the message overlaps with the work on the other m - 1. o is the overhead of the
interpreter per iteration. At the end of a cycle a table of sums of all strips, 48 K B bytes, and two numbers are summed
over the ranks:

    s = u + 2 ⌈log2 R⌉ latency + 2 (R - 1) / R · 48 K B / bandwidth

A pass over the data is B iterations.
"""

from __future__ import annotations

import math
import time
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, final

import numpy as np

from .. import _core
from ..data.observations import Observations
from ..dynamics.probes import Probes
from ..engines import Threads
from ..errors import ModelError
from ..models import Exponential, FactorModel, Poisson
from ..samplers import PSGLD
from ..system import cost

_VECTOR = 16
_COPIES = {"identity": 2, "real-valued": 3, "non-negative": 5}
"""Arrays of the size of the factors: factors, a copy to restore after a divergence, momentum; bound and its sums."""

_SENT = {"identity": 1, "real-valued": 2, "non-negative": 3}
"""Arrays sent with a strip: the strip, its momentum, its bound."""


@final
@dataclass(frozen=True)
class Size:
    """The size of a problem: V is I × J with N entries; the rank is K."""

    rows: int
    cols: int
    entries: int
    rank: int

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if not value >= 1:
                raise ModelError(f"{name} must be at least 1, got {value!r}")

    @property
    def stride(self) -> int:
        """K padded to full SIMD vectors."""
        return -(-self.rank // _VECTOR) * _VECTOR


@final
@dataclass(frozen=True)
class Machine:
    """Speed, cores and memory of a rank, and the network between ranks.

    Parameters
    ----------
    entry : seconds per entry and component, on one core.
    coefficient : seconds per coefficient, for noise and step, on one core.
    cores : c, cores per rank.
    efficiency : η, the parallel efficiency of c > 1 threads, which share caches and memory.
    memory : bytes that a rank may use.
    bandwidth : bytes per second of a link.
    latency : seconds per message.
    sharing : p, messages that share a link; 1 if neighbours in the ring are neighbours in the network.
    overhead, upkeep : o and u, seconds of the interpreter per iteration and per cycle, if there are several ranks.
    """

    entry: float = cost.PLANNED.entry
    coefficient: float = cost.PLANNED.coefficient
    cores: int = 1
    efficiency: float = 0.92
    memory: float = math.inf
    bandwidth: float = 1.25e9
    latency: float = 3e-5
    sharing: float = 1.0
    overhead: float = 1.5e-5
    upkeep: float = 1e-4

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if not value >= 0 or (value == 0 and name not in ("latency", "overhead", "upkeep")):
                raise ModelError(f"{name} must be positive, got {value!r}")

    @property
    def rates(self) -> cost.Rates:
        """The speed of a core in the terms of the cost model."""
        return cost.Rates(self.entry, self.coefficient)


@final
@dataclass(frozen=True)
class Forecast:
    """The forecast for B strips on R ranks: bytes per rank, seconds per iteration."""

    blocks: int
    ranks: int
    data_bytes: float
    factor_bytes: float
    sent_bytes: float
    compute_seconds: float
    message_seconds: float
    waiting_seconds: float  # for messages, not overlapped with work
    sum_seconds: float  # the interpreter, and 1/B of the end of a cycle

    @property
    def memory(self) -> float:
        """Bytes per rank."""
        return self.data_bytes + self.factor_bytes

    @property
    def iteration(self) -> float:
        """Seconds per iteration."""
        return self.compute_seconds + self.waiting_seconds + self.sum_seconds

    @property
    def cycle(self) -> float:
        """Seconds per pass over the data."""
        return self.blocks * self.iteration

    @property
    def dominated(self) -> bool:
        """Whether ranks wait for messages longer than they compute."""
        return self.waiting_seconds + self.sum_seconds > self.compute_seconds

    def to_dict(self) -> dict[str, Any]:
        """Return all numbers, serialisable as JSON."""
        return asdict(self) | {
            "memory_bytes": self.memory,
            "iteration_seconds": self.iteration,
            "pass_seconds": self.cycle,
            "communication_dominates": self.dominated,
        }


def forecast(
    size: Size, machine: Machine, blocks: int, ranks: int = 1, metric: str = "non-negative"
) -> Forecast:
    """Return the forecast for B strips on R ranks; R must divide B.

    Examples
    --------
    >>> movielens = Size(rows=71_567, cols=10_681, entries=10_000_000, rank=64)
    >>> f"{forecast(movielens, Machine(), blocks=15).iteration * 1e3:.1f} ms"
    '12.2 ms'
    """
    if blocks < 1 or ranks < 1 or blocks % ranks:
        raise ModelError(f"B must be a multiple of the number of ranks, {ranks}, got {blocks}")
    if blocks > min(size.rows, size.cols):
        raise ModelError(
            f"B must be at most {min(size.rows, size.cols)}, the smaller of rows and columns, got {blocks}"
        )
    K = size.stride
    workers = ranks * machine.cores * (machine.efficiency if machine.cores > 1 else 1.0)
    padded = size.entries / blocks * K / size.rank
    compute = machine.rates.seconds(size.rank, padded, size.rows + size.cols) / workers
    strip = 4.0 * K * math.ceil(min(size.rows, size.cols) / blocks)
    sent = strip * _SENT[metric] if ranks > 1 else 0.0
    message = machine.sharing * (machine.latency + sent / machine.bandwidth) if ranks > 1 else 0.0
    hidden = compute * (1 - ranks / blocks)
    longer, shorter = max(size.rows, size.cols), min(size.rows, size.cols)
    # Value, index in the strip of the shorter side, row in its tile; and the start of each row of each block.
    entry_bytes = 4 + (2 if shorter / blocks <= 65536 else 4) + 1
    starts = 4.0 * longer * blocks * _tiles(size, blocks)
    data = (size.entries * entry_bytes + starts) / ranks
    factors = (
        4.0 * K * _COPIES[metric] * (size.rows + size.cols) / ranks + 24.0 * (size.rows + size.cols) / ranks
    )
    return Forecast(
        blocks, ranks, data, factors, sent, compute, message, max(0.0, message - hidden),
        _sums(size, machine, blocks, ranks),
    )  # fmt: skip


def _tiles(size: Size, blocks: int) -> int:
    """Return the number of tiles of a block: strips too long for a cache are cut."""
    rows, columns = (math.ceil(n / blocks) for n in sorted((size.rows, size.cols), reverse=True))
    return _core.tiles_of(rows, columns, round(size.entries / blocks**2))


def _sums(size: Size, machine: Machine, blocks: int, ranks: int) -> float:
    """Return o + s / B."""
    if ranks == 1:
        return 0.0
    table = 48.0 * size.rank * blocks * 2 * (ranks - 1) / ranks
    small = 2 * math.ceil(math.log2(ranks)) * machine.latency
    return machine.overhead + (machine.upkeep + small + table / machine.bandwidth) / blocks


def best(size: Size, machine: Machine, most_ranks: int, metric: str = "non-negative") -> Forecast:
    """Return the forecast of the B and R ≤ most_ranks with the fastest pass over the data that fits into memory."""
    found = [f for f in _choices(size, machine, most_ranks, metric) if f.memory <= machine.memory]
    if not found:
        least = min(f.memory for f in _choices(size, machine, most_ranks, metric))
        raise ModelError(
            f"each of {most_ranks} ranks needs at least {least / 1e9:.3g} GB, and has {machine.memory / 1e9:.3g} GB; "
            "plan with more ranks, more memory or a smaller rank K"
        )
    return min(found, key=lambda f: (f.cycle, f.ranks))


def _choices(size: Size, machine: Machine, most_ranks: int, metric: str) -> list[Forecast]:
    shorter = min(size.rows, size.cols)
    return [
        forecast(size, machine, m * ranks, ranks, metric)
        for ranks in _ladder(min(most_ranks, shorter))
        for m in (1, 2, 4, 8)
        if m * ranks <= shorter
    ]


def _ladder(most: int) -> list[int]:
    """Return numbers from 1 to `most`: all if `most` <= 256, else about 400 in geometric progression."""
    steps = (
        np.unique(np.geomspace(1, most, 400).round().astype(int)) if most > 256 else np.arange(1, most + 1)
    )
    return [int(n) for n in steps]


def turning_point(size: Size, machine: Machine, strips: int = 1) -> int | None:
    """Return the least R, with `strips` per rank, at which ranks wait for messages longer than they compute."""
    most = min(size.rows, size.cols) // strips
    before = 1
    for ranks in _ladder(most):
        if forecast(size, machine, strips * ranks, ranks).dominated:
            return next(
                r for r in range(before, ranks + 1) if forecast(size, machine, strips * r, r).dominated
            )
        before = ranks
    return None


def measured(rank: int, seconds: float = 0.3, cores: int = 1) -> Machine:
    """Return a `Machine` with measured rates.

    Two small problems are timed on one core, one with many entries and one with many coefficients; the two rates solve
    a linear system. The efficiency of threads is measured on the cores of this machine, at most `cores`.
    """
    sizes, blocks = (Size(4000, 1000, 1_000_000, rank), Size(40_000, 10_000, 200_000, rank)), 4
    times = [iteration_seconds(size, blocks, seconds=seconds) for size in sizes]
    work = [[size.entries / blocks * size.stride, rank * (size.rows + size.cols)] for size in sizes]
    entry, coefficient = np.linalg.solve(np.array(work), np.array(times))
    # On a busy machine the two timings may be so inconsistent that a rate comes out negative.
    speed = Machine(max(float(entry), 1e-12), max(float(coefficient), 1e-11), cores)
    here = min(cores, Threads().workers)
    if here == 1:
        return speed
    together = [iteration_seconds(size, blocks, here, seconds) for size in sizes]
    return replace(speed, efficiency=float(np.clip(sum(times) / here / sum(together), 0.05, 1.0)))


def iteration_seconds(size: Size, blocks: int, threads: int = 1, seconds: float = 0.3) -> float:
    """Return the seconds per iteration of a Poisson model on random entries: the minimum of several runs."""
    rng = np.random.default_rng(0)
    rows, cols = np.divmod(rng.choice(size.rows * size.cols, size.entries, replace=False), size.cols)
    values = rng.integers(1, 6, size.entries).astype(np.float32)
    data = Observations.from_coo(rows, cols, values, (size.rows, size.cols), "unobserved")
    model = FactorModel(size.rank, Poisson(), Exponential(1.0), Exponential(1.0))
    engine = Threads(threads)
    setup = PSGLD(blocks, 1e-7, "identity").prepare(data, model, engine, 0)
    chain = setup.chain(0, Probes.of(data, 0), engine)
    once = _timed(partial(chain.advance, blocks))
    rounds = max(1, int(seconds / 5 / max(once, 1e-6)))
    return min(_timed(partial(chain.advance, rounds * blocks)) for _ in range(5)) / rounds / blocks


def _timed(work: Any) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start
