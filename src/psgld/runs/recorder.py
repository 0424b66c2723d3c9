"""The recorder of one chain: at each mark a row of the trace, and after burn-in a draw and the moments."""

from __future__ import annotations

from typing import Any, Protocol, final

import numpy as np
from numpy.typing import NDArray

from ..samplers import Marks, Room
from .draws import Draws
from .moments import RunningMoments
from .traces import Trace

Pairs = tuple[NDArray[np.int64], NDArray[np.int64]]

_AHEAD = 1 << 26
"""Bytes of draws for which memory is made ready at once: rarely, but nobody looks for Ctrl-C meanwhile, and memory that
a virtual machine has to fetch from its host takes ten times as long."""


class Share(Protocol):
    """Which rows of the draws are kept here, where several processes share them (`storage.spread`)."""

    def rows(self, name: str) -> slice:
        """Return the rows of an array of draws that are kept here."""

    def record(self, draws: Draws, chain: Any, number: int, draw: int) -> None:
        """Copy the rows of the state of a chain that are kept here."""

    def collect(self, draws: Draws, number: int, kept: int) -> None:
        """Have all rows of the draws of a chain on rank 0."""


@final
class Recorder:
    """Keeps what a chain passes through."""

    def __init__(
        self,
        chain: Any,
        number: int,
        draws: Draws,
        track: Pairs | None,
        precision: str | None = None,
        spread: Share | None = None,
    ) -> None:
        self.chain, self.number, self.draws, self.precision = chain, number, draws, precision
        self.spread = spread
        """Which rows of a draw are kept here, where ranks share them."""
        self.warmup, self.trace = Trace(), Trace()
        self.moments = RunningMoments(chain, *track) if track is not None else None
        self.kept = 0
        self._ready = 0  # draws for which there is memory
        self._divergences = 0

    @property
    def lp(self) -> float:
        """The last log posterior that was recorded."""
        rows = self.trace.lp or self.warmup.lp
        return rows[-1] if rows else float("nan")

    @property
    def recorded(self) -> int:
        """The number of marks that are behind."""
        return len(self.warmup.lp) + self.kept

    def state(self) -> dict[str, Any]:
        """Return what is needed to go on, besides the draws and the traces."""
        numbers = {"kept": self.kept, "marks": len(self.warmup.lp), "divergences": self._divergences}
        numbers["iteration"] = self.chain.iteration
        return numbers | (
            {} if self.moments is None else {f"moments/{n}": x for n, x in self.moments.state().items()}
        )

    def set_state(self, state: dict[str, Any], stats: dict[str, Any], warmup: dict[str, Any]) -> None:
        """Go on from what `state` returned and from the traces until then."""
        self.kept, self._divergences = int(state["kept"]), int(state["divergences"])
        self.trace, self.warmup = Trace.of(stats), Trace.of(warmup)
        if self.moments is not None:
            self.moments.set_state({n: state[f"moments/{n}"] for n in self.moments.state()}, self.kept)

    def record(self, marks: Marks, keep: bool) -> None:
        """Take in marks that a chain has passed, their draws being in the room; or the one at which it rests."""
        n = len(marks.lp)
        if keep and marks.resting:
            self._keep()
            if self.moments is not None:
                self.moments.record()
        elif keep:
            self.draws.record_hyper(self.chain, self.number, slice(self.kept, self.kept + n))
        self.kept += n if keep else 0
        diverged, self._divergences = marks.divergences > self._divergences, marks.divergences
        (self.trace if keep else self.warmup).record(marks.iterations, marks.lp, marks.steps, diverged)

    def room(self, n: int, keep: bool) -> Room | None:
        """Return where the next n draws of W and H go, perhaps none; None if the chain has to rest at each mark."""
        if keep and any(x is not None for x in (self.moments, self.spread, self.precision)):
            return None
        first, last = self.kept, self.kept + (n if keep else 0)
        room = self.draws.room(self.number, slice(first, last))
        if room is not None and last > self._ready:
            self._make_ready(first, last)
        return room

    def _make_ready(self, first: int, last: int) -> None:
        """Have memory at hand for draws up to the last, and some more: page by page, it would cost thrice as much."""
        W, H = (x[self.number] for x in (self.draws.W, self.draws.H))
        if len(W):
            begin = max(first, self._ready)
            self._ready = max(last, begin + _AHEAD // (W[0].nbytes + H[0].nbytes))
            for factor in (W, H):
                self.chain.factors.reserve(factor[begin : self._ready])

    def _keep(self) -> None:
        """Record a draw; where ranks share its rows, those that are kept here."""
        if self.spread is not None:
            self.spread.record(self.draws, self.chain, self.number, self.kept)
        else:
            self.draws.record(self.chain, self.number, self.kept)
        if self.precision is not None and (self.spread is not None or self.chain.setup.engine.rank == 0):
            self.draws.round(self.number, self.kept, self.precision, self.spread)
