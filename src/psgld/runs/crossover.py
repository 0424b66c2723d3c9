"""Crossover of modes: a start whose components come from two states of a non-negative model.

    similarity of components k, l = cos(w_k, w_l) cos(h_k, h_l), the cosine of w_k h_kᵀ and w_l h_lᵀ

Chains at different modes agree on some components and not on others. The components of one parent are matched with
those of the other, and of each pair the child gets one at random, so that it can combine the good ones of both.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .draws import Draws


def similarity(one: Draws, other: Draws) -> NDArray[np.float64]:
    """Return the similarity of all components of two states, (K, K)."""
    out: Any = 1.0
    for a, b in zip(one.modes, other.modes, strict=True):
        out = out * (_unit(a.factor[0, 0]).T @ _unit(b.factor[0, 0]))
    return np.asarray(out)


def child(one: Draws, other: Draws, rng: np.random.Generator) -> Draws:
    """Return the first state with a random half of its components replaced by those that they match in the second."""
    from scipy.optimize import linear_sum_assignment  # slow to import

    ours, theirs = linear_sum_assignment(similarity(one, other), maximize=True)
    taken = rng.random(len(ours)) < 0.5
    new = one.each(np.copy)
    for mode, source in zip(new.modes, other.modes, strict=True):
        mode.factor[..., ours[taken]] = source.factor[..., theirs[taken]]
        mode.rate[..., ours[taken]] = source.rate[..., theirs[taken]]
    return new


def children(population: list[Draws], number: int, rng: np.random.Generator) -> Draws:
    """Return children of pairs among the first half of a population, which is sorted, best first; one per chain."""
    parents = population[: max(2, (len(population) + 1) // 2)]
    pairs = [rng.choice(len(parents), 2, replace=False) for _ in range(number)]
    made = [child(parents[a], parents[b], rng).arrays() for a, b in pairs]
    return Draws.of(**{name: np.concatenate([m[name] for m in made]) for name in made[0]})


def _unit(x: NDArray[Any]) -> NDArray[np.float64]:
    """Return the columns divided by their norms."""
    x = x.astype(np.float64)
    return np.asarray(x / np.maximum(np.linalg.norm(x, axis=0), 1e-300))
