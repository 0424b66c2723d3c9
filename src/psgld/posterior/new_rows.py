"""New rows: their entries, and what their posterior depends on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from ..errors import ModelError
from ..models import FactorModel, Likelihood, NormalWishart, Prior
from ..models.modes import Mode
from ..runs.draws import Draws, ModeDraws
from .predict import Floats, core_parameters


@final
@dataclass(frozen=True, eq=False)
class Entries:
    """Compressed rows of the new entries; the columns are those of the other factor."""

    start: NDArray[np.int64]
    index: NDArray[np.int32]
    value: Floats
    zeros: bool
    """Absent entries are zeros."""
    weight: Floats | None = None
    """How often each entry counts; None: once."""
    zero_weight: float = 1.0
    """The weight of each absent entry, if these are zeros."""

    @property
    def rows(self) -> int:
        """The number of new rows."""
        return len(self.start) - 1

    @property
    def counted(self) -> Floats | float:
        """The weight of each entry."""
        return 1.0 if self.weight is None else self.weight

    @classmethod
    def of(
        cls, i: Any, j: Any, v: Any, rows: int, zeros: bool, weight: Any = None, zero_weight: float = 1.0
    ) -> Entries:
        """Sort entries into rows."""
        order = np.lexsort((j, i))
        start = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.bincount(i, minlength=rows))])
        return cls(
            start.astype(np.int64),
            np.asarray(j, np.int32)[order],
            np.asarray(v, np.float64)[order],
            zeros,
            None if weight is None else np.asarray(weight, np.float64)[order],
            zero_weight,
        )

    def filled(self, columns: int) -> Entries:
        """Return the same with its zeros written out."""
        table, weights = np.zeros((self.rows, columns)), None
        at = np.repeat(np.arange(self.rows), np.diff(self.start)), self.index
        table[at] = self.value
        if self.weight is not None:
            cells = np.full(table.shape, self.zero_weight)
            cells[at] = self.weight
            weights = cells.ravel()
        start = np.arange(self.rows + 1, dtype=np.int64) * columns
        index = np.tile(np.arange(columns, dtype=np.int32), self.rows)
        return Entries(start, index, table.ravel(), False, weights)


def check_kept(draws: Draws, model: FactorModel) -> None:
    """Raise ModelError if the draws do not hold all that the prior of a new row depends on."""
    for mode, own in zip(model.modes, draws.modes, strict=True):
        if isinstance(mode.prior, NormalWishart) and (own.mean is None or np.isnan(own.mean).any()):
            raise ModelError(
                "new rows and new starts need the m and Λ of a NormalWishart() prior, which an older psgld did not "
                "keep with these draws; sample anew"
            )


@final
@dataclass(frozen=True, eq=False)
class Other:
    """The factor that stays, and what the new rows of the other one have as their prior; S draws of each."""

    H: NDArray[Any]  # (S, J, K)
    bias: Floats | None  # (S, J): offset and bias of the other side
    rate: Floats  # (S, K)
    bias_rate: Floats | None  # (S,), if a row has a bias of its own
    phi: Floats  # (S,)
    prior: Prior
    likelihood: Likelihood
    parameters: Floats  # (S, P), as the functor of the likelihood takes them
    shape: Floats | None = None  # (S,), if it is learnt
    # Under a normal–Wishart prior, of the components of a row and its bias:
    mean: Floats | None = None  # (S, K')
    precision: Floats | None = None  # (S, K', K')

    @classmethod
    def of(cls, draws: Draws, model: FactorModel, axis: int) -> Other:
        """Look at the draws from the axis of the new rows (0) or columns (1)."""
        check_kept(draws, model)
        mode, own, other = model.modes[axis], draws.modes[axis], draws.modes[1 - axis]
        H, bias, rate = other.factor, other.bias, own.rate.reshape(-1, mode.components)
        mean, precision = _normal(own, mode)
        offset = draws.offset[..., None]
        if bias is None and model.centred:
            bias = np.zeros((*draws.offset.shape, H.shape[2]))  # what was subtracted from the data remains
        return cls(
            np.ascontiguousarray(H, np.float64 if H.dtype == np.float64 else np.float32).reshape(
                -1, *H.shape[2:]
            ),
            None if bias is None else (bias.astype(np.float64) + offset).reshape(-1, H.shape[2]),
            np.ascontiguousarray(rate[:, : mode.rank], np.float64),
            None if mode.bias is None else np.ascontiguousarray(rate[:, mode.bias]),
            np.ascontiguousarray(draws.phi.reshape(-1), np.float64),
            mode.prior,
            model.likelihood,
            core_parameters(draws, model.likelihood),
            None if own.shape is None else np.ascontiguousarray(own.shape.reshape(-1)),
            mean,
            precision,
        )

    def one(self, s: int) -> Other:
        """Return a single draw."""
        cut: dict[str, Any] = {
            n: None if a is None else a[s : s + 1]
            for n, a in vars(self).items()
            if n not in ("prior", "likelihood")
        }
        return replace(self, **cut)

    @property
    def others(self) -> tuple[float, ...]:
        """The parameters of the likelihood but φ, of the first draw."""
        return tuple(self.parameters[0, len(self.likelihood.constants) :].tolist())

    @property
    def theta(self) -> tuple[float, ...]:
        """All parameters of the likelihood, of the first draw."""
        return self.likelihood.joined(float(self.phi[0]), self.others)

    def design(self) -> NDArray[Any]:
        """Return H with a component of ones, where a row has a bias of its own."""
        if self.bias_rate is None:
            return self.H
        return np.concatenate([self.H, np.ones((*self.H.shape[:2], 1), self.H.dtype)], axis=2)

    def parted(self, X: NDArray[Any]) -> tuple[NDArray[Any], Floats | None]:
        """Return rows of the design, (S, rows, K'), as components and biases, if there are any."""
        if self.bias_rate is None:
            return X, None
        return np.ascontiguousarray(X[..., :-1]), np.ascontiguousarray(X[..., -1])

    def coefficients(self) -> tuple[Floats, Floats, Floats, Floats]:
        """Return the prior of a row: inverse (S,), linear and quadratic (S, K'), and Λ where it couples components."""
        rate, none = self.rate, np.empty((0, 0, 0))
        if self.bias_rate is not None:
            rate = np.concatenate([rate, self.bias_rate[:, None]], axis=1)
        if self.mean is not None and self.precision is not None:
            linear = (self.precision @ self.mean[..., None])[..., 0]
            diagonal = np.diagonal(self.precision, axis1=1, axis2=2)
            flat = np.zeros(len(rate))
            return flat, np.ascontiguousarray(linear), np.ascontiguousarray(diagonal), self.precision
        shapes = [None] if self.shape is None else self.shape.tolist()
        inverse = np.array([self.prior.at_shape(a).coefficients(rate)[0] for a in shapes])
        _, linear, quadratic = self.prior.at_shape(shapes[0]).coefficients(rate)
        linear, quadratic = (
            np.ascontiguousarray(np.broadcast_to(x, rate.shape)) for x in (linear, quadratic)
        )
        return np.ascontiguousarray(np.broadcast_to(inverse, len(rate))), linear, quadratic, none


def _normal(draws: ModeDraws, mode: Mode) -> tuple[Floats | None, Floats | None]:
    """Return m and Λ of new rows under a normal–Wishart prior, of the components that move."""
    if draws.mean is None or draws.precision is None:
        return None, None
    free = mode.free
    m = draws.mean.reshape(-1, len(free))[:, free]
    if mode.centred:
        m[:, -1] = 0.0  # the offset is the mean of these biases, and is subtracted as such
    return m, draws.precision.reshape(-1, len(free), len(free))[:, free][:, :, free]
