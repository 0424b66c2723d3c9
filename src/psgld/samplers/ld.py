"""Langevin dynamics: the gradient of all of V in every iteration.

    W ← W + ε D ∘ (Σ_{(i,j)} ∇log p(v_ij | ·) + ∇log p(W)) + ε τ Γ + sqrt(2 ε τ' D) ∘ N(0, 1)

H likewise, both gradients at the old values: PSGLD with one block. Its only bias is that of the step size.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

from ..data.partition import InOrder
from ..data.source import Source
from ..dynamics.metrics import Metric
from ..dynamics.schedule import Cyclic
from ..dynamics.step_size import StepSize
from ..engines import Engine
from ..models import FactorModel
from ..system.record import Recorded
from .base import Distribution
from .langevin import LangevinSetup
from .settings import check, check_temperature, setup_of


@final
@dataclass(frozen=True)
class LD(Recorded):
    """Settings of Langevin dynamics with full gradients. All parameters have defaults that are chosen from the data.

    Parameters
    ----------
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
    >>> psgld.sample(V, psgld.FactorModel(2, "poisson"), sampler=psgld.LD(), draws=20).W.shape
    (2, 20, 30, 2)
    """

    step_size: float | StepSize | None = None
    metric: Metric | str | None = None
    temperature: float = 1.0
    dtype: str = "float32"
    distribution: ClassVar[Distribution | None] = None

    def __post_init__(self) -> None:
        check(self)
        check_temperature(self.temperature)

    def cycle(self, data: Source) -> int:
        """Return 1: every iteration reads every entry."""
        return 1

    def prepare(self, data: Source, model: FactorModel, engine: Engine, tune: int) -> LangevinSetup:
        """Put the data into one block and prepare everything that the chains share."""
        return setup_of(
            self, data, model, engine, tune, blocks=1, partition=InOrder(), schedule=Cyclic(),
            temperature=self.temperature,
        )  # fmt: skip
