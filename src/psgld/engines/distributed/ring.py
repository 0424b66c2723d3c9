"""The ring: which rank holds which strips, and which strips are sent between two iterations.

B strips are distributed over R ranks. Outer strips stay: rank r keeps the strips from B r / R to B (r + 1) / R. In
part p, outer strip b is paired with inner strip b + p (b - p if the columns of V are the outer side). So a rank holds
equally many inner strips, and sends exactly one of them to its neighbour between parts p and p + 1.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import final


@final
@dataclass(frozen=True)
class Move:
    """The inner strips that one rank sends and receives between two parts, as pairs (strip, rank).

    The strips to send are paired with the outer strips `first` … `last` - 1, counted from the rank's first.
    """

    first: int
    last: int
    sends: tuple[tuple[int, int], ...]
    receives: tuple[tuple[int, int], ...]


@final
@dataclass(frozen=True)
class Ring:
    """The distribution of B strips over R ranks."""

    blocks: int
    ranks: int
    swapped: bool

    def own(self, rank: int) -> tuple[int, int]:
        """Return the range (first, end) of a rank's outer strips."""
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
        """Return the strips that a rank sends and receives between two parts."""
        before, after = self.held(rank, part), self.held(rank, then)
        sends = tuple((c, self.holder(c, then)) for c in before if c not in after)
        receives = tuple((c, self.holder(c, part)) for c in after if c not in before)
        leaving = [b for b, c in enumerate(before) if c not in after]  # consecutive, as both sets are
        first, last = (leaving[0], leaving[-1] + 1) if leaving else (0, 0)
        return Move(first, last, sends, receives)
