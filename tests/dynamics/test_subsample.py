"""SGLD's subsample: as many draws as asked for, uniform over the observed entries, the same whoever makes them.

The draws themselves can be read off a step: with K = 1, w = 1, τ = 0 and a Poisson likelihood the gradient of w_i is
Σ_j n_ij (v_ij - h_j), n_ij the times that (i, j) was drawn. Where v_ij is 0 or 2 h_j and h_j = 64^j, its digits to
base 64 are ± n_ij.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import psgld
from psgld import FactorModel, Observations, Threads
from psgld.dynamics.probes import Probes
from psgld.dynamics.subsample import Subsample
from psgld.engines import H, Stretch, W

ROWS, COLS, BASE = 9, 4, 64.0
PRIOR = psgld.Exponential(1.0)


def chain_of(data, size, key=1, threads=1, sampler=psgld.SGLD):
    settings = sampler(size=size, step_size=1.0, metric="identity", temperature=0.0, dtype="float64")
    model = FactorModel(1, psgld.Poisson(), PRIOR, PRIOR)
    setup = replace(settings.prepare(data, model, Threads(threads), 0), flat=True)
    return setup, setup.chain(key, Probes.of(data, 0))


def times_drawn(data, size, iterations, wide, **more):
    """Return n_ij of each iteration, (iterations, ROWS, COLS)."""
    shape = (COLS, ROWS) if wide else (ROWS, COLS)
    h = BASE ** np.arange(COLS)
    setup, chain = chain_of(data, size, **more)
    few, many = (W, H) if wide else (H, W)
    found = []
    for t in range(1, iterations + 1):
        chain.factors.set_factor(few, h[:, None])
        chain.factors.set_factor(many, np.ones((ROWS, 1)))
        parts, _ = setup.schedule.parts(t, 1, setup.grid.part_sizes, chain.key)
        draws = setup.subsample.draws(t, parts, chain.key)
        chain.factors.set_dynamics(chain.key, "identity", mirror=False, temperature=0.0)
        chain.factors.advance(Stretch(t, parts, np.ones(1), np.ones(1), draws))
        digits = np.rint(chain.factors.factor(many)[:, 0] - 1)
        n = np.zeros((ROWS, COLS))
        for j in range(COLS):
            n[:, j] = (digits + BASE // 2) % BASE - BASE // 2
            digits = (digits - n[:, j]) // BASE
        found.append(np.abs(n))
    assert shape == data.shape
    return np.array(found)


def values(seen=None):
    """0 or 2 h_j at random; NaN where not seen."""
    V = np.where(np.random.default_rng(0).random((ROWS, COLS)) < 0.5, 0.0, 2.0) * BASE ** np.arange(COLS)
    return V if seen is None else np.where(seen, V, np.nan)


SEEN = np.random.default_rng(2).random((ROWS, COLS)) < 0.6
SEEN[3] = False  # a row without entries


def dense(wide):
    return psgld.observations(values().T if wide else values()), np.ones((ROWS, COLS), bool)


def with_gaps(wide):
    V = values(SEEN)
    return psgld.observations(V.T if wide else V), SEEN


def sparse(wide):
    i, j = np.nonzero(SEEN)
    V, pair = values(), (j, i) if wide else (i, j)
    shape = (COLS, ROWS) if wide else (ROWS, COLS)
    return Observations.from_coo(*pair, V[i, j], shape, absent="unobserved"), SEEN


def zeros(wide):
    V = values()
    i, j = np.nonzero(V)
    pair, shape = ((j, i), (COLS, ROWS)) if wide else ((i, j), (ROWS, COLS))
    return Observations.from_coo(*pair, V[i, j], shape, absent="zero"), np.ones((ROWS, COLS), bool)


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("form", [dense, with_gaps, sparse, zeros])
def test_draws_are_uniform(form, wide):
    data, seen = form(wide)
    n = times_drawn(data, 100, 200, wide)
    np.testing.assert_array_equal(n.sum(axis=(1, 2)), 100)
    assert not n[:, ~seen].any()
    drawn = n[:, seen]
    assert stats.chisquare(drawn.sum(axis=0)).pvalue > 1e-3
    # Independent draws: the counts of an iteration vary as a multinomial's do.
    expected = 100 / seen.sum()
    spread = ((drawn - expected) ** 2).sum() / (expected * 200)
    assert abs(spread - (seen.sum() - 1)) < 5 * np.sqrt(2 * seen.sum() / 200)
    assert not np.array_equal(n[0], n[1])
    assert not np.array_equal(n[0], times_drawn(data, 100, 1, wide, key=2)[0])


@pytest.mark.parametrize("size", [1, 2, 31, 32, 33, 400])
def test_any_number_of_draws(size):
    data, _ = dense(False)
    np.testing.assert_array_equal(times_drawn(data, size, 3, False).sum(axis=(1, 2)), size)


def test_scale_makes_the_gradient_unbiased():
    """The average of N/|Ω| × (gradient of Ω) is the full gradient."""
    rng = np.random.default_rng(0)
    V = rng.poisson(3.0, (12, 10)).astype(float)
    data = psgld.observations(V)
    w, h = rng.gamma(4.0, size=(12, 2)), rng.gamma(4.0, 0.1, size=(10, 2))
    model = FactorModel(2, psgld.Poisson(), PRIOR, PRIOR)
    settings = psgld.SGLD(size=0.25, step_size=1e-3, metric="identity", temperature=0.0, dtype="float64")
    setup = replace(settings.prepare(data, model, Threads(1), 0), flat=True)
    chain = setup.chain(5, Probes.of(data, 0))
    steps = []
    for _ in range(2000):
        chain.factors.set_factor(W, w)
        chain.factors.set_factor(H, h)
        chain.advance(1)
        steps.append((chain.factors.factor(W) - w) / 1e-3)
    full = (V / (w @ h.T) - 1) @ h
    z = (np.mean(steps, axis=0) - full) / (np.std(steps, axis=0) / np.sqrt(2000))
    assert stats.chi2.sf((z**2).sum(), z.size) > 1e-3


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("form", ["dense", "sparse"])
def test_several_chunks(form, wide):
    """Rows are drawn evenly across chunks, and chunks fall to any thread."""
    shape = (300, 900) if wide else (900, 300)
    V = np.random.default_rng(0).poisson(2.0, shape).astype(float) + 1
    data = psgld.observations(V)
    if form == "sparse":
        i, j = np.nonzero(V < 5)
        data = Observations.from_coo(i, j, V[i, j], V.shape, absent="unobserved")
    setup, _ = chain_of(data, 150_000)
    assert setup.subsample.entries.shape[1] > 2
    draws = setup.subsample.draws(1, np.zeros(400, np.int32), 1)
    np.testing.assert_array_equal(draws.sum(axis=1), 150_000)
    mean = 150_000 * setup.subsample.entries[0] / data.size
    assert stats.chisquare(draws.sum(axis=0), 400 * mean).pvalue > 1e-3
    # The same draws in pieces, and another stream for each key.
    np.testing.assert_array_equal(draws[7:9], setup.subsample.draws(8, np.zeros(2, np.int32), 1))
    assert not np.array_equal(draws, setup.subsample.draws(1, np.zeros(400, np.int32), 2))
    sampler, model = psgld.SGLD(size=150_000), FactorModel(3, "poisson")
    runs = [
        psgld.sample(
            data, model, sampler=sampler, engine=Threads(n), draws=2, tune=5, chains=1, progress=False
        )
        for n in (1, 2, 3)
    ]
    for other in runs[1:]:
        np.testing.assert_array_equal(runs[0].W, other.W)
        np.testing.assert_array_equal(runs[0].H, other.H)


def test_shards_draw_from_their_own_entries():
    V = np.random.default_rng(0).poisson(4.0, (30, 20)).astype(float)
    data = psgld.observations(V)
    setup = psgld.DSGLD(workers=3, size=60).prepare(data, FactorModel(2, "poisson"), Threads(1), 0)
    np.testing.assert_array_equal(setup.subsample.entries.sum(axis=1), setup.grid.part_sizes)
    assert setup.grid.part_sizes.sum() == V.size


def test_a_part_of_one_chunk_needs_no_random_numbers():
    assert (Subsample(5, np.array([[3]])).draws(1, np.zeros(4, np.int32), 0) == 5).all()


@pytest.mark.parametrize("sampler", [psgld.SGLD, psgld.DSGLD])
def test_a_subsample_is_not_far_larger_than_the_data(sampler):
    V = np.random.default_rng(0).poisson(4.0, (30, 20))
    with pytest.raises(
        psgld.ModelError,
        match=r"size = 1,000,000,000 means .* draws per iteration; at most 100 times the 600 entries.* LD\(\)",
    ):
        psgld.sample(V, FactorModel(2, "poisson"), sampler=sampler(size=10**9), progress=False)
