"""Parameters of likelihoods: by position or by name, and what a file may hold of them."""

import numpy as np
import pytest

import psgld
from psgld.models import NegativeBinomial
from psgld.storage.check import check


def test_by_position_or_by_name():
    member = NegativeBinomial()
    np.testing.assert_array_equal(member.logpdf(2, 3.0, r=1.5), member.logpdf(2, 3.0, 1.5))
    np.testing.assert_array_equal(member.score(2, 3.0, r=1.5), member.score(2, 3.0, 1.5))
    with pytest.raises(TypeError, match="Bernoulli has no parameter 'phi'"):
        psgld.Bernoulli().score(1, 0.3, phi=2.0)


def test_r_that_float32_cannot_hold():
    with pytest.raises(psgld.ModelError, match=r"r must be at most 1e\+30, got 1e\+40; use Poisson"):
        NegativeBinomial(1e40)


@pytest.mark.parametrize("bad", [0.0, -1e9, np.nan, np.inf])
def test_a_posterior_of_impossible_parameters_is_refused(bad, tmp_path):
    """Drawing new observations from them would never end, or crash."""
    V = np.random.default_rng(0).poisson(2.0, (8, 6)).astype(float)
    post = psgld.sample(
        V, psgld.FactorModel(2, "negative-binomial"), draws=4, tune=20, thin=1, progress=False
    )
    assert set(post.parameters) == {"r"}
    post.draws.theta[1, 2] = bad
    with pytest.raises(ValueError, match="theta"):
        check(post)
    post.save(tmp_path / "run.npz")
    with pytest.raises(psgld.DataError, match="theta"):
        psgld.load(tmp_path / "run.npz")


def test_new_observations_of_impossible_parameters_end():
    """Also those that do not come from a file."""
    V = np.random.default_rng(0).poisson(2.0, (8, 6)).astype(float)
    post = psgld.sample(
        V, psgld.FactorModel(2, "negative-binomial"), draws=4, tune=20, thin=1, progress=False
    )
    post.draws.theta[0, 1] = -1.0
    assert np.isnan(post.predict(0, 1).new_draws()).any()


def test_an_estimate_has_them():
    V = np.random.default_rng(0).poisson(2.0, (30, 20)).astype(float)
    found = psgld.optimize(V, psgld.FactorModel(2, NegativeBinomial(4.0)), max_passes=5, progress=False)
    assert found.parameters == {"r": 4.0}
