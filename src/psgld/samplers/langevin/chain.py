"""The chain of the Langevin samplers: factors, hyperparameters, iteration.

The engine computes the step (`step.hpp` in the core; `engines/reference/update.py` in NumPy). This file has the rest:
the upkeep at the end of cycles (hyperparameters, metric, check for divergence), and reading the state.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from ...dynamics.probes import Probes
from ...dynamics.schedule import Hopping
from ...engines import Engine, Factors, Stretch
from ...errors import SamplingError
from ...models import Hyper
from ..base import Chain, DrawBuffers, Marks, State
from .guard import MOST_DIVERGENCES, Guard
from .shared import Shared
from .start import start_factors
from .stretches import Stretches
from .upkeep import Upkeeps, is_far, theta_is_far

_NUMBERS = {
    "iteration": "iteration",
    "next_upkeep": "_upkeeps.next",
    "upkeeps": "_upkeeps.done",
    "step_factor": "step_factor",
    "last_step": "_last_step",
    "scale": "_guard.scale",
    "swellings": "_guard.inflations",
}
"""Names of numbers in a checkpoint, and the attributes that hold them. The names are those of existing files."""


@final
@dataclass(frozen=True, eq=False)
class LangevinSetup(Shared):
    """Everything that the chains share, and how to start one."""

    def chain(self, key: int, probes: Probes, engine: Engine | None = None) -> LangevinChain:
        """Start a chain. The key is its random seed."""
        return LangevinChain(self, key, probes, engine or self.engine)


def _remaining(marks: range, buffers: DrawBuffers, n: int) -> tuple[range, DrawBuffers]:
    """Return the marks after the first n, and the buffers for their draws."""
    return marks[n:], tuple(x[n:] for x in buffers)


@final
class LangevinChain(Chain):
    """A chain whose factors an engine updates by Langevin steps."""

    setup: LangevinSetup
    factors: Factors

    def __init__(self, setup: LangevinSetup, key: int, probes: Probes, engine: Engine) -> None:
        model = setup.model
        factors = engine.factors(setup.grid, model.components, model.likelihood, setup.floor)
        super().__init__(setup, key, factors, probes)
        self._metric_hyper = self._saved_hyper = setup.start
        self.step_factor = 1.0
        self._last_step = 0.0
        self._stretches = Stretches(setup, key)
        self._upkeeps = Upkeeps(setup, self._learns())
        self._guard = Guard(setup, self.probes)
        metric, second_order = setup.metric.name, setup.momentum > 0.0
        factors.set_dynamics(key, metric, model.nonnegative, setup.temperature, second_order)
        factors.set_log_sums(model.needs_log_sums)
        for mode in model.modes:
            factors.set_move(mode.axis, mode.free.astype(float))
        start_factors(factors, setup)
        self._apply_hyper()
        self._take_residuals()
        self._refresh_metric()
        self._guard.begin(self.sums())
        self._save()

    # -- updates -----------------------------------------------------------------------------------------

    def advance(self, n: int) -> None:
        """Run n iterations; update hyperparameters and metric, and check for divergence, at the end of cycles."""
        end = self.iteration + n
        while self.iteration < end:
            stretch = self._stretch(min(end, self._upkeeps.next))
            self.factors.advance(stretch)
            self._have_run(stretch)
            self._upkeep_if_due()

    def run(self, marks: range, buffers: DrawBuffers | None = None) -> Iterator[Marks]:
        """Run to the last of these iterations, and yield the marks; or run to the first one only, and yield it.

        If the chain has diverged at a mark, it is reset there, as if it had paused at that mark.
        """
        while marks:
            if buffers is None or not self.passes:
                yield from super().run(marks)
                return
            upkeep = self._upkeeps.next
            inside = marks[: max(0, -(-(upkeep - marks[0]) // marks.step))]  # before the upkeep
            passed = self._run_past(inside, min(marks[-1], upkeep), buffers)
            if passed.lp:
                yield passed
            marks, buffers = _remaining(marks, buffers, len(passed.lp))
            self._upkeep_if_due()
            if (
                marks and self.iteration == marks[0]
            ):  # the chain diverged there, or an upkeep has just been done
                yield self.pause()
                marks, buffers = _remaining(marks, buffers, 1)

    @property
    def passes(self) -> bool:
        """Whether the engine can run through marks, and sums over the factors are all that is needed there."""
        inflation = self._guard.checks_inflation(self.divergences)
        return self.factors.passes_marks and not self._log_prior.others and not inflation

    def _run_past(self, marks: range, end: int, buffers: DrawBuffers) -> Marks:
        """Run to `end` through the marks, or to the first mark where the chain has diverged; return those before it."""
        start, stretch = self.iteration, self._stretch(end)
        after = np.arange(marks.start - start, marks.stop - start, marks.step)
        room = tuple(x[: len(marks)] for x in buffers)
        sums, kernels = self.factors.advance_marking(stretch, after, self.probes.entries, room)
        steps: list[float] = stretch.steps[after - 1].tolist()
        sound = self._guard.is_sound(sums)
        n = len(marks) if sound.all() else int(sound.argmin())
        if n == len(marks):
            self._have_run(stretch)
        else:
            self.iteration, self._last_step, self._sums = marks[n], steps[n], sums[n]
        lp = self._log_posterior_from(sums[:n], kernels[:n])
        return Marks(marks[:n], lp.tolist(), steps[:n], len(self.divergences), False)

    def _stretch(self, end: int) -> Stretch:
        """Return the iterations up to `end`, without an upkeep among them, for the engine to run."""
        t, ahead = self.iteration + 1, self._upkeeps.next - self.iteration
        self.factors.set_momentum(self._upkeeps.momentum(t))
        return self._stretches.stretch(t, end - self.iteration, ahead, self.step_factor)

    def _have_run(self, stretch: Stretch) -> None:
        self._last_step = float(stretch.steps[-1])
        self._sums = None
        self.iteration += len(stretch)

    def _upkeep_if_due(self) -> None:
        if self.iteration == self._upkeeps.next:
            self._upkeep(self.iteration // self.setup.cycle)
            self._upkeeps.plan_next(self.iteration)

    def next_part(self) -> int:
        """Return the part that the next iteration reads."""
        return self._stretches.part(self.iteration + 1)

    def begin(self, factors: Sequence[NDArray[Any]], hyper: Hyper) -> None:
        """Start at these factors and hyperparameters."""
        super().begin(factors, hyper)
        self._refresh_metric()
        self._take_residuals()
        self._guard.begin(self.sums())
        self._save()

    def settle(self) -> bool:
        """Return whether the chain has not diverged. If it has, reset it to the last saved state."""
        if self._guard.is_sound(self.sums()):
            if not self._guard.is_inflated(self.iteration, self.divergences, self.step_factor):
                return True
            self._guard.inflations += 1
        self._reset()
        return False

    def _reset(self) -> None:
        """Return to the last saved state with half the step size."""
        if len(self.divergences) >= MOST_DIVERGENCES:
            raise SamplingError(
                f"the chain still diverges after halving the step size {MOST_DIVERGENCES} times "
                f"(iteration {self.iteration}); check the data for extreme values, or fix the prior rates"
            )
        self.divergences.append(self.iteration)
        self.step_factor *= 0.5
        self.factors.restore()
        self._sums = None
        self.hyper = self._saved_hyper
        self._apply_hyper()
        self._refresh_metric()

    # -- reading -----------------------------------------------------------------------------------------

    @property
    def step_size(self) -> float:
        """The step size of the last iteration."""
        return self._last_step

    def state(self) -> State:
        """Return everything needed to resume the chain bit for bit, rows in the order of V."""
        return {
            **self.factors.state(),
            **self.setup.metric.state(self.factors),
            **{
                f"{prefix}/{name}": value
                for prefix, hyper in self._hypers()
                for name, value in hyper.arrays().items()
            },
            **{name: attrgetter(attribute)(self) for name, attribute in _NUMBERS.items()},
            "divergences": list(self.divergences),
        }

    def set_state(self, state: State) -> None:
        """Resume from a state that `state` returned."""
        now, self._metric_hyper, self._saved_hyper = (
            Hyper.from_arrays({n: state[f"{prefix}/{n}"] for n in hyper.arrays() if f"{prefix}/{n}" in state})
            for prefix, hyper in self._hypers()
        )
        self.factors.set_state(state)
        self.hyper = self._metric_hyper
        self._apply_hyper()
        self.setup.metric.set_state(self.factors, self.hyper, state)
        self.hyper = now
        self._apply_hyper()
        for name, attribute in _NUMBERS.items():
            self._set_number(attribute, state[name])
        self.divergences = [int(t) for t in state["divergences"]]
        self._sums = None
        self._check_numbers()

    def _set_number(self, attribute: str, value: Any) -> None:
        """Set one of `_NUMBERS`, keeping its type."""
        where, _, name = attribute.rpartition(".")
        owner = getattr(self, where) if where else self
        setattr(owner, name, type(getattr(owner, name))(value))

    def _check_numbers(self) -> None:
        """Raise ValueError if the numbers of a checkpoint are inconsistent, so that the chain cannot be resumed."""
        self._upkeeps.check(self.iteration)
        sizes = (self.step_factor, self._guard.scale, self._last_step)
        if not all(0.0 <= x < math.inf for x in sizes) or min(sizes[:2]) <= 0.0 or self.step_factor > 1.0:
            raise ValueError(f"step_factor {sizes[0]}, scale {sizes[1]}, last_step {sizes[2]}")
        if self._guard.inflations < 0 or not all(0 <= d <= self.iteration for d in self.divergences):
            raise ValueError(f"swellings {self._guard.inflations}, divergences at {self.divergences[:5]}")

    def _hypers(self) -> tuple[tuple[str, Hyper], ...]:
        return ("hyper", self.hyper), ("metric_hyper", self._metric_hyper), ("saved_hyper", self._saved_hyper)

    # -- at the end of a cycle ---------------------------------------------------------------------------

    def _upkeep(self, cycle: int) -> None:
        if not self.settle():
            return
        theta = self.hyper.parameters(self.setup.model.likelihood)
        if not self.divergences and self._guard.is_swollen(
            self.iteration, self.sums(), self.step_factor, theta
        ):
            self._guard.inflations += 1
            self._reset()
            return
        self._upkeeps.done += 1
        if self._upkeeps.saves(cycle) and not self._guard.is_too_large_to_save(self.sums()):
            self._save()
        if self.setup.temperature > 0:
            self._draw_hyper(cycle)
        if self.setup.metric.due(self._upkeeps.done) or self._weights_are_far():
            self._refresh_metric()
        elif is_far(self.hyper, self._metric_hyper):
            self.setup.metric.rescale(self.factors, self.hyper)
            self._metric_hyper = self.hyper

    def _take_residuals(self) -> None:
        """Compute the squared residuals of all blocks, if φ is drawn from them."""
        if self.setup.model.likelihood.conjugate:
            self.factors.accumulate("score")

    def _squared_residuals(self) -> float:
        # A subsample does not read every entry, nor does a chain that stays on a shard.
        if self.setup.subsample is not None or isinstance(self.setup.schedule, Hopping):
            return self.factors.fresh_squared_residuals()
        return self.factors.squared_residuals()

    def _prior_coefficients(self) -> list[tuple[float, NDArray[np.float64], NDArray[np.float64]]]:
        if self.setup.flat:
            none = np.zeros(self.setup.model.components)
            return [(0.0, none, none) for _ in self.setup.model.modes]
        return super()._prior_coefficients()

    def _apply_hyper(self) -> None:
        super()._apply_hyper()
        self.factors.set_parameters(self.hyper.phi, self.hyper.theta.tolist())
        for which, coefficients in enumerate(self._prior_coefficients()):
            normal = self.hyper.modes[which].normal
            self.factors.set_prior(which, *coefficients, None if normal is None else normal.off_diagonal)

    def _refresh_metric(self) -> None:
        curvature = self.setup.model.likelihood.curvature_bound or 1.0
        self.setup.metric.refresh(self.factors, self.hyper, self.setup.moments.size, curvature)
        self._metric_hyper = self.hyper

    def _parameters_are_due(self) -> bool:
        """Return whether to update the parameters of the likelihood at this upkeep."""
        assert self._parameters is not None
        return self._upkeeps.parameters_are_due(self.iteration, len(self._parameters.values))

    def _weights_are_far(self) -> bool:
        return self.setup.model.nonnegative and theta_is_far(self.hyper, self._metric_hyper)

    def _save(self) -> None:
        self.factors.save()
        self._saved_hyper = self.hyper
