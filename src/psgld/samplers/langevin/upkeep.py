"""Upkeep: the maintenance of a chain at the end of a cycle, at first after every cycle, later less often.

An upkeep checks for divergence, saves the state for a reset, draws the hyperparameters, and refreshes the metric.
"""

from __future__ import annotations

from typing import Any, final

import numpy as np

from ...dynamics.metrics import EARLY_CYCLES
from ...models import Hyper
from ...system import cost
from .shared import Shared

_BETWEEN_SAVES = 8
_IDLE_CYCLES, _IDLE_SHARE, _IDLE_ITERATIONS = 8, 4, 8192
"""If nothing is learnt and the metric is fixed, an upkeep only checks and saves the state. It is done after eight
cycles or, if that is more, after a quarter of the cycles so far, which a divergence would lose. The number of
iterations is limited, since they are tabulated at once."""

_MOST_CYCLES = 10
"""The most cycles between two upkeeps, if something is learnt."""


@final
class Upkeeps:
    """The iterations at which hyperparameters are drawn, the metric is refreshed and the state is saved."""

    def __init__(self, setup: Shared, learns: bool) -> None:
        self._setup, self._learns = setup, learns
        self.next = setup.cycle
        """The iteration of the next upkeep."""
        self.done = 0
        """The number of upkeeps so far, including skipped ones."""

    def plan_next(self, iteration: int) -> None:
        """Set the next upkeep after that of this iteration."""
        cycle = self._setup.cycle
        self.next += cycle * self._cycles_to_next(iteration // cycle)

    def saves(self, cycle: int) -> bool:
        """Return whether the upkeep at the end of a cycle saves the state."""
        # If upkeeps were skipped, the saved state is old.
        rare = not (self._learns or self._setup.metric.due(self.done - 1)) and cycle >= EARLY_CYCLES
        return rare or self.done % _BETWEEN_SAVES == 0

    def momentum(self, t: int) -> float:
        """Return ρ of iteration t: 0 in the first cycles, and not more than the metric's while step sizes decay.

        Far from the mode, a chain would gain more momentum than friction can remove in time.
        """
        setup = self._setup
        if t <= EARLY_CYCLES * setup.cycle:
            return 0.0
        # By the next upkeep, so that ρ does not depend on where a run is stopped or recorded.
        return min(setup.momentum, setup.metric.momentum) if self.next <= setup.settling else setup.momentum

    def parameters_are_due(self, iteration: int, entries: int) -> bool:
        """Return whether this upkeep updates θ: not every one, if that takes longer than the iterations in between."""
        likelihood = self._setup.model.likelihood
        an_entry = cost.DISPERSION_CLOSED if likelihood.closed else cost.DISPERSION_SERIES
        between = max(cost.UPKEEP_SECONDS, self._setup.seconds_per_cycle)
        every = int(np.clip(likelihood.patience * entries * an_entry / between, 1, 10))
        return iteration <= EARLY_CYCLES * self._setup.cycle or self.done % every == 0

    def check(self, iteration: int) -> None:
        """Raise ValueError if the numbers of a checkpoint are inconsistent."""
        cycle, latest = (
            self._setup.cycle,
            max(_MOST_CYCLES, iteration // self._setup.cycle) * self._setup.cycle,
        )
        if not 0 <= iteration < self.next <= iteration + latest or self.next % cycle:
            raise ValueError(f"iteration {iteration} and next_upkeep {self.next}, with cycles of {cycle}")
        if self.done < 0:
            raise ValueError(f"upkeeps {self.done}")

    def _cycles_to_next(self, cycle: int) -> int:
        """Return 1, or more if a cycle takes less time than its upkeep, or if an upkeep has little to do."""
        due = self._setup.metric.due
        early = EARLY_CYCLES - cycle  # the last early cycle ends with an upkeep, after which momentum starts
        if self._learns or due(self.done + 1):
            cycles = int(np.clip(cost.UPKEEP_SECONDS / self._setup.seconds_per_cycle, 1, _MOST_CYCLES))
            return 1 if early > 0 else cycles
        idle = max(_IDLE_CYCLES, min(cycle // _IDLE_SHARE, _IDLE_ITERATIONS // self._setup.cycle))
        cycles, most = 1, min(cycle, idle, early if early > 0 else idle)
        while cycles < most and not due(self.done + cycles):
            cycles += 1
        self.done += cycles - 1  # skipped upkeeps count
        return cycles


def theta_is_far(a: Hyper, b: Hyper) -> bool:
    """Return whether a parameter of the likelihood but φ differs by a factor of 7: the weights are other ones.

    No less: a metric that is refreshed again and again while the chain is stationary follows its state, and biases it.
    """
    return a is not b and bool(
        np.any(np.abs(a.theta - b.theta) > 6.0 * np.minimum(np.abs(a.theta), np.abs(b.theta)))
    )


def is_far(a: Hyper, b: Hyper) -> bool:
    """Return whether φ or a rate differs by more than 10%, so that the metric must be rescaled."""
    if a is b:
        return False
    pairs: list[tuple[Any, Any]] = [(a.phi, b.phi)]
    pairs += [(x.rate, y.rate) for x, y in zip(a.modes, b.modes, strict=True)]
    return any(bool(np.any(np.abs(np.log(x / y)) > 0.1)) for x, y in pairs)
