"""What the chains of a Langevin sampler share, besides what those of all samplers do."""

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
    """The data in blocks, the scale of things, metric and step size."""

    grid: Grid
    metric: Metric
    step_size: StepSize
    schedule: Schedule
    temperature: float
    momentum: float
    length: int
    """Iterations of a cycle."""
    subsample: Subsample | None = None
    """Draws from a part instead of all its entries."""
    bytes_an_iteration: float = 0.0
    """What the workers of a cluster would send each other."""
    flat: bool = False
    """No priors: maximum likelihood."""

    @property
    def cycle(self) -> int:
        """The number of iterations in which every entry is read once, on average."""
        return self.length

    @property
    def seconds_an_iteration(self) -> float:
        """A rough time of an iteration on one core."""
        rates = cost.SPARSE if self.data.is_sparse else cost.DENSE
        read = self.grid.blocks if self.subsample is None else self.data.size / self.subsample.size
        return rates.seconds(self.model.components, self.data.stored / read, sum(self.data.shape))

    @property
    def seconds_a_cycle(self) -> float:
        """About the time of a cycle, the same on every machine."""
        moved = self.cycle * sum(self.grid.shape)
        return cost.UPKEEP.seconds(self.model.components, self.data.stored, moved)

    @property
    def stay(self) -> int | None:
        """The iterations that a chain stays on a rank, where whole chains hop from rank to rank."""
        schedule = self.schedule
        return schedule.stay if isinstance(schedule, Hopping) and self.grid.hopping else None

    def describe(self) -> dict[str, Any]:
        """Return what was chosen for this run, fit for JSON."""
        return {
            "metric": type(self.metric).__name__,
            "step_size": repr(self.step_size),
            "blocks": self.grid.blocks,
            "momentum": self.momentum,
            "bytes_an_iteration": self.bytes_an_iteration,
        }
