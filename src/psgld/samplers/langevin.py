"""The chain of the Langevin samplers: factors, hyperparameters, iteration.

The step itself runs in the core (`step.hpp`; in NumPy, `reference.py`). Here is what surrounds it: where a chain
starts, what happens at the end of a cycle (hyperparameters, metric, the check that it has not run away), and what can
be read off it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from ..data import Observations
from ..engines.threads import SCORE, Grid, H, Threads, W
from ..errors import SamplingError
from ..metrics import Metric
from ..models import DispersionMove, FactorModel, FactorStats, Hyper, Moments, Tweedie
from ..models import hyper as hyperparameters
from ..probes import Probes
from ..schedule import Schedule
from ..step_size import StepSize, tabulate

_FAMILIES = {1.0: 0, 2.0: 1, 0.0: 2, -1.0: 3, 0.5: 4}
_ANY_POWER = 5  # `Family` in the core

_RUNAWAY = 100.0
"""A typical μ this many times larger than the data, or than at the start, is a chain that runs away."""

_MOST_DIVERGENCES = 30
_UPKEEPS_BETWEEN_SAVES = 8
_EARLY_CYCLES = 30
"""At first everything changes fast: the upkeep comes at the end of every cycle."""


def _far(a: Hyper, b: Hyper) -> bool:
    """Return whether φ or a rate differs by more than a tenth: the metric would no longer fit."""
    pairs = ((a.phi, b.phi), (a.row_rate, b.row_rate), (a.col_rate, b.col_rate))
    return any(bool(np.any(np.abs(np.log(x / y)) > 0.1)) for x, y in pairs)


def family_of(likelihood: Tweedie) -> int:
    """Return the number under which the core knows this member of the family."""
    return _FAMILIES.get(float(likelihood.beta), _ANY_POWER)


@final
@dataclass(frozen=True, eq=False)
class LangevinSetup:
    """All that the chains of a run share: the data in blocks, the scale of things, metric and step size."""

    settings: Any  # of the sampler, for the record
    model: FactorModel
    data: Observations
    engine: Threads
    grid: Grid
    shift: float
    moments: Moments
    start: Hyper
    metric: Metric
    step_size: StepSize
    schedule: Schedule
    temperature: float

    @property
    def cycle(self) -> int:
        """The number of iterations in which every entry is read once."""
        return self.grid.blocks

    def chain(self, key: int, probes: Probes, engine: Threads | None = None) -> LangevinChain:
        """Start a chain; the key decides all its randomness."""
        return LangevinChain(self, key, probes, engine or self.engine)


@final
class LangevinChain:
    """A chain: factors, hyperparameters, iteration. `advance` moves it; the rest reads it."""

    def __init__(self, setup: LangevinSetup, key: int, probes: Probes, engine: Threads) -> None:
        model, likelihood = setup.model, setup.model.likelihood
        self.setup = setup
        self.key = key
        self.iteration = 0
        self.hyper = self._metric_hyper = self._saved_hyper = setup.start
        self.step_factor = 1.0
        self.divergences: list[int] = []
        self._last_step = 0.0
        self._log_prior: list[tuple[float, float, NDArray[np.float64], NDArray[np.float64]]] = []
        self._sums: NDArray[np.float64] | None = None  # of the present state
        self._floor = 1e-7 * abs(setup.moments.mean) or 1e-30
        self.blocks = engine.chain(
            setup.grid, model.components, family_of(likelihood), likelihood.beta, self._floor
        )
        core = self.blocks.core
        core.key, core.metric, core.mirror = key, setup.metric.code, model.nonnegative
        core.temperature = setup.temperature
        core.set_move(W, model.row_free.astype(float))
        core.set_move(H, model.col_free.astype(float))
        self.probes = probes.placed(self.blocks, setup.shift)
        self._dispersion = self._dispersion_move()
        self._upkeep_cycles = self._cycles_between_upkeeps()
        self._next_upkeep = setup.cycle
        self._upkeeps = 0
        self._start_factors()
        self._apply_hyper()
        self._refresh_metric()
        if model.likelihood.beta == 2.0 and model.likelihood.phi is None:
            self.blocks.accumulate(SCORE)  # residuals of every block, also of those that are visited late
        self._scale = max(self._typical_mean(), self._data_scale())
        self._save()

    # -- moving ------------------------------------------------------------------------------------------

    def advance(self, n: int) -> None:
        """Run n iterations, with the hyperparameters, the metric and the check for divergence at cycle ends."""
        cycle = self.setup.cycle
        while n > 0:
            m = min(n, self._next_upkeep - self.iteration)
            t = self.iteration + 1
            parts, scales = self.setup.schedule.parts(t, m, self.setup.grid.part_sizes, self.key)
            steps = tabulate(self.setup.step_size, t, m) * self.step_factor
            self.blocks.advance(t, parts, steps, scales)
            self._last_step = float(steps[-1])
            self._sums = None
            self.iteration += m
            n -= m
            if self.iteration == self._next_upkeep:
                self._upkeep(self.iteration // cycle)
                early = self.iteration < _EARLY_CYCLES * cycle
                self._next_upkeep += cycle * (1 if early else self._upkeep_cycles)

    def settle(self) -> bool:
        """Make sure that the state is sound, going back to the last good one if not. Return whether it was."""
        typical = self._typical_mean()
        if typical <= _RUNAWAY * self._scale:  # False for NaN
            return True
        if len(self.divergences) >= _MOST_DIVERGENCES:
            raise SamplingError(
                f"the chain still diverges after halving the step size {_MOST_DIVERGENCES} times "
                f"(iteration {self.iteration}); check the data for extreme values, or fix the prior rates"
            )
        self.divergences.append(self.iteration)
        self.step_factor *= 0.5
        self.blocks.core.restore()
        self._sums = None
        self.hyper = self._saved_hyper
        self._apply_hyper()
        self._refresh_metric()
        return False

    # -- reading -----------------------------------------------------------------------------------------

    @property
    def step_size(self) -> float:
        """The step size of the last iteration."""
        return self._last_step

    def stats(self, which: int) -> FactorStats:
        """Return the sums over a factor."""
        if self._sums is None:
            self._sums = self.blocks.sums()
        total, squares, _ = self._sums[which]
        return FactorStats(self.setup.grid.shape[which], total, squares)

    def log_posterior(self) -> float:
        """Return log p(V | W, H, φ) + log p(W, H | rates), the likelihood from the probe entries if V is large.

        The log prior is the integral of its score: a constant + inverse Σlog x + linear Σx - quadratic Σx²/2.
        """
        total = self.probes.log_likelihood(self.setup.model.likelihood, self.hyper.phi)
        for which, (constant, inverse, linear, quadratic) in enumerate(self._log_prior):
            s = self.stats(which)
            total += constant + float(linear @ s.sum) - 0.5 * float(quadratic @ s.sumsq)
            if inverse:
                x = np.maximum(self.blocks.factor(which).astype(np.float64), 1e-300)
                total += inverse * float(np.log(x).sum())
        return total

    # -- at the end of a cycle ---------------------------------------------------------------------------

    def _upkeep(self, cycle: int) -> None:
        if not self.settle():
            return
        self._upkeeps += 1
        if self._upkeeps % _UPKEEPS_BETWEEN_SAVES == 0:
            self._save()
        if self.setup.temperature > 0:
            self._draw_hyper(cycle)
        if self.setup.metric.due(self._upkeeps):
            self._refresh_metric()
        elif _far(self.hyper, self._metric_hyper):
            self.setup.metric.rescale(self.blocks, self.hyper)
            self._metric_hyper = self.hyper

    def _draw_hyper(self, cycle: int) -> None:
        model = self.setup.model
        gaussian = model.likelihood.beta == 2.0 and model.likelihood.phi is None
        if not (
            model.row_prior.learnt or model.col_prior.learnt or model.bias or gaussian or self._dispersion
        ):
            return
        rng = np.random.Generator(
            np.random.Philox(key=np.array([self.key, 0], np.uint64), counter=[0, cycle, 0, 0])
        )
        rss = self.blocks.squared_residuals() if gaussian else None
        self.hyper = hyperparameters.draw(
            model,
            self.hyper,
            self.setup.start,
            self.stats(W),
            self.stats(H),
            rng,
            rss,
            self.setup.moments.size,
        )
        if self._dispersion is not None:
            means = np.maximum(
                self.probes.means(len(self._dispersion.values)).astype(np.float64), self._floor
            )
            phi = self._dispersion(self.hyper.phi, means, rng)
            self.hyper = Hyper(self.hyper.row_rate, self.hyper.col_rate, self.hyper.offset, phi)
        self._apply_hyper()

    def _dispersion_move(self) -> DispersionMove | None:
        likelihood = self.setup.model.likelihood
        if likelihood.phi is not None or likelihood.beta == 2.0:
            return None
        return DispersionMove(likelihood, self.probes.values[:2000], self.setup.start.phi)

    def _prior_means(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        mean = np.zeros((2, self.setup.model.components))
        if self.setup.model.bias:
            mean[H, -1] = self.hyper.offset
        return mean[W], mean[H]

    def _apply_hyper(self) -> None:
        model, hyper, core = self.setup.model, self.hyper, self.blocks.core
        core.phi = hyper.phi
        sides = (
            (W, model.row_prior, hyper.row_rate, model.row_free),
            (H, model.col_prior, hyper.col_rate, model.col_free),
        )
        self._log_prior = []
        for (which, prior, rate, free), mean in zip(sides, self._prior_means(), strict=True):
            inverse, linear, quadratic = prior.coefficients(rate, mean)
            core.set_prior(which, inverse, linear, quadratic)
            nothing = np.zeros(free.sum())
            rows = self.setup.grid.shape[which]
            constant = prior.log_density_from_sums(
                rows, nothing, nothing, rate[free], mean[free], sum_log=nothing
            )
            self._log_prior.append((constant, inverse, linear * free, quadratic * free))

    def _refresh_metric(self) -> None:
        self.setup.metric.refresh(self.blocks, self.hyper, self.setup.moments.size)
        self._metric_hyper = self.hyper

    def _cycles_between_upkeeps(self) -> int:
        """Return 1, or more where a cycle takes less time than its upkeep in Python."""
        rows, cols = self.setup.grid.shape
        entries = self.setup.data.stored
        seconds = self.setup.model.components * (entries * 1e-10 + self.setup.cycle * (rows + cols) * 1e-9)
        return int(np.clip(3e-4 / seconds, 1, 10))

    # -- start and safety --------------------------------------------------------------------------------

    def _start_factors(self) -> None:
        model, start = self.setup.model, self.setup.start
        sides = (
            (W, model.row_prior, start.row_rate, model.row_free),
            (H, model.col_prior, start.col_rate, model.col_free),
        )
        for which, prior, rate, free in sides:
            size = np.array([prior.size_at(float(r)) for r in rate])
            x = self.blocks.noise(which, 0) * size
            if model.nonnegative:
                x = np.abs(x) * np.sqrt(np.pi / 2)  # of mean `size`
            elif not model.bias:
                self._start_at_mean(which, x)
            if model.bias:
                x[:, model.rank :] = np.where(
                    free[model.rank :], self._prior_means()[which][model.rank :], 1.0
                )
            self.blocks.set_factor(which, x)

    def _start_at_mean(self, which: int, x: NDArray[Any]) -> None:
        """Let the first component carry the mean of the data, where it is large, and the others the variance.

        From a random start the components would have to find a common direction to represent the mean, and turn it
        together: a diagonal metric is slow at that.
        """
        moments = self.setup.moments
        second = moments.variance + moments.mean**2
        if moments.mean**2 > moments.variance:
            x *= (moments.variance / second) ** 0.25
            root = math.sqrt(abs(moments.mean))
            x[:, 0] = math.copysign(root, moments.mean) if which == W else root

    def _typical_mean(self) -> float:
        """Return the size of μ as the columns of W and H suggest it: one number that grows when a chain runs away."""
        w, h = self.stats(W), self.stats(H)
        with np.errstate(over="ignore", invalid="ignore"):
            return math.sqrt((w.sumsq / w.count) @ (h.sumsq / h.count))

    def _data_scale(self) -> float:
        m = self.setup.moments
        return float(np.sqrt(m.variance + m.mean**2)) or 1.0

    def _save(self) -> None:
        self.blocks.core.save()
        self._saved_hyper = self.hyper
