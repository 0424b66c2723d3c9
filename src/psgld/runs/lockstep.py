"""Chains in lockstep: each stays on a rank for some iterations, then all move to their next ranks (`DSGLD` on MPI).

They have the interface of one chain and of one recorder, so that `loop.py` serves them, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import final

from ..samplers import DrawBuffers, Marks
from .clock import Clock
from .recorder import Recorder


@final
class LockstepChains:
    """All chains of a run, advanced to the same iteration. Chains whose checkpoint is ahead wait for the others."""

    def __init__(self, recorders: list[Recorder], stay: int) -> None:
        self._recorders, self._stay = recorders, stay
        self._chains = [recorder.chain for recorder in recorders]
        for recorder in recorders:
            recorder.clock = recorders[0].clock

    @property
    def clock(self) -> Clock:
        """Counts the time in which the chains are advanced."""
        return self._recorders[0].clock

    @property
    def iteration(self) -> int:
        """The number of iterations that all chains have completed."""
        return min(chain.iteration for chain in self._chains)

    @property
    def recorded(self) -> int:
        """The number of marks that all chains have recorded."""
        return min(recorder.recorded for recorder in self._recorders)

    def advance(self, n: int) -> None:
        """Run n iterations of each chain. Between two moves, a rank updates only the chains that it holds."""
        end = self.iteration + n
        while self.iteration < end:
            t = self.iteration
            last = t // self._stay * self._stay + self._stay
            # All chains do the work at the end of a cycle at the same time, so that no rank waits for it earlier.
            stops = [end, last, *([last - 1] if last - 1 > t else [])]
            stop = min(stops + [c.iteration for c in self._chains if c.iteration > t])
            moving = [chain for chain in self._chains if chain.iteration == t]
            moving[0].setup.engine.hop(
                [chain.factors for chain in moving], [chain.next_part() for chain in moving]
            )
            for chain in moving:
                chain.advance(stop - t)

    passes = False

    def run(self, marks: range, buffers: DrawBuffers | None = None) -> Iterator[Marks]:
        """Run all chains to the first of these iterations, and pause there."""
        self.advance(marks[0] - self.iteration)
        yield Marks([self.iteration], [float("nan")], [float("nan")], 0, True)

    def buffers(self, n: int, keep: bool) -> DrawBuffers | None:
        """Return None: the chains pause at each mark."""
        return None

    def record(self, marks: Marks, keep: bool) -> None:
        """Record the mark at which each chain pauses, in its own recorder; with `keep`, as a draw."""
        recorded = self.recorded
        for recorder in self._recorders:
            if recorder.recorded == recorded:
                recorder.record(recorder.chain.pause(), keep)
