"""The contract of a likelihood: v ~ p(· | η, θ), η_ij = Σ_k w_ik h_kj (+ biases).

    φ log p(v | η, θ) = kernel(v, η) + what depends on v and θ alone
    φ ∂ log p / ∂η    = positive(v, η) - weight(v, η)

To add a family, write one class here, in a file of its own, and one functor of the same formulas in the core.

1. `models/likelihoods/<name>.py`: a frozen dataclass, a subclass of `Likelihood`, that defines

   =====================  ==============================================================================================
   `name`                 the word for it, as `FactorModel(8, "name")` takes it; also the name of its functor
   `parameters`           the names of θ; each is a field of the dataclass, a number or None: learnt
   `support`              the values that can occur, in words, and `can_occur(v)` the test for it
   `remedy`               what to do about values that cannot
   `kernel`               see above; vectors in, vectors out, as all that follows
   `log_normaliser`       log p - kernel / φ
   `positive`, `weight`   the two parts of the score, both >= 0 for v in the support where η must be positive
   `curvature`            -φ ∂² log p / ∂η²
   `variance`, `sample`   of a new observation
   `starts`, `typical`    where θ starts, from the values; a typical θ, for synthetic data; if there are parameters
   =====================  ==============================================================================================

   What else is here has a default: override it where there is something better (`survival`, `response`, …).
   `kernel`, `positive`, `weight` and `curvature` are given (v, η) and the parameters but φ; all others are given all
   parameters, in the order of `parameters`.
2. `core/likelihood/<name>.hpp`: the functor (`functor.hpp` says what it defines). Whether η must be positive, whether
   implicit zeros are free, whether the mean is η: the functor says so, and `Likelihood` asks it.
3. A line in `registry.py`, one in `core/likelihood/registry.hpp`; its name in `models/__init__.py`, `psgld/__init__.py`
   and `docs/api.md`, its files in `docs/inside.md`. `make .stamp-lint` builds the core.

A *dispersion* is a parameter that divides the log density and does nothing else; it is called phi and comes first.
`tests/models/test_likelihoods.py` and `tests/engines/test_kernels.py` find a new family by the registry.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from psgld import _core
from psgld.errors import DataError
from psgld.models.common import Array, real
from psgld.models.likelihoods.parameter_move import ParameterMove

Theta = tuple[float, ...]
"""The parameters of a likelihood, in the order of `parameters`."""

_Self = TypeVar("_Self", bound="Likelihood")

_TRAITS: Mapping[str, Mapping[str, Any]] = _core.families()


class Likelihood(ABC):
    """A likelihood: numbers, no blocks. The file says what a subclass defines."""

    name: ClassVar[str]
    parameters: ClassVar[tuple[str, ...]] = ()
    remedy: ClassVar[str] = "use Gaussian()"
    closed: bool = True
    """Whether the density has a closed form; else it is a series or an integral."""

    # -- what the functor in the core says ---------------------------------------------------------------

    @property
    def functor(self) -> str:
        """The name of the functor in the core."""
        return self.name

    @property
    def constants(self) -> Theta:
        """What the functor needs to know besides θ, such as a power."""
        return ()

    @property
    def _traits(self) -> Mapping[str, Any]:
        return _TRAITS[self.functor]

    @property
    def nonnegative_mean(self) -> bool:
        """Whether η must be positive."""
        return bool(self._traits["positive"])

    @property
    def zeros(self) -> str | None:
        """How implicit zeros are added up without visiting them: by a "sum", a "gram" matrix, or not (None)."""
        how = str(self._traits["zeros"])
        return None if how == "none" else how

    @property
    def identity(self) -> bool:
        """Whether the mean of an observation is η itself."""
        return bool(self._traits["identity"])

    @property
    def lattice(self) -> bool:
        """Whether the values that occur are isolated, so that not all between two of them do."""
        return bool(self._traits["lattice"])

    @property
    def draws_in_core(self) -> bool:
        """Whether the core draws new observations; else `sample` does."""
        return bool(self._traits["draws"])

    @property
    def normal(self) -> bool:
        """Whether v ~ Normal(η, φ): rows are normal given the other factor, and so can be drawn."""
        return bool(self._traits["residuals"])

    # -- what samplers ask -------------------------------------------------------------------------------

    splits: bool = False
    """Whether v is a sum of Poisson counts, one for each component, as `Gibbs()` needs."""

    counts: bool = False
    """Whether values are counts, so that what a sparse matrix does not store may well be zeros."""

    signed: bool = False
    """Whether W and H must be able to have any sign."""

    steep: bool = False
    """Whether the score below v is so much steeper than above it that a state that swings is thrown out."""

    curvature_bound: float | None = None
    """A bound of `curvature` over all v and η, on which the real-valued metric rests; None if there is none."""

    update_power: float = 1.0
    """The power of the ratio in the multiplicative update at which the likelihood never falls."""

    def eta_moments(self, mean: float, variance: float, size: int) -> tuple[float, float]:
        """Return a typical mean and variance of η from those of `size` values."""
        return mean, variance

    def information(self, mean: float, *others: float) -> float:
        """Return the curvature where v = η = `mean`."""
        return float(self.curvature(mean, mean, *others))

    # -- values ------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def support(self) -> str:
        """The values that can occur, in words: "v >= 0"."""

    @abstractmethod
    def can_occur(self, v: NDArray[Any]) -> NDArray[np.bool_]:
        """Say which values can occur; NaN cannot."""

    def check(self, values: ArrayLike) -> None:
        """Raise DataError if some observed values cannot occur: with their number, the first, and a remedy."""
        values = np.asarray(values)
        good = self.can_occur(values)
        if good.all():
            return
        bad = values[~good]
        raise DataError(
            f"{self._described} needs {self.support}, but {bad.size} of {values.size} values are not, "
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
        """Return φ log p(v | η) without what depends on v and θ alone."""

    @abstractmethod
    def log_normaliser(self, v: ArrayLike, *theta: Any, **named: Any) -> Array:
        """Return what kernel / φ lacks to be a normalised log density."""

    @abstractmethod
    def positive(self, v: ArrayLike, eta: ArrayLike, *others: Any, **named: Any) -> Array:
        """Return the positive part of φ ∂ log p / ∂η."""

    @abstractmethod
    def weight(self, v: ArrayLike, eta: ArrayLike, *others: Any, **named: Any) -> Array:
        """Return the negative part of φ ∂ log p / ∂η, without its sign: the non-negative metric rests on it."""

    @abstractmethod
    def curvature(self, v: ArrayLike, eta: ArrayLike, *others: Any, **named: Any) -> Array:
        """Return -φ ∂² log p / ∂η²."""

    def score(self, v: ArrayLike, eta: ArrayLike, *theta: Any, **named: Any) -> Array:
        """Return ∂ log p(v | η, θ) / ∂η."""
        phi, others = self.split(self._given(theta, named))
        return real((self.positive(v, eta, *others) - self.weight(v, eta, *others)) / phi)

    def logpdf(self, v: ArrayLike, eta: ArrayLike, *theta: Any, **named: Any) -> Array:
        """Return log p(v | η, θ): a log density, or a log probability. It is -inf where v cannot occur."""
        v, theta = real(v), self._given(theta, named)
        never = np.isinf(v) | ~self.can_occur(v)
        if never.any():  # at 1 instead, so that nothing overflows on the way
            logs = self.logpdf(np.where(never, 1.0, v), eta, *theta)
            return real(np.where(np.isnan(v), np.nan, np.where(never, -np.inf, logs)))
        phi, others = self.split(theta)
        return real(self.kernel(v, eta, *others) / real(phi) + self.log_normaliser(v, *theta))

    # -- new observations --------------------------------------------------------------------------------

    def response(self, eta: ArrayLike) -> Array:
        """Return E[v | η], a growing function of η."""
        return real(eta)

    def link(self, mean: ArrayLike) -> Array:
        """Return the η at which the response is `mean`; ±inf beyond what it can be."""
        return real(mean)

    @abstractmethod
    def variance(self, eta: ArrayLike, *theta: Any, **named: Any) -> Array:
        """Return Var[v | η, θ]."""

    @abstractmethod
    def sample(self, eta: ArrayLike, *theta_and_rng: Any, **named: Any) -> Array:
        """Draw a new observation for each η: sample(η, *θ, rng); θ broadcasts against η."""

    def survival(self, x: ArrayLike, eta: ArrayLike, *theta: Any, **named: Any) -> Array | None:
        """Return P(v > x | η, θ); None if there is no formula: then new observations are drawn and counted."""
        return None

    # -- parameters --------------------------------------------------------------------------------------

    @property
    def dispersion(self) -> bool:
        """Whether the first parameter is φ."""
        return self.parameters[:1] == ("phi",)

    @property
    def other_parameters(self) -> tuple[str, ...]:
        """The names of the parameters but φ."""
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
        """Return φ, which is 1 where there is none, and the other parameters."""
        return (theta[0], theta[1:]) if self.dispersion else (1.0, theta)

    def joined(self, phi: Any, others: Any) -> tuple[Any, ...]:
        """Return θ from φ and the other parameters."""
        return (phi, *others) if self.dispersion else tuple(others)

    def starts(self, values: ArrayLike) -> Theta:
        """Return parameters from which learning may start, at any scale of the data."""
        return ()

    def start(self, values: Callable[[], ArrayLike]) -> Theta:
        """Return the parameters that are given, and the starts of those that are learnt."""
        if not self.learnt:
            return tuple(float(getattr(self, name)) for name in self.parameters)
        given = (getattr(self, name) for name in self.parameters)
        both = zip(given, self.starts(values()), strict=True)
        return tuple(float(start if value is None else value) for value, start in both)

    def typical(self, mean: float) -> Theta:
        """Return the parameters that are given, and for the others what makes synthetic data of this mean."""
        return tuple(1.0 if (given := getattr(self, name)) is None else given for name in self.parameters)

    def fixed(self: _Self, theta: Theta) -> _Self:
        """Return the same likelihood with these parameters given."""
        return replace(self, **dict(zip(self.parameters, theta, strict=True)))  # type: ignore[type-var]

    @property
    def conjugate(self) -> bool:
        """Whether φ is learnt, and drawn from the sum of the squared residuals."""
        return self.normal and "phi" in self.learnt

    def draw_phi(self, start: float, residuals: float, size: int, rng: np.random.Generator) -> float:
        """Draw φ given Σ(v - μ)² over `size` entries; asked where `conjugate`."""
        raise NotImplementedError

    def move(self, values: Array, start: Theta) -> ParameterMove | None:
        """Return what draws the learnt parameters given the means at some entries; None if nothing does."""
        return None if self.conjugate or not self.learnt else ParameterMove(self, values, start)

    def profile(self, values: Array, eta: ArrayLike, start: Theta) -> Callable[[Theta], float]:
        """Return the log likelihood of these values as a function of θ."""
        return lambda theta: float(np.sum(self.logpdf(values, eta, *theta)))

    # -- records -----------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, object]:
        """Return what `likelihood_from_dict` needs, fit for JSON."""
        return {"name": self.name} | {f.name: getattr(self, f.name) for f in fields(self)}  # type: ignore[arg-type]
