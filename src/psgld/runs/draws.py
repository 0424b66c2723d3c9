"""Draws of all chains, in arrays that are allocated before sampling starts."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol, final

import numpy as np
from numpy.typing import NDArray

from ..errors import SamplingError, in_bytes
from ..models import FactorModel, Likelihood, NormalWishart
from ..models.hyperparameters import ModeHyper
from ..models.modes import FACTORS, NAMES, Mode
from ..samplers import Chain
from ..system.limits import available_memory

_LINE = 64
"""Bytes per cache line."""


def _aligned(shape: tuple[int, ...], dtype: str) -> NDArray[Any]:
    """Return an empty array that is aligned to cache lines, so that threads can write its rows in any order."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    memory = np.empty(size + _LINE, np.uint8)
    first = -memory.ctypes.data % _LINE
    return memory[first : first + size].view(dtype).reshape(shape)


@final
@dataclass(frozen=True, eq=False)
class ModeDraws:
    """Draws of one mode, dims (chain, draw, …): its factor (…, n, K), biases (…, n), rates (…, K').

    Under a normal–Wishart prior also the mean m and the precision Λ of its rows; biases count as components. Under a
    gamma prior of learnt shape also the shape. Arrays that the model does not have are None.
    """

    factor: NDArray[Any]
    bias: NDArray[Any] | None
    rate: NDArray[np.float64]
    shape: NDArray[np.float64] | None = None
    mean: NDArray[np.float64] | None = None
    precision: NDArray[np.float64] | None = None

    @classmethod
    def empty(cls, chains: int, draws: int, kept: int, n: int, mode: Mode, dtype: str) -> ModeDraws:
        """Allocate the draws of a mode of n rows."""
        size, normal = mode.components, isinstance(mode.prior, NormalWishart)
        return cls(
            _aligned((chains, kept, n, mode.rank), dtype),
            np.empty((chains, kept, n), dtype) if mode.biases else None,
            np.empty((chains, draws, size)),
            np.empty((chains, draws)) if mode.prior.learns_shape else None,
            # NaN: an older store, from which a run is resumed, has no draws of these.
            np.full((chains, draws, size), np.nan) if normal else None,
            np.full((chains, draws, size, size), np.nan) if normal else None,
        )

    def record_hyper(self, hyper: ModeHyper, at: tuple[int, int | slice]) -> None:
        """Copy the hyperparameters of the mode."""
        self.rate[at] = hyper.rate
        if self.shape is not None:
            self.shape[at] = hyper.shape
        if hyper.normal is not None and self.mean is not None and self.precision is not None:
            self.mean[at], self.precision[at] = hyper.normal.mean, hyper.normal.precision


_FIELDS = ("factor", "bias", "rate", "shape", "mean", "precision")
_PLACES = {getattr(names, field): (axis, field) for field in _FIELDS for axis, names in enumerate(NAMES)}
"""The mode and the field of each named array."""


def _named(field: str) -> tuple[Any, ...]:
    """Return a property for each mode that reads one of its fields."""

    def of(axis: int) -> Any:
        return property(lambda draws: getattr(draws.modes[axis], field))

    return tuple(of(axis) for axis in range(len(NAMES)))


class Rows(Protocol):
    """The rows of the draws that this rank owns (`RowOwnership`)."""

    def rows(self, name: str) -> slice: ...  # noqa: D102


@final
@dataclass(frozen=True, eq=False)
class Draws:
    """Kept draws, dims (chain, draw, …). H is held as (…, J, K). Without `keep`, W and H have no draws.

    Attributes
    ----------
    modes : the draws of each mode, rows and columns.
    offset, phi : global offset, and dispersion (1 if the likelihood has none).
    W, H : the factors.
    row_bias, col_bias : the biases, or None.
    row_rate, col_rate : rates or precisions of the components.
    row_shape, col_shape : shapes of gamma priors, if they are learnt, dims (chain, draw); otherwise None.
    row_mean, row_precision, col_mean, col_precision : m and Λ of the rows of W and H, with biases as components,
        under a normal–Wishart prior; otherwise None.
    theta : the parameters of the likelihood other than φ, dims (chain, draw, parameter), or None.
    """

    modes: tuple[ModeDraws, ...]
    offset: NDArray[np.float64]
    phi: NDArray[np.float64]
    theta: NDArray[np.float64] | None = None

    W, H = _named("factor")
    row_bias, col_bias = _named("bias")
    row_rate, col_rate = _named("rate")
    row_shape, col_shape = _named("shape")
    row_mean, col_mean = _named("mean")
    row_precision, col_precision = _named("precision")

    @classmethod
    def of(cls, **arrays: Any) -> Draws:
        """Return draws made of the named arrays. Arrays that the model does not have may be omitted."""
        modes = []
        for names in NAMES:
            given: dict[str, Any] = {field: arrays.get(getattr(names, field)) for field in _FIELDS}
            modes.append(ModeDraws(**given))
        return cls(tuple(modes), arrays["offset"], arrays["phi"], arrays.get("theta"))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return all arrays by their names in stores and files."""
        found = {name: getattr(self.modes[axis], field) for name, (axis, field) in _PLACES.items()}
        found |= {"offset": self.offset, "phi": self.phi, "theta": self.theta}
        return {name: array for name, array in found.items() if array is not None}

    def each(self, change: Callable[[NDArray[Any]], NDArray[Any]]) -> Draws:
        """Return draws with a function applied to every array."""
        return self.of(**{name: change(array) for name, array in self.arrays().items()})

    def with_mode(self, axis: int, **changes: Any) -> Draws:
        """Return draws with some arrays of a mode replaced."""
        modes = list(self.modes)
        modes[axis] = replace(modes[axis], **changes)
        return replace(self, modes=tuple(modes))

    @classmethod
    def empty(
        cls, chains: int, draws: int, shape: tuple[int, int], model: FactorModel, dtype: str, keep: bool
    ) -> Draws:
        """Allocate all draws; raise SamplingError if they do not fit into memory."""
        kept = draws if keep else 0
        itemsize = np.dtype(dtype).itemsize
        factors = chains * kept * sum(shape) * model.components * itemsize
        matrices = sum(isinstance(mode.prior, NormalWishart) for mode in model.modes)
        hyper = len(shape) * model.components + 2 + matrices * model.components * (model.components + 1)
        _check_memory(factors + chains * draws * hyper * 8, chains, draws)
        modes = (
            ModeDraws.empty(chains, draws, kept, n, mode, dtype)
            for n, mode in zip(shape, model.modes, strict=True)
        )
        others = len(model.likelihood.other_parameters)
        theta = np.empty((chains, draws, others)) if others else None
        return cls(tuple(modes), np.empty((chains, draws)), np.empty((chains, draws)), theta)

    def theta_at(self, likelihood: Likelihood, at: tuple[int, ...]) -> list[float]:
        """Return the parameters of the likelihood in the draw at (chain, draw)."""
        return [float(x[at]) for x in self.parameters(likelihood).values()]

    def parameters(self, likelihood: Likelihood) -> dict[str, NDArray[np.float64]]:
        """Return the draws of each parameter of the likelihood, (chain, draw), by its name."""
        others = () if self.theta is None else np.moveaxis(self.theta, -1, 0)
        return dict(zip(likelihood.parameters, likelihood.joined(self.phi, others), strict=True))

    def eta(self, at: tuple[int, int], rows: NDArray[np.int64], dtype: Any) -> NDArray[Any]:
        """Return Σ_k w_ik h_kj + biases of some rows at all columns in the draw (chain, draw), (rows, J)."""
        W, H = (mode.factor[at] for mode in self.modes)
        eta = W[rows].astype(dtype) @ H.T.astype(dtype) + self.offset[at]
        row, col = (mode.bias for mode in self.modes)
        if row is not None and col is not None:
            eta += row[at][rows][:, None] + col[at]
        return np.asarray(eta)

    def buffers(self, number: int, draws: slice) -> tuple[NDArray[Any], NDArray[Any]] | None:
        """Return the arrays for draws of W and H of a chain; None if they cannot be copied directly (biases)."""
        W, H = (mode.factor[number, draws] for mode in self.modes)
        return None if self.modes[0].bias is not None and len(W) else (W, H)

    def record_hyper(self, chain: Chain, number: int, draw: int | slice) -> None:
        """Copy the hyperparameters of a chain."""
        for mode, hyper in zip(self.modes, chain.hyper.modes, strict=True):
            mode.record_hyper(hyper, (number, draw))
        self.offset[number, draw] = chain.hyper.offset + chain.setup.shift
        self.phi[number, draw] = chain.hyper.phi
        if self.theta is not None:
            self.theta[number, draw] = chain.hyper.theta

    def record(self, chain: Chain, number: int, draw: int) -> None:
        """Copy the state of a chain."""
        self.record_hyper(chain, number, draw)
        if self.modes[0].factor.shape[1] == 0:
            return
        for mode, own, n in zip(chain.setup.model.modes, self.modes, chain.setup.data.shape, strict=True):
            factor = own.factor[number, draw]
            if own.bias is None:
                chain.factors.factor(mode.axis, out=factor)
                continue
            x = chain.factors.factor(mode.axis, out=np.empty((n, mode.components), factor.dtype))
            if chain.setup.engine.rank == 0:
                factor[...], own.bias[number, draw] = mode.unpack(x, chain.hyper.offset)

    def round(self, number: int, draw: int, precision: str, ownership: Rows | None = None) -> None:
        """Round a draw of the factors and biases to the precision of the store; only the rows that this rank owns."""
        for name, array in self.arrays().items():
            if name not in FACTORS or array.shape[1] == 0:
                continue
            rows = slice(None) if ownership is None else ownership.rows(name)
            x = array[number, draw, rows]
            _check_scale(name, x, precision, complete=ownership is None)
            with np.errstate(over="ignore"):
                array[number, draw, rows] = x.astype(precision)

    def without_factors(self) -> Draws:
        """Return the draws of everything but the factors and the biases."""
        none = {name: array[:, :0] for name, array in self.arrays().items() if name in FACTORS}
        return self.of(**self.arrays() | none)

    def part(self, chains: list[int], draws: int) -> Draws:
        """Return the first `draws` draws of some chains."""
        return self.each(lambda array: array[chains, :draws])


def _check_scale(name: str, x: NDArray[Any], precision: str, complete: bool) -> None:
    """Raise SamplingError if rounding overflows to infinity, or underflows for all numbers."""
    limits, largest = np.finfo(precision), float(np.abs(x).max(initial=0.0))
    if largest > float(limits.max):
        raise SamplingError(
            f"draws of {name} reach {largest:.3g}, the largest {precision} is {limits.max:g}; "
            "use store_dtype='float32'"
        )
    if complete and 0 < largest < float(limits.smallest_normal):
        raise SamplingError(
            f"draws of {name} are below {largest:.3g}, where {precision} loses digits (it has "
            f"full precision from {limits.smallest_normal:.2g} on); use store_dtype='float32', or rescale V"
        )


def check_factors(draws: Draws) -> None:
    """Raise SamplingError unless there are draws of W and H."""
    if draws.W.shape[1] == 0:
        raise SamplingError("no draws of W and H were kept (keep=False); use posterior.tracked, or keep=True")


def _check_memory(needed: int, chains: int, draws: int) -> None:
    """Raise SamplingError if the draws do not fit into memory, before sampling starts."""
    free = available_memory()
    if free is not None and needed > 0.9 * free:
        raise SamplingError(
            f"{draws} draws of {chains} chains need {in_bytes(needed)}, {in_bytes(free)} are free, "
            "of which nine tenths may be used; "
            "ask for fewer draws, a smaller rank, or keep=False with track=(rows, cols)"
        )
