"""The step of rows of a factor, given their gradient and noise: NumPy arrays, or arrays of a library like it.

`update.py` has the equations. What a compiler must know in advance is a `Form`; the numbers are `Numbers`.
"""

from __future__ import annotations

from typing import Any, NamedTuple, final

from ...models.namespace import namespace

EMPTY_EVERY = 4
"""Rows without entries are drawn from their prior every so many iterations (`kEmptyEvery` in the core)."""


class Form(NamedTuple):
    """The form of a step: what decides which formulas are used."""

    metric: str
    mirror: bool
    second_order: bool
    """Whether ρ > 0."""
    near_zero: bool
    """Whether the prior has no bound at zero, so that the step is that of `NearZero`."""
    draws_empty: bool
    """Whether the prior is normal, with independent components, and rows without entries are drawn from it."""


class Numbers(NamedTuple):
    """The numbers of a step: the prior's score is inverse / x + linear - quadratic x."""

    inverse: Any
    linear: Any
    quadratic: Any
    """(K,), or (K, K) where the prior couples the components of a row."""
    move: Any
    """0 for fixed components, else 1."""
    temperature: Any
    momentum: Any
    power: Any
    """p of `NearZero`."""


def form_of(
    metric: str, mirror: bool, inverse: float, quadratic: Any, move: Any, temperature: float, momentum: float
) -> tuple[Form, float]:
    """Return the form of a step, and p of `NearZero` (1 if it is not used).

    It is used if the density of the coordinate of the step has no bound at zero, but an integral.
    """
    power, near_zero = 1.0, False
    if mirror and inverse < 0.0 < temperature:
        power = (2.0 if metric == "non-negative" else 1.0) * (1.0 + inverse / temperature)
        near_zero = power > 0.01
    normal = not mirror and inverse == 0.0 and quadratic.ndim == 1
    draws_empty = normal and bool((quadratic[move != 0.0] > 0.0).all())
    return Form(metric, mirror, momentum > 0.0, near_zero, draws_empty), power if near_zero else 1.0


def moved(
    x: Any,
    m: Any,
    b: Any,
    gradient: Any,
    z: Any,
    epsilon: Any,
    form: Form,
    numbers: Numbers,
    empty: Any,
    due: Any,
) -> tuple[Any, Any]:
    """Return x and the momentum m after a step.

    `gradient` is s/φ times the gradient of the log likelihood, b defines the metric, z is the noise. `empty` says which
    rows have no entries, `due` whether they are drawn in this iteration.
    """
    n = numbers
    pull = n.quadratic * x if n.quadratic.ndim == 1 else _product(x, n.quadratic)
    g = gradient + n.linear - pull
    if form.near_zero:
        return _near_zero(x, m, b, g, z, epsilon, form, n)
    if form.second_order:
        after, m = _second_order(x, m, b, g, z, epsilon, form, n)
    else:
        after = _first_order(x, b, g, z, epsilon, form, n)
    if not form.draws_empty:
        return after, m
    xp, none = namespace(x), empty[..., None]
    kept = xp.where(due, _drawn(x, z, n), x)
    return xp.where(none, kept, after), xp.where(none, 0.0, m)


def _drawn(x: Any, z: Any, n: Numbers) -> Any:
    """Return draws from the normal prior; components that are fixed are those of x."""
    xp = namespace(x)
    precision = xp.where(n.move == 0.0, 1.0, n.quadratic)
    drawn = n.linear / precision + xp.sqrt(n.temperature / precision) * z
    return xp.where(n.move == 0.0, x, drawn)


def _product(a: Any, b: Any) -> Any:
    """Return a b in full precision, which is not the default of every library."""
    xp = namespace(a)
    return a @ b if xp.__name__ == "numpy" else xp.matmul(a, b, precision="highest")


def _first_order(x: Any, b: Any, g: Any, z: Any, epsilon: Any, form: Form, n: Numbers) -> Any:
    """Return x after a step without momentum."""
    xp, tau, root = namespace(x), n.temperature, form.metric == "non-negative"
    D, Gamma = (x / b, 1.0 / b) if root else (1.0 / b, xp.zeros_like(b))
    half = 0.5 * xp.minimum(epsilon, 1.0)
    heat = tau * (1.0 - half) if form.metric == "real-valued" else tau
    if root:
        heat = heat * (1.0 + 0.5 * half * n.linear / b) ** 2
    drift = D * (g + n.inverse / xp.maximum(x, 1e-20)) + tau * Gamma
    if root:
        drift = xp.minimum(drift, 20.0 * (x + Gamma))
    drift = drift + 0.5 * heat * Gamma * (z**2 - 1.0)
    after = x + n.move * (epsilon * drift + xp.sqrt(2.0 * epsilon * heat * D) * z)
    return xp.abs(after) if form.mirror else after


def _second_order(
    x: Any, m: Any, b: Any, g: Any, z: Any, epsilon: Any, form: Form, n: Numbers
) -> tuple[Any, Any]:
    """Return x and m after a step with momentum; g is the gradient without the `inverse / x` of the prior."""
    xp, tau, root = namespace(x), n.temperature, form.metric == "non-negative"
    if root:  # u = sqrt(x): D = 1/4b, and dx = 2u du
        y, rate = xp.sqrt(x), epsilon / (4.0 * b)
        force = rate * (2.0 * (x * g + n.inverse) + tau) / xp.sqrt(xp.maximum(x, rate))
        force = xp.minimum(force, 0.5 * (y + xp.sqrt(rate)))  # limit the push to half of u
    else:
        y, rate = x, epsilon / b
        force = rate * (g + n.inverse / xp.maximum(x, 1e-20))
    p = n.move * (m + force)
    m = n.momentum * p + n.move * xp.sqrt((1.0 - n.momentum**2) * tau * rate) * z
    after = y + 0.5 * (p + m)
    if form.mirror:
        m, after = xp.where(after < 0.0, -m, m), xp.abs(after)
    return (after**2 if root else after), m


@final
class NearZero(NamedTuple):
    """The coordinate y of x ≥ 0 of density ∝ x^{p-1}, p < 1, near zero: its density is constant below the edge e.

        y = x where x ≥ e,   y = e + e ((x/e)^p - 1) / p below it,   dx/dy = (x/e)^{1-p}

    It ends at e - e/p, where it is mirrored.
    """

    power: Any
    edge: Any

    def enter(self, x: Any) -> tuple[Any, Any]:
        """Return y, and dx/dy below the edge."""
        xp = namespace(x)
        share = xp.clip(x / self.edge, 1e-18, 1.0)
        raised = share**self.power
        return xp.where(x < self.edge, self.edge * (1.0 + (raised - 1.0) / self.power), x), share / raised

    def leave(self, y: Any, m: Any) -> tuple[Any, Any]:
        """Return x and the momentum, after mirroring."""
        xp, end = namespace(y), self.edge * (1.0 - 1.0 / self.power)
        m, y = xp.where(y < end, -m, m), xp.where(y < end, 2.0 * end - y, y)
        share = xp.clip(1.0 + self.power * (y / self.edge - 1.0), 1e-30, 1.0)
        return xp.where(y < self.edge, self.edge * share ** (1.0 / self.power), y), m


def _near_zero(
    x: Any, m: Any, b: Any, g: Any, z: Any, epsilon: Any, form: Form, n: Numbers
) -> tuple[Any, Any]:
    """Return x and m after a step under a prior without a bound at zero; g is without its `inverse / x`."""
    xp, tau, root = namespace(x), n.temperature, form.metric == "non-negative"
    half = 0.5 * xp.minimum(epsilon, 1.0)
    if root:  # the density of u = sqrt(x), D = 1/4b
        rate, u, g, inverse = epsilon / (4.0 * b), xp.sqrt(x), 2.0 * xp.sqrt(x) * g, 2.0 * n.inverse + tau
        heat = tau * (1.0 - 0.5 * half - 0.25 * half * n.linear / b) ** 2
    else:
        rate, u, inverse = epsilon / b, x, n.inverse
        heat = tau * (1.0 - half) if form.metric == "real-valued" else tau
    near = xp.sqrt(rate)
    zero = NearZero(n.power, 2.0 * near)
    y, slope = zero.enter(u)
    push = rate * xp.where(u < zero.edge, g * slope, g + inverse / xp.maximum(u, zero.edge))
    if root:
        push = xp.minimum(push, 0.5 * (u + near))
    if form.second_order:
        p = n.move * (m + push)
        m = n.momentum * p + n.move * xp.sqrt((1.0 - n.momentum**2) * tau * rate) * z
        u, m = zero.leave(y + 0.5 * (p + m), m)
    else:
        u, _ = zero.leave(y + n.move * (push + xp.sqrt(2.0 * rate * heat) * z), xp.zeros_like(y))
    return xp.where(n.move == 0.0, x, u**2 if root else u), m
