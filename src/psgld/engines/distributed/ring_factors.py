"""The factors of a chain distributed over ranks: strips of the shorter factor are passed around a ring."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from ... import _core
from ...models import Likelihood
from ..base import WEIGHTS, Places, Stretch, SumName
from ..communicator import Communicator, Request
from ..core_factors import NO_DRAWS, CoreFactors, core_chain, given
from ..core_grid import CoreGrid
from . import ranks
from .ring import Move, Ring

_TRAVEL, _REST = "ring", "other"
"""Categories of sent bytes: strips sent between iterations; everything else."""


@final
class RingFactors(CoreFactors):
    """This rank's share of the factors of one chain.

    Arrays of the inner factor have memory for all strips. Those that this rank holds in part `_part` are up to date.
    "x", "momentum" and "inverse_root" are passed on; "saved" and "sum" stay where the strip is in part 0.
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
        super().__init__(core_chain(grid, components, likelihood, floor), grid, components, likelihood)
        self.sent: Counter[str] = Counter()
        """Bytes sent by this rank: between iterations ("ring"), and otherwise ("other")."""
        self._comm, self._rank = communicator, communicator.rank
        self._ring = Ring(grid.blocks, communicator.size, grid.swapped)
        self._pool = _core.Pool(threads)
        self._blocks_per_poll = threads  # blocks to process between two polls for messages
        self._first, self._last = self._ring.own(self._rank)
        self._strips = grid.core.inner_strips()
        self._moves: dict[tuple[int, int], Move] = {}
        self._deliveries: dict[tuple[int, ...], ranks.Delivery] = {}
        self._part = 0
        self._complete: set[str] = set()  # arrays of the inner factor of which all strips are up to date
        places = self.core.positions(grid.outer, np.arange(grid.shape[grid.outer]))
        self._rows = np.flatnonzero(places >= 0)  # the rows of the outer factor that this rank keeps
        self._places = places[self._rows]
        slots = ranks.everyones_number(communicator, len(self.core.residuals(False)))
        self._slots = np.cumsum([0, *slots])  # the offset of the residuals of each rank

    # -- updates -----------------------------------------------------------------------------------------

    def advance(self, stretch: Stretch) -> None:
        """Run iterations, each on all entries of its part."""
        assert stretch.draws is None  # samplers that draw entries do not run on this engine
        parts, steps, scales = stretch.parts, stretch.steps, stretch.scales
        self._move_strips(int(parts[0]))
        self._complete.clear()
        travelling = self._travelling()
        for q, part in enumerate(parts.tolist()):
            # The part after the last iteration is not known yet: assume the next one on the ring.
            then = int(parts[q + 1]) if q + 1 < len(parts) else (part + 1) % self.grid.blocks
            now = slice(q, q + 1)
            numbers = stretch.t + q, parts[now], steps[now], scales[now], NO_DRAWS
            work = partial(self.core.advance, self._pool, *numbers)
            self._process_and_pass(part, then, travelling, work)
            self._part = then

    def accumulate(self, kind: SumName, part: int = -1) -> None:
        """Sum scores or weights over a part (or over all of V) for every row of every factor."""
        self._move_strips(0)
        self.core.clear_sums()
        self._complete.discard("sum")
        parts = list(range(self.grid.blocks)) if part < 0 else [part]
        travelling = [self.core.array(self.grid.inner, name) for name in ("x", "sum")]
        self._exchange(0, parts[0], travelling)
        for p, then in zip(parts, [*parts[1:], 0], strict=True):
            self._process_and_pass(p, then, travelling, partial(self.core.add_sums, self._pool, kind, p))

    def set_bound(self, which: int, rate: NDArray[np.float64]) -> None:
        """Compute the bound b of the non-negative metric from the accumulated weights, φ and the prior's rates."""
        self._move_strips(0)
        self.core.set_bound(self._pool, which, rate)

    def save(self) -> None:
        """Save the current state in memory."""
        self._move_strips(0)
        self.core.save()
        self._complete.discard("saved")

    def restore(self) -> None:
        """Return to the state of the last `save`, with zero momentum."""
        self._move_strips(0)
        self.core.restore()
        self._complete.clear()

    # -- sums: each strip on its rank, then over strips in a fixed order (`group_sums.hpp`) ----------------------

    def sums(self) -> NDArray[np.float64]:
        """Return Σx, Σx², Σ log x and Σ count x² of each component of each factor, (modes, 4, K)."""
        held = np.array(self._ring.held(self._rank, self._part))
        tables = np.zeros((len(self.grid.shape), self.grid.blocks, 4 * self.components))
        outer = np.arange(self._last - self._first)
        tables[self.grid.outer, self._first : self._last] = self.core.strip_sums(self.grid.outer, outer)
        tables[self.grid.inner, held] = self.core.strip_sums(self.grid.inner, held)
        tables = self._total(tables)
        return np.stack([_core.add_rows(table).reshape(4, self.components) for table in tables])

    def gram(self, which: int) -> NDArray[np.float64]:
        """Return Σxxᵀ over the rows of a factor, (K, K), in a fixed order of the strips."""
        table = np.zeros((self.grid.blocks, self.components**2))
        if which == self.grid.outer:
            own = np.arange(self._last - self._first)
            table[self._first : self._last] = self.core.strip_grams(which, own)
        else:
            held = np.array(self._ring.held(self._rank, self._part))
            table[held] = self.core.strip_grams(which, held)
        return _core.add_rows(self._total(table)).reshape(self.components, self.components)

    def squared_residuals(self) -> float:
        """Return Σ(v - μ)², each block as of its last update."""
        squares = np.zeros((self.grid.blocks, 1))
        squares[self._first : self._last] = self.core.strip_squares()
        return float(_core.add_rows(self._total(squares))[0])

    def fresh_squared_residuals(self) -> float:
        """Return Σ(v - μ)² at the current state, by a pass over the data."""
        self._move_strips(0)
        sums = [self.core.array(which, "sum") for which in range(len(self.grid.shape))]
        kept, complete = [array.copy() for array in sums], "sum" in self._complete
        self.accumulate("score")
        for array, old in zip(sums, kept, strict=True):
            array[:] = old
        if complete:
            self._complete.add("sum")
        return self.squared_residuals()

    def mu(self, places: Places) -> NDArray[Any]:
        """Return Σ_k w_ik h_kj at the positions of entries, from the ranks that keep the outer rows."""
        self._fetch("x", self._part)
        mine = np.flatnonzero(places[self.grid.outer] >= 0)
        mu = np.zeros(len(places[0]), self.dtype)
        mu[mine] = self.core.mu(*(place[mine] for place in places))
        return self._total(mu)

    def log_kernel(self, places: Places, values: NDArray[Any], weights: NDArray[Any] | None = None) -> float:
        """Return φ Σ w (log p(v | μ) - log normaliser) at the positions of entries of weight w (1 by default)."""
        return self.core.log_kernel(values, self.mu(places), given(weights, self.dtype))

    # -- reading and writing -----------------------------------------------------------------------------

    def factor(self, which: int, width: int | None = None, out: NDArray[Any] | None = None) -> NDArray[Any]:
        """Return a copy of the first `width` components of a factor, rows in the order of V.

        With `out`, only rank 0 writes to it, since draws are kept there.
        """
        if out is not None:
            return self._read(which, "x", out)
        whole = np.empty((self.grid.shape[which], width or self.components), self.dtype)
        return ranks.from_first(self._comm, self._read(which, "x", whole))

    def deliver(self, which: int, columns: slice, out: NDArray[Any], bounds: NDArray[np.int64]) -> None:
        """Copy some components of a factor to `out`: on rank r, the rows bounds[r] … bounds[r + 1] - 1."""
        first, last = bounds[self._rank : self._rank + 2]
        if which == self.grid.inner:
            self._fetch("x", self._part)
            wanted = self.core.positions(which, np.arange(first, last))
            out[first:last] = self.core.array(which, "x")[wanted, columns]
            return
        mine = np.ascontiguousarray(self.core.array(which, "x")[self._places, columns])
        key = (which, *bounds.tolist())
        if key not in self._deliveries:
            self._deliveries[key] = ranks.Delivery(self._comm, self._rows, bounds)
        self.sent[_REST] += self._deliveries[key](mine, out)

    def set_factor(self, which: int, x: NDArray[Any]) -> None:
        """Replace a factor, given all its rows, or only the rows that `noise` returns."""
        self._write(which, "x", x)
        self._part = 0

    def accumulated(self, which: int) -> NDArray[Any]:
        """Return the sums of `accumulate` for a factor."""
        return ranks.from_first(self._comm, self._read(which, "sum"))

    def state(self) -> dict[str, NDArray[Any]]:
        """Return the factors and squared residuals, and those of the last `save`.

        Only rank 0 has the values; the other ranks return uninitialised arrays of the same shapes.
        """
        return {
            **{name: self._read(which, kind) for name, (which, kind) in self._kept().items()},
            "residuals": self._residuals(False),
            "saved_residuals": self._residuals(True),
        }

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Set the state to what `state` returned on rank 0, of any number of ranks."""
        for name, (which, kind) in self._kept().items():
            self._write(which, kind, state[name])
        own = slice(*self._slots[self._rank : self._rank + 2])
        for saved, name in ((False, "residuals"), (True, "saved_residuals")):
            self.core.set_residuals(saved, np.ascontiguousarray(state[name][own], np.float64))
        self._part = 0

    def weights(self) -> dict[str, NDArray[Any]]:
        """Return the sums of the last `accumulate`, for `set_weights`. Only rank 0 has their values."""
        return {name: self._read(which, "sum") for which, name in enumerate(WEIGHTS)}

    def noise(self, which: int, iteration: int) -> NDArray[np.float32]:
        """Return the standard normals that iteration uses for the rows of a factor that are here."""
        rows = self._rows if which == self.grid.outer else np.arange(self.grid.shape[which])
        return self.core.noise(which, iteration, rows)

    def order(self, index: Places) -> NDArray[np.int64]:
        """Return a permutation that sorts entries of V by their position in the outer factor, over all ranks."""
        outer = self.grid.outer
        places = self.positions(outer, index[outer])
        before = sum(ranks.everyones_number(self._comm, len(self.core.array(outer, "x")))[: self._rank])
        return np.argsort(self._total(np.where(places < 0, 0, before + places)), kind="stable")

    def _read(self, which: int, name: str, out: NDArray[Any] | None = None) -> NDArray[Any]:
        """Return an array of a factor on rank 0, rows in the order of V."""
        if out is None:
            out = np.empty((self.grid.shape[which], self.components), self.dtype)
        if which == self.grid.inner:
            self._fetch(name, 0 if name in ("saved", "sum") else self._part)
            if self._rank == 0:
                self.core.gather(self._pool, which, name, out)
            return out
        mine = np.ascontiguousarray(self.core.array(which, name)[self._places, : out.shape[1]])
        self.sent[_REST] += mine.nbytes if self._rank else 0
        for rows, values in ranks.to_first(self._comm, self._rows, mine):
            out[rows] = values
        return out

    def _write(self, which: int, name: str, x: NDArray[Any]) -> None:
        """Replace an array of a factor; all ranks pass the same array."""
        if which == self.grid.inner:
            self.core.scatter(which, name, np.ascontiguousarray(x, self.dtype))
            self._complete.add(name)
        else:
            mine = x if len(x) == len(self._rows) else np.asarray(x)[self._rows]
            self.core.array(which, name)[self._places, : self.components] = mine

    def _residuals(self, saved: bool) -> NDArray[np.float64]:
        mine = self.core.residuals(saved)
        out = np.zeros(int(self._slots[-1]))
        for rows, values in ranks.to_first(
            self._comm, np.arange(*self._slots[self._rank : self._rank + 2]), mine
        ):
            out[rows] = values
        return out

    # -- passing strips on -------------------------------------------------------------------------------

    def _travelling(self) -> list[NDArray[Any]]:
        """Return the arrays of the inner factor that are sent with its strips."""
        names = ["x"]
        if self.core.momentum:
            names.append("momentum")
        if self.core.metric == "non-negative":
            names.append("inverse_root")
        return [self.core.array(self.grid.inner, name) for name in names]

    def _strip(self, array: NDArray[Any], strip: int) -> NDArray[Any]:
        first, rows = self._strips[strip]
        return array[first : first + rows]

    def _move(self, part: int, then: int) -> Move:
        if (part, then) not in self._moves:
            self._moves[part, then] = self._ring.move(self._rank, part, then)
        return self._moves[part, then]

    def _process_and_pass(
        self, part: int, then: int, travelling: list[NDArray[Any]], work: Callable[[int, int], None]
    ) -> None:
        """Process the blocks of a part, first those whose strips are sent: messages overlap with the other blocks."""
        move = self._move(part, then)
        requests = self._receive(move, travelling)
        work(move.first, move.last)
        requests += self._send(move, travelling, _TRAVEL)
        for first, last in ((0, move.first), (move.last, self._last - self._first)):
            for b in range(first, last, self._blocks_per_poll):
                work(b, min(b + self._blocks_per_poll, last))
                self._comm.test(requests)
        self._comm.wait(requests)

    def _move_strips(self, part: int) -> None:
        """Move the inner strips to the ranks that need them in a part."""
        if part != self._part:
            self._exchange(self._part, part, self._travelling())
            self._part = part

    def _exchange(self, part: int, then: int, travelling: list[NDArray[Any]]) -> None:
        move = self._move(part, then)
        self._comm.wait(self._receive(move, travelling) + self._send(move, travelling, _REST))

    def _receive(self, move: Move, travelling: list[NDArray[Any]]) -> list[Request]:
        return [
            self._comm.irecv(self._strip(array, strip), rank, strip * len(travelling) + number)
            for strip, rank in move.receives
            for number, array in enumerate(travelling)
        ]

    def _send(self, move: Move, travelling: list[NDArray[Any]], counted: str) -> list[Request]:
        requests = []
        for strip, rank in move.sends:
            for number, array in enumerate(travelling):
                buffer = self._strip(array, strip)
                self.sent[counted] += buffer.nbytes
                requests.append(self._comm.isend(buffer, rank, strip * len(travelling) + number))
        return requests

    def _fetch(self, name: str, part: int) -> None:
        """Copy all strips of an array of the inner factor to all ranks, unless they are up to date."""
        if name in self._complete:
            return
        array = self.core.array(self.grid.inner, name)
        holders = [self._ring.holder(strip, part) for strip in range(self.grid.blocks)]
        self.sent[_REST] += sum(
            self._strip(array, c).nbytes for c, holder in enumerate(holders) if holder == self._rank
        )
        self._comm.broadcast([(self._strip(array, c), holder) for c, holder in enumerate(holders)])
        self._complete.add(name)

    def _total(self, table: NDArray[Any]) -> NDArray[Any]:
        self.sent[_REST] += table.nbytes
        return ranks.total(self._comm, table)
