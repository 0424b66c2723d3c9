"""Distributed stochastic gradient descent (Gemulla et al. 2011), here as ascent: PSGLD without noise.

    W_b ← W_b + ε D ∘ (s Σ_{(i,j)∈Λ} ∇log p(v_ij | ·) + ∇log p(W_b))

for each block (b, c) of the part, H_c likewise. `psgld.optimize` runs it until the log posterior stops increasing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, final

from ..data.partition import Partition, Shuffled
from ..data.source import Source
from ..dynamics.metrics import Metric
from ..dynamics.schedule import Cyclic, Schedule
from ..dynamics.step_size import StepSize
from ..engines import Engine
from ..models import FactorModel
from ..system.record import Recorded
from .base import Distribution
from .langevin import LangevinSetup
from .psgld import blocks_of, ring_bytes
from .settings import check, check_blocks, check_choice, setup_of


@final
@dataclass(frozen=True)
class DSGD(Recorded):
    """Settings of the optimiser, as for `PSGLD` at temperature 0. It converges to a mode of the posterior.

    Hyperparameters without a given value stay at their start values, which are of the scale of the data. They are not
    optimised: in a joint mode of factors and rates, the components collapse to zero.

    Parameters
    ----------
    blocks
        B, the number of strips that rows and columns are cut into.
    step_size
        ε: a number, or a function of the iterations t = 1, 2, …; by default it decreases during the burn-in.
    metric
        `NonNegative()` (default for non-negative factors), `RealValued()` (for real ones), `Identity()`, or the names
        "non-negative", "real-valued", "identity".
    schedule
        `Cyclic()`, `Reshuffled()` or `Proportional()`.
    partition
        `Shuffled()`, `InOrder()` or `Assigned(rows, cols)`.
    dtype
        "float32" or "float64".
    """

    blocks: int | None = None
    step_size: float | StepSize | None = None
    metric: Metric | str | None = None
    schedule: Schedule = field(default_factory=Cyclic)
    partition: Partition = field(default_factory=Shuffled)
    dtype: str = "float32"
    distribution: ClassVar[Distribution | None] = "strips"

    def __post_init__(self) -> None:
        check(self)
        check_blocks(self.blocks)
        check_choice("schedule", self.schedule)
        check_choice("partition", self.partition)

    def cycle(self, data: Source) -> int:
        """Return the number of iterations in which every entry is read once: B."""
        return blocks_of(self.blocks, self.partition, data)

    def prepare(self, data: Source, model: FactorModel, engine: Engine, tune: int) -> LangevinSetup:
        """Cut the data into blocks and prepare everything that the chains share."""
        blocks = self.cycle(data)
        return setup_of(
            self, data, model, engine, tune, blocks=blocks, partition=self.partition, schedule=self.schedule,
            temperature=0.0, bytes_per_iteration=ring_bytes(self, data, model, blocks),
        )  # fmt: skip
