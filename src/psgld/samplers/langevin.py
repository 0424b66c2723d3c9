"""The chain of the Langevin samplers: factors, hyperparameters, iteration.

The step itself runs in the core (`step.hpp`; in NumPy, `reference.py`). Here is what surrounds it: where a chain
starts, what happens at the end of a cycle (hyperparameters, metric, the check that it has not run away), and what can
be read off it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from ..dynamics.metrics import Metric
from ..dynamics.probes import Probes
from ..dynamics.schedule import Hopping, Schedule
from ..dynamics.step_size import StepSize, tabulate
from ..dynamics.subsample import Subsample
from ..engines import Blocks, Engine, MpiChain, ThreadedChain
from ..engines.threads import SCORE, Grid, H, W
from ..errors import SamplingError
from ..models import Hyper
from ..models.hyperparameters import start_sizes
from .base import Chain, Marks, Setup, State

_RUNAWAY = 100.0
"""A typical μ this many times larger than the data, or than at the start, is a chain that runs away."""

_SWOLLEN, _SETTLING_CYCLES, _SETTLING_ITERATIONS, _MOST_SWELLINGS = 1.2, 20, 100, 5
"""After it ran away, a chain whose μ is still this many times larger than the data has too large a step, too; unless
halving it a few times has not helped: then it is the data that say so. It is left some time to come back, twice as
much after each halving: so much slower it is."""

_INFLATED = 3.0
"""A typical μ this many times larger than the data, or than at the start, is on its way to run away."""

_MOST_DIVERGENCES = 30
_UPKEEPS_BETWEEN_SAVES = 8
_IDLE_CYCLES, _IDLE_SHARE, _IDLE_ITERATIONS = 8, 4, 8192
"""Where nothing is learnt and the metric stays, an upkeep only saves the chain, unless it has run away: after eight
cycles, or a fourth of those so far, which it would lose then; but all until there is planned at once, which should not
take long."""

_MOST_CYCLES = 10
"""From one upkeep to the next, where something is learnt."""

_EARLY_CYCLES = 30
"""At first everything changes fast: an upkeep comes at the end of every cycle, and there is no momentum yet."""


_NUMBERS = {
    "iteration": "iteration",
    "next_upkeep": "_next_upkeep",
    "upkeeps": "_upkeeps",
    "step_factor": "step_factor",
    "last_step": "_last_step",
    "scale": "_scale",
    "swellings": "_swellings",
}
"""The numbers of a chain's state, and where it keeps them."""


def _far(a: Hyper, b: Hyper) -> bool:
    """Return whether φ or a rate differs by more than a tenth: the metric would no longer fit."""
    if a is b:
        return False
    pairs = ((a.phi, b.phi), (a.row_rate, b.row_rate), (a.col_rate, b.col_rate))
    return any(bool(np.any(np.abs(np.log(x / y)) > 0.1)) for x, y in pairs)


@final
@dataclass(frozen=True, eq=False)
class LangevinSetup(Setup):
    """The data in blocks, the scale of things, metric and step size."""

    grid: Grid
    metric: Metric
    step_size: StepSize
    schedule: Schedule
    temperature: float
    momentum: float
    length: int
    """Iterations of a cycle."""
    subsample: Subsample | None = None
    """Draws from a part instead of all its entries."""
    bytes_an_iteration: float = 0.0
    """What the workers of a cluster would send each other."""
    flat: bool = False
    """No priors: maximum likelihood."""

    @property
    def cycle(self) -> int:
        """The number of iterations in which every entry is read once, on average."""
        return self.length

    @property
    def seconds_an_iteration(self) -> float:
        """A rough time of an iteration on one core."""
        entry = 1.3e-10 if self.data.is_sparse else 6e-11
        read = self.grid.blocks if self.subsample is None else self.data.size / self.subsample.size
        entries = self.data.stored / read
        return self.model.components * (entries * entry + sum(self.data.shape) * 9e-10)

    def chain(self, key: int, probes: Probes, engine: Engine | None = None) -> LangevinChain:
        """Start a chain; the key decides all its randomness."""
        return LangevinChain(self, key, probes, engine or self.engine)

    @property
    def stay(self) -> int | None:
        """The iterations that a chain stays on a rank, where whole chains hop from rank to rank."""
        schedule = self.schedule
        return schedule.stay if isinstance(schedule, Hopping) and self.grid.hopping else None

    def describe(self) -> dict[str, Any]:
        """Return what was chosen for this run, fit for JSON."""
        return {
            "metric": type(self.metric).__name__,
            "step_size": repr(self.step_size),
            "blocks": self.grid.blocks,
            "momentum": self.momentum,
            "bytes_an_iteration": self.bytes_an_iteration,
        }


class _Stretch(NamedTuple):
    """Iterations t, t + 1, …: their parts, steps and scales, and the entries that are drawn, if not all are read."""

    t: int
    parts: NDArray[np.int32]
    steps: NDArray[np.float64]
    scales: NDArray[np.float64]
    draws: NDArray[np.int32] | None


class _Passed(NamedTuple):
    """Marks that were passed, and what is recorded of each."""

    iterations: range
    lp: list[float]
    steps: list[float]


@final
class LangevinChain(Chain):
    """Factors that move by Langevin steps in the core."""

    setup: LangevinSetup
    factors: Blocks

    def __init__(self, setup: LangevinSetup, key: int, probes: Probes, engine: Engine) -> None:
        model = setup.model
        floor = 1e-7 * abs(setup.moments.mean) or 1e-30
        factors = engine.chain(setup.grid, model.components, model.likelihood, floor)
        super().__init__(setup, key, factors, probes)
        self._metric_hyper = self._saved_hyper = setup.start
        self.step_factor = 1.0
        self._last_step = 0.0
        self._swellings = 0
        self._table: tuple[Any, ...] = (0, 1.0, (), (), ())
        core = self.factors.core
        core.key, core.metric, core.mirror = key, setup.metric.code, model.nonnegative
        core.temperature = setup.temperature
        self.factors.second_order = setup.momentum > 0.0
        core.set_move(W, model.row_free.astype(float))
        core.set_move(H, model.col_free.astype(float))
        self._next_upkeep = setup.cycle
        self._upkeeps = 0
        self._start_factors()
        self._apply_hyper()
        if model.likelihood.conjugate:
            self.factors.accumulate(SCORE)  # residuals of every block, also of those that are visited late
        self._refresh_metric()
        self._scale = max(float(self._typical_mean(self.sums())), self._data_scale())
        self._save()

    # -- moving ------------------------------------------------------------------------------------------

    def advance(self, n: int) -> None:
        """Run n iterations, with the hyperparameters, the metric and the check for divergence at cycle ends."""
        end = self.iteration + n
        while self.iteration < end:
            stretch = self._stretch(min(end, self._next_upkeep))
            self.factors.advance(*stretch)
            self._have_run(stretch)
            self._upkeep_if_due()

    def pass_marks(self, recorder: Marks, marks: range, keep: bool) -> int:
        """Run to the last of these iterations, and record each in passing; or, where it has to stop, to the first.

        Where something is wrong at a mark, the chain goes back to it and settles there, as if it had stopped.
        Return how many of them were recorded.
        """
        given = len(marks)
        while marks:
            end = min(marks[-1], self._next_upkeep)
            inside = marks[: max(0, -(-(self._next_upkeep - marks[0]) // marks.step))]  # before the upkeep
            room = recorder.room(len(inside), keep) if self._can_pass() else None
            if room is None:
                self.advance(marks[0] - self.iteration)
                recorder.record(keep)
                return given - len(marks) + 1
            passed = self._run_past(inside, end, room)
            recorder.record_passed(keep, *passed)
            marks = marks[len(passed.lp) :]
            self._upkeep_if_due()
            if marks and self.iteration == marks[0]:  # it stopped there, or is just after an upkeep
                recorder.record(keep)
                marks = marks[1:]
        return given

    def _can_pass(self) -> bool:
        """Return whether the sums over the factors tell all that has to be known at a mark."""
        return (
            isinstance(self.factors, ThreadedChain) and not self._log_prior.others and not self._may_swell()
        )

    def _run_past(self, marks: range, end: int, room: tuple[NDArray[Any], NDArray[Any]]) -> _Passed:
        """Run to the end, past the marks; or go back to the first that is unsound. Return those before it."""
        assert isinstance(self.factors, ThreadedChain)
        start, stretch = self.iteration, self._stretch(end)
        after = np.arange(marks.start - start, marks.stop - start, marks.step)
        sums, kernels = self.factors.advance_marking(*stretch, after, self.probes.entries, room)
        steps: list[float] = stretch.steps[after - 1].tolist()
        sound = self._is_sound(sums)
        n = len(marks) if sound.all() else int(sound.argmin())
        if n == len(marks):
            self._have_run(stretch)
        else:
            self.iteration, self._last_step, self._sums = marks[n], steps[n], sums[n]
        lp = self._log_posterior_from(sums[:n], kernels[:n])
        return _Passed(marks[:n], lp.tolist(), steps[:n])

    def _stretch(self, end: int) -> _Stretch:
        """Return what the core needs to know of the iterations from here to the end, no upkeep among them."""
        t, n = self.iteration + 1, end - self.iteration
        # Far from where it belongs, a chain would gather more momentum than it can lose again in time.
        self.factors.core.momentum = self.setup.momentum if t > _EARLY_CYCLES * self.setup.cycle else 0.0
        parts, scales, steps = self._planned(t, n)
        draws = None
        if self.setup.subsample is not None:
            draws = self.setup.subsample.draws(t, parts, self.key)
            scales = scales * self.setup.grid.part_sizes[parts] / self.setup.subsample.size
        return _Stretch(t, parts, steps, scales, draws)

    def _have_run(self, stretch: _Stretch) -> None:
        self._last_step = float(stretch.steps[-1])
        self._sums = None
        self.iteration += len(stretch.parts)

    def _upkeep_if_due(self) -> None:
        cycle = self.setup.cycle
        if self.iteration == self._next_upkeep:
            self._upkeep(self.iteration // cycle)
            self._next_upkeep += cycle * self._cycles_to_upkeep(self.iteration // cycle)

    def next_part(self) -> int:
        """Return the part that the next iteration reads."""
        parts, _ = self.setup.schedule.parts(self.iteration + 1, 1, self.setup.grid.part_sizes, self.key)
        return int(parts[0])

    def _planned(self, t: int, n: int) -> tuple[NDArray[np.int32], NDArray[np.float64], NDArray[np.float64]]:
        """Return parts, scales and step sizes of n iterations from t on, of a table that is made for many at once."""
        first, factor, parts, scales, steps = self._table
        if not (first <= t <= t + n <= first + len(parts) and factor == self.step_factor):
            first, factor, m = t, self.step_factor, max(n, self._next_upkeep - self.iteration)
            try:
                with np.errstate(all="ignore"):
                    steps = tabulate(self.setup.step_size, t, m) * factor
            except Exception:  # whatever the user's function does: it may end with the run
                m, steps = n, tabulate(self.setup.step_size, t, n) * factor
            parts, scales = self.setup.schedule.parts(t, m, self.setup.grid.part_sizes, self.key)
            self._table = first, factor, parts, scales, steps
        now = slice(t - first, t - first + n)
        return parts[now], scales[now], steps[now]

    def begin(self, W: NDArray[Any], H: NDArray[Any], hyper: Hyper) -> None:
        """Start at these factors and hyperparameters."""
        super().begin(W, H, hyper)
        self._refresh_metric()
        if self.setup.model.likelihood.conjugate:
            self.factors.accumulate(SCORE)
        self._scale = max(float(self._typical_mean(self.sums())), self._data_scale())
        self._save()

    def settle(self) -> bool:
        """Make sure that the state is sound, going back to the last good one if not. Return whether it was."""
        if self._is_sound(self.sums()):
            if not self._swollen():
                return True
            self._swellings += 1
        if len(self.divergences) >= _MOST_DIVERGENCES:
            raise SamplingError(
                f"the chain still diverges after halving the step size {_MOST_DIVERGENCES} times "
                f"(iteration {self.iteration}); check the data for extreme values, or fix the prior rates"
            )
        self.divergences.append(self.iteration)
        self.step_factor *= 0.5
        self.factors.restore()
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

    def state(self) -> State:
        """Return all that the chain needs to go on bit for bit from here, rows in their original order."""
        return {
            **self.factors.state(),
            **self.setup.metric.state(self.factors),
            **{
                f"{prefix}/{name}": value
                for prefix, hyper in self._hypers()
                for name, value in vars(hyper).items()
            },
            **{name: getattr(self, attribute) for name, attribute in _NUMBERS.items()},
            "divergences": list(self.divergences),
        }

    def set_state(self, state: State) -> None:
        """Go on from a state that `state` returned."""
        now, self._metric_hyper, self._saved_hyper = (
            Hyper.from_dict({n: state[f"{prefix}/{n}"] for n in vars(hyper) if f"{prefix}/{n}" in state})
            for prefix, hyper in self._hypers()
        )
        self.factors.set_state(state)
        self.hyper = self._metric_hyper
        self._apply_hyper()
        self.setup.metric.set_state(self.factors, self.hyper, state)
        self.hyper = now
        self._apply_hyper()
        for name, attribute in _NUMBERS.items():
            setattr(self, attribute, type(getattr(self, attribute))(state[name]))
        self.divergences = [int(t) for t in state["divergences"]]
        self._sums = None
        self._check_numbers()

    def _check_numbers(self) -> None:
        """Raise ValueError if the numbers of a state from a file contradict each other: it would never be resumed."""
        t, cycle, due = self.iteration, self.setup.cycle, self._next_upkeep
        latest = max(_MOST_CYCLES, t // cycle) * cycle
        if not 0 <= t < due <= t + latest or due % cycle:
            raise ValueError(f"iteration {t} and next_upkeep {due}, in cycles of {cycle}")
        sizes = (self.step_factor, self._scale, self._last_step)
        if not all(0.0 <= x < math.inf for x in sizes) or min(sizes[:2]) <= 0.0 or self.step_factor > 1.0:
            raise ValueError(f"step_factor {sizes[0]}, scale {sizes[1]}, last_step {sizes[2]}")
        if min(self._upkeeps, self._swellings) < 0 or not all(0 <= d <= t for d in self.divergences):
            raise ValueError(f"upkeeps {self._upkeeps}, divergences at {self.divergences[:5]}")

    def _hypers(self) -> tuple[tuple[str, Hyper], ...]:
        return ("hyper", self.hyper), ("metric_hyper", self._metric_hyper), ("saved_hyper", self._saved_hyper)

    # -- at the end of a cycle ---------------------------------------------------------------------------

    def _upkeep(self, cycle: int) -> None:
        if not self.settle():
            return
        self._upkeeps += 1
        due = self.setup.metric.due
        # Where the one before was passed over, the state to go back to is old.
        rare = not (self._learns() or due(self._upkeeps - 1)) and cycle >= _EARLY_CYCLES
        if (rare or self._upkeeps % _UPKEEPS_BETWEEN_SAVES == 0) and not self._inflated():
            self._save()
        if self.setup.temperature > 0:
            self._draw_hyper(cycle)
        if due(self._upkeeps):
            self._refresh_metric()
        elif _far(self.hyper, self._metric_hyper):
            self.setup.metric.rescale(self.factors, self.hyper)
            self._metric_hyper = self.hyper

    def _squared_residuals(self) -> float:
        # Draws do not visit every entry, nor does a chain that stays with a shard.
        if self.setup.subsample is not None or isinstance(self.setup.schedule, Hopping):
            assert not isinstance(self.factors, MpiChain)  # there, strips hold all that was visited
            return self.factors.fresh_squared_residuals()
        return self.factors.squared_residuals()

    def _prior_coefficients(self) -> list[tuple[float, NDArray[np.float64], NDArray[np.float64]]]:
        if self.setup.flat:
            none = np.zeros(self.setup.model.components)
            return [(0.0, none, none), (0.0, none, none)]
        return super()._prior_coefficients()

    def _apply_hyper(self) -> None:
        super()._apply_hyper()
        core = self.factors.core
        core.phi = self.hyper.phi
        core.set_parameters(np.array([*self.setup.model.likelihood.constants, *self.hyper.theta]))
        for which, (inverse, linear, quadratic) in enumerate(self._prior_coefficients()):
            core.set_prior(which, inverse, linear, quadratic)
            normal = self._normal(which)
            if normal is not None:
                core.set_coupling(which, normal.off_diagonal)

    def _refresh_metric(self) -> None:
        curvature = self.setup.model.likelihood.curvature_bound
        self.setup.metric.refresh(self.factors, self.hyper, self.setup.moments.size, curvature or 1.0)
        self._metric_hyper = self.hyper

    def _cycle_seconds(self) -> float:
        """Return about the time of a cycle, the same on every machine."""
        rows, cols = self.setup.grid.shape
        entries = self.setup.data.stored
        return self.setup.model.components * (entries * 1e-10 + self.setup.cycle * (rows + cols) * 1e-9)

    def _cycles_to_upkeep(self, cycle: int) -> int:
        """Return 1, or more where a cycle takes less time than its upkeep in Python, or where little is to be done."""
        early = _EARLY_CYCLES - cycle  # there is an upkeep at its end, when momentum sets in
        if self._learns() or self.setup.metric.due(self._upkeeps + 1):
            return 1 if early > 0 else int(np.clip(3e-4 / self._cycle_seconds(), 1, _MOST_CYCLES))
        idle = max(_IDLE_CYCLES, min(cycle // _IDLE_SHARE, _IDLE_ITERATIONS // self.setup.cycle))
        cycles, most = 1, min(cycle, idle, early if early > 0 else idle)
        while cycles < most and not self.setup.metric.due(self._upkeeps + cycles):
            cycles += 1
        self._upkeeps += cycles - 1  # those that are passed over count
        return cycles

    def _parameters_are_due(self) -> bool:
        """Return whether θ moves at this upkeep: not at each, where that takes longer than what lies between them."""
        assert self._parameters is not None
        an_entry = 2e-7 if self.setup.model.likelihood.closed else 4e-6  # seconds
        between = max(3e-4, self._cycle_seconds())
        every = int(np.clip(len(self._parameters.values) * an_entry / between, 1, 10))
        return self.iteration <= _EARLY_CYCLES * self.setup.cycle or self._upkeeps % every == 0

    # -- start and safety --------------------------------------------------------------------------------

    def _start_factors(self) -> None:
        model, start = self.setup.model, self.setup.start
        sizes = start_sizes(model, self.setup.moments, start)
        for which, size, free in zip((W, H), sizes, (model.row_free, model.col_free), strict=True):
            x = self.factors.noise(which, 0) * size
            if model.nonnegative:
                x = np.abs(x) * np.sqrt(np.pi / 2)  # of mean `size`
            elif not model.bias:
                self._start_at_mean(which, x)
            if model.bias:
                x[:, model.rank :] = np.where(
                    free[model.rank :], self._prior_means()[which][model.rank :], 1.0
                )
            self.factors.set_factor(which, x)

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

    def _is_sound(self, sums: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Return whether these are sums over the factors of a chain that has not run away; False for NaN."""
        return np.asarray(self._typical_mean(sums) <= _RUNAWAY * self._scale)

    def _typical_mean(self, sums: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the size of μ as the columns of W and H suggest it: one number that grows when a chain runs away.

        Of one state, or of several: (…, 2, 2 or 3, K).
        """
        rows, cols = self.setup.grid.shape
        products = np.einsum("...k,...k->...", sums[..., W, 1, :], sums[..., H, 1, :])
        return np.asarray(np.sqrt(products / rows / cols))

    def _inflated(self) -> bool:
        """Return whether this is no state to go back to: W H is well above V (W, H ≥ 0 do not cancel)."""
        typical = self._typical_mean(self.sums())
        return self.setup.model.nonnegative and bool(typical > _INFLATED * self._scale)

    def _swollen(self) -> bool:
        """Return whether μ is too large for the data, in a chain that has run away before.

        Just below the step that runs away there are steps that hold, but inflate the posterior: E[μ²] ≤ E[v²] fails.
        """
        if not self._may_swell():
            return False
        settling = max(_SETTLING_CYCLES * self.setup.cycle, _SETTLING_ITERATIONS) / (2 * self.step_factor)
        if self.iteration - self.divergences[-1] < settling:
            return False
        return float(np.square(self.probes.means()).mean()) > _SWOLLEN**2 * self.probes.mean_square

    def _may_swell(self) -> bool:
        if not self.setup.model.likelihood.identity:  # η and v cannot be compared
            return False
        return bool(self.divergences) and self._swellings < _MOST_SWELLINGS

    def _data_scale(self) -> float:
        m = self.setup.moments
        return float(np.sqrt(m.variance + m.mean**2)) or 1.0

    def _save(self) -> None:
        self.factors.save()
        self._saved_hyper = self.hyper
