"""Strips of the inner factor, passed on around the ring of devices.

The outer strip o is paired with the inner strip o + p in part p (o - p if columns are the outer side). Each device
holds B / D consecutive outer strips, and their inner strips in the same order.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

AXIS = "ring"
"""The name of the axis of devices."""


def passed_on(tree: Any, sign: int, devices: int) -> Any:
    """Return the strips of the next part: each strip takes the place before its own (after it, if `sign` is -1).

    A device sends one strip to its neighbour.
    """

    def one(x: Any) -> Any:
        sent, kept = (x[:1], x[1:]) if sign > 0 else (x[-1:], x[:-1])
        if devices > 1:
            there = [(d, (d - sign) % devices) for d in range(devices)]
            sent = jax.lax.ppermute(sent, AXIS, there)
        return jnp.concatenate([kept, sent] if sign > 0 else [sent, kept])

    return jax.tree.map(one, tree)


def turned(tree: Any, shift: Any, blocks: int, devices: int) -> Any:
    """Return the strips with strip o + shift in the place of strip o: any two parts, for all strips at once."""
    own = blocks // devices
    first = own * jax.lax.axis_index(AXIS) if devices > 1 else 0
    taken = (first + jnp.arange(own) + shift) % blocks

    def one(x: Any) -> Any:
        everything = jax.lax.all_gather(x, AXIS, tiled=True) if devices > 1 else x
        return everything.at[taken].get(mode="promise_in_bounds")

    return jax.tree.map(one, tree)
