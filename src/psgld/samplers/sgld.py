"""Stochastic gradient Langevin dynamics (Welling and Teh 2011): a random subsample of V in every iteration.

    W ← W + ε D ∘ (N/|Ω| Σ_{(i,j)∈Ω} ∇log p(v_ij | ·) + ∇log p(W)) + ε τ Γ + sqrt(2 ε τ' D) ∘ N(0, 1)

H likewise, both gradients at the old values. Ω is drawn uniformly and with replacement in each iteration.
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
from .settings import check, check_size, check_temperature, entries_of, setup_of


@final
@dataclass(frozen=True)
class SGLD(Recorded):
    """Settings of stochastic gradient Langevin dynamics. All parameters have defaults that are chosen from the data.

    Parameters
    ----------
    size
        |Ω|: a number of entries, or a fraction of all of them; by default N/32, as in the paper. Absent entries that
        are zeros are drawn, too.
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
    >>> sgld = psgld.SGLD(size=100)
    >>> psgld.sample(V, psgld.FactorModel(2, "poisson"), sampler=sgld, draws=20).W.shape
    (2, 20, 30, 2)
    """

    size: float = 1 / 32
    step_size: float | StepSize | None = None
    metric: Metric | str | None = None
    temperature: float = 1.0
    dtype: str = "float32"
    distribution: ClassVar[Distribution | None] = None

    def __post_init__(self) -> None:
        check(self)
        check_size(self.size)
        check_temperature(self.temperature)

    def cycle(self, data: Source) -> int:
        """Return N/|Ω|, rounded up: the number of iterations in which every entry is read once, on average."""
        return -(-data.size // entries_of(self.size, data))

    def prepare(self, data: Source, model: FactorModel, engine: Engine, tune: int) -> LangevinSetup:
        """Store the data so that entries can be drawn, and prepare everything that the chains share."""
        draws = entries_of(self.size, data)
        return setup_of(
            self, data, model, engine, tune, blocks=1, partition=InOrder(), schedule=Cyclic(),
            temperature=self.temperature, draws=draws, noise=max(1.0, data.size / draws),
        )  # fmt: skip
