"""The metric D (preconditioner) of the Langevin step.

    x ← x + ε D ∘ ∇log p + ε τ Γ + sqrt(2 ε τ' D) ∘ N(0, 1)

The engines compute D, Γ and τ' (`step.hpp`, `reference/update.py`). The classes here refresh the parts of D that are
held constant between refreshes, and choose default step sizes.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from ..engines import Factors, H, W
from ..engines.base import MetricName
from ..models import Hyper
from ..system.record import Recorded, from_record
from .step_size import Decay, StepSize

EARLY_CYCLES = 30
"""In the first cycles the state changes fast: there is an upkeep after every cycle, and no momentum yet."""

MOST_PARTS, MOST_UNEVEN_PARTS = 4, 2
"""The most parts of the default with momentum: more of them need smaller steps, without a gain. Fewer if the entries of
a row are unevenly distributed over the parts: the noise of a part biases the draws, by about ε (B² - 1) / 12."""

_FRICTION = 0.13
"""(1 - ρ) / sqrt(ε): with more friction slow directions take longer, with less of it oscillations do."""

_FEW_ROWS = 16

_FEW_PARTS = 8
"""The number of parts up to which the largest step that does not resonate is large enough for the burn-in."""


class Metric(Recorded, ABC):
    """A metric: its name in the engines, when and how it is refreshed, its default step size."""

    name: ClassVar[MetricName]
    momentum: float = 0.9
    """The default ρ, or, if it is not 0, the largest for parts that are not cyclic (`momentum_of`).

    Momentum makes steps ρ/(1-ρ) times longer along slow directions, and no coarser along others."""

    @abstractmethod
    def refresh(self, factors: Factors, hyper: Hyper, size: float, curvature: float) -> None:
        """Recompute the constant parts of D at the current state; `curvature` is the likelihood's bound at φ = 1."""

    def rescale(self, factors: Factors, hyper: Hyper) -> None:
        """Update D for hyperparameters that have changed much since the last refresh."""

    def state(self, factors: Factors) -> dict[str, NDArray[Any]]:
        """Return the arrays, besides hyperparameters, from which the constant parts of D can be restored."""
        return {}

    def set_state(self, factors: Factors, hyper: Hyper, state: Mapping[str, Any]) -> None:
        """Restore D from `state` and the hyperparameters of the last refresh, which the core has."""

    @abstractmethod
    def due(self, upkeep: int) -> bool:
        """Return whether D is refreshed at this upkeep (1, 2, …); an upkeep follows the end of a cycle."""

    @abstractmethod
    def step_size(self, problem: Problem) -> StepSize:
        """Return the default step size."""

    def is_careful(self, problem: Problem) -> bool:
        """Return whether the default steps are shorter, with more friction, than measurements on large counts allow."""
        return False


@final
@dataclass(frozen=True)
class Problem:
    """The quantities on which a default step size depends."""

    components: int
    blocks: int
    sparse: bool  # then the entries of a row are unevenly distributed over the parts
    tune: int
    momentum: float
    steep: bool  # whether the likelihood is (`Likelihood.steep`)
    counts: bool  # whether its values are (`Likelihood.counts`)
    cyclic: bool  # whether the noise of the parts cancels over a cycle
    curvature: float  # of the log posterior along a coefficient of the row with most entries, at the start
    shorter: int  # the number of rows or of columns, whichever is less


@final
@dataclass(frozen=True)
class Identity(Metric):
    """D = 1: the sampler of the paper, without momentum. ε has units; the row with most entries limits it."""

    name = "identity"
    momentum = 0.0

    def refresh(self, factors: Factors, hyper: Hyper, size: float, curvature: float) -> None:
        """Do nothing: D does not change."""

    def due(self, upkeep: int) -> bool:
        """Return False: D does not change."""
        return False

    def step_size(self, problem: Problem) -> StepSize:
        """Return a step size that is stable for the row with most entries, from the curvature at the start."""
        # This is the curvature at a typical mean; at entries with a small mean it is a hundred times larger.
        last = 0.01 / problem.curvature * (1 - problem.momentum)
        return Decay(3 * last, last, problem.tune)


@final
@dataclass(frozen=True)
class NonNegative(Metric):
    """D = w / b, Γ = 1 / b, b_ik = Σ_j h_kj weight(v_ij, μ_ij) / φ + λ over the row's observed columns.

    The weight is the negative part of the score: μ^{β-1} for the Tweedie family.

    With τ = 0 and ε = 1 the step is the multiplicative update, so ε has no units and one value suits all data.
    """

    name = "non-negative"

    def refresh(self, factors: Factors, hyper: Hyper, size: float, curvature: float) -> None:
        """Recompute b at the current state: one pass over the data."""
        factors.accumulate("weight")
        self.rescale(factors, hyper)

    def rescale(self, factors: Factors, hyper: Hyper) -> None:
        """Recompute b from the weights of the last pass and the current φ and λ."""
        for which in (W, H):
            factors.set_bound(which, hyper.modes[which].rate)

    def state(self, factors: Factors) -> dict[str, NDArray[Any]]:
        """Return the weights of the last pass."""
        return factors.weights()

    def set_state(self, factors: Factors, hyper: Hyper, state: Mapping[str, Any]) -> None:
        """Restore b."""
        factors.set_weights(state)
        self.rescale(factors, hyper)

    def due(self, upkeep: int) -> bool:
        """Return True for the first 20 upkeeps, then at intervals that grow geometrically.

        A refresh costs as much as a cycle. A metric that depends on past states biases the target; as refreshes become
        rarer, this bias vanishes.
        """
        return upkeep <= 20 or int(np.log(upkeep) / _LOG_STEP) > int(np.log(upkeep - 1) / _LOG_STEP)

    def step_size(self, problem: Problem) -> StepSize:
        """Return step sizes that decay from 0.2 to 0.1 for counts, else to 0.05; smaller ones if there are many parts.

        Without momentum, from 0.5 to 0.1, or smaller ones if a part contains few of a row's entries.
        """
        over = problem.tune * 3 // 4
        if problem.momentum:
            if problem.steep:
                return Decay(0.02, 0.02, over)
            bound = _resonance(problem)
            large = problem.cyclic and not self.is_careful(problem)
            last = min(0.1, 0.8 * bound) if large else min(0.05, bound)
            if problem.blocks > _FEW_PARTS:  # but large ones in the first cycles, which have no momentum
                return Decay(0.2, last, min(over, EARLY_CYCLES * problem.blocks))
            return Decay(min(0.2, bound), last, over)
        last = min(0.1, 0.4 / problem.blocks) if problem.sparse else 0.1
        return Decay(5 * last, last, over)

    def is_careful(self, problem: Problem) -> bool:
        """Return whether values are not counts: they may span many powers of ten, where larger steps inflate φ."""
        return not problem.counts


def momentum_of(metric: Metric, step_size: StepSize, problem: Problem) -> float:
    """Return the default ρ = 1 - 0.13 sqrt(ε), with ε the last default step size; at most 0.9 for parts not cyclic.

    The state oscillates with a phase of about sqrt(ε) per iteration, and friction is in proportion to it. The noise of
    cyclic parts cancels over a cycle; that of others does not, and less friction would heat the chain. Nor is there
    less where steps are careful (`Metric.is_careful`).
    """
    if not metric.momentum:
        return 0.0
    rho = 1.0 - _FRICTION * math.sqrt(step_size.last) if isinstance(step_size, Decay) else metric.momentum
    return rho if problem.cyclic and not metric.is_careful(problem) else min(rho, metric.momentum)


def _resonance(problem: Problem) -> float:
    """Return the step size above which the oscillation of a state with momentum resonates with the cycle of the parts.

    The oscillation advances by a phase of about sqrt(ε) per iteration.
    """
    return float((2.0 / problem.blocks) ** 2)


_LOG_STEP = np.log(1.2)


@final
@dataclass(frozen=True)
class RealValued(Metric):
    """D = 1 / (n_i c q_k / φ + λ_k): n_i entries in the row, q_k the popularity-weighted mean of h_k².

    c bounds the curvature of the likelihood: 1 for the Gaussian, 1/4 for the Bernoulli.
    """

    name = "real-valued"

    def refresh(self, factors: Factors, hyper: Hyper, size: float, curvature: float) -> None:
        """Recompute q at the current state: sums over the factors, cheap enough for every cycle."""
        weighted = curvature * (factors.sums()[:, 3] / (size * hyper.phi))
        for which, other in ((W, H), (H, W)):
            factors.set_curvature(which, weighted[other], hyper.modes[which].rate)

    def state(self, factors: Factors) -> dict[str, NDArray[Any]]:
        """Return q / φ and λ of both factors, (2, 2, K)."""
        return {"curvature": np.stack([factors.curvature(which) for which in (W, H)])}

    def set_state(self, factors: Factors, hyper: Hyper, state: Mapping[str, Any]) -> None:
        """Restore q."""
        for which in (W, H):
            factors.set_curvature(which, *np.ascontiguousarray(state["curvature"][which], np.float64))

    def due(self, upkeep: int) -> bool:
        """Return True: q is cheap."""
        return True

    def step_size(self, problem: Problem) -> StepSize:
        """Return step sizes that decay to 0.2 / B, at most 0.1 and 2 / K, or to half of that with momentum.

        Above 0.4 / B the noise of the stochastic gradient inflates the posterior. D is diagonal: if components are
        correlated, the curvature along their common direction is up to K times that of one.

        With momentum and cyclic parts, whose noise cancels, larger ones: 1 / B², 0.64 / B² if data are sparse, at most
        0.16 and 12 / K. D rests on means over the rows of a factor: where these are few, such steps now and then
        diverge, and so does less friction.
        """
        over = problem.tune * 3 // 4
        if problem.momentum and problem.cyclic and not self.is_careful(problem):
            last = min(0.16, (0.64 if problem.sparse else 1.0) / problem.blocks**2, 12 / problem.components)
            return Decay(min(2 * last, 0.2), last, over)
        last = min(0.1, 0.2 / problem.blocks, 2 / problem.components)
        if problem.momentum:
            last = min(0.5 * last, 0.5 * _resonance(problem))
        return Decay(2 * last, last, over)

    def is_careful(self, problem: Problem) -> bool:
        """Return whether V has less than 16 rows, or columns, per component."""
        return problem.shorter < _FEW_ROWS * problem.components


METRICS: dict[str, Callable[[], Metric]] = {
    metric.name: metric for metric in (Identity, NonNegative, RealValued)
}
"""Metrics by the names that `PSGLD(metric=…)` and the command line accept."""


def metric_from_dict(record: Mapping[str, Any]) -> Metric:
    """Return the metric that `to_dict` described."""
    found: Metric = from_record(record, METRICS.values())
    return found
