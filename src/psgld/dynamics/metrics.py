"""The metric D of the Langevin step: how far each coefficient moves.

    x ← x + ε D ∘ ∇log p + ε τ Γ + sqrt(2 ε τ' D) ∘ N(0, 1)

D, Γ and τ' themselves are in the engines (`step.hpp`, `reference/update.py`); here is when their frozen parts are
refreshed, and which step sizes suit them.
"""

from __future__ import annotations

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


class Metric(Recorded, ABC):
    """A metric: its name in the engines, when and how it is refreshed, its default step size."""

    name: ClassVar[MetricName]
    momentum: float = 0.9
    """ρ by default. Steps of second order are ρ/(1-ρ) times longer along what is slow, and no coarser elsewhere."""

    @abstractmethod
    def refresh(self, factors: Factors, hyper: Hyper, size: int, curvature: float) -> None:
        """Take the frozen parts of D from the present state; `curvature` bounds that of the likelihood, at φ = 1."""

    def rescale(self, factors: Factors, hyper: Hyper) -> None:
        """Take in hyperparameters that have moved far since the last refresh."""

    def state(self, factors: Factors) -> dict[str, NDArray[Any]]:
        """Return what the frozen parts of D are made of, besides hyperparameters."""
        return {}

    def set_state(self, factors: Factors, hyper: Hyper, state: Mapping[str, Any]) -> None:
        """Make D as it was, from `state` and the hyperparameters of the last refresh, which the core has."""

    @abstractmethod
    def due(self, upkeep: int) -> bool:
        """Return whether D is refreshed at this upkeep (1, 2, …), at the end of a cycle."""

    @abstractmethod
    def step_size(self, problem: Problem) -> StepSize:
        """Return the default step size."""


@final
@dataclass(frozen=True)
class Problem:
    """What a default step size depends on."""

    components: int
    blocks: int
    sparse: bool  # rows are unevenly spread over the parts
    tune: int
    momentum: float
    steep: bool  # the likelihood is
    curvature: float  # of the log posterior along a coefficient of the fullest row, at the start


@final
@dataclass(frozen=True)
class Identity(Metric):
    """D = 1: the sampler of the paper, without momentum. ε has units and must suit the fullest row."""

    name = "identity"
    momentum = 0.0

    def refresh(self, factors: Factors, hyper: Hyper, size: int, curvature: float) -> None:
        """Do nothing: D does not change."""

    def due(self, upkeep: int) -> bool:
        """Return False: D does not change."""
        return False

    def step_size(self, problem: Problem) -> StepSize:
        """Return a step that is stable on the fullest row, from the curvature at the start."""
        # The curvature is that of a typical mean; entries with a small mean bend a hundred times more.
        last = 0.01 / problem.curvature * (1 - problem.momentum)
        return Decay(3 * last, last, problem.tune)


@final
@dataclass(frozen=True)
class NonNegative(Metric):
    """D = w / b, Γ = 1 / b, b_ik = Σ_j h_kj weight(v_ij, μ_ij) / φ + λ over the row's observed columns.

    The weight is the negative part of the score: μ^{β-1} of the Tweedie family.

    With τ = 0 and ε = 1 the step is the multiplicative update, so ε has no units and one value suits all data.
    """

    name = "non-negative"

    def refresh(self, factors: Factors, hyper: Hyper, size: int, curvature: float) -> None:
        """Take b from the present state: one pass over the data."""
        factors.accumulate("weight")
        self.rescale(factors, hyper)

    def rescale(self, factors: Factors, hyper: Hyper) -> None:
        """Take b from the weights of the last pass and the present φ and λ."""
        for which in (W, H):
            factors.set_bound(which, hyper.modes[which].rate)

    def state(self, factors: Factors) -> dict[str, NDArray[Any]]:
        """Return the weights of the last pass."""
        return factors.weights()

    def set_state(self, factors: Factors, hyper: Hyper, state: Mapping[str, Any]) -> None:
        """Make b as it was."""
        factors.set_weights(state)
        self.rescale(factors, hyper)

    def due(self, upkeep: int) -> bool:
        """Return True for the first 20, then ever more rarely.

        A pass costs as much as a cycle; and as the refreshes thin out, what a metric that follows the state does to
        the target vanishes.
        """
        return upkeep <= 20 or int(np.log(upkeep) / _LOG_STEP) > int(np.log(upkeep - 1) / _LOG_STEP)

    def step_size(self, problem: Problem) -> StepSize:
        """Return steps that fall from 0.2 to 0.05, or less where there are many parts.

        Without momentum, from 0.5 to 0.1; or less where a part holds few of a row's entries.
        """
        if problem.momentum:
            first, last = (0.02, 0.02) if problem.steep else (0.2, 0.05)
            bound = _resonance(problem)
            return Decay(min(first, bound), min(last, bound), problem.tune * 3 // 4)
        last = min(0.1, 0.4 / problem.blocks) if problem.sparse else 0.1
        return Decay(5 * last, last, problem.tune * 3 // 4)


def _resonance(problem: Problem) -> float:
    """Return the step beyond which a state with momentum, which swings by sqrt(ε) a time, resonates with a cycle."""
    return float((2.0 / problem.blocks) ** 2)


_LOG_STEP = np.log(1.2)


@final
@dataclass(frozen=True)
class RealValued(Metric):
    """D = 1 / (n_i c q_k / φ + λ_k): n_i entries in the row, q_k the popularity-weighted mean of h_k².

    c bounds the curvature of the likelihood: 1 of the Gaussian, 1/4 of Bernoulli.
    """

    name = "real-valued"

    def refresh(self, factors: Factors, hyper: Hyper, size: int, curvature: float) -> None:
        """Take q from the present state: sums over the factors, cheap enough for every cycle."""
        weighted = curvature * (factors.sums()[:, 2] / (size * hyper.phi))
        for which, other in ((W, H), (H, W)):
            factors.set_curvature(which, weighted[other], hyper.modes[which].rate)

    def state(self, factors: Factors) -> dict[str, NDArray[Any]]:
        """Return q / φ and λ of both factors, (2, 2, K)."""
        return {"curvature": np.stack([factors.curvature(which) for which in (W, H)])}

    def set_state(self, factors: Factors, hyper: Hyper, state: Mapping[str, Any]) -> None:
        """Make q as it was."""
        for which in (W, H):
            factors.set_curvature(which, *np.ascontiguousarray(state["curvature"][which], np.float64))

    def due(self, upkeep: int) -> bool:
        """Return True: q is cheap."""
        return True

    def step_size(self, problem: Problem) -> StepSize:
        """Return steps that fall from 0.2 / B to 0.1 / B, or from 2 / K to 1 / K if that is less.

        Without momentum, twice that; beyond 0.4 / B the noise of the parts inflates the posterior. D is diagonal: where
        the components are correlated, the curvature along their common direction is up to K times that of one.
        """
        last = min(0.1, 0.2 / problem.blocks, 2 / problem.components)
        if problem.momentum:
            last = min(0.5 * last, 0.5 * _resonance(problem))
        return Decay(2 * last, last, problem.tune * 3 // 4)


METRICS: dict[str, Callable[[], Metric]] = {
    metric.name: metric for metric in (Identity, NonNegative, RealValued)
}
"""Metrics by the names that `PSGLD(metric=…)` and the command line take."""


def metric_from_dict(record: Mapping[str, Any]) -> Metric:
    """Return the metric that `to_dict` described."""
    found: Metric = from_record(record, METRICS.values())
    return found
