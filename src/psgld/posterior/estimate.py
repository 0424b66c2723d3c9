"""A point estimate of the factors, as `psgld.optimize` returns it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..data.labels import LabelArray, find_labels
from ..errors import DataError
from ..models import FactorModel


@final
@dataclass(frozen=True, eq=False)
class Estimate:
    """One W and one H: a mode of the posterior or of the likelihood, without uncertainty.

    Attributes
    ----------
    W, H : the factors, (I, K) and (K, J).
    row_bias, col_bias : the biases, or None.
    offset, phi : global offset and dispersion; a learnt Gaussian φ is the mean squared residual.
    row_rate, col_rate : fixed rates or precisions of the priors of the components.
    model : the fitted model.
    lp : log posterior (without priors, log likelihood up to a constant) at each check.
    passes : number of passes over the data at each check.
    converged : whether it stopped because the objective no longer improved.
    interrupted : whether Ctrl-C stopped it.
    parameters : the parameters of the likelihood by name, φ among them.
    row_labels, col_labels : the labels of the data, or None.
    """

    W: NDArray[Any]
    H: NDArray[Any]
    row_bias: NDArray[Any] | None
    col_bias: NDArray[Any] | None
    offset: float
    phi: float
    row_rate: NDArray[np.float64]
    col_rate: NDArray[np.float64]
    model: FactorModel
    lp: NDArray[np.float64]
    passes: NDArray[np.int64]
    converged: bool
    interrupted: bool
    row_labels: LabelArray | None = None
    col_labels: LabelArray | None = None
    parameters: dict[str, float] = field(default_factory=dict)

    @property
    def shape(self) -> tuple[int, int]:
        """(I, J)."""
        return self.W.shape[0], self.H.shape[1]

    def predict(self, rows: ArrayLike, cols: ArrayLike) -> NDArray[np.float64]:
        """Return the mean E[v | η_ij], η_ij = Σ_k w_ik h_kj and the biases, at the pairs (rows[q], cols[q]).

        Give rows and columns as labels if the data has labels, else as indices. A single row is paired with all
        `cols`, a single column with all `rows`.
        """
        i = find_labels(self.row_labels, rows, self.shape[0], "row")
        j = find_labels(self.col_labels, cols, self.shape[1], "column")
        if len(i) != len(j) and 1 not in (len(i), len(j)):
            raise DataError(
                f"as many rows as columns are needed, or one of either; got {len(i)} and {len(j)}"
            )
        mu = np.einsum("qk,kq->q", self.W[i], self.H[:, j]) if len(i) == len(j) else self._cross(i, j)
        mu = mu.astype(np.float64) + self.offset
        if self.row_bias is not None and self.col_bias is not None:
            mu += self.row_bias[i] + self.col_bias[j]
        return self.model.likelihood.response(mu, *self.parameters.values())

    def _cross(self, i: NDArray[np.int64], j: NDArray[np.int64]) -> NDArray[Any]:
        return np.asarray((self.W[i] @ self.H[:, j]).ravel())

    def __repr__(self) -> str:
        rows, cols = self.shape
        end = "converged" if self.converged else "interrupted" if self.interrupted else "not converged"
        model = f"rank {self.model.rank}, {self.model.likelihood.name}"
        return f"Estimate({rows} × {cols}, {model}, {end} after {self.passes[-1]} passes)"
