"""Rows and columns without entries: drawn from their prior every fourth iteration, left out of the others."""

import itertools

import numpy as np
import pytest
from scipy import stats

import psgld
from psgld.dynamics.probes import Probes
from psgld.engines import H, W

ROWS, COLS, EMPTY = 300, 170, 0.6
PRIORS = psgld.Normal(4.0), psgld.Normal(0.25)


@pytest.fixture(scope="module")
def data():
    """Entries in 40 % of the rows and of the columns."""
    rng = np.random.default_rng(5)
    seen = [rng.permutation(n)[: round((1 - EMPTY) * n)] for n in (ROWS, COLS)]
    i, j = (ids[rng.integers(len(ids), size=3000)] for ids in seen)
    cells = np.unique(i * COLS + j)
    return psgld.Observations.from_coo(
        cells // COLS, cells % COLS, rng.normal(size=len(cells)), (ROWS, COLS), "unobserved"
    )


def without_entries(data):
    return [data.counts(axis) == 0 for axis in (W, H)]


def chain_on(data, engine, blocks, model=None, **settings):
    model = model or psgld.FactorModel(3, psgld.Gaussian(1.0), *PRIORS)
    setup = psgld.PSGLD(blocks=blocks, **settings).prepare(data, model, engine, 0)
    return setup.chain(7, Probes.of(data, 0), engine)


@pytest.mark.parametrize("partition", [psgld.Shuffled(), psgld.InOrder()], ids=repr)
def test_they_are_the_last_of_their_strips(data, partition):
    for strips, empty in zip(partition.cut(data, 3), without_entries(data), strict=True):
        for b in range(strips.number):
            flags = empty[strips.strip(b)]
            assert flags.any() and (np.diff(flags.astype(int)) >= 0).all()


@pytest.mark.parametrize("blocks", [1, 3])
@pytest.mark.parametrize("learnt", [False, True])
def test_the_state_does_not_depend_on_where_iterations_pause(data, blocks, learnt):
    """35 cycles end with momentum."""
    model = psgld.FactorModel(3, psgld.Gaussian(), bias=True) if learnt else None
    once, often = (chain_on(data, psgld.Threads(n), blocks, model) for n in (1, 2))
    once.advance(35 * blocks)
    for n in (1, 2, 35 * blocks - 3):
        often.advance(n)
    one, other = once.state(), often.state()
    for name, value in one.items():
        np.testing.assert_array_equal(value, other[name], err_msg=name)


@pytest.mark.parametrize("iterations", [99, 100])
def test_the_core_draws_what_the_reference_draws(data, iterations):
    chains = [chain_on(data, engine, 3, dtype="float64") for engine in (psgld.Threads(2), psgld.Reference())]
    for chain in chains:
        chain.advance(iterations)
    for which, empty in enumerate(without_entries(data)):
        core, reference = (chain.factors.factor(which)[empty] for chain in chains)
        np.testing.assert_allclose(core, reference, rtol=1e-5, atol=1e-6)


def test_in_between_they_stay(data):
    chain, states = chain_on(data, psgld.Threads(1), 2), []
    for _ in range(8):
        chain.advance(1)
        states.append(chain.factors.factor(W)[without_entries(data)[W]])
    changed = [bool((a != b).any()) for a, b in itertools.pairwise(states)]
    assert changed == [False, False, True, False, False, False, True]


def test_draws_are_those_of_the_prior(data):
    post = psgld.sample(
        data, psgld.FactorModel(3, psgld.Gaussian(1.0), *PRIORS), draws=40, tune=20, thin=4, chains=2,
        progress=False, sampler=psgld.PSGLD(blocks=2),
    )  # fmt: skip
    factors = post.W, np.swapaxes(post.H, -1, -2)
    for x, prior, empty in zip(factors, PRIORS, without_entries(data), strict=True):
        z = x[:, :, empty] * np.sqrt(prior.precision)
        assert stats.kstest(z.ravel(), "norm").pvalue > 1e-3
        assert abs(np.mean(z[:, 1:] * z[:, :-1])) < 5 / np.sqrt(z.size)  # draws are independent


def test_an_optimum_is_that_of_the_prior(data):
    best = psgld.optimize(data, psgld.FactorModel(3, psgld.Gaussian(1.0), *PRIORS), max_passes=50)
    assert np.abs(best.W[without_entries(data)[W]]).max() == 0.0
