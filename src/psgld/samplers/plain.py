"""Factors as NumPy arrays, and their chain, for samplers without blocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from .. import _core
from ..engines.base import Places, log_sums
from ..models import Hyper, Likelihood
from ..models.modes import NAMES
from .base import Chain, State


@final
class PlainFactors:
    """W (I, K) and H (J, K) with rows in the order of V. The position of a row is its index.

    Parameters
    ----------
    x
        The factors by mode: arrays of the same float type, in row-major order. They are not copied: a sampler writes
        to them.
    likelihood
        The likelihood of `log_kernel`.
    counts
        The number of observed entries of each row of each factor.
    floor
        The lower limit of μ.
    others
        The parameters of the likelihood other than φ.
    logs
        Whether `sums` has Σ log x.
    """

    def __init__(
        self,
        x: Sequence[NDArray[Any]],
        likelihood: Likelihood,
        counts: Sequence[NDArray[Any]],
        floor: float = 0.0,
        others: tuple[float, ...] = (),
        logs: bool = False,
    ) -> None:
        self.x = tuple(x)
        self.dtype: np.dtype[Any] = self.x[0].dtype
        self._likelihood, self._counts, self._floor, self._others = likelihood, counts, floor, others
        self._logs = logs

    def factor(self, which: int, width: int | None = None, out: NDArray[Any] | None = None) -> NDArray[Any]:
        """Return a copy of the first `width` components of a factor."""
        if out is None:
            return np.ascontiguousarray(self.x[which][:, :width]).copy()
        out[...] = self.x[which][:, : out.shape[1]]
        return out

    def set_factor(self, which: int, x: NDArray[Any]) -> None:
        """Replace a factor, in place."""
        self.x[which][...] = x

    def positions(self, which: int, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the positions of rows of a factor: the rows themselves."""
        return rows

    def order(self, index: Places) -> NDArray[np.int64]:
        """Return a permutation that sorts entries of V by row."""
        return np.argsort(index[0], kind="stable")

    def mu(self, places: Places) -> NDArray[Any]:
        """Return Σ_k w_ik h_kj at entries of V."""
        out = np.empty(len(places[0]), self.dtype)
        (w, h), (i, j) = self.x, map(np.ascontiguousarray, places)
        _core.dots(w, h, i, j, out)
        return out

    def log_kernel(self, places: Places, values: NDArray[Any], weights: NDArray[Any] | None = None) -> float:
        """Return φ Σ w (log p(v | μ) - log normaliser) at entries of V of weight w (1 by default)."""
        mu = self.mu(places)
        kernel = self._likelihood.kernel(values, np.maximum(mu, self._floor, dtype=np.float64), *self._others)
        return float(np.sum(kernel if weights is None else weights * kernel))

    def sums(self) -> NDArray[np.float64]:
        """Return Σx, Σx², Σ log x and Σ count x² of each component of each factor, (modes, 4, K)."""
        return np.array([_sums(x, count, self._logs) for x, count in zip(self.x, self._counts, strict=True)])

    def gram(self, which: int) -> NDArray[np.float64]:
        """Return Σxxᵀ over the rows of a factor, (K, K)."""
        x = self.x[which]
        out = np.zeros((x.shape[1], x.shape[1]))
        _core.gram(x, out)
        return out


def _sums(x: NDArray[Any], count: NDArray[Any], logs: bool) -> NDArray[np.float64]:
    logarithms = log_sums(x, logs)
    x = x.astype(np.float64)
    square = x * x
    # einsum adds in a fixed order; a matrix product may not.
    return np.array(
        [x.sum(axis=0), square.sum(axis=0), logarithms, np.einsum("i,ik->k", count.astype(float), square)]
    )


class PlainChain(Chain):
    """A chain whose state is its factors, its hyperparameters and its iteration."""

    factors: PlainFactors

    def state(self) -> State:
        """Return everything needed to resume the chain bit for bit."""
        return {
            **{names.factor: self.factors.factor(which) for which, names in enumerate(NAMES)},
            **{f"hyper/{name}": value for name, value in self.hyper.arrays().items()},
            "iteration": self.iteration,
        }

    def set_state(self, state: State) -> None:
        """Resume from a state that `state` returned."""
        for which, names in enumerate(NAMES):
            self.factors.set_factor(which, state[names.factor])
        self.hyper = Hyper.from_arrays(
            {n: state[f"hyper/{n}"] for n in self.hyper.arrays() if f"hyper/{n}" in state}
        )
        self.iteration = int(state["iteration"])
        self._sums = None
        self._apply_hyper()
