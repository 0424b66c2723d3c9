"""Step sizes as functions of the iterations t = 1, 2, … (an array), evaluated before the loop runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from ..checks import is_number
from ..errors import ModelError
from ..system.record import Recorded, from_record

Array = NDArray[np.float64]
StepSize = Callable[[Array], Array]


@final
@dataclass(frozen=True)
class Constant(Recorded):
    """ε_t = ε."""

    epsilon: float

    def __post_init__(self) -> None:
        _check_positive(epsilon=self.epsilon)

    def __call__(self, t: Array) -> Array:
        """Return the step sizes at the iterations t."""
        return np.full(len(t), float(self.epsilon))


@final
@dataclass(frozen=True)
class Power(Recorded):
    """ε_t = (a / t)^b with b in (0.5, 1], as in the paper: Σε = ∞ and Σε² < ∞."""

    a: float
    b: float = 0.51

    def __post_init__(self) -> None:
        _check_positive(a=self.a)
        if not is_number(self.b) or not 0.5 < self.b <= 1:
            raise ModelError(f"b must be in (0.5, 1], got {self.b!r}")

    def __call__(self, t: Array) -> Array:
        """Return the step sizes at the iterations t."""
        return np.asarray((self.a / t) ** self.b)


@final
@dataclass(frozen=True)
class Decay(Recorded):
    """Geometric decay from `first` to `last` over `over` iterations, then constant.

    Large steps reach the posterior quickly, small steps sample it with less bias.
    """

    first: float
    last: float
    over: int

    def __post_init__(self) -> None:
        _check_positive(first=self.first, last=self.last)
        if not is_number(self.over) or not self.over >= 0:
            raise ModelError(f"over must be a number >= 0, got {self.over!r}")

    def __call__(self, t: Array) -> Array:
        """Return the step sizes at the iterations t."""
        done = np.clip(t / max(self.over, 1), 0.0, 1.0)
        return np.asarray(self.first * (self.last / self.first) ** done)


@final
@dataclass(frozen=True)
class Cyclical(Recorded):
    """ε_t = ε/2 (cos(π (t mod L)/L) + 1): decays from ε to nearly 0 with period L, to visit several modes."""

    epsilon: float
    length: int

    def __post_init__(self) -> None:
        _check_positive(epsilon=self.epsilon)
        if not is_number(self.length) or not self.length >= 1:
            raise ModelError(f"length must be >= 1, got {self.length!r}")

    def __call__(self, t: Array) -> Array:
        """Return the step sizes at the iterations t."""
        phase = ((t - 1) % self.length) / self.length
        return np.asarray(0.5 * self.epsilon * (np.cos(np.pi * phase) + 1.0))


STEP_SIZES: dict[str, type[Recorded]] = {
    "constant": Constant,
    "power": Power,
    "decay": Decay,
    "cyclical": Cyclical,
}
"""Step sizes that can be restored from a record, by name."""


def step_size_from_dict(record: Mapping[str, Any]) -> StepSize:
    """Return the step size that `to_dict` described.

    Examples
    --------
    >>> step_size_from_dict(Power(0.01).to_dict())
    Power(a=0.01, b=0.51)
    """
    found: StepSize = from_record(record, STEP_SIZES.values())
    return found


def _check_positive(**values: float) -> None:
    for name, value in values.items():
        if not is_number(value) or not 0 < value < np.inf:
            raise ModelError(f"{name} must be a finite number > 0, got {value!r}")


def as_step_size(step_size: float | StepSize) -> StepSize:
    """Return a function of t; a number gives a constant step size."""
    if callable(step_size):
        return step_size
    number = is_number(step_size)
    if not number or not 0 < step_size < np.inf:
        raise ModelError(f"step_size must be a positive number or a function of t, got {step_size!r}")
    return Constant(float(step_size))


def tabulate(step_size: StepSize, t: int, n: int) -> Array:
    """Return the step sizes of iterations t … t + n - 1; raise ModelError unless all are finite and > 0.

    A function that does not accept arrays, such as ``lambda t: 0.1 / max(t, 1)``, is called for each t.
    """
    found = _evaluated(step_size, np.arange(t, t + n, dtype=np.float64))
    try:
        steps = np.asarray(found, dtype=np.float64)
    except (TypeError, ValueError):
        raise ModelError(f"the step size function must return numbers, got {found!r}") from None
    if steps.ndim == 0:  # a function that returns one number for all t
        steps = np.full(n, float(steps))
    if steps.shape != (n,):
        raise ModelError(
            f"the step size function must return one value per t: {n} expected, got shape {steps.shape}"
        )
    bad = ~(np.isfinite(steps) & (steps > 0))
    if bad.any():
        at = int(np.flatnonzero(bad)[0])
        raise ModelError(f"the step size at t = {t + at} is {steps[at]}; it must be finite and > 0")
    return steps


def _evaluated(step_size: StepSize, t: Array) -> Any:
    """Return ε at an array of iterations; if the function does not accept arrays, call it for each iteration."""
    try:
        return step_size(t)
    except (TypeError, ValueError):  # "the truth value of an array", math.sqrt of an array, …
        one: Any = step_size
        return [one(number) for number in t.tolist()]
