"""Several starts: the best is where all chains start; resumed runs have the same bits and do not repeat them."""

from __future__ import annotations

import numpy as np
import pytest

import psgld
from psgld.runs import starts as module

MODEL = psgld.FactorModel(3, "poisson")


def counts() -> np.ndarray:
    rng = np.random.default_rng(0)
    return rng.poisson(rng.gamma(0.5, size=(40, 3)) @ rng.gamma(0.5, size=(3, 30)))


def draw(**more):
    settings = {"draws": 20, "tune": 100, "thin": 2, "chains": 2, "starts": 3, "progress": False}
    return psgld.sample(counts(), MODEL, **settings | more)


def test_all_chains_start_at_the_best():
    post = draw(sampler=psgld.PSGLD(step_size=1e-9), draws=1, tune=2, thin=1)
    np.testing.assert_allclose(post.W[0], post.W[1], atol=1e-3)
    found = post.settings["starts"]
    assert found["number"] == len(found["lp"]) == 3
    assert found["entries"] == 1200
    best = post.sample_stats["lp"][:, 0]
    np.testing.assert_allclose(best, max(found["lp"]), atol=1.0)
    assert max(found["lp"]) - min(found["lp"]) > 10.0


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
