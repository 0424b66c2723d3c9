"""Factors as NumPy arrays, and their chain, for samplers without blocks."""

from __future__ import annotations

from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from .. import _core
from ..engines import H, W
from ..models import Hyper, Likelihood
from .base import Chain, State


@final
class PlainFactors:
    """W (I, K) and H (J, K) with rows in the order of V. The position of a row is its index.

    Parameters
    ----------
    W, H
        Arrays of the same float type, in row-major order. They are not copied: a sampler writes to `x[W]` and `x[H]`.
    likelihood
        The likelihood of `log_kernel`.
    counts
        The numbers of observed entries of the rows of W and of H.
    floor
        The lower limit of μ.
    """

    def __init__(
        self,
        W: NDArray[Any],
        H: NDArray[Any],
        likelihood: Likelihood,
        counts: tuple[NDArray[Any], NDArray[Any]],
        floor: float = 0.0,
    ) -> None:
        self.x = (W, H)
        self.dtype: np.dtype[Any] = W.dtype
        self._likelihood, self._counts, self._floor = likelihood, counts, floor

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

    def order(self, rows: NDArray[np.int64], cols: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return a permutation that sorts entries of V by row."""
        return np.argsort(rows, kind="stable")

    def mu(self, rows: NDArray[np.int64], cols: NDArray[np.int64]) -> NDArray[Any]:
        """Return Σ_k w_ik h_kj at pairs of rows and columns."""
        out = np.empty(len(rows), self.dtype)
        _core.dots(*self.x, np.ascontiguousarray(rows), np.ascontiguousarray(cols), out)
        return out

    def log_kernel(self, rows: NDArray[np.int64], cols: NDArray[np.int64], values: NDArray[Any]) -> float:
        """Return φ Σ (log p(v | μ) - log normaliser) at pairs of rows and columns."""
        mu = self.mu(rows, cols)
        return float(np.sum(self._likelihood.kernel(values, np.maximum(mu, self._floor, dtype=np.float64))))

    def sums(self) -> NDArray[np.float64]:
        """Return Σx, Σx² and Σ count x² of each component of W and H, (2, 3, K)."""
        return np.array([_sums(x, count) for x, count in zip(self.x, self._counts, strict=True)])

    def gram(self, which: int) -> NDArray[np.float64]:
        """Return Σxxᵀ over the rows of a factor, (K, K)."""
        x = self.x[which]
        out = np.zeros((x.shape[1], x.shape[1]))
        _core.gram(x, out)
        return out


def _sums(x: NDArray[Any], count: NDArray[Any]) -> NDArray[np.float64]:
    x = x.astype(np.float64)
    square = x * x
    # einsum adds in a fixed order; a matrix product may not.
    return np.array([x.sum(axis=0), square.sum(axis=0), np.einsum("i,ik->k", count.astype(float), square)])


class PlainChain(Chain):
    """A chain whose state is its factors, its hyperparameters and its iteration."""

    factors: PlainFactors

    def state(self) -> State:
        """Return everything needed to resume the chain bit for bit."""
        return {
            "W": self.factors.factor(W),
            "H": self.factors.factor(H),
            **{f"hyper/{name}": value for name, value in self.hyper.arrays().items()},
            "iteration": self.iteration,
        }

    def set_state(self, state: State) -> None:
        """Resume from a state that `state` returned."""
        self.factors.set_factor(W, state["W"])
        self.factors.set_factor(H, state["H"])
        self.hyper = Hyper.from_arrays(
            {n: state[f"hyper/{n}"] for n in self.hyper.arrays() if f"hyper/{n}" in state}
        )
        self.iteration = int(state["iteration"])
        self._sums = None
        self._apply_hyper()
