"""Subsamples of entries with replacement: the number of draws from each chunk of the data.

|Ω| uniform draws from a part are equivalent to multinomial numbers of draws from its chunks, uniform within each chunk.
So the entries of a chunk are drawn (in the core) independently of the thread that works on it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray


@final
@dataclass(frozen=True, eq=False)
class Subsample:
    """`size` draws per iteration from the entries of a part; `entries` are their numbers, shape (parts, chunks)."""

    size: int
    entries: NDArray[np.int64]

    def draws(self, t: int, parts: NDArray[np.int32], key: int) -> NDArray[np.int32]:
        """Return the number of draws from each chunk at iterations t, t + 1, …, one iteration for each of `parts`.

        The result depends on t and key only, not on earlier calls.

        Examples
        --------
        >>> Subsample(6, np.array([[20, 10]])).draws(1, np.zeros(2, np.int32), key=0).sum(axis=1)
        array([6, 6])
        """
        entries = self.entries[parts]
        if entries.shape[1] == 1:
            return np.full(entries.shape, self.size, np.int32)
        share = entries / entries.sum(axis=1, keepdims=True)
        rows = (_generator(key, t + q).multinomial(self.size, share[q]) for q in range(len(parts)))
        return np.array(list(rows), np.int32)


def _generator(key: int, t: int) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(key=np.array([key, 2], np.uint64), counter=[0, t, 0, 0]))
