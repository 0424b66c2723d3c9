"""Synthetic data with a known truth: any likelihood, and ratings like MovieLens'; and MovieLens, from its files."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from .data.movielens import movielens as movielens
from .data.observations import Observations
from .errors import DataError
from .models import Likelihood
from .models import likelihood as as_likelihood

Array = NDArray[np.float64]
Seed = int | np.random.SeedSequence | np.random.Generator
Triples = tuple[NDArray[Any], NDArray[Any], Array]
"""Rows, columns (in the labels of the data, if it has any) and values."""

_MEAN = 4.0
"""The typical mean of the non-negative members."""

_TOP = 0.5
"""The largest share of the cells that `ratings` fills; beyond it, a long tail has no room."""


@final
@dataclass(frozen=True, eq=False)
class Synthetic:
    """Data and the truth that made it: v_ij ~ p(· | η_ij, θ), η = W H.

    Attributes
    ----------
    V : the observations.
    W, H : the true factors, (I, K) and (K, J). For ratings, the last two components are the biases:
        W = [W₀, a, 1] and H = [H₀; 1; c].
    likelihood : the likelihood, with the parameters that were used.
    test : entries held out of V as (rows, cols, values), or None.
    """

    V: Observations
    W: Array
    H: Array
    likelihood: Likelihood
    test: Triples | None = None

    @property
    def mu(self) -> Array:
        """The means of all cells, (I, J)."""
        return self.likelihood.response(self.W @ self.H, *self.likelihood.start(lambda: ()))


def synthetic(
    rows: int,
    cols: int,
    rank: int,
    likelihood: str | Likelihood = "poisson",
    observed: float = 1.0,
    seed: Seed = 0,
) -> Synthetic:
    """Draw W and H from their priors and V from the likelihood.

    Parameters
    ----------
    rows, cols, rank
        I, J and K.
    likelihood
        A likelihood or its name. A dispersion that it leaves open is set so that the noise is half as large
        as a typical mean; other parameters likewise, to a typical value.
    observed
        The fraction of cells that are observed, chosen at random; if it is below 1 the data is sparse.
    seed
        An int, a `SeedSequence` or a `Generator`.

    Examples
    --------
    >>> truth = synthetic(30, 20, rank=2, likelihood="gamma", seed=1)
    >>> truth.V.shape, truth.W.shape, truth.H.shape
    ((30, 20), (30, 2), (2, 20))
    """
    rows, cols, rank = _count("rows", rows), _count("cols", cols), _count("rank", rank)
    if not 0.0 < observed <= 1.0:
        raise DataError(f"observed must be a share of the cells, 0 < observed <= 1, got {observed!r}")
    rng = _rng(seed)
    member = as_likelihood(likelihood).resolved(lambda: np.arange(1.0, 6.0))
    W, H = _factor(rng, rows, rank, member), _factor(rng, cols, rank, member).T
    mean = _MEAN if member.nonnegative_mean else 1.0
    theta = member.typical(mean)
    if observed == 1.0:
        V = Observations.from_dense(member.sample(W @ H, *theta, rng))
    else:
        number = max(1, round(observed * rows * cols))
        i, j = np.divmod(np.sort(rng.choice(rows * cols, number, replace=False, shuffle=False)), cols)
        values = member.sample(_means(W, H, i, j), *theta, rng)
        V = Observations.from_coo(i, j, values, (rows, cols), absent="unobserved")
    return Synthetic(V, W, H, member.fixed(theta))


def ratings(
    users: int = 1000,
    items: int = 500,
    entries: int = 40_000,
    rank: int = 6,
    test: float = 0.1,
    seed: Seed = 0,
) -> Synthetic:
    """Generate ratings of 1 to 5 stars, with biases, a few active users, a few popular items, and a long tail.

    Labels are "user-1", "item-1" and so on. μ is the mean of a rating before it is rounded and clipped to 1 to 5.

    Parameters
    ----------
    users, items, entries
        Numbers of users, items and ratings; at most half of the cells can be filled.
    rank
        The true number of components, biases not counted.
    test
        The fraction of the entries that are held out.
    seed
        An int, a `SeedSequence` or a `Generator`.

    Examples
    --------
    >>> data = ratings(users=50, items=40, entries=400)
    >>> data.V.stored, len(data.test[2])
    (360, 40)
    """
    users, items, entries = _count("users", users), _count("items", items), _count("entries", entries)
    if entries > _TOP * users * items:
        raise DataError(
            f"entries must be at most half of the cells, {int(_TOP * users * items)} of {users} × {items}, "
            f"got {entries}"
        )
    rng = _rng(seed)
    likelihood = as_likelihood("gaussian")
    W, H = _rating_factors(rng, users, items, _count("rank", rank))
    i, j = _long_tailed(rng, users, items, entries)
    phi = 0.5
    values = np.clip(np.rint(likelihood.sample(_means(W, H, i, j), phi, rng)), 1.0, 5.0)
    names = [
        np.array([f"{kind}-{n + 1}" for n in range(m)]) for kind, m in {"user": users, "item": items}.items()
    ]
    everything = Observations.from_coo(
        i, j, values, (users, items), "unobserved", row_labels=names[0], col_labels=names[1]
    )
    V, (r, c, held_out) = everything.split(test, seed=rng)
    triples = r, c, np.asarray(held_out, np.float64)
    return Synthetic(V, W, H, likelihood.fixed((phi,)), triples)


def _factor(rng: np.random.Generator, n: int, rank: int, likelihood: Likelihood) -> Array:
    """Draw a factor such that μ is about `_MEAN`, or about ±1 if it may be negative."""
    if likelihood.nonnegative_mean:
        shape = 2.0
        return np.asarray(rng.gamma(shape, np.sqrt(_MEAN / rank) / shape, (n, rank)))
    return np.asarray(rng.normal(0.0, rank**-0.25, (n, rank)))


def _rating_factors(rng: np.random.Generator, users: int, items: int, rank: int) -> tuple[Array, Array]:
    """Draw [W₀, a, 1] and [H₀; 1; c]: tastes of sd 0.7, biases of sd 0.4, about 3.6 stars on average."""
    size = 0.7**0.5 * rank**-0.25
    W = np.column_stack([rng.normal(0, size, (users, rank)), rng.normal(0, 0.4, users), np.ones(users)])
    H = np.vstack([rng.normal(0, size, (rank, items)), np.ones(items), rng.normal(3.6, 0.4, items)])
    return W, H


def _long_tailed(
    rng: np.random.Generator, users: int, items: int, entries: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Draw distinct pairs, with log-normal activity of the users and popularity of the items."""
    busy, popular = rng.lognormal(0.0, 1.0, users), rng.lognormal(0.0, 1.4, items)
    cells = np.empty(0, np.int64)
    while len(cells) < entries:
        i = rng.choice(users, entries, p=busy / busy.sum())
        j = rng.choice(items, entries, p=popular / popular.sum())
        cells = np.unique(np.concatenate([cells, i * items + j]))
        # A crowded corner: let the others catch up.
        busy, popular = busy**0.95, popular**0.95
    chosen = np.sort(rng.choice(cells, entries, replace=False))
    return chosen // items, chosen % items


def _means(W: Array, H: Array, i: NDArray[np.int64], j: NDArray[np.int64]) -> Array:
    return np.asarray(np.einsum("nk,nk->n", W[i], H.T[j]))


def _rng(seed: Any) -> np.random.Generator:
    try:
        return np.random.default_rng(seed)
    except (TypeError, ValueError):
        raise DataError(
            f"seed must be an integer >= 0, a SeedSequence or a Generator, got {seed!r}"
        ) from None


def _count(name: str, value: Any) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        number = 0
    if number < 1:
        raise DataError(f"{name} must be an integer >= 1, got {value!r}")
    return number
