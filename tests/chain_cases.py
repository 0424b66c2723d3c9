"""Small runs of every kind of chain, for tests that compare their bits."""

from __future__ import annotations

import numpy as np

import psgld
from psgld import PSGLD, FactorModel, Observations

ARRAYS = ("W", "H", "row_bias", "col_bias", "row_rate", "col_rate", "row_shape", "col_shape", "offset", "phi")


def counts(rows, cols, density=None, seed=0):
    rng = np.random.default_rng(seed)
    V = rng.poisson(rng.gamma(2.0, size=(rows, 4)) @ rng.gamma(2.0, 0.3, size=(4, cols))).astype(np.float64)
    return V if density is None else V * (rng.random(V.shape) < density)


def dense_counts():
    return counts(60, 45), FactorModel(3, "poisson"), PSGLD(blocks=3)


def large_dense_counts():
    """Blocks of 600 × 500 cost 8 · 600 + 600 · 500 / 8 entries, which makes two chunks."""
    return counts(1200, 1000), FactorModel(5, "poisson"), PSGLD(blocks=2)


def ratings():
    """A sparse Gaussian matrix, everything learnt; its one block of 100,000 entries is cut into chunks."""
    rng = np.random.default_rng(1)
    i, j = np.nonzero(rng.random((700, 600)) < 0.25)
    v = 3.5 + rng.normal(size=700)[i] + rng.normal(size=600)[j] + rng.normal(size=len(i))
    data = Observations.from_coo(i, j, v, (700, 600), absent="unobserved")
    return data, FactorModel(4, "gaussian", bias=True), PSGLD(blocks=1)


def all_given():
    """Nothing is learnt, the metric is fixed: upkeeps that only save. Strips in groups of two and three."""
    rate = psgld.Exponential(1.0)
    return counts(100, 90), FactorModel(3, "poisson", rate, rate), PSGLD(19, 1e-4, psgld.Identity())


def words():
    """Sparse counts whose absent entries are zeros; more columns than rows."""
    from scipy.sparse import csr_array

    V = csr_array(counts(300, 900, 0.3, seed=2))
    data = Observations.from_sparse(V, absent="zero")
    return data, FactorModel(6, "poisson"), PSGLD(blocks=2, schedule=psgld.Reshuffled(), dtype="float64")


def zero_gaussian():
    V, _, _ = words()
    return V, FactorModel(3, psgld.Gaussian()), PSGLD(blocks=2)


def gamma_values():
    rng = np.random.default_rng(3)
    V = rng.gamma(2.0, size=(40, 90))
    V[rng.random(V.shape) < 0.1] = np.nan
    return V, FactorModel(2, "gamma", psgld.GammaPrior(0.8)), PSGLD(blocks=4, schedule=psgld.Proportional())


CASES = [dense_counts, all_given, large_dense_counts, ratings, words, zero_gaussian, gamma_values]


def assert_same(one, other):
    for name in ARRAYS:
        a, b = getattr(one.draws, name), getattr(other.draws, name)
        assert (a is None) == (b is None), name
        if a is not None:
            np.testing.assert_array_equal(a, b, err_msg=name)
    for name, trace in one.sample_stats.items():
        if name != "seconds":
            np.testing.assert_array_equal(trace, other.sample_stats[name], err_msg=name)
