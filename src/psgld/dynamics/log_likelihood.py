"""The log likelihood of all entries, by a pass over the data.

    log p(V | W, H, θ) = Σ_{(i,j)} c_ij log p(v_ij | η_ij, θ),   c_ij the weight of an entry, 1 by default

Entries are read in row-major order, in pieces of a fixed size, whose sums are added in order: the value does not depend
on the sampler, its blocks, `thin` or the number of threads. Implicit zeros cost no more than a sum over the factors.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from ..data.source import Source
from ..engines import ReadableFactors
from ..models import Likelihood

_PIECE = 1 << 18
"""Entries that are read at once."""

Piece = tuple[tuple[NDArray[np.int64], NDArray[np.int64]], NDArray[Any], NDArray[Any] | None]
"""Indices, values and weights of some entries."""


@final
class FullLogLikelihood:
    """Computes log p(V | W, H, θ) of any factors of the shape of V."""

    def __init__(self, data: Source, likelihood: Likelihood) -> None:
        self._data, self._likelihood = data, likelihood
        self._weights = data.entry_weights
        self._zeros = data.absent == "zero" and data.size > data.stored
        self._normaliser: tuple[tuple[float, ...], float, float] | None = None

    def at(self, factors: ReadableFactors, theta: tuple[float, ...], shift: float = 0.0) -> float:
        """Return the log likelihood of V, where factors whose likelihood has the parameters θ model V - shift."""
        phi, _ = self._likelihood.split(theta)
        kernel = 0.0
        for index, values, weights in self._pieces():
            places = tuple(factors.positions(which, i) for which, i in enumerate(index))
            kernel += self._kernel(factors, places, values.astype(np.float64) - shift, weights)
        if self._zeros:
            kernel += self._data.zero_weight * self._kernel_of_zeros(factors)
        return float(kernel / phi + self._log_normaliser(theta, shift))

    def _kernel(self, factors: ReadableFactors, places: Any, v: NDArray[Any], weights: Any) -> float:
        dtype = factors.dtype
        given = None if weights is None else weights.astype(dtype)
        kernel = factors.log_kernel(places, v.astype(dtype), given)
        if self._zeros:  # these cells are not zeros, as `_kernel_of_zeros` has it
            zeros = factors.log_kernel(places, np.zeros(len(v), dtype), None)
            kernel -= self._data.zero_weight * zeros
        return float(kernel)

    def _kernel_of_zeros(self, factors: ReadableFactors) -> float:
        """Return the log kernel if all cells were 0: it is linear in η, or quadratic."""
        if self._likelihood.zeros == "gram":
            total = float(np.sum(factors.gram(0) * factors.gram(1)))
        else:
            sums = factors.sums()
            total = float(np.sum(sums[0, 0] * sums[1, 0]))
        return float(self._likelihood.kernel(0.0, 1.0)) * total

    def _log_normaliser(self, theta: tuple[float, ...], shift: float) -> float:
        """Return the sum of the log normalisers, which is kept while θ stays the same."""
        if self._normaliser is None or self._normaliser[:2] != (theta, shift):
            total = 0.0
            for _, values, weights in self._pieces():
                terms = self._likelihood.log_normaliser(values.astype(np.float64) - shift, *theta)
                total += float(np.sum(terms if weights is None else weights * terms))
            if self._zeros:
                absent = self._data.zero_weight * (self._data.size - self._data.stored)
                total += absent * float(np.sum(self._likelihood.log_normaliser(np.zeros(1), *theta)))
            self._normaliser = theta, shift, total
        return self._normaliser[2]

    def _pieces(self) -> Iterator[Piece]:
        for first in range(0, self._data.stored, _PIECE):
            last = min(first + _PIECE, self._data.stored)
            i, j, values = self._data.entries(np.arange(first, last))
            weights = None if self._weights is None else self._weights[first:last].astype(np.float64)
            yield (i, j), values, weights
