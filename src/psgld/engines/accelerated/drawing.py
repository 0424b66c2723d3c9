"""The cells that iterations of SGLD draw: the words of `reference/philox.py`, for many iterations at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..reference.philox import philox

_HALF = np.uint64(32)


def drawn_entries(
    t: int, draws: NDArray[np.int32], entries: NDArray[np.int64], key: int
) -> NDArray[np.int64]:
    """Return the numbers of the entries drawn in iterations t, t + 1, …, (iterations, draws per iteration).

    `draws` are the numbers of draws, (iterations, chunks), `entries` the numbers of entries of the chunks.
    """
    first = np.cumsum(entries) - entries
    out = np.empty((len(draws), int(draws[0].sum()) if len(draws) else 0), np.int64)
    for q, numbers in enumerate(draws.astype(np.int64)):
        chunk = np.repeat(np.arange(len(numbers)), numbers)
        within = np.arange(len(chunk)) - np.repeat(np.cumsum(numbers) - numbers, numbers)
        counter = np.empty((len(chunk), 4), np.uint64)
        counter[:, 0], counter[:, 1] = within // 2, 2**30 + chunk
        counter[:, 2], counter[:, 3] = (t + q) % 2**32, (t + q) >> 32
        words = philox(counter, key)
        pair = 2 * (within % 2)
        high, low = (np.take_along_axis(words, (pair + side)[:, None], 1)[:, 0] for side in (0, 1))
        n = entries[chunk].astype(np.uint64)
        out[q] = first[chunk] + ((high * n + (low * n >> _HALF)) >> _HALF).astype(np.int64)
    return out
