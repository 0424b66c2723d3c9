"""Data and settings that the chains of a Langevin sampler share, in addition to those of `Setup`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...dynamics.metrics import Metric
from ...dynamics.schedule import Hopping, Schedule
from ...dynamics.step_size import StepSize
from ...dynamics.subsample import Subsample
from ...engines import Grid
from ...system import cost
from ..base import Setup


@dataclass(frozen=True, eq=False)
class Shared(Setup):
    """The data in blocks, schedule, metric and step size."""

    grid: Grid
    metric: Metric
    step_size: StepSize
    schedule: Schedule
    temperature: float
    momentum: float
    length: int
    """The number of iterations per cycle."""
    subsample: Subsample | None = None
    """The subsample of a part that is read per iteration; None for all its entries."""
    bytes_per_iteration: float = 0.0
    """Bytes that the workers of a cluster would send per iteration."""
    settling: int = 0
    """The number of iterations in which ρ is at most the metric's: those in which default step sizes decay."""
    flat: bool = False
    """Whether priors are ignored (maximum likelihood)."""

    @property
    def cycle(self) -> int:
        """The number of iterations in which every entry is read once, on average."""
        return self.length

    @property
    def seconds_per_iteration(self) -> float:
        """An estimate of the time per iteration on one core, in seconds."""
        rates = cost.SPARSE if self.data.is_sparse else cost.DENSE
        return rates.seconds(self.model.components, self.entries_per_iteration, sum(self.data.shape))

    @property
    def entries_per_iteration(self) -> float:
        """The number of entries of V that are read per iteration of a chain."""
        return self.data.stored / (
            self.grid.blocks if self.subsample is None else self.data.size / self.subsample.size
        )

    @property
    def seconds_per_cycle(self) -> float:
        """An estimate of the time per cycle in seconds, equal on all machines."""
        moved = self.cycle * sum(self.grid.shape)
        return cost.UPKEEP.seconds(self.model.components, self.data.stored, moved)

    @property
    def stay(self) -> int | None:
        """The number of iterations that a chain stays on a rank, if chains move from rank to rank; otherwise None."""
        schedule = self.schedule
        return schedule.stay if isinstance(schedule, Hopping) and self.grid.hopping else None

    def describe(self) -> dict[str, Any]:
        """Return the choices made for this run, serialisable as JSON."""
        return {
            "metric": type(self.metric).__name__,
            "step_size": repr(self.step_size),
            "blocks": self.grid.blocks,
            "momentum": self.momentum,
            "bytes_an_iteration": self.bytes_per_iteration,
        }
