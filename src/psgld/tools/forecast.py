"""What a run would take before it is run: memory, messages and time, on R ranks of c cores.

An iteration updates a part: N / B entries, and all K (I + J) coefficients move. Shared by R ranks of c cores,

    t = (N / B · K a + K (I + J) · d) / (R c η) + p (latency + 4 w K min(I, J) / B / bandwidth) + o + s / B

with a seconds an entry and component, d seconds a coefficient (K padded to whole vectors), η what threads lose to one
another. With R > 1 each rank passes one strip of H on; p messages share a link; where a rank has m = B / R > 1 strips,
the message is hidden behind the work on the other m - 1. o is the interpreter's part in an iteration. At the end of a
cycle a table of sums of all strips, 48 K B bytes, and two single numbers are added over the ranks:

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

from ..data.observations import Observations
from ..dynamics.probes import Probes
from ..engines import Threads
from ..errors import ModelError
from ..models import Exponential, FactorModel, Poisson
from ..samplers import PSGLD
from ..system import cost

_VECTOR = 16
_COPIES = {"identity": 2, "real-valued": 3, "non-negative": 5}
"""Arrays of the size of the factors: themselves, what to go back to, momentum; bound and its sums."""

_SENT = {"identity": 1, "real-valued": 2, "non-negative": 3}
"""Arrays that travel with a strip: itself, its momentum, its bound."""


@final
@dataclass(frozen=True)
class Size:
    """V is I × J with N entries; the rank is K."""

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
        """K padded to whole vectors."""
        return -(-self.rank // _VECTOR) * _VECTOR


@final
@dataclass(frozen=True)
class Machine:
    """What a rank has and how ranks are joined.

    Parameters
    ----------
    entry : seconds an entry and component, on one core.
    coefficient : seconds a coefficient, for noise and step, on one core.
    cores : c, cores of a rank.
    efficiency : η, the share of c cores that is left when c > 1 threads work together: they share caches and memory.
    memory : bytes that a rank may use.
    bandwidth : bytes a second of a link.
    latency : seconds a message.
    sharing : p, messages that share a link; 1 where neighbours in the ring are neighbours in the network.
    overhead, upkeep : o and u, seconds of the interpreter for an iteration and for a cycle, where there are ranks.
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
        """The speed of a core, as the cost model has it."""
        return cost.Rates(self.entry, self.coefficient)


@final
@dataclass(frozen=True)
class Forecast:
    """What B strips on R ranks would take. Bytes are a rank's, seconds an iteration's."""

    blocks: int
    ranks: int
    data_bytes: float
    factor_bytes: float
    sent_bytes: float
    compute_seconds: float
    message_seconds: float
    waiting_seconds: float  # for messages, beyond what is hidden
    sum_seconds: float  # the interpreter, and its share of the end of a cycle

    @property
    def memory(self) -> float:
        """Bytes of a rank."""
        return self.data_bytes + self.factor_bytes

    @property
    def iteration(self) -> float:
        """Seconds of an iteration."""
        return self.compute_seconds + self.waiting_seconds + self.sum_seconds

    @property
    def cycle(self) -> float:
        """Seconds of a pass over the data."""
        return self.blocks * self.iteration

    @property
    def dominated(self) -> bool:
        """Whether ranks wait for messages longer than they compute."""
        return self.waiting_seconds + self.sum_seconds > self.compute_seconds

    def to_dict(self) -> dict[str, Any]:
        """Return all numbers, fit for JSON."""
        return asdict(self) | {
            "memory_bytes": self.memory,
            "iteration_seconds": self.iteration,
            "pass_seconds": self.cycle,
            "communication_dominates": self.dominated,
        }


def forecast(
    size: Size, machine: Machine, blocks: int, ranks: int = 1, metric: str = "non-negative"
) -> Forecast:
    """Predict memory and time of B strips on R ranks; R divides B.

    Examples
    --------
    >>> movielens = Size(rows=71_567, cols=10_681, entries=10_000_000, rank=64)
    >>> f"{forecast(movielens, Machine(), blocks=15).iteration * 1e3:.1f} ms"
    '12.2 ms'
    """
    if blocks < 1 or ranks < 1 or blocks % ranks:
        raise ModelError(f"B must be a multiple of the {ranks} ranks, got {blocks}")
    if blocks > min(size.rows, size.cols):
        raise ModelError(f"B must be at most {min(size.rows, size.cols)}, the shorter side, got {blocks}")
    K = size.stride
    workers = ranks * machine.cores * (machine.efficiency if machine.cores > 1 else 1.0)
    padded = size.entries / blocks * K / size.rank
    compute = machine.rates.seconds(size.rank, padded, size.rows + size.cols) / workers
    strip = 4.0 * K * math.ceil(min(size.rows, size.cols) / blocks)
    sent = strip * _SENT[metric] if ranks > 1 else 0.0
    message = machine.sharing * (machine.latency + sent / machine.bandwidth) if ranks > 1 else 0.0
    hidden = compute * (1 - ranks / blocks)
    longer, shorter = max(size.rows, size.cols), min(size.rows, size.cols)
    # Value, index in the strip of the shorter side, row in its tile; and where each row of each block begins.
    entry_bytes = 4 + (2 if shorter / blocks <= 65536 else 4) + 1
    data = (size.entries * entry_bytes + 4.0 * longer * blocks) / ranks
    factors = (
        4.0 * K * _COPIES[metric] * (size.rows + size.cols) / ranks + 24.0 * (size.rows + size.cols) / ranks
    )
    return Forecast(
        blocks, ranks, data, factors, sent, compute, message, max(0.0, message - hidden),
        _sums(size, machine, blocks, ranks),
    )  # fmt: skip


def _sums(size: Size, machine: Machine, blocks: int, ranks: int) -> float:
    """Return o + s / B."""
    if ranks == 1:
        return 0.0
    table = 48.0 * size.rank * blocks * 2 * (ranks - 1) / ranks
    small = 2 * math.ceil(math.log2(ranks)) * machine.latency
    return machine.overhead + (machine.upkeep + small + table / machine.bandwidth) / blocks


def best(size: Size, machine: Machine, most_ranks: int, metric: str = "non-negative") -> Forecast:
    """Return the B and R ≤ most_ranks of the fastest pass over the data that fit the memory of a rank."""
    found = [f for f in _choices(size, machine, most_ranks, metric) if f.memory <= machine.memory]
    if not found:
        least = min(f.memory for f in _choices(size, machine, most_ranks, metric))
        raise ModelError(
            f"a rank of {most_ranks} needs at least {least / 1e9:.3g} GB, it has {machine.memory / 1e9:.3g} GB; "
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
    """Return 1 to `most`: all of them while they are few, then in steps of about 3 %."""
    steps = (
        np.unique(np.geomspace(1, most, 400).round().astype(int)) if most > 256 else np.arange(1, most + 1)
    )
    return [int(n) for n in steps]


def turning_point(size: Size, machine: Machine, strips: int = 1) -> int | None:
    """Return the least R, with that many strips a rank, at which ranks wait for messages longer than they compute."""
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
    """Time two small problems on one core, one of many entries and one of many coefficients, and solve for both.

    What threads lose to one another is measured on as many cores as there are here, `cores` at most.
    """
    sizes, blocks = (Size(4000, 1000, 1_000_000, rank), Size(40_000, 10_000, 200_000, rank)), 4
    times = [iteration_seconds(size, blocks, seconds=seconds) for size in sizes]
    work = [[size.entries / blocks * size.stride, rank * (size.rows + size.cols)] for size in sizes]
    entry, coefficient = np.linalg.solve(np.array(work), np.array(times))
    # On a busy machine the two may be timed so unlike that one comes out negative.
    speed = Machine(max(float(entry), 1e-12), max(float(coefficient), 1e-11), cores)
    here = min(cores, Threads().workers)
    if here == 1:
        return speed
    together = [iteration_seconds(size, blocks, here, seconds) for size in sizes]
    return replace(speed, efficiency=float(np.clip(sum(times) / here / sum(together), 0.05, 1.0)))


def iteration_seconds(size: Size, blocks: int, threads: int = 1, seconds: float = 0.3) -> float:
    """Time an iteration of a Poisson model on random entries: the least of several runs."""
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
