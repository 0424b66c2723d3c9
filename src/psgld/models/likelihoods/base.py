"""The base class of likelihoods: v ~ p(· | η, θ), η_ij = Σ_k w_ik h_kj (+ biases).

    φ log p(v | η, θ) = kernel(v, η) + a function of v and θ
    φ ∂ log p / ∂η    = positive(v, η) - weight(v, η)

To add a family, write one class here, in a file of its own, and one functor of the same formulas in the core.

1. `models/likelihoods/<name>.py`: a frozen dataclass, a subclass of `Likelihood`, that defines

   =====================  ==============================================================================================
   `name`                 its name, as in `FactorModel(8, "name")`; also the name of its functor
   `parameters`           the names of θ; each is a field of the dataclass, a number, or None if it is learnt
   `requirement`          the support in words; `can_occur(v)` tests whether values are in it
   `remedy`               what to do about values outside the support, for the error message
   `kernel`               see above; vectorised, as are all methods below
   `log_normaliser`       log p - kernel / φ
   `positive`, `weight`   the two parts of the score, both >= 0 for v in the support where η must be positive. The
                          non-negative metric rests on the split: let their ratio be v/μ if it can be; where it
                          stays near 1, the sampler hardly moves
   `update_power`         the power of that ratio at which the likelihood never falls (1, or 1/2 if in doubt)
   `curvature`            -φ ∂² log p / ∂η²
   `variance`, `sample`   of a new observation
   `starts`, `typical`    initial θ, from the values; a typical θ, for synthetic data; if there are parameters
   =====================  ==============================================================================================

   The other methods have defaults; override them if there is a better formula (`survival`, `response`, …).
   `kernel`, `positive`, `weight` and `curvature` take (v, η) and the parameters except φ; all others take all
   parameters, in the order of `parameters`.
2. `core/likelihood/<name>.hpp`: the functor (`functor.hpp` lists its members). The functor defines whether η must be
   positive, whether implicit zeros are free, and whether the mean is η; `Likelihood` reads this from the core.
3. A line in `registry.py`, one in `core/likelihood/registry.hpp`; its name in `models/__init__.py`, `psgld/__init__.py`
   and `docs/api.md`, its files in `docs/inside.md`, README's list of names, and where users look for words:
   `docs/models.md`, `docs/command-line.md`: `tests/project/test_docs.py` says which of them lack it. `make format
   .stamp-lint` formats and builds the core.

A *dispersion* is a parameter that divides the kernel and does not enter it otherwise; it is called phi and comes first.
`tests/models/test_likelihoods.py` and `tests/engines/test_kernels.py` test every family in the registry.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from psgld import _core
from psgld.errors import DataError, ModelError
from psgld.models.common import Array, real, total
from psgld.models.likelihoods.parameter_move import Move, ParameterMove

Theta = tuple[float, ...]
"""The parameters of a likelihood, in the order of `parameters`."""

_Self = TypeVar("_Self", bound="Likelihood")

_TRAITS: Mapping[str, Mapping[str, Any]] = _core.families()


class Likelihood(ABC):
    """Base class of likelihoods. The docstring of this module lists what a subclass defines."""

    name: ClassVar[str]
    parameters: ClassVar[tuple[str, ...]] = ()
    remedy: ClassVar[str] = "use Gaussian()"
    closed: bool = True
    """Whether the density has a closed form; else it is a series or an integral."""

    # -- traits of the functor in the core ---------------------------------------------------------------

    @property
    def functor(self) -> str:
        """The name of the functor in the core."""
        return self.name

    @property
    def constants(self) -> Theta:
        """The constants of the functor, besides θ, such as a power."""
        return ()

    @property
    def _traits(self) -> Mapping[str, Any]:
        if self.functor not in _TRAITS:
            raise ModelError(
                f"the core has no functor {self.functor!r}, it has {', '.join(_TRAITS)}; add it to "
                "core/likelihood/registry.hpp and build the core again"
            )
        return _TRAITS[self.functor]

    @property
    def nonnegative_mean(self) -> bool:
        """Whether η must be positive."""
        return bool(self._traits["positive"])

    @property
    def zeros(self) -> str | None:
        """How implicit zeros are summed without visiting them: a "sum", a "gram" matrix, or None if they cannot be."""
        how = str(self._traits["zeros"])
        return None if how == "none" else how

    @property
    def identity(self) -> bool:
        """Whether the mean of an observation is η itself."""
        return bool(self._traits["identity"])

    @property
    def lattice(self) -> bool:
        """Whether the distribution is discrete."""
        return bool(self._traits["lattice"])

    @property
    def draws_in_core(self) -> bool:
        """Whether the core draws new observations; else `sample` does."""
        return bool(self._traits["draws"])

    @property
    def normal(self) -> bool:
        """Whether v ~ Normal(η, φ): then rows are normal given the other factor, and Gibbs samplers can draw them."""
        return bool(self._traits["residuals"])

    # -- properties used by samplers ---------------------------------------------------------------------

    splits: bool = False
    """Whether v is a sum of Poisson counts, one per component, as `Gibbs()` needs."""

    counts: bool = False
    """Whether values are counts, so that entries that a sparse matrix does not store may be zeros."""

    signed: bool = False
    """Whether η must be able to have either sign."""

    steep: bool = False
    """Whether the score is so much steeper below v than above it that an oscillating state diverges."""

    located: bool = False
    """Whether θ says where η lies: then there is no global offset."""

    patience: float = 1.0
    """The time from a move of θ to the next, in that of a move: more, if θ hardly changes."""

    levels: tuple[float, ...] | None = None
    """The values that can occur, if they are few."""

    curvature_bound: float | None = None
    """A bound over η of the mean of `curvature` over v, used by the real-valued metric; None if there is none."""

    update_power: float = 1.0
    """The exponent of the ratio in the multiplicative update for which the likelihood never decreases."""

    def eta_moments(self, mean: float, variance: float, size: float) -> tuple[float, float]:
        """Return a typical mean and variance of η from those of `size` values."""
        return mean, variance

    def information(self, mean: float, *others: float) -> float:
        """Return the curvature at v = η = `mean`."""
        return float(self.curvature(mean, mean, *others))

    # -- values ------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def requirement(self) -> str:
        """The support in words, such as "v >= 0"."""

    @abstractmethod
    def can_occur(self, v: NDArray[Any]) -> NDArray[np.bool_]:
        """Return a mask of the values in the support; NaN is not."""

    def check(self, values: ArrayLike) -> None:
        """Raise DataError if values are outside the support, with their number, the first one, and a remedy."""
        values = np.asarray(values)
        good = self.can_occur(values)
        if good.all():
            return
        bad = values[~good]
        raise DataError(
            f"{self._described} needs {self.requirement}, but {bad.size} of {values.size} values are not, "
            f"the first is {bad.flat[0]:g}; {self._remedy_for(bad)}"
        )

    @property
    def _described(self) -> str:
        return type(self).__name__

    def _remedy_for(self, bad: NDArray[Any]) -> str:
        return self.remedy

    # -- the density -------------------------------------------------------------------------------------

    @abstractmethod
    def kernel(self, v: ArrayLike, eta: ArrayLike, *others: Any, **named: Any) -> Array:
        """Return φ log p(v | η), up to a term that depends on v and θ only."""

    @abstractmethod
    def log_normaliser(self, v: ArrayLike, *theta: Any, **named: Any) -> Array:
        """Return the difference between the normalised log density and kernel / φ."""

    @abstractmethod
    def positive(self, v: ArrayLike, eta: ArrayLike, *others: Any, **named: Any) -> Array:
        """Return the positive part of φ ∂ log p / ∂η."""

    @abstractmethod
    def weight(self, v: ArrayLike, eta: ArrayLike, *others: Any, **named: Any) -> Array:
        """Return the magnitude of the negative part of φ ∂ log p / ∂η, which the non-negative metric uses."""

    @abstractmethod
    def curvature(self, v: ArrayLike, eta: ArrayLike, *others: Any, **named: Any) -> Array:
        """Return -φ ∂² log p / ∂η²."""

    def score(self, v: ArrayLike, eta: ArrayLike, *theta: Any, **named: Any) -> Array:
        """Return ∂ log p(v | η, θ) / ∂η."""
        phi, others = self.split(self._given(theta, named))
        return real((self.positive(v, eta, *others) - self.weight(v, eta, *others)) / phi)

    def logpdf(self, v: ArrayLike, eta: ArrayLike, *theta: Any, **named: Any) -> Array:
        """Return log p(v | η, θ): a log density or a log probability, -inf outside the support."""
        v, theta = real(v), self._given(theta, named)
        never = np.isinf(v) | ~self.can_occur(v)
        if never.any():  # evaluated at 1 instead, so that nothing overflows
            logs = self.logpdf(np.where(never, 1.0, v), eta, *theta)
            return real(np.where(np.isnan(v), np.nan, np.where(never, -np.inf, logs)))
        phi, others = self.split(theta)
        return real(self.kernel(v, eta, *others) / real(phi) + self.log_normaliser(v, *theta))

    # -- new observations --------------------------------------------------------------------------------

    def response(self, eta: ArrayLike, *theta: Any, **named: Any) -> Array:
        """Return E[v | η, θ], an increasing function of η."""
        return real(eta)

    def link(self, mean: ArrayLike, *theta: Any, **named: Any) -> Array:
        """Return the η at which the response is `mean`; ±inf outside the range of the response."""
        return real(mean)

    @abstractmethod
    def variance(self, eta: ArrayLike, *theta: Any, **named: Any) -> Array:
        """Return Var[v | η, θ]."""

    @abstractmethod
    def sample(self, eta: ArrayLike, *theta_and_rng: Any, **named: Any) -> Array:
        """Draw a new observation for each η: sample(η, *θ, rng); θ broadcasts against η."""

    @property
    def confines(self) -> bool:
        """Whether new observations are those of the core, confined to a part of the support."""
        return False

    def confined(self, v: Array, eta: ArrayLike, *theta: Any) -> Array:
        """Return new observations of the core, confined; called only if `confines`."""
        raise NotImplementedError

    def new_moments(self, eta: ArrayLike, *theta: Any) -> tuple[Array, Array]:
        """Return mean and variance of a new observation, if it is confined."""
        return self.response(eta, *theta), self.variance(eta, *theta)

    def survival(self, x: ArrayLike, eta: ArrayLike, *theta: Any, **named: Any) -> Array | None:
        """Return P(v > x | η, θ); None if there is no formula: then it is estimated from new observations."""
        return None

    # -- parameters --------------------------------------------------------------------------------------

    @property
    def dispersion(self) -> bool:
        """Whether the first parameter is φ."""
        return self.parameters[:1] == ("phi",)

    @property
    def other_parameters(self) -> tuple[str, ...]:
        """The names of the parameters except φ."""
        return self.parameters[1:] if self.dispersion else self.parameters

    @property
    def learnt(self) -> tuple[str, ...]:
        """The names of the parameters that are learnt."""
        return tuple(name for name in self.parameters if getattr(self, name) is None)

    def _given(self, theta: tuple[Any, ...], named: Mapping[str, Any]) -> tuple[Any, ...]:
        """Return the parameters of a call, by position or by name."""
        if unknown := [name for name in named if name not in self.parameters[len(theta) :]]:
            raise TypeError(
                f"{type(self).__name__} has no parameter {unknown[0]!r}; it has {self.parameters}"
            )
        return theta + tuple(named[name] for name in self.parameters[len(theta) :] if name in named)

    def allowed(self, others: NDArray[Any]) -> bool:
        """Return whether parameters but φ, (…, parameter), can be: all of them positive and finite."""
        return bool(np.all((others > 0.0) & (others < np.inf)))

    def split(self, theta: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
        """Return φ (1 if there is none) and the other parameters."""
        return (theta[0], theta[1:]) if self.dispersion else (1.0, theta)

    def joined(self, phi: Any, others: Any) -> tuple[Any, ...]:
        """Return θ from φ and the other parameters."""
        return (phi, *others) if self.dispersion else tuple(others)

    def resolved(self: _Self, values: Callable[[], ArrayLike]) -> _Self:
        """Return the likelihood with what it takes from the distinct values of the data, such as levels."""
        return self

    def starts(self, values: ArrayLike) -> Theta:
        """Return initial values of the parameters, for data of any scale."""
        return ()

    def start(self, values: Callable[[], ArrayLike]) -> Theta:
        """Return the parameters: the given ones, and initial values of those that are learnt."""
        if not self.learnt:
            return tuple(float(getattr(self, name)) for name in self.parameters)
        given = (getattr(self, name) for name in self.parameters)
        both = zip(given, self.starts(values()), strict=True)
        return tuple(float(start if value is None else value) for value, start in both)

    def typical(self, mean: float) -> Theta:
        """Return the parameters: the given ones, and typical ones for synthetic data of this mean."""
        return tuple(1.0 if (given := getattr(self, name)) is None else given for name in self.parameters)

    def fixed(self: _Self, theta: Theta) -> _Self:
        """Return a copy of the likelihood with the parameters fixed at `theta`."""
        return replace(self, **dict(zip(self.parameters, theta, strict=True)))  # type: ignore[type-var]

    @property
    def conjugate(self) -> bool:
        """Whether φ is learnt by a conjugate draw, given the sum of squared residuals."""
        return self.normal and "phi" in self.learnt

    def draw_phi(self, start: float, residuals: float, size: float, rng: np.random.Generator) -> float:
        """Draw φ given Σ w(v - μ)² over entries of total weight `size`; called only if `conjugate`."""
        raise NotImplementedError

    def move(self, values: Array, start: Theta, weights: Array | None = None) -> Move | None:
        """Return the Metropolis move of the learnt parameters; None if there are none or the draw is conjugate."""
        return None if self.conjugate or not self.learnt else ParameterMove(self, values, start, weights)

    def profile(
        self, values: Array, eta: ArrayLike, start: Theta, weights: Array | None = None
    ) -> Callable[[Theta], float]:
        """Return the log likelihood Σ w log p of these values as a function of θ; the weights w are 1 by default."""
        return lambda theta: total(self.logpdf(values, eta, *theta), weights)

    # -- records -----------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, object]:
        """Return a dictionary for `likelihood_from_dict`, serialisable as JSON."""
        return {"name": self.name} | {f.name: getattr(self, f.name) for f in fields(self)}  # type: ignore[arg-type]
