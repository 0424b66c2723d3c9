"""Records one chain: a row of the trace at each mark and, after burn-in, a draw and the running moments."""

from __future__ import annotations

from typing import Any, Protocol, cast, final

import numpy as np
from numpy.typing import NDArray

from ..dynamics.log_likelihood import FullLogLikelihood
from ..engines import Factors
from ..samplers import Chain, DrawBuffers, Marks
from .clock import Clock
from .draws import Draws
from .moments import RunningMoments
from .traces import Trace

Pairs = tuple[NDArray[np.int64], NDArray[np.int64]]

_AHEAD = 1 << 26
"""Bytes of draws for which memory is allocated at once. Ctrl-C is not handled meanwhile, and memory that a virtual
machine has to get from its host takes ten times as long."""


class RowOwnership(Protocol):
    """The rows of the draws that this rank owns, where ranks share them (`storage.row_ownership`)."""

    def rows(self, name: str) -> slice:
        """Return the rows of an array of draws that this rank owns."""

    def record(self, draws: Draws, chain: Chain, number: int, draw: int) -> None:
        """Copy the rows of the state of a chain that this rank owns."""

    def collect(self, draws: Draws, number: int, kept: int) -> None:
        """Gather all rows of the draws of a chain on rank 0."""


@final
class Recorder:
    """Records draws, traces and running moments of one chain."""

    def __init__(
        self,
        chain: Chain,
        number: int,
        draws: Draws,
        track: Pairs | None,
        precision: str | None = None,
        ownership: RowOwnership | None = None,
        full: FullLogLikelihood | None = None,
    ) -> None:
        self.chain, self.number, self.draws, self.precision = chain, number, draws, precision
        self.ownership = ownership
        """The rows of a draw that this rank owns, where ranks share them."""
        self.warmup, self.trace = Trace(), Trace()
        self.moments = RunningMoments(chain, track) if track is not None else None
        self.full = full
        """Computes the log likelihood of all entries at every mark, if that was asked for."""
        self.clock = Clock()
        self.kept = 0
        self._ready = 0  # number of draws for which memory is allocated
        self._divergences = 0

    @property
    def lp(self) -> float:
        """The last recorded log posterior."""
        rows = self.trace.lp or self.warmup.lp
        return rows[-1] if rows else float("nan")

    @property
    def recorded(self) -> int:
        """The number of marks recorded so far."""
        return len(self.warmup.lp) + self.kept

    def state(self) -> dict[str, Any]:
        """Return the state needed to resume, besides draws and traces."""
        numbers: dict[str, Any] = {
            "kept": self.kept,
            "marks": len(self.warmup.lp),
            "divergences": self._divergences,
        }
        numbers |= {"iteration": self.chain.iteration, "seconds": self.clock.seconds}
        return numbers | (
            {} if self.moments is None else {f"moments/{n}": x for n, x in self.moments.state().items()}
        )

    def set_state(self, state: dict[str, Any], stats: dict[str, Any], warmup: dict[str, Any]) -> None:
        """Resume from what `state` returned, and from the traces up to there."""
        self.kept, self._divergences = int(state["kept"]), int(state["divergences"])
        self.trace, self.warmup = Trace.of(stats), Trace.of(warmup)
        self.clock = Clock(float(state.get("seconds", "nan")))  # unknown in stores of older versions
        if self.moments is not None:
            self.moments.set_state({n: state[f"moments/{n}"] for n in self.moments.state()}, self.kept)

    def record(self, marks: Marks, keep: bool) -> None:
        """Record marks that a chain has passed, whose draws are in the buffers; or the mark at which it pauses."""
        n = len(marks.lp)
        if keep and marks.paused:
            self._keep()
            if self.moments is not None:
                self.moments.record()
        elif keep:
            self.draws.record_hyper(self.chain, self.number, slice(self.kept, self.kept + n))
        self.kept += n if keep else 0
        diverged, self._divergences = marks.divergences > self._divergences, marks.divergences
        trace, seconds = self.trace if keep else self.warmup, self.clock.at(marks.iterations)
        trace.record(marks.iterations, marks.lp, marks.steps, diverged, seconds, self._full())

    def _full(self) -> tuple[float, float] | None:
        """Return the log likelihood of all entries and the log posterior, if they are asked for."""
        if self.full is None:
            return None
        chain, likelihood = self.chain, self.chain.setup.model.likelihood
        found = self.full.at(chain.factors, chain.hyper.parameters(likelihood), chain.setup.shift)
        return found, chain.log_posterior(found)

    def buffers(self, n: int, keep: bool) -> DrawBuffers | None:
        """Return arrays for the next n draws of W and H (maybe empty); None if the chain must pause at each mark."""
        needed = (self.moments, self.ownership, self.precision) if keep else ()
        if any(x is not None for x in (self.full, *needed)):
            return None
        first, last = self.kept, self.kept + (n if keep else 0)
        buffers = self.draws.buffers(self.number, slice(first, last))
        if buffers is not None and last > self._ready:
            self._make_ready(first, last)
        return buffers

    def _make_ready(self, first: int, last: int) -> None:
        """Allocate memory for draws up to `last` and some more: page by page, it would take three times as long."""
        W, H = (x[self.number] for x in (self.draws.W, self.draws.H))
        if len(W):
            begin = max(first, self._ready)
            self._ready = max(last, begin + _AHEAD // (W[0].nbytes + H[0].nbytes))
            factors = cast(Factors, self.chain.factors)  # of an engine: the chain passes marks
            for draws in (W, H):
                factors.reserve(draws[begin : self._ready])

    def _keep(self) -> None:
        """Record a draw; where ranks share its rows, only those that this rank owns."""
        if self.ownership is not None:
            self.ownership.record(self.draws, self.chain, self.number, self.kept)
        else:
            self.draws.record(self.chain, self.number, self.kept)
        if self.precision is not None and (self.ownership is not None or self.chain.setup.engine.rank == 0):
            self.draws.round(self.number, self.kept, self.precision, self.ownership)
