"""Distributed stochastic gradient Langevin dynamics (Ahn, Shahbaba, Welling 2014): chains move between shards.

    W ← W + ε D ∘ (S Σ_{(i,j)∈shard} ∇log p(v_ij | ·) + ∇log p(W)) + ε τ Γ + sqrt(2 ε τ' D) ∘ N(0, 1)

H likewise. Each of S workers holds a shard of V and runs a chain with its own W and H, on gradients of its shard. After
every `exchange` iterations the chains move to the next workers, and W and H are sent with them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from ..data.partition import Shuffled
from ..data.source import Source
from ..dynamics.metrics import Metric
from ..dynamics.schedule import Hopping
from ..dynamics.step_size import StepSize
from ..engines import Engine
from ..errors import ModelError
from ..models import FactorModel
from ..system.record import Recorded
from .base import Distribution
from .langevin import LangevinSetup
from .settings import check, check_count, check_size, check_temperature, entries_of, setup_of


@final
@dataclass(frozen=True)
class DSGLD(Recorded):
    """Settings of distributed SGLD, on MPI or simulated on one machine. All parameters have defaults.

    The shards are the S parts of a shuffled S × S grid: every row and every column has entries in each of them. A
    chain of `psgld.sample` is the chain of one worker; ask for `chains=S` to have as many as a cluster would run.
    `posterior.settings["bytes_moved"]` is the number of bytes of W and H sent by all moves.

    Parameters
    ----------
    workers
        S, the number of workers and shards.
    exchange
        The number of iterations after which the chains move to the next shard.
    size
        The number of entries that a worker draws from its shard per iteration, with replacement, or a fraction of all
        entries of V; by default a worker reads its complete shard.
    step_size
        ε: a number, or a function of the iterations t = 1, 2, … (`Power`, `Decay`, `Cyclical`, or your own).
    metric
        `NonNegative()` (default for non-negative factors), `RealValued()` (for real ones), `Identity()`, or the names
        "non-negative", "real-valued", "identity".
    temperature
        τ: 1 samples the posterior, 0 optimises (finds a mode).
    dtype
        "float32" or "float64".

    Examples
    --------
    >>> import numpy as np, psgld
    >>> V = np.random.default_rng(0).poisson(4.0, size=(30, 20))
    >>> post = psgld.sample(V, psgld.FactorModel(2, "poisson"), sampler=psgld.DSGLD(workers=2), draws=20)
    >>> post.settings["bytes_moved"] > 0
    True
    """

    workers: int = 4
    exchange: int = 10
    size: float | None = None
    step_size: float | StepSize | None = None
    metric: Metric | str | None = None
    temperature: float = 1.0
    dtype: str = "float32"
    distribution: ClassVar[Distribution | None] = "chains"

    def __post_init__(self) -> None:
        check(self)
        check_count("workers", self.workers)
        check_count("exchange", self.exchange)
        if self.size is not None:
            check_size(self.size)
        check_temperature(self.temperature)

    def cycle(self, data: Source) -> int:
        """Return the number of iterations in which a chain visits every worker, S × exchange.

        If N/|Ω| is larger, return that.
        """
        reads = 0 if self.size is None else -(-data.size // entries_of(self.size, data))
        return max(self.workers * self.exchange, reads)

    def prepare(self, data: Source, model: FactorModel, engine: Engine, tune: int) -> LangevinSetup:
        """Divide the data among the workers and prepare everything that the chains share."""
        if self.size is not None and data.absent == "zero":
            raise ModelError(
                f'size = {self.size!r} with absent="zero": zeros that a shard does not store cannot be drawn; '
                "omit size, or use SGLD(size=…)"
            )
        if self.workers > min(data.shape):
            raise ModelError(
                f"{self.workers} workers cannot share a {data.shape[0]} × {data.shape[1]} matrix; "
                f"choose workers <= {min(data.shape)}"
            )
        draws = None if self.size is None else entries_of(self.size, data)
        item = np.dtype(self.dtype).itemsize
        hop = item * sum(data.shape) * model.components if self.workers > 1 else 0
        return setup_of(
            self, data, model, engine, tune, blocks=self.workers, partition=Shuffled(),
            schedule=Hopping(self.exchange), temperature=self.temperature, draws=draws, noise=self.cycle(data),
            bytes_per_iteration=hop / self.exchange,
        )  # fmt: skip
