"""The gradient of the blocks of a part whose cells are all stored."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from ..base import SumName
from ..reference.update import Model
from .sides import Side


class DenseBlocks(NamedTuple):
    """V by outer strip and part, (B, B, R, C), NaN where it was not observed; weights of the cells, if they differ."""

    V: Any
    weights: Any


def dense_blocks(
    V: NDArray[Any], weights: NDArray[Any] | None, sides: tuple[Side, Side], sign: int, dtype: Any
) -> DenseBlocks:
    """Cut V, whose rows are the outer side, into blocks."""
    outer, inner = sides

    def cut(x: NDArray[Any], empty: float) -> NDArray[Any]:
        strips = outer.spread(x, dtype, empty)  # (B, R, J)
        blocks = len(strips)
        out = np.full((blocks, blocks, outer.length, inner.length), empty, dtype)
        for b in range(blocks):
            for part in range(blocks):
                rows = inner.rows[(b + sign * part) % blocks]
                held = np.flatnonzero(rows >= 0)
                out[b, part][:, held] = strips[b][:, rows[held]]
        return out

    return DenseBlocks(cut(V, np.nan), None if weights is None else cut(weights, 0.0))


def dense_gradients(
    blocks: DenseBlocks, x: Any, y: Any, model: Model, kind: SumName, drawn: Any
) -> tuple[Any, Any, Any]:
    """Return Σ e y for the rows x of the outer strips, Σ e x for the rows y of the inner ones, and Σ (v - η)².

    e are the scores or weights of the entries; an entry counts as often as it was `drawn`, if that is given.
    """
    eta = jnp.einsum("srk,sck->src", x, y, precision="highest")
    seen = ~jnp.isnan(blocks.V)
    v = jnp.where(seen, blocks.V, 0.0)
    at = model.guarded(eta)
    e = model.weight(v, at) if kind == "weight" else model.score(v, at)
    times = blocks.weights
    if drawn is not None:
        times = drawn.reshape(v.shape) if times is None else times * drawn.reshape(v.shape)
    e = jnp.where(seen, e if times is None else times * e, 0.0)
    gx = jnp.einsum("src,sck->srk", e, y, precision="highest")
    gy = jnp.einsum("src,srk->sck", e, x, precision="highest")
    squares = None
    if model.likelihood.normal:
        squared = jnp.where(seen, (v - eta) ** 2, 0.0)
        squares = (squared if times is None else times * squared).sum(axis=2).sum(axis=1)
    return gx, gy, squares
