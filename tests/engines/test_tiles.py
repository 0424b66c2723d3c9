"""Blocks whose inner strips are too long for a cache: their entries lie in tiles of columns (`tiles_of`)."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy.sparse import csr_array

import psgld
from psgld import Threads
from psgld.data.partition import Shuffled
from psgld.engines import H, W
from psgld.models import Tweedie

I, J, N = 8300, 8250, 620_000
"""Three tiles of 4,096 columns; enough entries for two chunks."""


def entries(n=N, seed=0):
    """Distinct entries of a rank-1 matrix, in order."""
    rng = np.random.default_rng(seed)
    i, j = np.divmod(np.unique(rng.integers(0, I * J, n)), J)
    a, b = rng.gamma(3.0, 0.5, I), rng.gamma(3.0, 0.5, J)
    return i, j, np.rint(4.0 * a[i] * b[j])


def problem(swapped=False, **more):
    i, j, v = entries(**more)
    if swapped:
        return psgld.Observations.from_coo(j, i, v, (J, I), absent="unobserved")
    return psgld.Observations.from_coo(i, j, v, (I, J), absent="unobserved")


@pytest.mark.parametrize("swapped", [False, True])
def test_gradients_are_those_of_numpy(swapped):
    data, K = problem(swapped), 3
    strips = Shuffled().cut(data, 1)
    engine = Threads(2)
    factors = engine.factors(engine.grid(data, strips, 0.0, np.dtype(np.float64)), K, Tweedie(1.0), 1e-12)
    rng = np.random.default_rng(1)
    x = [rng.gamma(2.0, size=(n, K)) for n in data.shape]
    for which in (W, H):
        factors.set_factor(which, x[which])
    factors.accumulate("score")
    indptr, cols, v = data.csr
    rows = np.repeat(np.arange(data.shape[0]), np.diff(indptr))
    e = csr_array((v / np.einsum("nk,nk->n", x[W][rows], x[H][cols]) - 1.0, cols, indptr), data.shape)
    np.testing.assert_allclose(factors.accumulated(W), e @ x[H], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(factors.accumulated(H), e.T @ x[W], rtol=1e-9, atol=1e-9)


def run(data, threads, sampler=None, **more):
    settings = {"draws": 2, "tune": 4, "thin": 2, "chains": 1, "seed": 3, "progress": False, **more}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", psgld.PsgldWarning)  # so few draws have not converged
        return psgld.sample(
            data, psgld.FactorModel(2, "poisson"), sampler=sampler, engine=Threads(threads), **settings
        )


@pytest.mark.parametrize("sampler", [psgld.PSGLD(blocks=1), psgld.SGLD(size=5000)], ids=["psgld", "sgld"])
def test_any_number_of_threads(sampler):
    data = problem()
    one = run(data, 1, sampler)
    for threads in (2, 3):
        several = run(data, threads, sampler)
        np.testing.assert_array_equal(one.W, several.W)
        np.testing.assert_array_equal(one.H, several.H)


def test_draws_of_entries_know_their_rows():
    """A matrix of rank 1 is learnt from subsamples only if row, column and value belong together."""
    data = problem(n=60_000)
    sampler = psgld.SGLD(size=20_000, step_size=0.3, metric="non-negative")
    post = run(data, 2, sampler, tune=300, draws=5)
    i, j, v = entries(60_000)
    mu = post.predict(i, j).mean
    assert np.corrcoef(mu, v)[0, 1] > 0.9


def test_shards_give_the_same_bits(tmp_path):
    i, j, v = entries(60_000)
    shards = psgld.shard(iter([(i, j, v)]), tmp_path / "s", 1, shape=(I, J))
    disk = run(shards, 2)
    again = run(shards, 1)  # from the file of blocks that the first run wrote
    memory = run(shards.load(), 1, psgld.PSGLD(partition=shards.partition))
    for other in (again, memory):
        np.testing.assert_array_equal(disk.W, other.W)
        np.testing.assert_array_equal(disk.H, other.H)
