"""Parallel stochastic gradient Langevin dynamics (Şimşekli et al. 2015).

    W_b ← W_b + ε D ∘ (s Σ_{(i,j)∈Λ} ∇log p(v_ij | ·) + ∇log p(W_b)) + ε τ Γ + sqrt(2 ε τ' D) ∘ N(0, 1)

for each block (b, c) of the part, H_c likewise, both gradients at the old values; then W ← |W|, H ← |H| if they
are non-negative. With momentum ρ the step is of second order:

    m ← ρ m + ε D ∘ ∇ + sqrt(2 (1 - ρ) ε τ' D) ∘ N(0, 1),   W_b ← W_b + m

`reference.py` is the same in NumPy; the core runs it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import final

import numpy as np

from ..data import Observations
from ..engines.threads import Threads
from ..errors import ModelError
from ..metrics import METRICS, Identity, Metric, NonNegative, Problem, RealValued
from ..models import FactorModel, Hyper
from ..partition import Assigned, Partition, Shuffled, choose_blocks
from ..schedule import Cyclic, Schedule
from ..step_size import StepSize, as_step_size
from .chain import scale_of
from .langevin import LangevinSetup

_MOST_PARTS = 8
"""With momentum more parts ask for smaller steps, and gain nothing."""


@final
@dataclass(frozen=True)
class PSGLD:
    """Settings of the sampler. Everything has a default that suits the data.

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
        τ: 1 samples the posterior, 0 climbs to a mode.
    momentum
        ρ, from 0 (the paper's first-order step) to less than 1; by default 0.9, or 0 with the identity metric.
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

    def __post_init__(self) -> None:
        if self.dtype not in ("float32", "float64"):
            raise ModelError(f'dtype must be "float32" or "float64", got {self.dtype!r}')
        numeric = isinstance(self.temperature, int | float | np.number)
        if not numeric or not 0.0 <= self.temperature < np.inf:
            raise ModelError(f"temperature must be >= 0 and finite, got {self.temperature!r}")
        rho = self.momentum
        if rho is not None and not (isinstance(rho, int | float | np.number) and 0.0 <= rho < 1.0):
            raise ModelError(
                f"momentum must be from 0 to less than 1, got {rho!r}; leave it out to have it chosen"
            )
        b = self.blocks
        if b is not None and (isinstance(b, bool) or not isinstance(b, int | np.integer) or b < 1):
            raise ModelError(f"blocks must be an integer >= 1, got {b!r}; leave it out to have it chosen")
        if self.step_size is not None:
            as_step_size(self.step_size)
        for name, value, kind in (
            ("schedule", self.schedule, Schedule),
            ("partition", self.partition, Partition),
        ):
            if not isinstance(value, kind):
                choices = ", ".join(f"{choice.__name__}(…)" for choice in kind.__subclasses__())
                raise ModelError(f"{name} must be one of {choices}, got {value!r}")
        if isinstance(self.metric, str) and self.metric not in METRICS:
            raise ModelError(f"metric must be one of {', '.join(METRICS)}, got {self.metric!r}")
        if not (self.metric is None or isinstance(self.metric, str | Metric)):
            raise ModelError(
                f"metric must be a metric such as NonNegative(), or its name, got {self.metric!r}"
            )

    def cycle(self, data: Observations) -> int:
        """Return the number of iterations in which every entry is read once: B."""
        if self.blocks is None and isinstance(self.partition, Assigned):
            return self.partition.blocks
        first_order = self.momentum == 0.0 or self._identity
        return int(
            self.blocks or (choose_blocks(data) if first_order else choose_blocks(data, most=_MOST_PARTS))
        )

    @property
    def _identity(self) -> bool:
        return self.metric == "identity" or isinstance(self.metric, Identity)

    def prepare(self, data: Observations, model: FactorModel, engine: Threads, tune: int) -> LangevinSetup:
        """Cut the data into blocks and fix all that the chains share."""
        blocks = self.cycle(data)
        shift, moments, start = scale_of(data, model)
        rows, cols = self.partition.cut(data, blocks)
        grid = engine.grid(data, rows, cols, shift, np.dtype(self.dtype))
        metric = self._metric(model)
        momentum = metric.momentum if self.momentum is None else self.momentum
        step = self.step_size
        if step is None:
            uneven = data.is_sparse and not grid.zeros
            curvature = _curvature(data, start, model)
            beta = model.likelihood.beta
            problem = Problem(model.components, blocks, uneven, tune, momentum, beta, curvature)
            step = metric.step_size(problem)
        return LangevinSetup(
            self, model, data, engine, shift, moments, start, grid, metric, as_step_size(step),
            self.schedule, self.temperature, momentum,
        )  # fmt: skip

    def _metric(self, model: FactorModel) -> Metric:
        metric = self.metric
        if metric is None:
            metric = NonNegative() if model.nonnegative else RealValued()
        if isinstance(metric, str):
            metric = METRICS[metric]()
        if isinstance(metric, NonNegative) and not model.nonnegative:
            raise ModelError(
                "the non-negative metric needs non-negative factors; use RealValued() or Identity()"
            )
        if isinstance(metric, RealValued) and model.likelihood.beta != 2.0:
            raise ModelError(
                f"the real-valued metric is for Gaussian models, got {model.likelihood!r}; leave it out"
            )
        return metric


def _curvature(data: Observations, start: Hyper, model: FactorModel) -> float:
    """Return a bound on the curvature of the log posterior along a coefficient of the fullest row, at the start."""
    fullest = max(int(data.row_counts().max()), int(data.col_counts().max()))
    size = model.col_prior.size_at(float(start.col_rate[0]))
    mean = data.mean() if data.mean() > 0 else 1.0
    weight = mean ** (model.likelihood.beta - 2.0) if model.nonnegative else 1.0
    return float(fullest * size**2 * weight / start.phi + start.row_rate.max())
