"""The problems: data, split, rank. Each has its validation part, split off the training data in the same way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import gammaln

import psgld
from psgld.datasets import ratings, synthetic

from .. import clicks, real_data, real_sets
from .record import TRACED, Array, Problem, Triples

HELD_OUT = 0.1


@dataclass(frozen=True)
class Pair:
    """A problem, and the same with a part of its training data held out instead, on which settings are chosen."""

    problem: Problem
    validation: Problem | None = None


def rated(data: psgld.Observations, rank: int, **about: Any) -> Pair:
    """Hold out a tenth of the ratings; RMSE is of predictions clipped to the range of the values."""
    values = np.asarray(data.values, np.float64)
    rows = np.repeat(np.arange(data.shape[0]), np.diff(data.indptr))
    everything = Triples(rows, np.asarray(data.indices, np.int64), values)
    about |= {"rank": rank, "seed": 0, "range": [float(values.min()), float(values.max())]}
    train, test = _split(everything, 0)
    fit, validation = _split(train, 1)
    return Pair(
        Problem("ratings", data.shape, train, test, about),
        Problem("ratings", data.shape, fit, validation, about),
    )


def _split(entries: Triples, seed: int) -> tuple[Triples, Triples]:
    order = np.random.default_rng(seed).permutation(len(entries.values))
    cut = round(HELD_OUT * len(order))
    held, kept = order[:cut], np.sort(order[cut:])
    return Triples(*(x[kept] for x in entries)), Triples(*(x[held] for x in entries))


def counted(X: Any, rank: int) -> Pair:
    """Thin the counts: a tenth of them is held out, so train ~ Poisson(0.9 μ) and test ~ Poisson(0.1 μ)."""
    everything = sparse.coo_array(X)
    cells = Triples(everything.row.astype(np.int64), everything.col.astype(np.int64), everything.data)
    train, test = _thinned(cells, 0)
    fit, validation = _thinned(train, 1)
    return Pair(_counts(X.shape, train, test, rank), _counts(X.shape, fit, validation, rank))


def _thinned(cells: Triples, seed: int) -> tuple[Triples, Triples]:
    values = cells.values.astype(np.int64)
    kept = np.random.default_rng(seed).binomial(values, 1 - HELD_OUT)
    parts = (
        Triples(cells.rows[v > 0], cells.cols[v > 0], v[v > 0].astype(float)) for v in (kept, values - kept)
    )
    train, test = parts
    return train, test


def _counts(shape: tuple[int, int], train: Triples, test: Triples, rank: int) -> Problem:
    constant = float(gammaln(test.values + 1).sum())
    about = {"rank": rank, "seed": 0, "ratio": HELD_OUT / (1 - HELD_OUT), "constant": constant}
    return Problem("counts", shape, train, test, about)


def small(likelihood: str) -> Pair:
    """Return a complete 64 × 48 matrix of rank 4; rates and dispersion are fixed, so that all fit one posterior."""
    rank, phi = 4, None if likelihood == "poisson" else 0.1
    member = psgld.Poisson() if phi is None else psgld.Gamma(phi=phi)
    V = np.asarray(synthetic(64, 48, rank, member, seed=1).V.dense, np.float64)
    i, j = (index.ravel() for index in np.indices(V.shape))
    some = np.random.default_rng(0).permutation(V.size)[:TRACED]
    cells = Triples(i, j, V.ravel())
    about = {"rank": rank, "seed": 0, "phi": phi, "rate": float(np.sqrt(rank / V.mean())), "threads": 1}
    return Pair(Problem("posterior", V.shape, cells, Triples(*(x[some] for x in cells)), about))


def clicked(folder: Path) -> Pair:
    """Return the clicks of MovieLens-100K: the last of each user is the test, the one before for validation."""
    validation, test = (_clicks(part) for part in clicks.read(folder))
    return Pair(test, validation)


def _clicks(part: clicks.Clicks) -> Problem:
    users = np.arange(part.shape[0])
    train = Triples(part.users, part.items, np.ones(len(part.users)))
    about = {"rank": clicks.RANK, "seed": 0, "best": clicks.BEST}
    return Problem("clicks", part.shape, train, Triples(users, part.target, np.ones(len(users))), about)


def _digits() -> Array:
    return np.rint(real_sets.table("digits"))


PROBLEMS: dict[str, Callable[[Path], Pair]] = {
    "MovieLens-1M": lambda folder: rated(real_data.movielens_1m(folder), 32, bars=[0.85, 0.84, 0.835, 0.832]),
    "MovieLens-100K": lambda folder: rated(real_data.movielens_100k(folder), 32),
    "KOS": lambda folder: counted(real_data.kos(folder), 20),
    "digits": lambda _: counted(_digits(), 10),
    "Poisson, 64 × 48": lambda _: small("poisson"),
    "gamma, 64 × 48": lambda _: small("gamma"),
    "clicks": clicked,
}
LARGE: dict[str, Callable[[Path], Pair]] = {
    "MovieLens-10M's shape": lambda _: rated(ratings(71_567, 10_681, 10_000_000).V, 32),
}
QUICK: dict[str, Callable[[Path], Pair]] = {
    "ratings, tiny": lambda _: rated(ratings(60, 40, 900).V, 4, bars=[1.0, 0.1]),
    "counts, tiny": lambda _: counted(np.random.default_rng(0).poisson(2.0, (40, 30)), 3),
}


def with_threads(pair: Pair, threads: int) -> Pair:
    """Return the problems with a number of threads, but for those that have one of their own."""

    def of(problem: Problem) -> Problem:
        return replace(problem, about={"threads": threads} | problem.about)

    return Pair(of(pair.problem), None if pair.validation is None else of(pair.validation))
