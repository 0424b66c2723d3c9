"""The compiled programs: many iterations in one call, and passes over all parts.

An iteration is that of `reference/update.py`: gradients of the blocks of a part, noise, a step of both factors. Nothing
is sent to the host before the last one. On several devices, the inner strips then take their places for the next part.
On a single one they stay, and their values and gradients are read in the order of the part.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

from ...models import Likelihood
from ..base import SumName
from ..reference.moves import EMPTY_EVERY, Form, Numbers, moved
from ..reference.update import Model
from .dense import DenseBlocks, dense_gradients
from .noise import normals
from .ring import AXIS, passed_on, turned
from .sparse import sparse_gradients
from .zeros import zero_gradients


class Plan(NamedTuple):
    """What a program is compiled for, besides the shapes of the arrays."""

    likelihood: Likelihood
    floor: float
    forms: tuple[Form, Form]
    """The step of the outer and of the inner factor."""
    factors: tuple[int, int]
    """The outer and the inner factor: (W, H), or (H, W) if V has more columns than rows."""
    blocks: int
    zero: float | None
    """The weight of absent entries, if they are zeros."""
    cyclic: bool
    """Whether each part is followed by the next one, so that strips go to neighbours only."""
    mesh: Mesh | None
    """The ring of devices; None for one device."""

    @property
    def devices(self) -> int:
        """D, the number of devices."""
        return 1 if self.mesh is None else int(self.mesh.size)

    @property
    def sign(self) -> int:
        """1 if the outer strip o is paired with the inner strip o + p in part p; -1 if with o - p."""
        return -1 if self.factors[0] else 1


class Half(NamedTuple):
    """A factor in strips, (B, R, K) each: values, momentum, the numbers b of the metric; the indices of its rows."""

    x: Any
    m: Any
    b: Any
    rows: Any
    empty: Any
    """Whether rows have no entries, (B, R)."""


class State(NamedTuple):
    """The outer and the inner factor, and Σ(v - η)² of each block, (B, B), if the likelihood is normal."""

    outer: Half
    inner: Half
    squares: Any


class Table(NamedTuple):
    """The iterations of a call."""

    number: Any
    first: Any
    """The first one: low and high word."""
    parts: Any
    turns: Any
    """How many strips further on the part of the next iteration is; from the last one to part 0."""
    steps: Any
    scales: Any
    """s / φ."""
    drawn: Any
    """The cells that are drawn, (iterations, draws), or None if all entries are read."""


class Rules(NamedTuple):
    """The numbers of a chain that iterations do not change."""

    numbers: tuple[Numbers, Numbers]
    theta: Any
    keys: Any


def _at(tree: Any, part: Any) -> Any:
    """Return the blocks of a part."""
    return jax.tree.map(lambda x: jax.lax.dynamic_index_in_dim(x, part, 1, keepdims=False), tree)


def _gradients(
    plan: Plan, blocks: Any, part: Any, x: Any, y: Any, theta: Any, kind: SumName, drawn: Any = None
) -> tuple[Any, Any, Any]:
    model, now = Model(plan.likelihood, plan.floor, tuple(theta)), _at(blocks, part)
    if isinstance(blocks, DenseBlocks):
        return dense_gradients(now, x, y, model, kind, drawn)
    found = sparse_gradients(now, x, y, model, kind, drawn, plan.zero)
    if plan.zero is None:
        return found
    both: tuple[Any, Any, Any] = jax.tree.map(jnp.add, found, zero_gradients(x, y, model, kind, plan.zero))
    return both


def _next(plan: Plan, tree: Any, turn: Any) -> Any:
    """Return the inner strips in the places of the next part."""
    if plan.devices == 1:
        return tree
    if plan.cyclic:
        return passed_on(tree, plan.sign, plan.devices)
    return turned(tree, plan.sign * turn, plan.blocks, plan.devices)


def _turned(plan: Plan, tree: Any, by: Any) -> Any:
    return tree if plan.devices == 1 else turned(tree, plan.sign * by, plan.blocks, plan.devices)


def _in_place(plan: Plan, x: Any, part: Any, sign: int = 1) -> Any:
    """Return strips in the order of the outer strips of a part, or back from it if `sign` is -1."""
    if plan.devices > 1 or plan.blocks == 1:
        return x
    return turned(x, sign * plan.sign * part, plan.blocks, 1)


def _put(table: Any, column: Any, part: Any) -> Any:
    return jax.lax.dynamic_update_index_in_dim(table, column.astype(table.dtype), part, 1)


def _iterations(plan: Plan, state: State, blocks: Any, rules: Rules, table: Table) -> State:
    """Return the state after all iterations of the table, inner strips at the places of part 0."""

    def iteration(q: Any, state: State) -> State:
        outer, inner = state.outer, state.inner
        part, step, scale = table.parts[q], table.steps[q], table.scales[q]
        drawn = None if table.drawn is None else _times(blocks, table.drawn[q], outer.x.dtype)
        y = _in_place(plan, inner.x, part)
        gx, gy, squares = _gradients(plan, blocks, part, outer.x, y, rules.theta, "score", drawn)
        gy = _in_place(plan, gy, part, sign=-1)
        low = table.first[0] + q.astype(jnp.uint32)
        t = low, table.first[1] + (low < table.first[0]).astype(jnp.uint32)
        due = low % EMPTY_EVERY == 0
        noise = _noise(plan, state, t, rules.keys)
        halves = [
            _stepped(half, scale * gradient, z, step, form, numbers, due)
            for half, gradient, z, form, numbers in zip(
                (outer, inner), (gx, gy), noise, plan.forms, rules.numbers, strict=True
            )
        ]
        kept = state.squares if squares is None else _put(state.squares, squares, part)
        return State(halves[0], _next(plan, halves[1], table.turns[q]), kept)

    state = state._replace(inner=_turned(plan, state.inner, table.parts[0]))
    state = jax.lax.fori_loop(0, table.number, iteration, state)
    last = table.number - 1
    home = plan.blocks - table.parts[last] - table.turns[last]
    return state._replace(inner=_turned(plan, state.inner, home))


def _noise(plan: Plan, state: State, t: Any, keys: Any) -> list[Any]:
    """Return the normals of both factors, made at once."""
    x, length = state.outer.x, state.outer.rows.shape[1]
    rows = jnp.concatenate([state.outer.rows, state.inner.rows], axis=1)
    factor = jnp.where(jnp.arange(rows.shape[1]) < length, plan.factors[0], plan.factors[1])
    z = normals(rows, x.shape[-1], factor, t, keys, x.dtype)
    return [z[:, :length], z[:, length:]]


def _stepped(half: Half, gradient: Any, z: Any, step: Any, form: Form, numbers: Numbers, due: Any) -> Half:
    """Return a factor after a step; rows that fill up a strip stay 0."""
    x = half.x
    m = jnp.zeros_like(x) if half.m is None else half.m
    after, m = moved(x, m, half.b, gradient, z, step, form, numbers, half.empty, due)
    after = jnp.where(half.rows[..., None] >= 0, after, 0.0)
    return half._replace(x=after, m=None if half.m is None else m)


def _times(blocks: Any, drawn: Any, dtype: Any) -> Any:
    """Return how often each cell is drawn, (1, cells). Integers are added, so that the order does not matter."""
    cells = blocks.V.size if isinstance(blocks, DenseBlocks) else blocks.value.size
    return jnp.zeros((1, cells), jnp.int32).at[0, drawn].add(1).astype(dtype)


def _pass(
    plan: Plan, kind: SumName, state: State, blocks: Any, theta: Any, first: Any, end: Any
) -> tuple[Any, Any, Any]:
    """Return the sums of scores or weights over the parts from `first` to `end` - 1, and the squares of the blocks."""

    def add(part: Any, carry: Any) -> Any:
        gx, (y, gy), squares = carry
        dx, dy, found = _gradients(plan, blocks, part, state.outer.x, _in_place(plan, y, part), theta, kind)
        dy = _in_place(plan, dy, part, sign=-1)
        squares = squares if found is None else _put(squares, found, part)
        return gx + dx, _next(plan, (y, gy + dy), 1), squares

    x, y = state.outer.x, state.inner.x
    start = jnp.zeros_like(x), _turned(plan, (y, jnp.zeros_like(y)), first), state.squares
    gx, (_, gy), squares = jax.lax.fori_loop(first, end, add, start)
    return gx, _turned(plan, gy, plan.blocks - end), squares


def _on_ring(plan: Plan, program: Callable[..., Any], shared: tuple[bool, ...]) -> Callable[..., Any]:
    """Return the program on all devices of the ring; `shared` says which arguments all of them have."""
    if plan.mesh is None:
        return program
    specs = tuple(P() if common else P(AXIS) for common in shared)
    found: Callable[..., Any] = jax.shard_map(
        program, mesh=plan.mesh, in_specs=specs, out_specs=P(AXIS), check_vma=False
    )
    return found


@partial(jax.jit, static_argnums=0)
def iterations(plan: Plan, state: State, blocks: Any, rules: Rules, table: Table) -> State:
    """Return the state after all iterations of a table."""
    run = _on_ring(plan, partial(_iterations, plan), (False, False, True, True))
    out: State = run(state, blocks, rules, table)
    return out


@partial(jax.jit, static_argnums=(0, 1))
def full_pass(
    plan: Plan, kind: SumName, state: State, blocks: Any, theta: Any, first: Any, end: Any
) -> tuple[Any, Any, Any]:
    """Return the sums of scores or weights over parts, for each row of both factors, and the squares of the blocks."""
    run = _on_ring(plan, partial(_pass, plan, kind), (False, False, True, True, True))
    out: tuple[Any, Any, Any] = run(state, blocks, theta, first, end)
    return out
