"""Chains that move abreast: each on a rank of its own, for a while, then each on the next (`DSGLD` on MPI).

To `loop.py` they are one chain with one recorder: the loop is the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, final

from ..samplers import Marks, Room
from .recorder import Recorder


@final
class Abreast:
    """All chains of a run, moved together from hop to hop. Chains that a checkpoint left ahead wait for the others."""

    def __init__(self, recorders: list[Recorder], stay: int) -> None:
        self._recorders, self._stay = recorders, stay
        self._chains: list[Any] = [recorder.chain for recorder in recorders]

    @property
    def iteration(self) -> int:
        """The iterations that all chains have behind them."""
        return min(int(chain.iteration) for chain in self._chains)

    @property
    def recorded(self) -> int:
        """The marks that all chains have behind them."""
        return min(recorder.recorded for recorder in self._recorders)

    def advance(self, n: int) -> None:
        """Run n iterations of each chain: between two hops, a rank has only the chains to work on that are there."""
        end = self.iteration + n
        while self.iteration < end:
            t = self.iteration
            last = t // self._stay * self._stay + self._stay
            # What comes at the end of a cycle is done together: the ranks should not wait for each other before.
            stops = [end, last, *([last - 1] if last - 1 > t else [])]
            stop = min(stops + [c.iteration for c in self._chains if c.iteration > t])
            moving = [chain for chain in self._chains if chain.iteration == t]
            moving[0].setup.engine.hop(
                [chain.factors for chain in moving], [chain.next_part() for chain in moving]
            )
            for chain in moving:
                chain.advance(stop - t)

    passes = False

    def run(self, marks: range, room: Room | None = None) -> Iterator[Marks]:
        """Run all chains to the first of these iterations, where they rest."""
        self.advance(marks[0] - self.iteration)
        yield Marks([self.iteration], [float("nan")], [float("nan")], 0, True)

    def room(self, n: int, keep: bool) -> Room | None:
        """Return None: the chains rest at each mark."""
        return None

    def record(self, marks: Marks, keep: bool) -> None:
        """Have each chain's recorder take in the mark at which it rests; with `keep`, as a draw."""
        recorded = self.recorded
        for recorder in self._recorders:
            if recorder.recorded == recorded:
                recorder.record(recorder.chain.rest(), keep)
