"""The noise of the step in JAX: the words of `reference/update.py`, and its normals up to rounding.

ARS-7 with tables: a round of AES is four look-ups per word of 32 bits, which hold SubBytes and MixColumns at once.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..reference.aes import SUB_BYTES

ROUNDS = 7


def _mixing_table() -> np.ndarray[Any, np.dtype[np.uint32]]:
    """Return MixColumns of each byte after SubBytes, in the first row of a column: (2, 1, 1, 3) times S."""
    s = SUB_BYTES.astype(np.uint32)
    twice = (s << 1) ^ (s >> 7) * 0x11B
    return (twice | s << 8 | s << 16 | (twice ^ s) << 24).astype(np.uint32)


_MIX = _mixing_table()
_SUB = SUB_BYTES.astype(np.uint32)


def round_keys(key: int) -> np.ndarray[Any, np.dtype[np.uint32]]:
    """Return the keys of all rounds of ARS-7, (8, 4) words."""
    halves = [
        ((key + n * 0x9E3779B97F4A7C15) % 2**64, ((key >> 64) + n * 0xBB67AE8584CAA73B) % 2**64)
        for n in range(ROUNDS + 1)
    ]
    return np.array(halves, np.uint64).view(np.uint32)


def ars(counter: tuple[Any, ...], keys: Any) -> tuple[Any, ...]:
    """Return the four random words of each counter of four words, by ARS-7."""
    words = tuple(word ^ keys[0, c] for c, word in enumerate(counter))

    def unrolled(words: tuple[Any, ...]) -> tuple[Any, ...]:
        for n in range(1, ROUNDS):
            words = _round(words, keys[n], last=False)
        return words

    def looped(words: tuple[Any, ...]) -> tuple[Any, ...]:
        found: tuple[Any, ...] = jax.lax.fori_loop(
            1, ROUNDS, lambda n, now: _round(now, keys[n], last=False), words
        )
        return found

    # On a CPU, the compiler would take seconds for all rounds at once; elsewhere a loop would be a kernel per round.
    words = jax.lax.platform_dependent(words, cpu=looped, default=unrolled)
    return _round(words, keys[ROUNDS], last=True)


def _round(words: tuple[Any, ...], key: Any, last: bool) -> tuple[Any, ...]:
    """Return four words after a round of AES."""
    table, after = jnp.asarray(_SUB if last else _MIX), []
    for c in range(4):
        found = key[c]
        for row in range(4):  # ShiftRows: the byte of the column `row` places further on
            byte = (words[(c + row) % 4] >> jnp.uint32(8 * row)) & jnp.uint32(0xFF)
            looked = table.at[byte].get(mode="promise_in_bounds")
            turned = looked << jnp.uint32(8 * row)
            if row and not last:
                turned = turned | looked >> jnp.uint32(32 - 8 * row)
            found = found ^ turned
        after.append(found)
    return tuple(after)


def box_muller(a: Any, b: Any, dtype: Any) -> tuple[Any, Any]:
    """Return two normals ±sqrt(-2 ln u) (cos ω, sin ω) from two words."""
    odd = jax.lax.bitcast_convert_type(a | jnp.uint32(1), jnp.int32)
    angle = jax.lax.bitcast_convert_type(b, jnp.int32).astype(dtype)
    u = jnp.abs(odd.astype(jnp.float32)).astype(dtype) / 2.0**31
    r, omega = jnp.sqrt(-2.0 * jnp.log(u)) * jnp.sign(odd).astype(dtype), angle * (np.pi / 2.0**32)
    return r * jnp.cos(omega), r * jnp.sin(omega)


def normals(rows: Any, components: int, factor: Any, t: tuple[Any, Any], keys: Any, dtype: Any) -> Any:
    """Return the standard normals of iteration t = (low, high word), (…, components), for rows of a factor.

    `factor`, 0 for W and 1 for H, may differ between rows: (…,).
    """
    groups = -(-components // 4)
    shape = (*rows.shape, groups)
    row = jnp.broadcast_to(rows.astype(jnp.uint32)[..., None], shape)
    side = (jnp.asarray(factor, jnp.uint32) << jnp.uint32(31))[..., None]
    which = jnp.broadcast_to(side + jnp.arange(groups, dtype=jnp.uint32), shape)
    low, high = (jnp.broadcast_to(jnp.asarray(word, jnp.uint32), shape) for word in t)
    # The words are stored once: fused with the step, they would be computed for each of their four components.
    words = jax.lax.optimization_barrier(ars((row, which, low, high), keys))
    pairs = (*box_muller(words[0], words[1], dtype), *box_muller(words[2], words[3], dtype))
    return jnp.stack(pairs, axis=-1).reshape(*rows.shape, 4 * groups)[..., :components]
