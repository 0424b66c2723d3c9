"""Several starts: the best is where all chains start; resumed runs have the same bits and do not repeat them."""

from __future__ import annotations

import numpy as np
import pytest

import psgld
from psgld.datasets import synthetic
from psgld.runs import starts as module
from psgld.runs.crossover import child, similarity
from psgld.runs.draws import Draws

MODEL = psgld.FactorModel(3, "poisson")


def counts() -> np.ndarray:
    rng = np.random.default_rng(0)
    return rng.poisson(rng.gamma(0.5, size=(40, 3)) @ rng.gamma(0.5, size=(3, 30)))


def draw(**more):
    settings = {"draws": 20, "tune": 100, "thin": 2, "chains": 2, "starts": 3, "progress": False}
    return psgld.sample(counts(), MODEL, **settings | more)


def log_likelihood(post, chain):
    p = post.predict(*np.indices(counts().shape).reshape(2, -1))
    mu = p.draws.reshape(2, -1, counts().size)[chain, 0]
    return float(np.sum(post.model.likelihood.logpdf(counts().ravel(), mu, 1.0)))


def test_all_chains_start_at_the_best():
    post = draw(sampler=psgld.PSGLD(step_size=1e-9), draws=1, tune=2, thin=1)
    np.testing.assert_allclose(post.W[0], post.W[1], atol=1e-3)
    found = post.settings["starts"]
    assert found["number"] == 3 and len(found["levels"]) == 3 * 5
    assert found["entries"] == 1200
    ours = [log_likelihood(post, chain) for chain in range(2)]
    np.testing.assert_allclose(ours[0], ours[1], atol=0.1)
    np.testing.assert_allclose(
        ours[0], max(found["levels"]), atol=25.0
    )  # the level is a mean of later states


def state(seed):
    rng = np.random.default_rng(seed)
    arrays = {"W": rng.gamma(0.5, size=(1, 1, 40, 3)), "H": rng.gamma(0.5, size=(1, 1, 30, 3)),
              "row_rate": rng.gamma(1.0, size=(1, 1, 3)), "col_rate": np.ones((1, 1, 3))}  # fmt: skip
    return Draws.of(**arrays, offset=np.zeros((1, 1)), phi=np.ones((1, 1)))


def test_a_child_takes_matched_components_from_both_parents():
    one, order = state(0), [2, 0, 1]
    permuted = one.each(lambda x: x[..., order] if x.ndim > 2 else x)
    np.testing.assert_allclose(similarity(one, permuted)[order, range(3)], 1.0)
    same = child(one, permuted, np.random.default_rng(0))
    assert all(
        np.array_equal(a, b) for a, b in zip(same.arrays().values(), one.arrays().values(), strict=True)
    )

    other = state(1)
    mixed = child(one, other, np.random.default_rng(0))
    origins = {
        name: [int(np.flatnonzero((both == x).all(axis=1))[0]) for x in getattr(mixed, name)[0, 0].T]
        for name, both in ((n, np.r_[getattr(one, n)[0, 0].T, getattr(other, n)[0, 0].T]) for n in ("W", "H"))
    }
    assert origins["W"] == origins["H"]  # a component is inherited as a whole
    assert min(origins["W"]) < 3 <= max(origins["W"])
    np.testing.assert_array_equal(
        np.r_[one.row_rate[0, 0], other.row_rate[0, 0]][origins["W"]], mixed.row_rate[0, 0]
    )


def test_crossovers_find_better_modes_than_random_starts():
    V = synthetic(120, 60, 6, "poisson", seed=3).V
    levels = psgld.sample(
        V, psgld.FactorModel(6, "poisson"), starts=6, tune=200, draws=2, chains=1, progress=False
    ).settings["starts"]["levels"]
    assert max(levels[6:]) > max(levels[:6])


def test_they_are_reproducible_and_said():
    post, again = draw(), draw(engine=psgld.Threads(1))
    np.testing.assert_array_equal(post.W, again.W)
    assert "best of 3 short chains" in post.summary()
    assert not np.array_equal(post.W, draw(starts=None).W)


def test_a_resumed_run_does_not_repeat_them(tmp_path, monkeypatch):
    store = tmp_path / "run.zarr"
    complete = draw(draws=30)
    draw(store=store)

    def repeated(*args):
        raise AssertionError("the starts were repeated")

    with monkeypatch.context() as patch:
        patch.setattr("psgld.runs.starts.run_all", repeated)
        resumed = draw(store=store, resume=True, draws=30)
    np.testing.assert_array_equal(resumed.W, complete.W)
    assert resumed.settings["starts"] == complete.settings["starts"]
    assert psgld.load(store).settings["starts"] == complete.settings["starts"]
    with pytest.raises(psgld.DataError, match=r"start the best of 3 in the store, None now"):
        draw(store=store, resume=True, draws=40, starts=None)
    with pytest.raises(psgld.DataError, match=r"start the best of 3 in the store, the best of 4 now"):
        draw(store=store, resume=True, draws=40, starts=4)


@pytest.mark.parametrize("starts", [0, 1, 2.5, "8"])
def test_other_numbers_are_refused(starts):
    with pytest.raises(psgld.SamplingError, match="starts must be an integer >= 2"):
        draw(starts=starts)


def test_not_with_start_nor_on_ranks():
    with pytest.raises(psgld.SamplingError, match="both given"):
        draw(start=(np.ones((40, 3)), np.ones((3, 30))))

    class Ranks:
        distributed = True

    with pytest.raises(psgld.SamplingError, match="starts runs in one process"):
        module.check_starts(2, None, Ranks())
