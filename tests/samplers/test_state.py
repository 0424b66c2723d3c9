"""A chain goes on from its state as if it had never stopped, bit for bit, on any number of threads."""

from __future__ import annotations

import numpy as np
import pytest
from chain_cases import CASES, counts

import psgld
from psgld import PSGLD, FactorModel, Observations, Threads
from psgld.dynamics.probes import Probes
from psgld.engines import H, W


def setup_of(V, model, sampler, threads=2):
    data = psgld.observations(V)
    return sampler.prepare(data, model, Threads(threads), tune=40), Probes.of(data, 10_000)


def through_state(case, before, after, threads=3):
    """Return a chain that ran through, and one that was stopped, kept as plain arrays and numbers, and resumed."""
    setup, probes = setup_of(*case)
    whole, first = setup.chain(7, probes), setup.chain(7, probes)
    whole.advance(before)
    whole.settle()
    first.advance(before)
    first.settle()
    state = plain(first.state())
    again, probes = setup_of(*case, threads=threads)
    resumed = again.chain(7, probes)
    resumed.advance(5)  # whatever it did before is forgotten
    resumed.set_state(state)
    assert_equal(first, resumed)
    for n in after:
        whole.advance(n)
        resumed.advance(n)
    return whole, resumed


def plain(state):
    """Return a copy of a state as a file would hold it."""
    for name, value in state.items():
        assert isinstance(value, np.ndarray | float | int | list), (name, type(value))
    return {name: np.asarray(value).copy() for name, value in state.items()}


def assert_equal(one, other):
    a, b = plain(one.state()), plain(other.state())
    assert a.keys() == b.keys()
    for name in a:
        np.testing.assert_array_equal(a[name], b[name], err_msg=name)
    assert one.log_posterior() == other.log_posterior()


@pytest.mark.parametrize("before", [0, 1, 7, 130])
@pytest.mark.parametrize("case", CASES)
def test_resumed(case, before):
    assert_equal(*through_state(case(), before, (3, 1, 60)))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("form", ["dense", "sparse", "zero"])
@pytest.mark.parametrize(
    ("likelihood", "metric"),
    [
        ("poisson", "identity"),
        ("poisson", "non-negative"),
        ("gaussian", "identity"),
        ("gaussian", "real-valued"),
        ("nonnegative gaussian", "non-negative"),
        ("nonnegative gaussian", "real-valued"),
    ],
)
def test_every_metric(likelihood, metric, form, dtype):
    V = counts(50, 70, 0.5)
    data = Observations.from_dense(V)
    if form != "dense":
        i, j = np.nonzero(V)
        absent = "zero" if form == "zero" else "unobserved"
        data = Observations.from_coo(i, j, V[i, j], V.shape, absent=absent)
    prior = psgld.Normal() if likelihood == "gaussian" else psgld.Exponential()
    model = FactorModel(5, likelihood.removeprefix("nonnegative "), prior, prior)
    sampler = PSGLD(blocks=3, metric=metric, dtype=dtype)
    assert_equal(*through_state((data, model, sampler), 8, (2, 50)))


@pytest.mark.parametrize("before", [1, 20, 100, 401])
def test_after_divergences(before):
    V = np.random.default_rng(2).poisson(6.0, (60, 50)).astype(float)
    sampler = PSGLD(metric="identity", step_size=1.0, blocks=5)
    whole, resumed = through_state((V, FactorModel(3, "poisson"), sampler), before, (7, 300))
    assert_equal(whole, resumed)
    assert whole.divergences and whole.step_factor < 1.0


def test_goes_back_to_the_same_state():
    """What a chain would go back to is part of its state."""
    setup, probes = setup_of(counts(60, 45), FactorModel(3, "poisson"), PSGLD(blocks=3))
    first, second = setup.chain(1, probes), setup.chain(1, probes)
    first.advance(100)
    second.set_state(plain(first.state()))
    for chain in (first, second):
        chain.factors.set_factor(W, np.full((60, 3), np.nan))
        chain._sums = None
        assert not chain.settle()
    assert np.isfinite(first.factors.factor(H)).all()
    assert_equal(first, second)


def test_rows_are_in_their_original_order():
    """The state does not tell where the strips keep a row."""
    V = counts(60, 45)
    setup, probes = setup_of(V, FactorModel(3, "poisson"), PSGLD(blocks=3))
    chain = setup.chain(1, probes)
    chain.advance(9)
    state = chain.state()
    np.testing.assert_array_equal(state["W"], chain.factors.factor(W))
    mu = chain.factors.mu(tuple(chain.factors.positions(f, np.array([4, 30])) for f in (W, H)))
    np.testing.assert_allclose(mu, (state["W"][[4, 30]] * state["H"][[4, 30]]).sum(1), rtol=1e-5)
    w = state["W"].astype(np.float64) @ state["H"].T.astype(np.float64)
    assert w.shape == V.shape and state["weights_W"].shape == state["W"].shape
