"""Programs that read a state: sums, Gram matrices, means at entries. What they return is summed on in float64."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from ...models import Likelihood
from ..reference.update import Model
from .noise import normals
from .sides import GROUP


@jax.jit
def bound(sums: Any, phi: Any, rate: Any) -> Any:
    """Return b of the non-negative metric."""
    return sums / phi + rate


@partial(jax.jit, static_argnums=3)
def group_sums(x: Any, rows: Any, counts: Any, logs: bool) -> Any:
    """Return Σx, Σx², Σ log x (or 0) and Σ count x² of groups of rows of each strip, (B, groups, 4, K)."""
    strips, length, components = x.shape
    logarithms = jnp.zeros_like(x)
    if logs:
        logarithms = jnp.where(rows[..., None] >= 0, jnp.log(jnp.maximum(x, jnp.finfo(x.dtype).tiny)), 0.0)
    terms = jnp.stack([x, x**2, logarithms, counts[..., None] * x**2], axis=2)
    groups = max(1, length // GROUP)
    return terms.reshape(strips, groups, -1, 4, components).sum(axis=2)


@jax.jit
def grams(x: Any) -> Any:
    """Return Σxxᵀ over the rows of each strip, (B, K, K)."""
    return jnp.einsum("srk,srl->skl", x, x, precision="highest")


@partial(jax.jit, static_argnums=(1, 2, 5))
def noise(rows: Any, components: int, factor: int, t: Any, keys: Any, dtype: str) -> Any:
    """Return the normals of an iteration for all rows of a factor."""
    return normals(rows, components, factor, (t[0], t[1]), keys, dtype)


def _eta(w: Any, h: Any, places: tuple[Any, ...]) -> Any:
    rows = (x.reshape(-1, x.shape[-1])[place] for x, place in zip((w, h), places, strict=True))
    return jnp.prod(jnp.stack(list(rows)), axis=0).sum(axis=-1)


@jax.jit
def mu(w: Any, h: Any, places: tuple[Any, ...]) -> Any:
    """Return Σ_k w_ik h_kj at the positions of entries."""
    return _eta(w, h, places)


@partial(jax.jit, static_argnums=(0, 1))
def log_kernels(
    likelihood: Likelihood, floor: float, w: Any, h: Any, places: tuple[Any, ...], values: Any, theta: Any
) -> Any:
    """Return the log kernel at the positions of entries."""
    model = Model(likelihood, floor, tuple(theta))
    return likelihood.kernel(values, model.guarded(_eta(w, h, places)), *model.theta)
