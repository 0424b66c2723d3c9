"""Modes: one per axis of V, each with the names of its arrays, its prior, and the layout of its stored components.

    x' = [x, b_1 … b_M]:   component K + m holds the bias of mode m, and ones in every other mode

So the product over the modes adds the biases. A matrix has two modes, W' = [W, a, 1] and H' = [H, 1, c]. Only this file
packs and unpacks biases and offset.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from psgld.models.common import Array
from psgld.models.priors.families import Prior


class ModeNames(NamedTuple):
    """Names of the arrays of a mode in draws, stores and files."""

    factor: str
    prior: str
    bias: str
    rate: str
    shape: str
    mean: str
    precision: str
    labels: str
    dim: str
    side: str
    """The name of the mode in the public API: `fold_in(side="rows")`."""


NAMES = (
    ModeNames(
        "W",
        "row_prior",
        "row_bias",
        "row_rate",
        "row_shape",
        "row_mean",
        "row_precision",
        "row_labels",
        "row",
        "rows",
    ),
    ModeNames(
        "H",
        "col_prior",
        "col_bias",
        "col_rate",
        "col_shape",
        "col_mean",
        "col_precision",
        "col_labels",
        "column",
        "cols",
    ),
)
"""The modes of a matrix."""

FACTORS = (*(n.factor for n in NAMES), *(n.bias for n in NAMES))
"""The arrays with a dimension of V: one element per row or column of V, or K of them."""

NORMALS = tuple(name for n in NAMES for name in (n.mean, n.precision))
"""The arrays that only a normal–Wishart prior has."""


@final
@dataclass(frozen=True)
class Mode:
    """An axis of V in a model.

    Parameters
    ----------
    axis
        0 for the rows of V (W), 1 for its columns (H).
    rank
        K, the number of components.
    prior
        The prior of its factor.
    biases
        The number of components that carry biases: 0, or one per mode.

    Examples
    --------
    >>> from psgld.models import Normal
    >>> W, H = (Mode(axis, rank=1, prior=Normal(), biases=2) for axis in (0, 1))
    >>> w, h = W.pack(np.array([[2.0]]), np.array([0.1])), H.pack(np.array([[3.0]]), np.array([0.2]), offset=5.0)
    >>> round(float((w @ h.T)[0, 0]), 6)
    11.3
    """

    axis: int
    rank: int
    prior: Prior
    biases: int = 0

    @property
    def names(self) -> ModeNames:
        """The names of its arrays."""
        return NAMES[self.axis]

    @property
    def components(self) -> int:
        """The number of stored components K': those of the factor, and those of the biases."""
        return self.rank + self.biases

    @property
    def bias(self) -> int | None:
        """The component that stores its bias, or None without biases."""
        return self.rank + self.axis if self.biases else None

    @cached_property
    def free(self) -> NDArray[np.bool_]:
        """The components that are sampled: all but the constant ones, which multiply the biases of other modes."""
        k = np.arange(self.components)
        free = np.asarray((k < self.rank) | (k == self.rank + self.axis))
        free.setflags(write=False)
        return free

    @property
    def centred(self) -> bool:
        """Whether the prior mean of its biases is the global offset: true of the last mode."""
        return self.biases > 0 and self.axis == self.biases - 1

    def prior_mean(self, offset: float) -> Array:
        """Return the prior mean of each stored component: 0, and the offset for biases that are centred on it."""
        mean = np.zeros(self.components)
        if self.centred:
            mean[self.bias] = offset
        return mean

    def start_biases(self, x: NDArray[Any], offset: float) -> None:
        """Set the biases of stored rows to their prior mean, and the constant components to 1."""
        carried = slice(self.rank, None)
        x[:, carried] = np.where(self.free[carried], self.prior_mean(offset)[carried], 1.0)

    def pack(self, factor: NDArray[Any], bias: NDArray[Any] | None, offset: float = 0.0) -> NDArray[Any]:
        """Return the stored rows (n, K') of a factor (n, K) and its biases (n,)."""
        if bias is None:
            return factor
        out = np.ones((len(factor), self.components), factor.dtype)
        out[:, : self.rank] = factor
        out[:, self.bias] = bias + factor.dtype.type(offset) if self.centred else bias
        return out

    def unpack(self, x: NDArray[Any], offset: float = 0.0) -> tuple[NDArray[Any], NDArray[Any] | None]:
        """Return the factor (n, K) and the biases (n,), or None, of stored rows (n, K')."""
        if self.bias is None:
            return x, None
        return x[:, : self.rank], self.unpack_bias(x[:, self.bias], offset)

    def unpack_bias(self, stored: NDArray[Any], offset: float) -> NDArray[Any]:
        """Return the biases, given their stored component: minus the offset if it is their prior mean."""
        return stored - offset if self.centred else stored
