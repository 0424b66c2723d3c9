"""Absent entries that are zeros, all at once: the score at 0 is a constant, or proportional to η."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from ..base import SumName
from ..reference.update import Model


def zero_gradients(x: Any, y: Any, model: Model, kind: SumName, weight: float) -> tuple[Any, Any, Any]:
    """Return the sums of `sparse_gradients` if all cells of the blocks were zeros of this weight."""
    formula = model.weight if kind == "weight" else model.score
    e = weight * float(formula(np.zeros(()), np.ones(())))
    if model.likelihood.zeros == "sum":
        columns, rows = y.sum(axis=1, keepdims=True), x.sum(axis=1, keepdims=True)
        return e * jnp.broadcast_to(columns, x.shape), e * jnp.broadcast_to(rows, y.shape), None
    grams = [jnp.einsum("srk,srl->skl", z, z, precision="highest") for z in (x, y)]
    gx = e * jnp.einsum("srk,skl->srl", x, grams[1], precision="highest")
    gy = e * jnp.einsum("srk,skl->srl", y, grams[0], precision="highest")
    return gx, gy, weight * (grams[0] * grams[1]).sum(axis=(1, 2))
