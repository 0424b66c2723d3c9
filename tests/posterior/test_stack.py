"""Stacking of chains that have not mixed, and the leave-one-out densities that it may use."""

import numpy as np
import pytest

import psgld
from psgld.posterior.psis import loo
from psgld.posterior.stack import in_proportion, stacking_weights


@pytest.fixture(scope="module")
def fitted():
    """Two chains, of which the second starts, and stays for its few draws, far from the data."""
    rng = np.random.default_rng(3)
    V = rng.poisson(rng.gamma(2, 1, (40, 3)) @ rng.gamma(2, 1, (3, 30))).astype(float)
    mask = rng.random(V.shape) < 0.2
    train = np.where(mask, np.nan, V)
    post = psgld.sample(train, psgld.FactorModel(3, "poisson"), draws=60, tune=300, chains=2, seed=1)
    rows, cols = np.nonzero(mask)
    return post, train, (rows, cols, V[mask])


def spoiled(post, factor):
    """The same draws, but those of the second chain are off by a factor."""
    W = post.draws.W.copy()
    W[1] *= factor
    return type(post)(**vars(post) | {"draws": post.draws.with_mode(0, factor=W)})


def test_weights_are_those_of_a_fine_grid():
    logs = np.random.default_rng(0).normal(size=(500, 2)) * 0.7
    w = stacking_weights(logs)
    grid = np.linspace(0, 1, 20001)
    best = grid[np.argmax([np.log(np.exp(logs) @ [a, 1 - a]).sum() for a in grid])]
    assert w.sum() == pytest.approx(1) and w[0] == pytest.approx(best, abs=2e-3)


def test_a_chain_that_predicts_nothing_has_no_weight(fitted):
    post, _, test = fitted
    bad = spoiled(post, 5.0)
    stacked = bad.stack(test)
    assert stacked.settings["stacking"]["weights"][0] > 0.99
    assert stacked.log_predictive_density(test).mean() > bad.log_predictive_density(test).mean()
    assert np.array_equal(stacked.W[0], post.W[0])
    assert "weighed 1.00, 0.00" in stacked.summary()


def test_stacked_density_is_that_of_the_weighted_mixture(fitted):
    post, _, test = fitted
    part = spoiled(post, 1.05)
    stacked = part.stack(test)
    weights = np.array(stacked.settings["stacking"]["draws"], float)
    each = np.exp(part.predict(*test[:2]).log_densities(test[2])).reshape(2, post.W.shape[1], -1)
    kept = in_proportion(np.array(stacked.settings["stacking"]["weights"]), post.W.shape[1])
    mixture = np.concatenate([each[c, at] for c, at in enumerate(kept)]).mean(axis=0)
    assert weights.sum() == stacked.W.shape[1]
    assert np.allclose(stacked.log_predictive_density(test), np.log(mixture))


def test_files_have_the_weights(fitted, tmp_path):
    post, _, test = fitted
    stacked = spoiled(post, 1.1).stack(test)
    for name in ("a.npz", "a.zarr"):
        stacked.save(tmp_path / name)
        again = psgld.load(tmp_path / name)
        assert again.settings["stacking"] == stacked.settings["stacking"]
        assert np.array_equal(again.predict([0, 1], [2, 3]).mean, stacked.predict([0, 1], [2, 3]).mean)


def test_training_data_are_left_out_one_by_one(fitted):
    """The density of left-out entries is below that of fitted ones; many of so flexible a model cannot be left out."""
    post, train, test = fitted
    with pytest.warns(psgld.PsgldWarning, match="leave-one-out densities of .* are unreliable"):
        stacked = post.stack(train)
    assert stacked.settings["stacking"]["left_out"] == np.isfinite(train).sum()
    assert max(stacked.settings["stacking"]["density"]) < post.log_predictive_density(train).mean()
    assert post.stack(test).settings["stacking"]["left_out"] == 0


def test_nothing_to_score_with(fitted):
    post, _, _ = fitted
    with pytest.raises(psgld.DataError, match="stacking needs entries"):
        post.stack(([], [], []))
    with pytest.raises(psgld.DataError, match="as many rows, columns and values"):
        post.stack(([0, 1], [0, 1], [1.0]))


def test_leave_one_out_of_a_normal_mean():
    """y ~ N(m, 1), flat prior: p(y_n | y_{-n}) is N(mean of the others, 1 + 1/(n-1))."""
    rng = np.random.default_rng(1)
    y = rng.normal(size=50)
    m = rng.normal(y.mean(), 1 / np.sqrt(50), 4000)
    logs = -0.5 * (y - m[:, None]) ** 2 - 0.5 * np.log(2 * np.pi)
    got, k = loo(logs)
    others = (y.sum() - y) / 49
    var = 1 + 1 / 49
    assert np.allclose(got, -0.5 * (y - others) ** 2 / var - 0.5 * np.log(2 * np.pi * var), atol=0.01)
    assert (k < 0.7).all()


def test_leave_one_out_is_that_of_arviz():
    stats = pytest.importorskip("arviz_stats")
    rng = np.random.default_rng(2)
    logs = rng.standard_t(4, size=(400, 30)) * rng.uniform(0.1, 2, 30)
    from arviz_stats.base import array_stats

    weights, k = array_stats.psislw(logs.T[:, None, :], axis=(-2, -1))
    expected = np.log(np.exp(weights + logs.T[:, None, :]).sum(axis=(-2, -1)))
    got, own = loo(logs)
    assert stats is not None
    assert np.allclose(own, k, atol=1e-6) and np.allclose(got, expected, atol=1e-6)
