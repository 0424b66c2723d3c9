"""The complete update in NumPy: the specification that the compiled core is tested against.

    x ← x + ε D ∘ (s/φ Σ_{(i,j)∈Λ} ω_ij e(v_ij, η_ij) y_j + ∇log p(x)) + ε τ Γ + sqrt(2 ε τ' D) ∘ z

for each row x of either factor, where y_j are the rows of the other; then x ← |x| if factors are non-negative. H has
shape (J, K), so that one function updates both factors. The likelihood provides e = φ ∂ log p / ∂η; ω is
the weight of an entry, 1 by default. Entries of V that
were not observed are NaN; absent entries that are zeros are stored as 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...data.partition import IntArray, Strips
from ...models import Likelihood
from ...models.namespace import namespace
from .aes import aes_round
from .moves import EMPTY_EVERY, Numbers, form_of, moved

Array = NDArray[np.float64]
Words = NDArray[np.uint32]

# -- noise: z is a function of (key, row, factor, component, iteration) only --------------------------------


def ars(counter: Words, key: int, rounds: int = 7) -> Words:
    """Return four random words for each counter (…, 4), by ARS-7 (Salmon, Moraes, Dror, Shaw 2011)."""
    x = counter.view(np.uint8)
    for n in range(rounds + 1):
        halves = key + n * 0x9E3779B97F4A7C15, (key >> 64) + n * 0xBB67AE8584CAA73B
        round_key = np.array([half % 2**64 for half in halves], np.uint64).view(np.uint8)
        x = aes_round(x, round_key, n == rounds) if n else x ^ round_key
    return np.ascontiguousarray(x).view(np.uint32)


def box_muller(a: Words, b: Words) -> tuple[Array, Array]:
    """Return two normals ±sqrt(-2 ln u) (cos ω, sin ω) from two words.

    The first word, made odd, gives a sign and u, rounded to float32 as in the core. The second gives ω.
    """
    odd, angle = (a | np.uint32(1)).view(np.int32), b.view(np.int32)
    u = np.abs(odd.astype(np.float32)).astype(np.float64) / 2.0**31
    r, omega = np.sqrt(-2.0 * np.log(u)) * np.sign(odd), angle * (np.pi / 2.0**32)
    return r * np.cos(omega), r * np.sin(omega)


def noise(rows: IntArray, components: int, factor: int, t: int, key: int) -> Array:
    """Return the standard normals of iteration t, (rows, components), for rows of a factor (0 = W, 1 = H).

    One counter, (row, factor · 2^31 + k div 4, t mod 2^32, t div 2^32), gives the normals of four components k.
    """
    counter = np.empty((len(rows), -(-components // 4), 4), np.uint32)
    counter[..., 0], counter[..., 2], counter[..., 3] = rows[:, None], t % 2**32, t >> 32
    counter[..., 1] = np.arange(counter.shape[1]) + (factor << 31)
    words = ars(counter, key)
    pairs = box_muller(words[..., 0], words[..., 1]), box_muller(words[..., 2], words[..., 3])
    return np.asarray(np.stack([*pairs[0], *pairs[1]], -1).reshape(len(rows), -1)[:, :components])


@dataclass(frozen=True, eq=False)
class Model:
    """The likelihood, its parameters other than φ, and the lower limit of η: they define the gradient of an entry."""

    likelihood: Likelihood
    floor: float
    theta: tuple[float, ...] = ()

    def guarded(self, eta: Array) -> Array:
        """Return η, clipped at the floor if it must be positive."""
        return namespace(eta).maximum(eta, self.floor) if self.likelihood.nonnegative_mean else eta

    def score(self, v: Array, eta: Array) -> Array:
        """Return φ ∂ log p(v | η) / ∂η."""
        return self.likelihood.score(v, eta, *self.likelihood.joined(1.0, self.theta))

    def weight(self, v: Array, eta: Array) -> Array:
        """Return the negative part of the score."""
        return self.likelihood.weight(v, eta, *self.theta)


def gradients(
    V: Array, W: Array, H: Array, model: Model, weights: bool = False, times: Array | None = None
) -> tuple[Array, Array]:
    """Return Σ_j e_ij h_j for each row of W and Σ_i e_ij w_i for each row of H, where e are scores or weights.

    Each entry counts once, or `times`: its weight, and how often it was drawn.
    """
    eta = model.guarded(W @ H.T)
    e = model.weight(V, eta) if weights else model.score(V, eta)
    E = np.where(np.isnan(V), 0.0, e)
    if times is not None:
        E *= times
    return E @ H, E.T @ W


@dataclass(frozen=True, eq=False)
class Rule:
    """The update rule of the rows x of a factor. The metrics, with one number b per coefficient:

    identity      D = 1      Γ = 0      b = 1                                  τ' = τ
    non-negative  D = x/b    Γ = 1/b    b_ik = Σ_j y_jk weight_ij / φ + λ_k    τ' = (1 - ε/4 λ/b)² τ
    real-valued   D = 1/b    Γ = 0      b_ik = n_i q_k + λ_k                   τ' = (1 - ε/2) τ

    τ' and, in the non-negative metric, the Milstein term ε τ' Γ (z² - 1)/2 remove most of the discretisation error.
    With momentum ρ the step is that of BAOAB (Leimkuhler and Matthews 2013): force, half a move, friction and noise,
    half a move,

        p ← m + ε D ∘ ∇,   m ← ρ p + sqrt((1 - ρ²) ε τ D) ∘ z,   x ← x + (p + m) / 2

    In the non-negative metric it is the step of u = sqrt(x), for which D = 1/4b. So it is, with or without momentum,
    under a prior of shape < 1 (inverse < 0), whose density has no bound at zero: `moves.py` has the steps.

    A row without entries has the distribution of its prior. If that is normal, it is drawn from it, every fourth
    iteration, and stays as it is in the others:

        x ← linear / quadratic + sqrt(τ / quadratic) z,   m ← 0
    """

    factor: int  # 0 = W, 1 = H
    inverse: float  # the prior's score is inverse / x + linear - quadratic x
    linear: Array
    quadratic: Array  # (K,), or (K, K) where the prior couples the components of a row
    metric: str
    b: Array  # (rows, K)
    move: Array  # 0 for fixed components, else 1
    mirror: bool
    temperature: float  # τ
    key: int
    momentum: float  # ρ
    m: Array  # (rows, K), updated in place
    empty: NDArray[np.bool_]  # (rows,): whether a row has no entries


def step(x: Array, gradient: Array, rows: IntArray, t: int, epsilon: float, rule: Rule) -> Array:
    """Return rows of a factor after iteration t; `gradient` is s/φ times the gradient of the log-likelihood."""
    z = noise(rows, x.shape[1], rule.factor, t, rule.key)
    form, power = form_of(
        rule.metric, rule.mirror, rule.inverse, rule.quadratic, rule.move, rule.temperature, rule.momentum
    )
    numbers = Numbers(
        rule.inverse, rule.linear, rule.quadratic, rule.move, rule.temperature, rule.momentum, power
    )
    m, b, empty = rule.m[rows], rule.b[rows], rule.empty[rows]
    after, rule.m[rows] = moved(x, m, b, gradient, z, epsilon, form, numbers, empty, t % EMPTY_EVERY == 0)
    return np.asarray(after)


def iterate(
    V: Array, W: Array, H: Array, rows: Strips, cols: Strips, part: int, t: int, epsilon: float,
    scale: float, model: Model, rules: Sequence[Rule], times: Array | None = None,
) -> tuple[Array, Array]:  # fmt: skip
    """Return (W, H) after iteration t on a part: the blocks (b, b + part mod B), which share no strip.

    `scale` is s/φ; `times` says how often each entry counts.
    """
    W, H = W.copy(), H.copy()
    for b in range(rows.number):
        c = (b + part) % cols.number
        i, j = (s.order[s.bounds[n] : s.bounds[n + 1]] for s, n in ((rows, b), (cols, c)))
        block = np.ix_(i, j)
        gW, gH = gradients(V[block], W[i], H[j], model, times=None if times is None else times[block])
        W[i] = step(W[i], scale * gW, i, t, epsilon, rules[0])
        H[j] = step(H[j], scale * gH, j, t, epsilon, rules[1])
    return W, H
