"""Philox4x32-10 (Salmon, Moraes, Dror, Shaw 2011) in NumPy: the random words of subsamples."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)


def philox(counter: NDArray[np.uint64], key: int, rounds: int = 10) -> NDArray[np.uint64]:
    """Return four 32-bit words for each counter of four words, (…, 4), as 64-bit integers."""
    x0, x1, x2, x3 = np.moveaxis(counter, -1, 0)
    k0, k1 = key % 2**32, key >> 32
    for _ in range(rounds):
        a, b = x0 * np.uint64(0xD2511F53), x2 * np.uint64(0xCD9E8D57)
        x0, x1 = (b >> _HALF) ^ x1 ^ np.uint64(k0), b & _LOW
        x2, x3 = (a >> _HALF) ^ x3 ^ np.uint64(k1), a & _LOW
        k0, k1 = (k0 + 0x9E3779B9) % 2**32, (k1 + 0xBB67AE85) % 2**32
    return np.stack([x0, x1, x2, x3], axis=-1)


def uniform_words(stream: int, t: int, key: int, n: int) -> list[int]:
    """Return n 64-bit words, which choose n entries of chunk `stream` at iteration t.

    One counter, (d div 2, 2^30 + stream, t mod 2^32, t div 2^32), gives the words of draws d and d + 1.
    """
    counter = np.empty((-(-n // 2), 4), np.uint64)
    counter[:, 0] = np.arange(len(counter))
    counter[:, 1:] = 2**30 + stream, t % 2**32, t >> 32
    words = philox(counter, key)
    pairs = words[:, 0::2] << _HALF | words[:, 1::2]
    return [int(word) for word in pairs.ravel()[:n]]
