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
from .aes import aes_round

EMPTY_EVERY = 4
"""Rows without entries are drawn from their prior every so many iterations (`kEmptyEvery` in the core)."""

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
        return np.maximum(eta, self.floor) if self.likelihood.nonnegative_mean else eta

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
    under a prior of shape < 1 (inverse < 0), whose density has no bound at zero: `NearZero`.

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

    @property
    def draws_empty(self) -> bool:
        """Whether the prior is normal, with independent components."""
        if self.mirror or self.inverse != 0.0 or self.quadratic.ndim > 1:
            return False
        return bool((self.quadratic[self.move != 0.0] > 0.0).all())


@dataclass(frozen=True, eq=False)
class NearZero:
    """The coordinate y of x ≥ 0 of density ∝ x^{p-1}, p < 1, near zero: its density is constant below the edge e.

        y = x where x ≥ e,   y = e + e ((x/e)^p - 1) / p below it,   dx/dy = (x/e)^{1-p}

    It ends at e - e/p, where it is mirrored.
    """

    power: float
    edge: Array

    def enter(self, x: Array) -> tuple[Array, Array]:
        """Return y, and dx/dy below the edge."""
        share = np.clip(x / self.edge, 1e-18, 1.0)
        raised = share**self.power
        return np.where(x < self.edge, self.edge * (1.0 + (raised - 1.0) / self.power), x), share / raised

    def leave(self, y: Array, m: Array) -> tuple[Array, Array]:
        """Return x and the momentum, after mirroring."""
        end = self.edge * (1.0 - 1.0 / self.power)
        m, y = np.where(y < end, -m, m), np.where(y < end, 2.0 * end - y, y)
        share = np.clip(1.0 + self.power * (y / self.edge - 1.0), 1e-30, 1.0)
        return np.where(y < self.edge, self.edge * share ** (1.0 / self.power), y), m


def _power(rule: Rule) -> float | None:
    """Return p of `NearZero` for a factor, or None if its density at zero is bounded, or has no integral."""
    if not (rule.mirror and rule.inverse < 0.0 < rule.temperature):
        return None
    power = (2.0 if rule.metric == "non-negative" else 1.0) * (1.0 + rule.inverse / rule.temperature)
    return power if power > 0.01 else None


def _step_near_zero(
    x: Array, g: Array, rows: IntArray, z: Array, epsilon: float, rule: Rule, power: float
) -> Array:
    """Return rows after a step under a prior without a bound at zero; g is the gradient without its `inverse / x`."""
    b, tau, rho, root = rule.b[rows], rule.temperature, rule.momentum, rule.metric == "non-negative"
    half = 0.5 * min(epsilon, 1.0)
    if root:  # the density of u = sqrt(x), D = 1/4b
        rate, u, g, inverse = epsilon / (4.0 * b), np.sqrt(x), 2.0 * np.sqrt(x) * g, 2.0 * rule.inverse + tau
        heat = tau * (1.0 - 0.5 * half - 0.25 * half * rule.linear / b) ** 2
    else:
        rate, u, inverse = epsilon / b, x, rule.inverse
        heat = np.full_like(b, tau * (1.0 - half) if rule.metric == "real-valued" else tau)
    near = np.sqrt(rate)
    zero = NearZero(power, 2.0 * near)
    y, slope = zero.enter(u)
    push = rate * np.where(u < zero.edge, g * slope, g + inverse / np.maximum(u, zero.edge))
    if root:
        push = np.minimum(push, 0.5 * (u + near))
    if rho > 0.0:
        p = rule.move * (rule.m[rows] + push)
        m = rho * p + rule.move * np.sqrt((1.0 - rho**2) * tau * rate) * z
        u, rule.m[rows] = zero.leave(y + 0.5 * (p + m), m)
    else:
        u, _ = zero.leave(y + rule.move * (push + np.sqrt(2.0 * rate * heat) * z), np.zeros_like(y))
    return np.where(rule.move == 0.0, x, u**2 if root else u)


def step(x: Array, gradient: Array, rows: IntArray, t: int, epsilon: float, rule: Rule) -> Array:
    """Return rows of a factor after iteration t; `gradient` is s/φ times the gradient of the log-likelihood."""
    z = noise(rows, x.shape[1], rule.factor, t, rule.key)
    moved = _moved(x, gradient, rows, z, epsilon, rule)
    if not rule.draws_empty:
        return moved
    empty = rule.empty[rows, None]
    rule.m[rows] = np.where(empty, 0.0, rule.m[rows])
    return np.where(empty, _drawn(x, z, rule) if t % EMPTY_EVERY == 0 else x, moved)


def _drawn(x: Array, z: Array, rule: Rule) -> Array:
    """Return draws from the normal prior; components that are fixed are those of x."""
    precision = np.where(rule.move == 0.0, 1.0, rule.quadratic)
    drawn = rule.linear / precision + np.sqrt(rule.temperature / precision) * z
    return np.where(rule.move == 0.0, x, drawn)


def _moved(x: Array, gradient: Array, rows: IntArray, z: Array, epsilon: float, rule: Rule) -> Array:
    """Return the rows after a Langevin step."""
    b, tau = rule.b[rows], rule.temperature
    pull = rule.quadratic * x if rule.quadratic.ndim == 1 else x @ rule.quadratic
    g = gradient + rule.linear - pull
    if (power := _power(rule)) is not None:
        return _step_near_zero(x, g, rows, z, epsilon, rule, power)
    if rule.momentum > 0.0:
        return _second_order(x, g, rows, epsilon, rule, z)
    D, Gamma = (x / b, 1.0 / b) if rule.metric == "non-negative" else (1.0 / b, np.zeros_like(b))
    half = 0.5 * min(epsilon, 1.0)
    heat = np.full_like(b, tau * (1.0 - half) if rule.metric == "real-valued" else tau)
    if rule.metric == "non-negative":
        heat *= (1.0 + 0.5 * half * rule.linear / b) ** 2
    drift = D * (g + rule.inverse / np.maximum(x, 1e-20)) + tau * Gamma
    drift = np.minimum(drift, np.where(Gamma > 0.0, 20.0 * (x + Gamma), np.inf))  # at most 20 (x + Γ)
    drift += 0.5 * heat * Gamma * (z**2 - 1.0)
    moved = x + rule.move * (epsilon * drift + np.sqrt(2.0 * epsilon * heat * D) * z)
    return np.abs(moved) if rule.mirror else moved


def _second_order(x: Array, g: Array, rows: IntArray, epsilon: float, rule: Rule, z: Array) -> Array:
    """Return rows after a step with momentum; g is the gradient without the `inverse / x` of the prior."""
    b, tau, root = rule.b[rows], rule.temperature, rule.metric == "non-negative"
    if root:  # u = sqrt(x): D = 1/4b, and dx = 2u du
        y, rate = np.sqrt(x), epsilon / (4.0 * b)
        force = rate * (2.0 * (x * g + rule.inverse) + tau) / np.sqrt(np.maximum(x, rate))
        force = np.minimum(force, 0.5 * (y + np.sqrt(rate)))  # limit the push to half of u
    else:
        y, rate = x, epsilon / b
        force = rate * (g + rule.inverse / np.maximum(x, 1e-20))
    p = rule.move * (rule.m[rows] + force)
    m = rule.momentum * p + rule.move * np.sqrt((1.0 - rule.momentum**2) * tau * rate) * z
    moved = y + 0.5 * (p + m)
    rule.m[rows] = np.where((moved < 0.0) & rule.mirror, -m, m)
    moved = np.abs(moved) if rule.mirror else moved
    return moved**2 if root else moved


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
