"""One chain, whatever runs it: the same bits on any number of threads, side by side or in turn, in pieces."""

from __future__ import annotations

import numpy as np
import pytest
from chain_cases import (
    CASES,
    assert_same,
    counts,
    dense_counts,
    large_dense_counts,
    ratings,
    words,
)

import psgld
from psgld import PSGLD, FactorModel, Observations, Threads
from psgld.dynamics.probes import Probes
from psgld.engines import H, W
from psgld.models import hyperparameters as hyperparameters


def draw(case, threads=1, **changes):
    V, model, sampler = case()
    settings = {"draws": 4, "tune": 10, "thin": 3, "chains": 1, "seed": 5, "progress": False, **changes}
    return psgld.sample(V, model, sampler=sampler, engine=Threads(threads), **settings)


@pytest.mark.parametrize("case", CASES)
def test_any_number_of_threads(case):
    one = draw(case)
    assert np.isfinite(one.draws.W).all()
    assert np.ptp(one.draws.W, axis=1).min() > 0  # it moves
    for threads in (2, 3, 7):
        assert_same(one, draw(case, threads))


@pytest.mark.parametrize("case", [dense_counts, ratings, words])
def test_side_by_side_or_in_turn(case, monkeypatch):
    monkeypatch.setattr("psgld.system.cost.SIDE_BY_SIDE", 0.0)
    turn = draw(case, threads=2, chains=3)
    monkeypatch.setattr("psgld.system.cost.SIDE_BY_SIDE", np.inf)
    assert_same(turn, draw(case, threads=2, chains=3))
    assert not np.array_equal(turn.draws.W[0], turn.draws.W[1])
    # A chain does not depend on how many others there are.
    np.testing.assert_array_equal(turn.draws.W[:1], draw(case).draws.W)


def test_seeds():
    one, again, other = (draw(dense_counts, seed=s) for s in (5, 5, 6))
    assert_same(one, again)
    assert not np.array_equal(one.draws.W, other.draws.W)
    sequence = draw(dense_counts, seed=np.random.SeedSequence(5))
    assert_same(one, sequence)


def chain_of(case, key=7):
    V, model, sampler = case()
    data = psgld.observations(V)
    setup = sampler.prepare(data, model, Threads(2), tune=20)
    return setup.chain(key, Probes.of(data, 10_000))


@pytest.mark.parametrize("case", CASES)
def test_in_pieces_or_at_once(case):
    whole, pieces = chain_of(case), chain_of(case)
    whole.advance(25)
    for n in (1, 2, 9, 1, 12):
        pieces.advance(n)
    assert whole.iteration == pieces.iteration == 25
    assert whole.hyper.to_dict() == pieces.hyper.to_dict()
    for which in (W, H):
        np.testing.assert_array_equal(whole.factors.factor(which), pieces.factors.factor(which))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("metric", ["identity", "non-negative", "real-valued"])
@pytest.mark.parametrize("form", ["dense", "sparse", "zero"])
def test_cold_chain_without_step_stands_still(metric, dtype, form):
    V = counts(50, 70, 0.5)
    data = Observations.from_dense(V)
    if form != "dense":
        i, j = np.nonzero(V)
        absent = "zero" if form == "zero" else "unobserved"
        data = Observations.from_coo(i, j, V[i, j], V.shape, absent=absent)
    prior, likelihood = (
        (psgld.Normal(1.0), "gaussian") if metric == "real-valued" else (psgld.Exponential(1.0), "poisson")
    )
    model = FactorModel(5, likelihood, prior)
    sampler = PSGLD(blocks=3, metric=metric, step_size=1e-300, temperature=0.0, dtype=dtype)
    chain = sampler.prepare(data, model, Threads(2), tune=0).chain(1, Probes.of(data, 100))
    before = [chain.factors.factor(which) for which in (W, H)]
    chain.advance(20)
    for which in (W, H):
        np.testing.assert_array_equal(chain.factors.factor(which), before[which])


def test_sums_do_not_depend_on_the_threads():
    V, model, sampler = large_dense_counts()
    data = psgld.observations(V)
    found = []
    for threads in (1, 2, 7):
        setup = sampler.prepare(data, model, Threads(threads), tune=0)
        factors = setup.chain(3, Probes.of(data, 100)).factors
        for _ in range(20):  # again and again, for threads to meet in different ways
            factors.accumulate("score")
            found.append(np.concatenate([factors.accumulated(which) for which in (W, H)]))
    for sums in found[1:]:
        np.testing.assert_array_equal(sums, found[0])


@pytest.mark.parametrize("key", [7, 2**63 + 1, 2**64 - 1])
def test_hyperparameters_have_fresh_randomness_each_cycle(key, monkeypatch):
    """The streams of two cycles share no word, and all bits of the key count."""
    words: list[np.ndarray] = []
    draw_hyper = hyperparameters.draw

    def spy(*arguments):
        rng = next(a for a in arguments if isinstance(a, np.random.Generator))
        again = type(rng.bit_generator)()
        again.state = rng.bit_generator.state
        words.append(again.random_raw(64))
        return draw_hyper(*arguments)

    monkeypatch.setattr(hyperparameters, "draw", spy)
    for k in (key, key - 1):
        chain = chain_of(ratings, key=k)
        chain.advance(60)
    assert len(words) >= 10
    assert np.unique(np.concatenate(words)).size == 64 * len(words)


@pytest.mark.parametrize("prior", [psgld.Normal(1.0), psgld.Exponential(1.0)], ids=repr)
@pytest.mark.parametrize(
    "schedule", [psgld.Cyclic(), psgld.Reshuffled(), psgld.Proportional()], ids=lambda s: type(s).__name__
)
def test_dispersion_is_drawn_from_all_residuals(schedule, prior, monkeypatch):
    """Also of blocks not visited since the start, or since the metric was refreshed."""
    V = np.random.default_rng(4).normal(2.0, 1.0, (60, 50))
    data = psgld.observations(V)
    sampler = PSGLD(blocks=6, schedule=schedule, step_size=1e-4)
    setup = sampler.prepare(data, FactorModel(3, "gaussian", prior, prior), Threads(1), tune=0)
    chain = setup.chain(3, Probes.of(data, 100))
    draw_hyper = hyperparameters.draw
    ratios = []

    def spy(*arguments):
        w, h = (chain.factors.factor(which) for which in (W, H))
        ratios.append(chain.factors.squared_residuals() / np.sum((V - w @ h.T) ** 2))
        return draw_hyper(*arguments)

    monkeypatch.setattr(hyperparameters, "draw", spy)
    chain.advance(200)
    assert len(ratios) > 2
    np.testing.assert_allclose(ratios, 1.0, rtol=0.05)


def test_threads_are_checked():
    for bad in (0, -1, 1.5, True, 10_000, "2"):
        with pytest.raises(psgld.ModelError, match="threads must be an integer from 1 to 1024, got"):
            Threads(bad)
    assert Threads().workers >= 1
    assert Threads(3).workers == 3
    assert Threads(3).share(2).workers == 1 and Threads(8).share(2).workers == 4
