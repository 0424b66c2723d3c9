"""Draws of all chains, in arrays that are made before sampling starts."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from ..errors import SamplingError, in_bytes
from ..models import FactorModel, Likelihood, NormalWishart
from ..system.limits import available_memory

FACTORS = ("W", "H", "row_bias", "col_bias")
"""The draws that are as large as V has rows and columns."""

NORMALS = ("row_mean", "row_precision", "col_mean", "col_precision")
"""The draws that only a normal–Wishart prior has."""


_LINE = 64
"""Bytes of a cache line."""


def _whole_lines(shape: tuple[int, ...], dtype: str) -> NDArray[Any]:
    """Return an empty array that begins with a cache line, so that threads can write its rows in any order."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    memory = np.empty(size + _LINE, np.uint8)
    first = -memory.ctypes.data % _LINE
    return memory[first : first + size].view(dtype).reshape(shape)


@final
@dataclass(frozen=True, eq=False)
class Draws:
    """Kept draws, dims (chain, draw, …). H is held as (…, J, K). Without `keep`, W and H have no draws.

    Attributes
    ----------
    W, H : the factors.
    row_bias, col_bias : the biases, or None.
    row_rate, col_rate : rates or precisions of the components.
    offset, phi : global offset and dispersion, 1 where the likelihood has none.
    row_mean, row_precision, col_mean, col_precision : m and Λ of the rows of W and H, biases among the components,
        under a normal–Wishart prior; else None.
    theta : the parameters of the likelihood but φ, dims (chain, draw, parameter); None where there are none.
    """

    W: NDArray[Any]
    H: NDArray[Any]
    row_bias: NDArray[Any] | None
    col_bias: NDArray[Any] | None
    row_rate: NDArray[np.float64]
    col_rate: NDArray[np.float64]
    offset: NDArray[np.float64]
    phi: NDArray[np.float64]
    row_mean: NDArray[np.float64] | None = None
    row_precision: NDArray[np.float64] | None = None
    col_mean: NDArray[np.float64] | None = None
    col_precision: NDArray[np.float64] | None = None
    theta: NDArray[np.float64] | None = None

    @classmethod
    def empty(
        cls, chains: int, draws: int, shape: tuple[int, int], model: FactorModel, dtype: str, keep: bool
    ) -> Draws:
        """Make room for all draws, or say at once that there is none."""
        kept = draws if keep else 0
        itemsize = np.dtype(dtype).itemsize
        factors = chains * kept * sum(shape) * model.components * itemsize
        matrices = sum(isinstance(prior, NormalWishart) for prior in (model.row_prior, model.col_prior))
        hyper = 2 * model.components + 2 + matrices * model.components * (model.components + 1)
        _check_memory(factors + chains * draws * hyper * 8, chains, draws)
        W, H = (_whole_lines((chains, kept, n, model.rank), dtype) for n in shape)
        row_bias, col_bias = (np.empty((chains, kept, n), dtype) if model.bias else None for n in shape)
        row_rate, col_rate = (np.empty((chains, draws, model.components)) for _ in shape)
        offset, phi = (np.empty((chains, draws)) for _ in range(2))
        normals = {
            # Not a number: a run that is resumed from an older store has no draws of them there.
            f"{side}_{name}": np.full((chains, draws, *(model.components,) * power), np.nan)
            for side, prior in (("row", model.row_prior), ("col", model.col_prior))
            if isinstance(prior, NormalWishart)
            for name, power in (("mean", 1), ("precision", 2))
        }
        others = len(model.likelihood.other_parameters)
        theta = np.empty((chains, draws, others)) if others else None
        return cls(W, H, row_bias, col_bias, row_rate, col_rate, offset, phi, **normals, theta=theta)

    def parameters(self, likelihood: Likelihood) -> dict[str, NDArray[np.float64]]:
        """Return the draws of each parameter of the likelihood, (chain, draw), by its name."""
        others = () if self.theta is None else np.moveaxis(self.theta, -1, 0)
        return dict(zip(likelihood.parameters, likelihood.joined(self.phi, others), strict=True))

    def room(self, number: int, draws: slice) -> tuple[NDArray[Any], NDArray[Any]] | None:
        """Return where draws of W and H of a chain go, if nothing else is made of them."""
        W, H = self.W[number, draws], self.H[number, draws]
        return None if self.row_bias is not None and len(W) else (W, H)

    def record_hyper(self, chain: Any, number: int, draw: int | slice) -> None:
        """Copy the hyperparameters of a chain."""
        hyper = chain.hyper
        self.row_rate[number, draw] = hyper.row_rate
        self.col_rate[number, draw] = hyper.col_rate
        self.offset[number, draw] = hyper.offset + chain.setup.shift
        self.phi[number, draw] = hyper.phi
        for name in (*NORMALS, "theta"):
            if (array := getattr(self, name)) is not None:
                array[number, draw] = getattr(hyper, name)

    def record(self, chain: Any, number: int, draw: int) -> None:
        """Copy the state of a chain."""
        model, hyper = chain.setup.model, chain.hyper
        self.record_hyper(chain, number, draw)
        if self.W.shape[1] == 0:
            return
        if self.row_bias is None or self.col_bias is None:
            chain.factors.factor(0, out=self.W[number, draw])
            chain.factors.factor(1, out=self.H[number, draw])
            return
        w, h = (
            chain.factors.factor(which, out=np.empty((rows, model.components), self.W.dtype))
            for which, rows in enumerate(chain.setup.data.shape)
        )
        if chain.setup.engine.rank > 0:
            return
        self.W[number, draw], self.row_bias[number, draw] = w[:, : model.rank], w[:, model.rank]
        self.H[number, draw], self.col_bias[number, draw] = (
            h[:, : model.rank],
            h[:, model.rank + 1] - hyper.offset,
        )

    def round(self, number: int, draw: int, precision: str, spread: Any = None) -> None:
        """Round a draw of the factors and the biases to the numbers that a store keeps; or those rows that are here."""
        for name in FACTORS:
            array = getattr(self, name)
            if array is None or array.shape[1] == 0:
                continue
            rows = slice(None) if spread is None else spread.rows(name)
            x = array[number, draw, rows]
            _check_scale(name, x, precision, whole=spread is None)
            with np.errstate(over="ignore"):
                array[number, draw, rows] = x.astype(precision)

    def without_factors(self) -> Draws:
        """Return the draws of everything but the factors and the biases."""
        none = {name: a[:, :0] for name in FACTORS if (a := getattr(self, name)) is not None}
        return replace(self, **none)

    def part(self, chains: list[int], draws: int) -> Draws:
        """Return the first draws of some of the chains."""
        kept: dict[str, Any] = {n: None if a is None else a[chains, :draws] for n, a in vars(self).items()}
        return Draws(**kept)


def _check_scale(name: str, x: NDArray[Any], precision: str, whole: bool) -> None:
    """Raise if numbers of this size leave the range of a precision: to infinity, or all of them to few bits or 0."""
    limits, largest = np.finfo(precision), float(np.abs(x).max(initial=0.0))
    if largest > float(limits.max):
        raise SamplingError(
            f"draws of {name} reach {largest:.3g}, the largest {precision} is {limits.max:g}; "
            "use store_dtype='float32'"
        )
    if whole and 0 < largest < float(limits.smallest_normal):
        raise SamplingError(
            f"draws of {name} are below {largest:.3g}, where {precision} keeps few digits or none (from "
            f"{limits.smallest_normal:.2g} on it keeps all); use store_dtype='float32', or rescale V"
        )


def check_factors(draws: Draws) -> None:
    """Raise unless there are draws of W and H."""
    if draws.W.shape[1] == 0:
        raise SamplingError("no draws of W and H were kept (keep=False); use posterior.tracked, or keep=True")


def _check_memory(needed: int, chains: int, draws: int) -> None:
    """Raise before sampling starts if the draws cannot fit."""
    free = available_memory()
    if free is not None and needed > 0.9 * free:
        raise SamplingError(
            f"{draws} draws of {chains} chains need {in_bytes(needed)}, {in_bytes(free)} are free, "
            "a tenth of which is left to others; "
            "ask for fewer draws, a smaller rank, or keep=False with track=(rows, cols)"
        )
