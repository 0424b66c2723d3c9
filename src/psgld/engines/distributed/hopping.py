"""Chains that move from rank to rank, as DSGLD does on a cluster.

The B shards of V are the parts of the grid. Of R ranks, rank r owns the parts from B r / R to B (r + 1) / R. A chain is
on one rank at a time. When another rank owns its next part, W and H are sent there. Sums over all of V are passed from
rank to rank in the order of the parts. So a chain is bit-identical to one on a single machine.
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
from ..base import MetricName, Places, Stretch, SumName
from ..communicator import Communicator, Request
from ..core_factors import CoreFactors
from ..core_grid import CoreGrid
from ..threads import ThreadedFactors
from . import ranks
from .ring import Ring

_HOP, _REST = "hops", "other"
"""Categories of sent bytes: factors that move with a chain; everything else."""


@final
class HoppingFactors(CoreFactors):
    """The factors of one chain, with memory for them on every rank.

    Factors are up to date on the rank where the chain is (`_at`; None means all ranks). All ranks have the sums of the
    last `accumulate`, which define the metric, so that these need not be sent.
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
        self._local = ThreadedFactors(grid, components, likelihood, floor, threads)
        super().__init__(self._local.core, grid, components, likelihood)
        self._pool = _core.Pool(threads)
        self.sent: Counter[str] = Counter()
        """Bytes sent by this rank: with the chain ("hops"), and otherwise ("other")."""
        self._comm, self._rank, self._ranks = communicator, communicator.rank, communicator.size
        self._shards = Ring(grid.blocks, communicator.size, swapped=False)
        self._at: int | None = None
        self._saved_at: int | None = None
        first, last = self._shards.own(self._rank)
        parts = grid.core.slot_parts()
        self._mine = (first <= parts) & (parts < last)  # the squared residuals that this rank computes

    def set_dynamics(
        self, key: int, metric: MetricName, mirror: bool, temperature: float, second_order: bool = False
    ) -> None:
        """Set the key of the noise, the metric D, reflection (x ← |x| after a step), τ, and the order of the step."""
        super().set_dynamics(key, metric, mirror, temperature, second_order)
        self._local.second_order = second_order

    # -- updates -----------------------------------------------------------------------------------------

    def leave(self, part: int) -> list[Request]:
        """Start to send the chain to the rank that owns a part; return the pending messages."""
        start, end = self._at, self._shards.holder(part, 0)
        self._at = end
        if start is None or start == end:
            return []
        return self._send(self._travelling(), start, end, _HOP)

    def advance(self, stretch: Stretch) -> None:
        """Run iterations, each on the rank that owns its part."""
        where = np.array([self._shards.holder(int(part), 0) for part in stretch.parts])
        stops = [0, *(np.flatnonzero(np.diff(where)) + 1).tolist(), len(stretch)]
        for first, last in pairwise(stops):
            self._comm.wait(self.leave(int(stretch.parts[first])))
            if where[first] == self._rank:
                self._local.advance(stretch.piece(first, last))

    def accumulate(self, kind: SumName, part: int = -1) -> None:
        """Add up scores or weights over a part (or over all of V) for every row of every factor.

        Each rank adds its terms, in the order of the parts; then the sums are sent to all ranks.
        """
        self._share("x", self._at)
        self._at = None
        self.core.clear_sums()
        parts = list(range(self.grid.blocks)) if part < 0 else [part]
        holders = [self._shards.holder(p, 0) for p in parts]
        for p, before, here in zip(parts, [holders[0], *holders], holders, strict=False):
            if before != here:
                self._comm.wait(self._send(self._all("sum"), before, here, _REST))
            if here == self._rank:
                self.core.add_sums(self._pool, kind, p, 0, self.grid.blocks)
        self._share("sum", holders[-1])

    def set_bound(self, which: int, rate: NDArray[np.float64]) -> None:
        """Compute the bound b of the non-negative metric from the accumulated weights, φ and the prior's rates."""
        self._local.set_bound(which, rate)

    def save(self) -> None:
        """Save the current state in memory, on the rank where the chain is."""
        self._local.save()
        self._saved_at = self._at

    def restore(self) -> None:
        """Return to the state of the last `save`, and to the rank that holds it."""
        self._local.restore()
        self._at = self._saved_at

    # -- reading -----------------------------------------------------------------------------------------

    def sums(self) -> NDArray[np.float64]:
        """Return Σx, Σx², Σ log x and Σ count x² of each component of each factor, (modes, 4, K)."""
        return self._from_chain(self._local.sums, (len(self.grid.shape), 4, self.components), np.float64)

    def gram(self, which: int) -> NDArray[np.float64]:
        """Return Σxxᵀ over the rows of a factor, (K, K)."""
        return self._from_chain(
            lambda: self._local.gram(which), (self.components, self.components), np.float64
        )

    def mu(self, places: Places) -> NDArray[Any]:
        """Return Σ_k w_ik h_kj at the positions of entries."""
        return self._from_chain(lambda: self._local.mu(places), places[0].shape, self.dtype)

    def log_kernel(self, places: Places, values: NDArray[Any], weights: NDArray[Any] | None = None) -> float:
        """Return φ Σ w (log p(v | μ) - log normaliser) at the positions of entries of weight w (1 by default)."""

        def find() -> NDArray[Any]:
            return np.array([self._local.log_kernel(places, values, weights)])

        return float(self._from_chain(find, (1,), np.float64)[0])

    def squared_residuals(self) -> float:
        """Return Σ(v - μ)², each block as of its last update."""
        self.core.set_residuals(False, self._residuals(False))
        return self._local.squared_residuals()

    def fresh_squared_residuals(self) -> float:
        """Return Σ(v - μ)² at the current state, by a pass over the data, each shard on its rank."""
        self._share("x", self._at)
        self._at = None
        sums = self._all("sum")
        kept = [array.copy() for array in sums]
        for part in range(*self._shards.own(self._rank)):
            self.core.add_sums(self._pool, "score", part, 0, self.grid.blocks)
        for array, old in zip(sums, kept, strict=True):
            array[:] = old
        return self.squared_residuals()

    def factor(self, which: int, width: int | None = None, out: NDArray[Any] | None = None) -> NDArray[Any]:
        """Return a copy of the first `width` components of a factor, rows in the order of V.

        With `out`, only rank 0 writes to it, since draws are kept there.
        """
        array = [self.core.array(which, "x")]
        if out is None:
            self._share_arrays(array, self._at)
            return self._local.factor(which, width)
        self._fetch(array, self._at)
        return self._local.factor(which, width, out) if self._rank == 0 else out

    def deliver(self, which: int, columns: slice, out: NDArray[Any], bounds: NDArray[np.int64]) -> None:
        """Copy some components of a factor to `out`: on rank r, the rows bounds[r] … bounds[r + 1] - 1."""
        array, (first, last) = self.core.array(which, "x"), bounds[self._rank : self._rank + 2]
        if bounds[1] == bounds[-1]:
            self._fetch([array], self._at)
        else:
            self._share_arrays([array], self._at)
        wanted = self.positions(which, np.arange(first, last))
        out[first:last] = array[wanted, columns]

    def accumulated(self, which: int) -> NDArray[Any]:
        """Return the sums of `accumulate` for a factor."""
        return self._local.accumulated(which)

    def state(self) -> dict[str, NDArray[Any]]:
        """Return the factors and squared residuals, and those of the last `save`.

        Only rank 0 has the values; the other ranks return uninitialised arrays of the same shapes.
        """
        self._fetch(self._travelling(), self._at)
        self._fetch(self._all("saved"), self._saved_at)
        residuals = {"residuals": self._residuals(False), "saved_residuals": self._residuals(True)}
        return {**self._local.state(), **residuals}

    def weights(self) -> dict[str, NDArray[Any]]:
        """Return the sums of the last `accumulate`, for `set_weights`."""
        return self._local.weights()

    def noise(self, which: int, iteration: int) -> NDArray[np.float32]:
        """Return the standard normals of an iteration for a factor."""
        return self._local.noise(which, iteration)

    def order(self, index: Places) -> NDArray[np.int64]:
        """Return a permutation that sorts entries of V by their position in the outer factor."""
        return self._local.order(index)

    # -- writing: the same on all ranks --------------------------------------------------------------------

    def set_factor(self, which: int, x: NDArray[Any]) -> None:
        """Replace a factor. The other one must be replaced as well before the next update."""
        self._local.set_factor(which, x)
        self._at = None

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Set the state to what `state` returned on rank 0, of any number of ranks."""
        self._local.set_state(state)
        self._at = self._saved_at = None

    # -- messages ------------------------------------------------------------------------------------------

    def _all(self, name: str) -> list[NDArray[Any]]:
        return [self.core.array(which, name) for which in range(len(self.grid.shape))]

    def _travelling(self) -> list[NDArray[Any]]:
        return self._all("x") + (self._all("momentum") if self.second_order else [])

    def _send(self, arrays: list[NDArray[Any]], start: int, end: int, counted: str) -> list[Request]:
        if self._rank == start:
            self.sent[counted] += sum(array.nbytes for array in arrays)
            return [self._comm.isend(array, end) for array in arrays]
        return [self._comm.irecv(array, start) for array in arrays] if self._rank == end else []

    def _fetch(self, arrays: list[NDArray[Any]], at: int | None) -> None:
        """Send arrays from rank `at` to rank 0."""
        if at:
            self._comm.wait(self._send(arrays, at, 0, _REST))

    def _share(self, name: str, at: int | None) -> None:
        """Send an array of all factors from rank `at` to all ranks."""
        self._share_arrays(self._all(name), at)

    def _share_arrays(self, arrays: list[NDArray[Any]], at: int | None) -> None:
        if at is None:
            return
        if at == self._rank:
            self.sent[_REST] += (self._ranks - 1) * sum(array.nbytes for array in arrays)
        self._comm.broadcast([(array, at) for array in arrays])

    def _from_chain(
        self, find: Callable[[], NDArray[Any]], shape: tuple[int, ...], dtype: Any
    ) -> NDArray[Any]:
        """Return, on all ranks, the result of `find` on the rank where the chain is."""
        if self._at is None:
            return find()
        found = np.ascontiguousarray(find(), dtype) if self._at == self._rank else np.empty(shape, dtype)
        self._share_arrays([found], self._at)
        return found

    def _residuals(self, saved: bool) -> NDArray[np.float64]:
        """Return the squared residuals of all shards, each computed by its rank."""
        found = ranks.total(self._comm, np.where(self._mine, self.core.residuals(saved), 0.0))
        self.sent[_REST] += found.nbytes
        return found
