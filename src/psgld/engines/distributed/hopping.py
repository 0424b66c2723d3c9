"""Whole chains that hop from rank to rank: the cluster of DSGLD.

B shards of V, the parts of the grid, over R ranks: rank r works on the parts from B r / R to B (r + 1) / R. A chain is
on one rank at a time, and takes all of W and H along when its next part is another rank's. What needs all of V goes
from rank to rank in the order of the parts. So a chain has the same bits as on one machine.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from ... import _core
from ...models import Likelihood
from ..base import H, MetricName, Stretch, SumName, W
from ..communicator import Communicator, Request
from ..core_factors import CoreFactors
from ..core_grid import CoreGrid
from ..threads import ThreadedFactors
from . import ranks
from .ring import Ring

_HOP, _REST = "hops", "other"
"""What bytes are counted as: factors that go along with a chain; everything else."""


@final
class HoppingFactors(CoreFactors):
    """The factors of one chain, with room for them on every rank.

    Factors are up to date on the rank where the chain is (`_at`; None: on all). What the metric is made of (the sums of
    the last `accumulate`) is known to all ranks, so that it need not travel.
    """

    def __init__(
        self,
        grid: CoreGrid,
        components: int,
        likelihood: Likelihood,
        floor: float,
        communicator: Communicator,
        threads: int,
    ) -> None:
        self._whole = ThreadedFactors(grid, components, likelihood, floor, threads)
        super().__init__(self._whole.core, grid, components, likelihood)
        self._pool = _core.Pool(threads)
        self.sent: Counter[str] = Counter()
        """Bytes sent by this rank: by hops of the chain ("hops") and besides ("other")."""
        self._comm, self._rank, self._ranks = communicator, communicator.rank, communicator.size
        self._shards = Ring(grid.blocks, communicator.size, swapped=False)
        self._at: int | None = None
        self._saved_at: int | None = None
        first, last = self._shards.own(self._rank)
        parts = grid.core.slot_parts()
        self._mine = (first <= parts) & (parts < last)  # the squared residuals that are found here

    def set_dynamics(
        self, key: int, metric: MetricName, mirror: bool, temperature: float, second_order: bool = False
    ) -> None:
        """Set the key of the noise, the metric D, whether x ← |x| after each step, τ, and whether ρ is ever > 0."""
        super().set_dynamics(key, metric, mirror, temperature, second_order)
        self._whole.second_order = second_order

    # -- moving ------------------------------------------------------------------------------------------

    def leave(self, part: int) -> list[Request]:
        """Send the chain to the rank that works on a part; return what is under way."""
        start, end = self._at, self._shards.holder(part, 0)
        self._at = end
        if start is None or start == end:
            return []
        return self._send(self._travelling(), start, end, _HOP)

    def advance(self, stretch: Stretch) -> None:
        """Run iterations, each on the rank that works on its part."""
        where = np.array([self._shards.holder(int(part), 0) for part in stretch.parts])
        stops = [0, *(np.flatnonzero(np.diff(where)) + 1).tolist(), len(stretch)]
        for first, last in pairwise(stops):
            self._comm.wait(self.leave(int(stretch.parts[first])))
            if where[first] == self._rank:
                self._whole.advance(stretch.piece(first, last))

    def accumulate(self, kind: SumName, part: int = -1) -> None:
        """Add up scores or weights over a part (or over all of V) for every row of both factors.

        The sums grow from rank to rank, in the order of the parts; then all ranks are told.
        """
        self._share("x", self._at)
        self._at = None
        self.core.clear_sums()
        parts = list(range(self.grid.blocks)) if part < 0 else [part]
        holders = [self._shards.holder(p, 0) for p in parts]
        for p, before, here in zip(parts, [holders[0], *holders], holders, strict=False):
            if before != here:
                self._comm.wait(self._send(self._both("sum"), before, here, _REST))
            if here == self._rank:
                self.core.add_sums(self._pool, kind, p, 0, self.grid.blocks)
        self._share("sum", holders[-1])

    def set_bound(self, which: int, rate: NDArray[np.float64]) -> None:
        """Take the bound b of the non-negative metric from the accumulated weights, φ and the prior's rates."""
        self._whole.set_bound(which, rate)

    def save(self) -> None:
        """Remember the present state, where the chain is."""
        self._whole.save()
        self._saved_at = self._at

    def restore(self) -> None:
        """Go back to the state that `save` remembered, and to where that is."""
        self._whole.restore()
        self._at = self._saved_at

    # -- reading -----------------------------------------------------------------------------------------

    def sums(self) -> NDArray[np.float64]:
        """Return Σx, Σx² and Σ count x² of each component of W and H, (2, 3, K)."""
        return self._told(self._whole.sums, (2, 3, self.components), np.float64)

    def gram(self, which: int) -> NDArray[np.float64]:
        """Return Σxxᵀ over the rows of a factor, (K, K)."""
        return self._told(lambda: self._whole.gram(which), (self.components, self.components), np.float64)

    def mu(self, rows: NDArray[np.int64], cols: NDArray[np.int64]) -> NDArray[Any]:
        """Return Σ_k w_ik h_kj at pairs of places."""
        return self._told(lambda: self._whole.mu(rows, cols), (len(rows),), self.dtype)

    def log_kernel(self, rows: NDArray[np.int64], cols: NDArray[np.int64], values: NDArray[Any]) -> float:
        """Return Σ (log p(v | μ) - its normaliser) φ at pairs of places."""

        def find() -> NDArray[Any]:
            return np.array([self._whole.log_kernel(rows, cols, values)])

        return float(self._told(find, (1,), np.float64)[0])

    def squared_residuals(self) -> float:
        """Return Σ(v - μ)² as found at the last visit to each block."""
        self.core.set_residuals(False, self._residuals(False))
        return self._whole.squared_residuals()

    def fresh_squared_residuals(self) -> float:
        """Return Σ(v - μ)² at the present state: a pass over the data, each shard on its rank."""
        self._share("x", self._at)
        self._at = None
        sums = self._both("sum")
        kept = [array.copy() for array in sums]
        for part in range(*self._shards.own(self._rank)):
            self.core.add_sums(self._pool, "score", part, 0, self.grid.blocks)
        for array, old in zip(sums, kept, strict=True):
            array[:] = old
        return self.squared_residuals()

    def factor(self, which: int, width: int | None = None, out: NDArray[Any] | None = None) -> NDArray[Any]:
        """Return a copy of the first `width` components of a factor, rows in their original order.

        With `out`, only rank 0 fills it: draws are kept there.
        """
        array = [self.core.array(which, "x")]
        if out is None:
            self._share_arrays(array, self._at)
            return self._whole.factor(which, width)
        self._fetch(array, self._at)
        return self._whole.factor(which, width, out) if self._rank == 0 else out

    def deliver(self, which: int, columns: slice, out: NDArray[Any], bounds: NDArray[np.int64]) -> None:
        """Fill in rows of `out`, of some components of a factor: on rank r those from bounds[r] to bounds[r + 1]."""
        array, (first, last) = self.core.array(which, "x"), bounds[self._rank : self._rank + 2]
        if bounds[1] == bounds[-1]:
            self._fetch([array], self._at)
        else:
            self._share_arrays([array], self._at)
        wanted = self.positions(which, np.arange(first, last))
        out[first:last] = array[wanted, columns]

    def accumulated(self, which: int) -> NDArray[Any]:
        """Return what `accumulate` added up for a factor."""
        return self._whole.accumulated(which)

    def state(self) -> dict[str, NDArray[Any]]:
        """Return the factors and the squared residuals, and those to which the chain would go back, on rank 0.

        The other ranks return arrays of the same shapes that hold nothing.
        """
        self._fetch(self._travelling(), self._at)
        self._fetch(self._both("saved"), self._saved_at)
        residuals = {"residuals": self._residuals(False), "saved_residuals": self._residuals(True)}
        return {**self._whole.state(), **residuals}

    def weights(self) -> dict[str, NDArray[Any]]:
        """Return what was accumulated last, to be taken in again by `set_weights`."""
        return self._whole.weights()

    def noise(self, which: int, iteration: int) -> NDArray[np.float32]:
        """Return the standard normals that iteration uses for a factor."""
        return self._whole.noise(which, iteration)

    def order(self, rows: NDArray[np.int64], cols: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the order of entries of V by their places on the outer side."""
        return self._whole.order(rows, cols)

    # -- writing: the same on all ranks --------------------------------------------------------------------

    def set_factor(self, which: int, x: NDArray[Any]) -> None:
        """Replace a factor; the other one is replaced, too, before the chain moves."""
        self._whole.set_factor(which, x)
        self._at = None

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Take in what `state` returned on rank 0 of any number of ranks."""
        self._whole.set_state(state)
        self._at = self._saved_at = None

    # -- messages ------------------------------------------------------------------------------------------

    def _both(self, name: str) -> list[NDArray[Any]]:
        return [self.core.array(which, name) for which in (W, H)]

    def _travelling(self) -> list[NDArray[Any]]:
        return self._both("x") + (self._both("momentum") if self.second_order else [])

    def _send(self, arrays: list[NDArray[Any]], start: int, end: int, counted: str) -> list[Request]:
        if self._rank == start:
            self.sent[counted] += sum(array.nbytes for array in arrays)
            return [self._comm.isend(array, end) for array in arrays]
        return [self._comm.irecv(array, start) for array in arrays] if self._rank == end else []

    def _fetch(self, arrays: list[NDArray[Any]], at: int | None) -> None:
        """Have arrays on rank 0, too."""
        if at:
            self._comm.wait(self._send(arrays, at, 0, _REST))

    def _share(self, name: str, at: int | None) -> None:
        """Have an array of both factors on all ranks."""
        self._share_arrays(self._both(name), at)

    def _share_arrays(self, arrays: list[NDArray[Any]], at: int | None) -> None:
        if at is None:
            return
        if at == self._rank:
            self.sent[_REST] += (self._ranks - 1) * sum(array.nbytes for array in arrays)
        self._comm.broadcast([(array, at) for array in arrays])

    def _told(self, find: Callable[[], NDArray[Any]], shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
        """Return what the rank finds where the chain is."""
        if self._at is None:
            return find()
        found = np.ascontiguousarray(find(), dtype) if self._at == self._rank else np.empty(shape, dtype)
        self._share_arrays([found], self._at)
        return found

    def _residuals(self, saved: bool) -> NDArray[np.float64]:
        """Return the squared residuals that the ranks found, each those of its shards."""
        found = ranks.total(self._comm, np.where(self._mine, self.core.residuals(saved), 0.0))
        self.sent[_REST] += found.nbytes
        return found
