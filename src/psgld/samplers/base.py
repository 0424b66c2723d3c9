"""The interface of samplers: settings → setup (shared by the chains of a run) → chain (the state that is advanced).

    settings.prepare(data, model, engine, tune) → Setup        setup.chain(key, probes, engine) → Chain

`runs/loop.py` advances a `Chain`, and `runs/recorder.py` records the marks that it yields. A chain depends on neither.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ..data.source import Source
from ..dynamics.probes import Probes
from ..engines import Engine, ReadableFactors
from ..models import (
    FactorModel,
    FactorStats,
    Hyper,
    Likelihood,
    Moments,
    Move,
    RowNormal,
    hyperparameters,
)

_CLOSED, _SERIES = 10_000, 3_000
"""Number of entries used to draw the parameters of a likelihood: with a closed-form density, and without one."""

_ROUNDING = 1e-13
"""Relative standard deviation up to which data count as constant (rounding errors)."""

State = dict[str, Any]
"""Everything needed to resume a chain bit for bit: arrays, numbers and lists of numbers, by name."""


Distribution = Literal["strips", "chains"]
"""What the ranks of an engine share out: the strips of every chain, or whole chains that move between ranks."""


class Sampler(Protocol):
    """The settings of a sampler, given by the user."""

    distribution: ClassVar[Distribution | None]
    """How it runs on several ranks; None if it does not."""

    @property
    def dtype(self) -> str:
        """ "float32" or "float64": the floating-point type of the factors."""

    def to_dict(self) -> dict[str, Any]:
        """Return the settings, serialisable as JSON; `sampler_from_dict` recreates the sampler."""

    def cycle(self, data: Source) -> int:
        """Return the number of iterations in which every entry is read once, on average."""

    def prepare(self, data: Source, model: FactorModel, engine: Engine, tune: int) -> Setup:
        """Raise an error if the model or data cannot be sampled this way; otherwise return what the chains share."""


@runtime_checkable
class Planned(Protocol):
    """A sampler that has its own default of tune and thin."""

    def default_plan(self, data: Source) -> tuple[int, int]:
        """Return the defaults of tune and thin, in iterations."""


DrawBuffers = tuple[NDArray[Any], ...]
"""Output arrays for draws of the factors, one per mode, (draws, rows, rank) each; empty if draws are not kept."""


class Marks(NamedTuple):
    """Values recorded at marks: at those that a chain has passed, or at the one where it pauses."""

    iterations: Sequence[int]
    lp: list[float]
    steps: list[float]
    divergences: int
    """Number of divergences of the chain so far; none between these marks."""
    paused: bool
    """Whether the chain pauses at the mark, so that its factors can be read; otherwise draws are in the buffers."""


class _LogPrior(NamedTuple):
    """Log p(W, H) = constant + weights · (Σx, Σx²) + logs · Σ log x of W and H + `others`, which need more sums."""

    constant: float
    weights: NDArray[np.float64]
    logs: NDArray[np.float64] | None = None
    others: tuple[tuple[int, RowNormal], ...] = ()
    """(factor, normal), if rows are jointly normal: - Σ_{k≠l} Λ_kl Σx_k x_l / 2."""


@dataclass(frozen=True, eq=False)
class Setup(ABC):
    """Data and settings that the chains of a run share."""

    settings: Sampler
    """The settings of the sampler, kept with the result."""
    model: FactorModel
    data: Source
    engine: Engine
    shift: float
    moments: Moments
    start: Hyper

    bytes_per_iteration = 0.0
    """Bytes that the workers of a cluster would send per iteration of a chain."""

    @property
    def stay(self) -> int | None:
        """The number of iterations that a chain stays on a rank, if chains move from rank to rank; otherwise None."""
        return None

    @property
    def floor(self) -> float:
        """The lower limit of μ, where the likelihood divides by it."""
        return 1e-7 * abs(self.moments.mean) or 1e-30

    @property
    @abstractmethod
    def cycle(self) -> int:
        """The number of iterations in which every entry is read once, on average."""

    @property
    @abstractmethod
    def seconds_per_iteration(self) -> float:
        """An estimate of the time per iteration on one core, in seconds."""

    @abstractmethod
    def chain(self, key: int, probes: Probes, engine: Engine | None = None) -> Chain:
        """Start a chain. The key is its random seed."""

    @property
    def entries_per_iteration(self) -> float:
        """The number of entries of V that are read per iteration of a chain."""
        return self.data.stored

    @property
    def cost_per_iteration(self) -> dict[str, float]:
        """The cost per iteration of a chain, under the names that it has in the settings of a result."""
        return {
            "bytes_moved": self.bytes_per_iteration,
            "entries_read": self.entries_per_iteration,
            "coefficients_updated": sum(self.data.shape) * self.model.components,
        }

    def describe(self) -> dict[str, Any]:
        """Return the choices made for this run, serialisable as JSON."""
        return {}


def scale_of(data: Source, model: FactorModel) -> tuple[float, Moments, Hyper]:
    """Return the shift of V, the moments of V - shift, and start values of the hyperparameters."""
    # For a Gaussian model with an offset (and for BPMF) data are centred, which improves the precision of float32.
    mean, variance = data.mean(), data.variance()
    shift = mean if model.centred and data.absent != "zero" else 0.0
    constant = variance <= (_ROUNDING * mean) ** 2
    centre, spread = mean - shift, 0.0 if constant else variance
    size = data.total_weight
    moments = Moments(*model.likelihood.eta_moments(centre, spread, size), size)

    def some() -> NDArray[np.float64]:
        values = data.sample_entries(100_000)[2] - shift
        return np.asarray(np.full_like(values, centre) if constant else values)

    return shift, moments, hyperparameters.start(model, moments, model.likelihood.start(some))


class ChainFactors(ReadableFactors, Protocol):
    """The factors of a chain, which can start anywhere."""

    def set_factor(self, which: int, x: NDArray[Any]) -> None:
        """Replace a factor, given all its rows."""


class Chain(ABC):
    """A Markov chain: factors, hyperparameters, iteration. `advance` runs iterations; other methods read the state."""

    setup: Setup
    factors: ChainFactors

    def __init__(self, setup: Setup, key: int, factors: ChainFactors, probes: Probes) -> None:
        self.setup, self.key, self.factors = setup, key, factors
        self.iteration = 0
        self.hyper = setup.start
        self.divergences: list[int] = []
        self.probes = probes.placed(factors, setup.shift)
        self._floor = setup.floor
        self._sums: NDArray[np.float64] | None = None  # of the current state
        self._log_prior = _LogPrior(0.0, np.zeros((2, 2, 0)))
        self._parameters = self._parameter_move()

    # -- updates -----------------------------------------------------------------------------------------

    @abstractmethod
    def advance(self, n: int) -> None:
        """Run n iterations."""

    @property
    def passes(self) -> bool:
        """Whether the chain can run through several marks in one call, given buffers for their draws."""
        return False

    def run(self, marks: range, buffers: DrawBuffers | None = None) -> Iterator[Marks]:
        """Run to the last of these iterations, and yield the marks; or run to the first one only, and yield it.

        A chain that `passes` marks writes its draws to the `buffers`, which have one slot per mark. Without them it
        pauses at the first mark. The caller must read the state before it continues the generator.
        """
        self.advance(marks[0] - self.iteration)
        yield self.pause()

    def pause(self) -> Marks:
        """Check for divergence, and return the current state as a mark."""
        self.settle()
        return Marks([self.iteration], [self.log_posterior()], [self.step_size], len(self.divergences), True)

    def begin(self, factors: Sequence[NDArray[Any]], hyper: Hyper) -> None:
        """Start at these factors (all stored components) and hyperparameters, instead of at the random start."""
        for which, x in enumerate(factors):
            self.factors.set_factor(which, x)
        self.hyper = hyper
        self._sums = None
        self._apply_hyper()

    def next_part(self) -> int:
        """Return the part that the next iteration reads, for chains that move from rank to rank."""
        raise NotImplementedError

    def settle(self) -> bool:
        """Return whether the chain has not diverged. If it has, reset it to the last saved state."""
        return True

    # -- reading -----------------------------------------------------------------------------------------

    @property
    def step_size(self) -> float:
        """The step size of the last iteration; NaN for samplers without one."""
        return float("nan")

    def sums(self) -> NDArray[np.float64]:
        """Return Σx, Σx², Σ log x and Σ count x² of each component of each factor, (modes, 4, K)."""
        if self._sums is None:
            self._sums = self.factors.sums()
        return self._sums

    def stats(self, which: int) -> FactorStats:
        """Return the sums over the rows of a factor."""
        total, squares, logs, _ = self.sums()[which]
        gram = None if self.hyper.modes[which].normal is None else self.factors.gram(which)
        return FactorStats(self.setup.data.shape[which], total, squares, gram, logs)

    def log_posterior(self, log_likelihood: float | None = None) -> float:
        """Return log p(V | W, H, φ) + log p(W, H | rates).

        The first term is `log_likelihood`. By default, if V is large, it is estimated at the monitored entries.
        """
        total = float(self._log_posterior_from(self.sums(), log_likelihood=log_likelihood))
        for which, normal in self._log_prior.others:
            total -= 0.5 * float(np.sum(normal.off_diagonal * self.factors.gram(which)))
        return total

    def _log_posterior_from(
        self,
        sums: NDArray[np.float64],
        kernel: NDArray[np.float64] | None = None,
        log_likelihood: float | None = None,
    ) -> NDArray[np.float64]:
        """Return the log posterior, without `others`, from sums over factors and the log kernel at monitored entries.

        For one state, or for several, (…, 2, 3 or 4, K) and (…), bit-identical.
        """
        prior, likelihood = self._log_prior, self.setup.model.likelihood
        total: Any = log_likelihood
        if total is None:
            total = self.probes.log_likelihood(likelihood, self.hyper.parameters(likelihood), kernel)
        weighted = (sums[..., :2, :] * prior.weights).reshape(*sums.shape[:-3], prior.weights.size)
        found = np.asarray(total + prior.constant + weighted.sum(axis=-1))
        if prior.logs is None:
            return found
        return np.asarray(found + np.sum(sums[..., 2, :] * prior.logs, axis=(-2, -1)))

    @abstractmethod
    def state(self) -> State:
        """Return everything needed to resume the chain bit for bit. Arrays are copies, since the chain continues."""

    @abstractmethod
    def set_state(self, state: State) -> None:
        """Resume from a state that `state` returned."""

    # -- hyperparameters ---------------------------------------------------------------------------------

    def _apply_hyper(self) -> None:
        """Apply the current hyperparameters. The log prior is the integral of its score."""
        constant, weights, logs, others = 0.0, [], [], []
        for which, (inverse, linear, quadratic) in enumerate(self._prior_coefficients()):
            mode, now = self.setup.model.modes[which], self.hyper.modes[which]
            free, normal, count = mode.free, now.normal, self.setup.data.shape[which]
            if normal is not None:
                constant += normal.log_constant(count, free)
            else:
                nothing, mean = np.zeros(free.sum()), mode.prior_mean(self.hyper.offset)
                constant += mode.prior.at_shape(now.shape).log_density_from_sums(
                    count, nothing, nothing, now.rate[free], mean[free], sum_log=nothing
                )
            weights.append([linear * free, -0.5 * quadratic * free])
            logs.append(inverse * free)
            if normal is not None:
                others.append((which, normal))
        found = np.array(logs) if np.any(logs) else None
        self._log_prior = _LogPrior(constant, np.array(weights), found, tuple(others))

    def _prior_coefficients(self) -> list[tuple[float, NDArray[np.float64], NDArray[np.float64]]]:
        """Return inverse, linear and quadratic coefficients of the scores of the priors, without coupling terms."""
        return [self._coefficients(mode.axis) for mode in self.setup.model.modes]

    def _coefficients(self, which: int) -> tuple[float, NDArray[np.float64], NDArray[np.float64]]:
        mode, now = self.setup.model.modes[which], self.hyper.modes[which]
        prior = mode.prior.at_shape(now.shape)
        inverse, linear, quadratic = prior.coefficients(now.rate, mode.prior_mean(self.hyper.offset))
        return inverse, linear if now.normal is None else now.normal.linear, quadratic

    def _squared_residuals(self) -> float:
        """Return Σ(v - μ)², from which φ is drawn in conjugate models."""
        raise NotImplementedError

    def _least_residuals(self) -> float:
        """Return the rounding error of Σ(v - μ)², which is a difference of large sums if zeros are implicit."""
        data, moments = self.setup.data, self.setup.moments
        if data.size == data.stored:
            return 0.0
        resolution = 4.0 * float(np.finfo(self.setup.settings.dtype).eps)
        return float(resolution * moments.size * (moments.variance + moments.mean**2))

    def _learns(self) -> bool:
        """Return whether any hyperparameter is learnt."""
        model = self.setup.model
        priors = any(mode.prior.learnt for mode in model.modes)
        return priors or model.bias or bool(model.likelihood.learnt)

    def _draw_hyper(self, cycle: int) -> None:
        """Draw all learnt hyperparameters, with random numbers that are a function of the cycle."""
        if not self._learns():
            return
        model = self.setup.model
        rng = np.random.Generator(
            np.random.Philox(key=np.array([self.key, 0], np.uint64), counter=[0, cycle, 0, 0])
        )
        conjugate = model.likelihood.conjugate
        rss = max(self._squared_residuals(), self._least_residuals()) if conjugate else None
        self.hyper = hyperparameters.draw(
            model, self.hyper, self.setup.start, [self.stats(mode.axis) for mode in model.modes],
            rng, rss, self.setup.moments.size,
        )  # fmt: skip
        if self._parameters is not None and self._parameters_are_due():
            eta, likelihood = self._monitored.means().astype(np.float64), model.likelihood
            if likelihood.nonnegative_mean:
                eta = np.maximum(eta, self._floor)
            theta = self._parameters(self.hyper.parameters(likelihood), eta, rng)
            self.hyper = self.hyper.with_parameters(likelihood, theta)
        self._apply_hyper()

    def _parameters_are_due(self) -> bool:
        """Return whether to update the parameters of the likelihood now, if that takes a Metropolis step."""
        return True

    def _parameter_move(self) -> Move | None:
        likelihood: Likelihood = self.setup.model.likelihood
        if likelihood.conjugate or not likelihood.learnt:
            return None
        # The relative error of φ is sqrt(2 / n): with 1,000 entries it would affect predictive intervals.
        number = _CLOSED if likelihood.closed else _SERIES
        self._monitored = Probes.some(self.setup.data, number).placed(self.factors, self.setup.shift)
        values, weights = self._monitored.values, self._monitored.weights
        return likelihood.move(values, self.setup.start.parameters(likelihood), weights)
