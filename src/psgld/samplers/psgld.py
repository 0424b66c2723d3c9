"""Parallel stochastic gradient Langevin dynamics (Şimşekli et al. 2015).

    W_b ← W_b + ε D ∘ (s Σ_{(i,j)∈Λ} ∇log p(v_ij | ·) + ∇log p(W_b)) + ε τ Γ + sqrt(2 ε τ' D) ∘ N(0, 1)

for each block (b, c) of the part, H_c likewise, both gradients at the old values; then W ← |W|, H ← |H| if they
are non-negative. With momentum ρ the step is of second order:

    p ← m + ε D ∘ ∇,   m ← ρ p + sqrt((1 - ρ²) ε τ D) ∘ N(0, 1),   W_b ← W_b + (p + m) / 2

The compiled core runs it; `engines/reference/update.py` is the same in NumPy.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, final

import numpy as np

from ..data.partition import Assigned, Partition, Shuffled, choose_blocks
from ..data.source import Source
from ..dynamics.metrics import MOST_PARTS, MOST_UNEVEN_PARTS, Identity, Metric
from ..dynamics.schedule import Cyclic, Schedule
from ..dynamics.step_size import StepSize
from ..engines import Engine
from ..errors import ModelError
from ..models import FactorModel
from ..system.record import Recorded
from .base import Distribution
from .langevin import LangevinSetup
from .settings import Common, check, check_blocks, check_choice, check_temperature, setup_of


@final
@dataclass(frozen=True)
class PSGLD(Recorded):
    """Settings of the sampler. All parameters have defaults that are chosen from the data.

    Parameters
    ----------
    blocks
        B, the number of strips that rows and columns are cut into.
    step_size
        ε: a number, or a function of the iterations t = 1, 2, … (`Power`, `Decay`, `Cyclical`, or your own).
    metric
        `NonNegative()` (default for non-negative factors), `RealValued()` (for real ones), `Identity()` (the
        paper's), or the names "non-negative", "real-valued", "identity".
    schedule
        `Cyclic()`, `Reshuffled()` or `Proportional()`.
    partition
        `Shuffled()`, `InOrder()` or `Assigned(rows, cols)`.
    temperature
        τ: 1 samples the posterior, 0 optimises (finds a mode).
    momentum
        ρ, from 0 (the paper's first-order step) to less than 1; by default 0.95, or 0 with the identity metric.
    dtype
        "float32" or "float64".
    """

    blocks: int | None = None
    step_size: float | StepSize | None = None
    metric: Metric | str | None = None
    schedule: Schedule = field(default_factory=Cyclic)
    partition: Partition = field(default_factory=Shuffled)
    temperature: float = 1.0
    momentum: float | None = None
    dtype: str = "float32"
    distribution: ClassVar[Distribution | None] = "strips"

    def __post_init__(self) -> None:
        check(self)
        check_blocks(self.blocks)
        check_choice("schedule", self.schedule)
        check_choice("partition", self.partition)
        check_temperature(self.temperature)
        rho = self.momentum
        if rho is not None and not (isinstance(rho, int | float | np.number) and 0.0 <= rho < 1.0):
            raise ModelError(f"momentum must be from 0 to less than 1, got {rho!r}; omit it for the default")

    def cycle(self, data: Source) -> int:
        """Return the number of iterations in which every entry is read once: B."""
        first_order = self.momentum == 0.0 or self.metric == "identity" or isinstance(self.metric, Identity)
        uneven = data.is_sparse and data.absent != "zero"
        most = MOST_UNEVEN_PARTS if uneven else MOST_PARTS
        return blocks_of(self.blocks, self.partition, data, None if first_order else most)

    def prepare(self, data: Source, model: FactorModel, engine: Engine, tune: int) -> LangevinSetup:
        """Cut the data into blocks and prepare everything that the chains share."""
        blocks = self.cycle(data)
        return setup_of(
            self, data, model, engine, tune, blocks=blocks, partition=self.partition, schedule=self.schedule,
            temperature=self.temperature, momentum=self.momentum,
            bytes_per_iteration=ring_bytes(self, data, model, blocks),
        )  # fmt: skip


def blocks_of(blocks: int | None, partition: Partition, data: Source, most: int | None = None) -> int:
    """Return B: as given, or as in an `Assigned` partition, or chosen from the data, at most `most`.

    Data that are already in strips, such as shards, keep them.
    """
    if data.strips is not None:
        if blocks not in (None, data.strips) or partition != Shuffled():
            raise ModelError(
                f"{data!r} are already in {data.strips} strips; omit blocks and partition, shard the data again, "
                "or read them into memory with Observations.from_shards"
            )
        return data.strips
    if blocks is None and isinstance(partition, Assigned):
        return partition.blocks
    return int(blocks or (choose_blocks(data) if most is None else choose_blocks(data, most)))


def ring_bytes(settings: Common, data: Source, model: FactorModel, blocks: int) -> float:
    """Return the bytes that B workers in a ring send per iteration: each passes on a strip of the shorter factor.

    Momentum and bound, which are sent with a strip, are not counted, since DSGLD would have to send them, too.
    """
    return (
        float(np.dtype(settings.dtype).itemsize * min(data.shape) * model.components) if blocks > 1 else 0.0
    )
