"""Row ownership: each rank of an MPI job keeps, and writes, the rows of the draws in its own chunks of the store.

A chunk holds consecutive rows of V, but the strips of a rank hold rows from all of V. So at each draw every rank sends
the others the rows that they own. No rank has all rows of a factor.
"""

from __future__ import annotations

from typing import cast, final

import numpy as np
from numpy.typing import NDArray

from ..engines import Engine, Factors
from ..models.modes import FACTORS, NAMES
from ..runs.draws import Draws
from ..samplers import Chain
from .backend import RunBackend
from .layout import POSTERIOR


@final
class RowOwnership:
    """The rows of the draws that each rank owns: about equally many chunks of every array in a store."""

    def __init__(self, store: RunBackend, engine: Engine) -> None:
        self._engine = engine
        self.bounds: dict[str, NDArray[np.int64]] = {}
        """For each array of factors or biases, the first row of each rank, and the end."""
        for name in FACTORS:
            if f"{POSTERIOR}/{name}" in store.specs:
                spec = store.specs[f"{POSTERIOR}/{name}"]
                rows, chunk = spec.shape[2], spec.chunks[2]
                share = -(-np.arange(engine.ranks + 1) * -(-rows // chunk) // engine.ranks)
                self.bounds[name] = np.minimum(share * chunk, rows)

    def rows(self, name: str) -> slice:
        """Return the rows of an array that this rank owns; rank 0 owns arrays without rows."""
        if name not in self.bounds:
            return slice(None) if self._engine.rank == 0 else slice(0, 0)
        first, last = self.bounds[name][self._engine.rank : self._engine.rank + 2]
        return slice(int(first), int(last))

    def record(self, draws: Draws, chain: Chain, number: int, draw: int) -> None:
        """Copy the rows of the state of a chain that this rank owns, and the hyperparameters."""
        draws.without_factors().record(chain, number, draw)
        factors = cast(Factors, chain.factors)  # of an engine: nothing else runs on ranks
        for mode, own, names in zip(chain.setup.model.modes, draws.modes, NAMES, strict=True):
            if names.factor not in self.bounds:
                continue
            out = own.factor[number, draw]
            factors.deliver(mode.axis, slice(0, mode.rank), out, self.bounds[names.factor])
            if own.bias is not None and mode.bias is not None:
                bias, at = own.bias[number, draw], slice(mode.bias, mode.bias + 1)
                factors.deliver(mode.axis, at, bias[:, None], self.bounds[names.bias])
                rows = self.rows(names.bias)
                bias[rows] = mode.unpack_bias(bias[rows], chain.hyper.offset)

    def collect(self, draws: Draws, number: int, kept: int) -> None:
        """Gather all rows of the draws of a chain on rank 0."""
        for name, bounds in self.bounds.items():
            for draw in range(kept):
                self._engine.collect(getattr(draws, name)[number, draw], bounds)
