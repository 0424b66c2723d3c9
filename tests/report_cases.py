"""Posteriors for reports: one per kind of model and shape, with labels that try to break out of a page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import psgld

HOSTILE = (
    "<script>alert(1)</script>", "</script><script>alert(2)</script>", "\"><img src=x onerror=alert(3)>",
    "' onclick='a()",
    "abc\u202edcba\u2066", "&lt;b&gt; & \x00\x1b[0m", "<!-- --> ]]>", "{{script}} ${x} `y`", "=1+1", "a" * 300,
    "\ud800 lone", "שלום עולם", "電影 🎬", "line\nbreak\u2028end",
)  # fmt: skip
"""Labels."""


def hostile_counts() -> tuple[Any, Any]:
    """Return counts with hostile labels of rows and columns, and held-out ones."""
    rng = np.random.default_rng(0)
    n = len(HOSTILE)
    i, j = np.divmod(rng.permutation(n * n), n)
    labels = np.array([text.replace("\ud800", "\ufffe") for text in HOSTILE])
    values = rng.poisson(3.0 + 4.0 * ((i % 2) == (j % 2))).astype(float)
    table = labels[i], labels[j], values
    train = psgld.Observations.from_chunks([tuple(column[40:] for column in table)], absent="unobserved")
    return train, tuple(column[:40] for column in table)


def _sampled(V: Any, model: psgld.FactorModel, draws: int = 30) -> psgld.Posterior:
    return psgld.sample(V, model, draws=draws, tune=60, chains=2, progress=False)


def hostile() -> tuple[Any, Any, Any]:
    """Non-negative counts, sparse, with labels."""
    train, test = hostile_counts()
    return _sampled(train, psgld.FactorModel(3, "poisson")), test, train


def dense() -> tuple[Any, Any, Any]:
    """Real values, every cell observed: no positions are kept; without labels; biases."""
    rng = np.random.default_rng(1)
    V = rng.normal(size=(9, 2)) @ rng.normal(size=(2, 14)) + 0.1 * rng.normal(size=(9, 14))
    return _sampled(V, psgld.FactorModel(2, "gaussian", bias=True)), None, V


def stars() -> tuple[Any, Any, Any]:
    """Ordered levels with labels."""
    data = psgld.datasets.ratings(users=30, items=20, entries=250)
    return _sampled(data.V, psgld.FactorModel(2, "ordinal", bias=True)), data.test, data.V


def clicks() -> tuple[Any, Any, Any]:
    """Zeros and ones, a wide matrix, one component, nothing given."""
    V = (np.random.default_rng(2).random((3, 60)) < 0.4).astype(float)
    return _sampled(V, psgld.FactorModel(1, "bernoulli")), None, None


def tall() -> tuple[Any, Any, Any]:
    """Positive amounts, a tall matrix, too few draws to judge."""
    V = np.random.default_rng(3).gamma(2.0, 1.0, (80, 2))
    V[5, 1] = np.nan
    return _sampled(V, psgld.FactorModel(2, "gamma"), draws=8), None, None


CASES: dict[str, Callable[[], tuple[Any, Any, Any]]] = {
    "hostile": hostile, "dense": dense, "stars": stars, "clicks": clicks, "tall": tall,
}  # fmt: skip
"""Each returns a posterior, held-out entries or None, and the data or None."""
