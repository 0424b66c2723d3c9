"""A round of AES (FIPS 197) in NumPy, used for the noise of `update.py`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]


def _sub_bytes() -> Bytes:
    """Return, for each byte, an affine map of its inverse in GF(2^8): the inverse of 3^n is 3^(255 - n)."""
    powers = [1]
    while len(powers) < 255:
        powers.append(powers[-1] ^ (powers[-1] << 1) ^ (powers[-1] >> 7) * 0x11B)
    box = np.full(256, 0x63, np.uint8)
    for n, x in enumerate(powers):
        q = powers[-n] * 0x101  # twice, so that shifts rotate
        box[x] ^= (q ^ q >> 4 ^ q >> 5 ^ q >> 6 ^ q >> 7) & 0xFF
    return box


SUB_BYTES = _sub_bytes()
"""The S-box."""
_SHIFT_ROWS = [4 * ((column + row) % 4) + row for column in range(4) for row in range(4)]


def aes_round(x: Bytes, key: Bytes, last: bool) -> Bytes:
    """Return blocks (…, 16) after SubBytes, ShiftRows, MixColumns unless it is the last round, and AddRoundKey."""
    s = SUB_BYTES[x][..., _SHIFT_ROWS].reshape(*x.shape[:-1], 4, 4)
    if not last:
        twice = (s << np.uint8(1)) ^ (s >> np.uint8(7)) * np.uint8(0x1B)
        s = twice ^ np.roll(s ^ twice, -1, axis=-1) ^ np.roll(s, -2, axis=-1) ^ np.roll(s, -3, axis=-1)
    return np.asarray(s.reshape(x.shape) ^ key)
