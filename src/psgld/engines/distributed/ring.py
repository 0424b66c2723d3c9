"""The ring: which rank keeps which strips, and what moves between two iterations.

B strips over R ranks. Outer strips stay: rank r keeps the run of them from B r / R to B (r + 1) / R. In part p, outer
strip b meets inner strip b + p (b - p if the columns of V are the outer side), so a rank holds as many inner strips,
and from p to p + 1 exactly one of them goes to the neighbour.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import final


@final
@dataclass(frozen=True)
class Move:
    """What one rank does between two parts: it sends inner strips and receives others, each (strip, rank).

    The strips that leave belong to the outer strips `first` … `last` - 1, counted from the rank's first.
    """

    first: int
    last: int
    sends: tuple[tuple[int, int], ...]
    receives: tuple[tuple[int, int], ...]


@final
@dataclass(frozen=True)
class Ring:
    """B strips over R ranks."""

    blocks: int
    ranks: int
    swapped: bool

    def own(self, rank: int) -> tuple[int, int]:
        """Return the first of a rank's outer strips, and the one behind its last."""
        return self.blocks * rank // self.ranks, self.blocks * (rank + 1) // self.ranks

    def held(self, rank: int, part: int) -> list[int]:
        """Return the inner strips that a rank holds in a part, in the order of its outer strips."""
        turn = -part if self.swapped else part
        return [(b + turn) % self.blocks for b in range(*self.own(rank))]

    def holder(self, strip: int, part: int) -> int:
        """Return the rank that holds an inner strip in a part."""
        turn = part if self.swapped else -part
        firsts = [self.own(rank)[0] for rank in range(self.ranks)]
        return bisect_right(firsts, (strip + turn) % self.blocks) - 1

    def move(self, rank: int, part: int, then: int) -> Move:
        """Return what a rank does between two parts."""
        before, after = self.held(rank, part), self.held(rank, then)
        sends = tuple((c, self.holder(c, then)) for c in before if c not in after)
        receives = tuple((c, self.holder(c, part)) for c in after if c not in before)
        leaving = [b for b, c in enumerate(before) if c not in after]  # a run, as both sets are
        first, last = (leaving[0], leaving[-1] + 1) if leaving else (0, 0)
        return Move(first, last, sends, receives)
