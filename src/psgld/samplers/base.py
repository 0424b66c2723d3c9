"""What all samplers have in common: settings → setup (what the chains of a run share) → chain (what moves).

    settings.prepare(data, model, engine, tune) → Setup        setup.chain(key, probes, engine) → Chain

`runs/loop.py` drives a `Chain`, `runs/recorder.py` reads the marks that it yields: a chain knows neither of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ..data.source import Source
from ..dynamics.probes import Probes
from ..engines import Engine, H, ReadableFactors, W
from ..errors import ModelError, SamplingError
from ..models import (
    FactorModel,
    FactorStats,
    Hyper,
    Likelihood,
    Moments,
    ParameterMove,
    RowNormal,
    hyperparameters,
)

_CLOSED, _SERIES = 10_000, 3_000
"""Entries from which the parameters of the likelihood are drawn: where its density has a closed form, and where not."""

_ROUNDING = 1e-13
"""The sd of data that are constant but for rounding, in units of their mean."""

State = dict[str, Any]
"""All that a chain needs to go on bit for bit: arrays, numbers, lists of numbers, by name."""


class Sampler(Protocol):
    """Settings of a sampler: what the user gives."""

    @property
    def dtype(self) -> str:
        """ "float32" or "float64": the numbers that the factors are kept in."""

    def to_dict(self) -> dict[str, Any]:
        """Return the settings in a form fit for JSON; `sampler_from_dict` makes the sampler again."""

    def cycle(self, data: Source) -> int:
        """Return the number of iterations in which every entry is read once, on average."""

    def prepare(self, data: Source, model: FactorModel, engine: Engine, tune: int) -> Setup:
        """Refuse what cannot be sampled this way; else fix all that the chains share."""


@runtime_checkable
class Planned(Protocol):
    """A sampler that knows better than `psgld.sample` how long it should run."""

    def default_plan(self, data: Source) -> tuple[int, int]:
        """Return tune and thin, in iterations, where the user leaves them out."""


Room = tuple[NDArray[Any], NDArray[Any]]
"""Where draws of W and H go, (draws, rows, rank) each; of no draws where none are kept."""


class Marks(NamedTuple):
    """Marks that a chain has passed, or the one at which it rests: what is recorded of each."""

    iterations: Sequence[int]
    lp: list[float]
    steps: list[float]
    divergences: int
    """Of the chain so far; all of them before the first of these marks."""
    resting: bool
    """Whether the chain is at the mark now, so that its factors can be read; else its draws are in the room."""


class _LogPrior(NamedTuple):
    """Log p(W, H) = constant + weights · (Σx, Σx²) of W and H, + what sums do not tell."""

    constant: float
    weights: NDArray[np.float64]
    others: tuple[tuple[int, float, RowNormal | None], ...] = ()
    """Of W or H, inverse and normal: + inverse Σlog x, and where whole rows are normal - Σ_{k≠l} Λ_kl Σx_k x_l / 2."""


@dataclass(frozen=True, eq=False)
class Setup(ABC):
    """All that the chains of a run share."""

    settings: Any  # of the sampler, for the record
    model: FactorModel
    data: Source
    engine: Engine
    shift: float
    moments: Moments
    start: Hyper

    bytes_an_iteration = 0.0
    """What the workers of a cluster would send each other, in an iteration of a chain."""

    @property
    def stay(self) -> int | None:
        """The iterations that a chain stays on a rank, where whole chains hop from rank to rank; else None."""
        return None

    @property
    @abstractmethod
    def cycle(self) -> int:
        """The number of iterations in which every entry is read once, on average."""

    @property
    @abstractmethod
    def seconds_an_iteration(self) -> float:
        """A rough time of an iteration on one core."""

    @abstractmethod
    def chain(self, key: int, probes: Probes, engine: Engine | None = None) -> Chain:
        """Start a chain; the key decides all its randomness."""

    def describe(self) -> dict[str, Any]:
        """Return what was chosen for this run, fit for JSON."""
        return {}


def check_dtype(settings: Any) -> None:
    """Keep the name of the numbers that the factors are kept in (np.float64 is "float64"); refuse others."""
    given = settings.dtype
    try:
        name = None if given is None else np.dtype(given).name
    except TypeError:
        name = None
    if name not in ("float32", "float64"):
        raise ModelError(f'dtype must be "float32" or "float64", got {given!r}')
    object.__setattr__(settings, "dtype", name)  # settings are frozen


def check_compiled(settings: Any, engine: Engine) -> None:
    """Refuse an engine that has no threads of the core for a sampler that needs them."""
    if not engine.compiled:
        raise SamplingError(
            f"{type(settings).__name__} does not run on {engine!r}; PSGLD, LD, SGLD, DSGLD and DSGD do; use Threads()"
        )


def scale_of(data: Source, model: FactorModel) -> tuple[float, Moments, Hyper]:
    """Return what is subtracted from V, the moments of what is left, and hyperparameters of that scale."""
    # A Gaussian model with an offset sees data centred at it, which float32 resolves better; BPMF centres them too.
    mean, variance = data.mean(), data.variance()
    shift = mean if model.centred and data.absent != "zero" else 0.0
    constant = variance <= (_ROUNDING * mean) ** 2
    centre, spread = mean - shift, 0.0 if constant else variance
    moments = Moments(*model.likelihood.eta_moments(centre, spread, data.size), data.size)

    def some() -> NDArray[np.float64]:
        values = data.sample_entries(100_000)[2] - shift
        return np.asarray(np.full_like(values, centre) if constant else values)

    return shift, moments, hyperparameters.start(model, moments, model.likelihood.start(some))


class Chain(ABC):
    """A chain: factors, hyperparameters, iteration. `advance` moves it; the rest reads it."""

    setup: Any
    factors: Any

    def __init__(self, setup: Setup, key: int, factors: ReadableFactors, probes: Probes) -> None:
        self.setup, self.key, self.factors = setup, key, factors
        self.iteration = 0
        self.hyper = setup.start
        self.divergences: list[int] = []
        self.probes = probes.placed(factors, setup.shift)
        self._floor = 1e-7 * abs(setup.moments.mean) or 1e-30
        self._sums: NDArray[np.float64] | None = None  # of the present state
        self._log_prior = _LogPrior(0.0, np.zeros((2, 2, 0)))
        self._parameters = self._parameter_move()

    # -- moving ------------------------------------------------------------------------------------------

    @abstractmethod
    def advance(self, n: int) -> None:
        """Run n iterations."""

    @property
    def passes(self) -> bool:
        """Whether it can pass marks now, given a room for their draws; else it rests at each."""
        return False

    def run(self, marks: range, room: Room | None = None) -> Iterator[Marks]:
        """Run to the last of these iterations, and yield the marks on the way; or stop at the first, and end there.

        A chain that can pass marks writes their draws to the `room`, which has as many places as there are marks.
        Without a room it has to rest at each. The state must be read before the next marks are asked for.
        """
        self.advance(marks[0] - self.iteration)
        yield self.rest()

    def rest(self) -> Marks:
        """Make sure that the state is sound, and return it as a mark."""
        self.settle()
        return Marks([self.iteration], [self.log_posterior()], [self.step_size], len(self.divergences), True)

    def begin(self, W: NDArray[Any], H: NDArray[Any], hyper: Hyper) -> None:
        """Start at these factors (all stored components) and hyperparameters, in place of the chain's own start."""
        self.factors.set_factor(0, W)
        self.factors.set_factor(1, H)
        self.hyper = hyper
        self._sums = None
        self._apply_hyper()

    def settle(self) -> bool:
        """Make sure that the state is sound, going back to the last good one if not. Return whether it was."""
        return True

    # -- reading -----------------------------------------------------------------------------------------

    @property
    def step_size(self) -> float:
        """The step size of the last iteration, where there is such a thing."""
        return float("nan")

    def sums(self) -> NDArray[np.float64]:
        """Return Σx, Σx² and Σ count x² of each component of W and H, (2, 3, K)."""
        if self._sums is None:
            self._sums = self.factors.sums()
        return self._sums

    def stats(self, which: int) -> FactorStats:
        """Return the sums over a factor."""
        total, squares, _ = self.sums()[which]
        gram = None if self.hyper.modes[which].normal is None else self.factors.gram(which)
        return FactorStats(self.setup.data.shape[which], total, squares, gram)

    def log_posterior(self) -> float:
        """Return log p(V | W, H, φ) + log p(W, H | rates), the likelihood from the probe entries if V is large."""
        total, prior = float(self._log_posterior_from(self.sums())), self._log_prior
        for which, inverse, normal in prior.others:
            if inverse:
                x = np.maximum(self.factors.factor(which).astype(np.float64), 1e-300)
                total += inverse * float(np.log(x).sum())
            if normal is not None:
                total -= 0.5 * float(np.sum(normal.off_diagonal * self.factors.gram(which)))
        return total

    def _log_posterior_from(self, sums: NDArray[np.float64], kernel: Any = None) -> NDArray[np.float64]:
        """Return what the sums over the factors and the log kernel at the probe entries tell of the log posterior.

        Of one state, or of several, (…, 2, 2 or 3, K) and (…): bit for bit the same.
        """
        prior, likelihood = self._log_prior, self.setup.model.likelihood
        total = self.probes.log_likelihood(likelihood, self.hyper.parameters(likelihood), kernel)
        weighted = (sums[..., :2, :] * prior.weights).reshape(*sums.shape[:-3], prior.weights.size)
        return np.asarray(total + prior.constant + weighted.sum(axis=-1))

    @abstractmethod
    def state(self) -> State:
        """Return all that the chain needs to go on bit for bit from here; copies, for the chain goes on at once."""

    @abstractmethod
    def set_state(self, state: State) -> None:
        """Go on from a state that `state` returned."""

    # -- hyperparameters ---------------------------------------------------------------------------------

    def _apply_hyper(self) -> None:
        """Take in the present hyperparameters; the log prior is the integral of its score."""
        constant, weights, others = 0.0, [], []
        for which, (inverse, linear, quadratic) in enumerate(self._prior_coefficients()):
            mode, now = self.setup.model.modes[which], self.hyper.modes[which]
            free, normal, count = mode.free, now.normal, self.setup.data.shape[which]
            if normal is not None:
                constant += normal.log_constant(count, free)
            else:
                nothing, mean = np.zeros(free.sum()), mode.prior_mean(self.hyper.offset)
                constant += mode.prior.log_density_from_sums(
                    count, nothing, nothing, now.rate[free], mean[free], sum_log=nothing
                )
            weights.append([linear * free, -0.5 * quadratic * free])
            if inverse or normal is not None:
                others.append((which, inverse, normal))
        self._log_prior = _LogPrior(constant, np.array(weights), tuple(others))

    def _prior_coefficients(self) -> list[tuple[float, NDArray[np.float64], NDArray[np.float64]]]:
        """Return inverse, linear and quadratic of the scores of both priors, but for what couples components."""
        return [self._coefficients(which) for which in (W, H)]

    def _coefficients(self, which: int) -> tuple[float, NDArray[np.float64], NDArray[np.float64]]:
        mode, now = self.setup.model.modes[which], self.hyper.modes[which]
        inverse, linear, quadratic = mode.prior.coefficients(now.rate, mode.prior_mean(self.hyper.offset))
        return inverse, linear if now.normal is None else now.normal.linear, quadratic

    def _squared_residuals(self) -> float:
        """Return Σ(v - μ)²; asked for where φ is drawn from it."""
        raise NotImplementedError

    def _least_residuals(self) -> float:
        """Return the least Σ(v - μ)² that can be told from 0: with implicit zeros it is a difference of large sums."""
        data, moments = self.setup.data, self.setup.moments
        if data.size == data.stored:
            return 0.0
        resolution = 4.0 * float(np.finfo(self.setup.settings.dtype).eps)
        return float(resolution * moments.size * (moments.variance + moments.mean**2))

    def _learns(self) -> bool:
        """Return whether there is a hyperparameter to be learnt."""
        model = self.setup.model
        priors = any(mode.prior.learnt for mode in model.modes)
        return priors or model.bias or bool(model.likelihood.learnt)

    def _draw_hyper(self, cycle: int) -> None:
        """Draw all hyperparameters that are learnt; the cycle decides the randomness."""
        if not self._learns():
            return
        model = self.setup.model
        rng = np.random.Generator(
            np.random.Philox(key=np.array([self.key, 0], np.uint64), counter=[0, cycle, 0, 0])
        )
        conjugate = model.likelihood.conjugate
        rss = max(self._squared_residuals(), self._least_residuals()) if conjugate else None
        self.hyper = hyperparameters.draw(
            model, self.hyper, self.setup.start, [self.stats(W), self.stats(H)], rng, rss, self.setup.moments.size
        )  # fmt: skip
        if self._parameters is not None and self._parameters_are_due():
            eta, likelihood = self._watched.means().astype(np.float64), model.likelihood
            if likelihood.nonnegative_mean:
                eta = np.maximum(eta, self._floor)
            theta = self._parameters(self.hyper.parameters(likelihood), eta, rng)
            self.hyper = self.hyper.with_parameters(likelihood, theta)
        self._apply_hyper()

    def _parameters_are_due(self) -> bool:
        """Return whether the parameters of the likelihood move, too, where that is a Metropolis move."""
        return True

    def _parameter_move(self) -> ParameterMove | None:
        likelihood: Likelihood = self.setup.model.likelihood
        if likelihood.conjugate or not likelihood.learnt:
            return None
        # φ is known to sqrt(2 / n): with 1,000 entries its error would show in the intervals of new observations.
        number = _CLOSED if likelihood.closed else _SERIES
        self._watched = Probes.some(self.setup.data, number).placed(self.factors, self.setup.shift)
        return likelihood.move(self._watched.values, self.setup.start.parameters(likelihood))
