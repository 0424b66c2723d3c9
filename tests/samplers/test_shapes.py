"""Gamma priors whose shape is below 1, or learnt: draws near zero, and the shape itself, are those of the posterior."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import psgld

LEAST = 1e-30


@pytest.mark.parametrize(
    "settings", [{}, {"momentum": 0.0}, {"metric": "identity", "step_size": 2e-3}], ids=str
)
@pytest.mark.parametrize("shape", [0.1, 0.3, 0.8])
def test_rows_without_entries_have_draws_of_their_prior(shape, settings):
    """x ~ Gamma(a, λ): E[x], P(x < c) and E[log x], where the density has no bound at 0."""
    data = psgld.Observations.from_coo([0], [0], [1.0], (4000, 1), absent="unobserved")
    model = psgld.FactorModel(1, "poisson", psgld.GammaPrior(shape, 2.0), psgld.Exponential(1.0))
    post = psgld.sample(
        data, model, sampler=psgld.PSGLD(blocks=1, **settings), chains=1, draws=30, tune=1500, thin=60,
        progress=False,
    )  # fmt: skip
    x, exact = post.W[0, :, 1:, 0].astype(float), stats.gamma(shape, scale=0.5)
    assert x.mean() == pytest.approx(exact.mean(), rel=0.05)
    for c in (1e-6, 1e-3, 0.05):
        assert (x < c).mean() == pytest.approx(exact.cdf(c), rel=0.05, abs=0.005)
    grid = np.linspace(np.log(LEAST), 5.0, 20_001)
    mean_log = grid[-1] - np.trapezoid(exact.cdf(np.exp(grid)), grid)
    assert np.log(np.maximum(x, LEAST)).mean() == pytest.approx(mean_log, rel=0.05, abs=0.1)


@pytest.mark.slow
def test_shapes_against_gibbs():
    """The exact sampler and PSGLD, by default and without momentum, agree on shapes and rates."""
    rng = np.random.default_rng(0)
    V = rng.poisson(30 * rng.gamma(0.3, size=(60, 4)) @ rng.gamma(0.3, size=(4, 50)))
    model = psgld.FactorModel(4, "poisson")
    runs = {
        "Gibbs": (psgld.Gibbs(), {"tune": 500, "draws": 600, "thin": 5}),
        "PSGLD": (psgld.PSGLD(), {"tune": 3000, "draws": 500, "thin": 30}),
        "PSGLD, first order": (psgld.PSGLD(momentum=0.0), {"tune": 3000, "draws": 500, "thin": 30}),
    }
    found = {}
    for name, (sampler, length) in runs.items():
        d = psgld.sample(V, model, sampler=sampler, seed=1, progress=False, **length).draws
        found[name] = np.log([d.row_shape, d.col_shape, d.row_rate[..., 0], d.col_rate[..., 0]])
    exact = found.pop("Gibbs")
    sd = exact.std(axis=(1, 2))
    for x in found.values():
        # The rate of H moves along a ridge, the scale of H against that of W: few draws of it are independent.
        assert (np.abs(x.mean(axis=(1, 2)) - exact.mean(axis=(1, 2))) < [0.2, 0.2, 0.2, 0.8] * sd).all()
        np.testing.assert_allclose(x.std(axis=(1, 2))[:2] / sd[:2], 1.0, atol=0.15)


@pytest.mark.parametrize("truth", [0.2, 1.0, 5.0])
def test_shapes_are_found(truth):
    """The true shape lies within three posterior standard deviations; W is the longer factor, whose mean is fixed."""
    rng = np.random.default_rng(4)
    V = rng.poisson(20 / truth * rng.gamma(truth, size=(150, 3)) @ rng.gamma(truth, size=(3, 100)) / truth)
    post = psgld.sample(V, psgld.FactorModel(3, "poisson"), draws=200, tune=2000, thin=20, progress=False)
    mean = post.draws.row_shape / post.draws.row_rate[..., 0]
    np.testing.assert_allclose(mean, mean[0, 0])
    for shape in (post.draws.row_shape, post.draws.col_shape):
        logs = np.log(shape)
        assert abs(logs.mean() - np.log(truth)) < 3 * logs.std() + 0.02
        assert logs.std() < 0.2


def test_a_shape_is_learnt_beside_a_rate_that_is_given():
    V = np.random.default_rng(0).poisson(3.0, (30, 20))
    model = psgld.FactorModel(2, "poisson", psgld.GammaPrior(rate=2.0), psgld.GammaPrior(2.0))
    post = psgld.sample(V, model, draws=40, progress=False)
    assert (post.draws.row_rate == 2.0).all() and post.draws.col_shape is None
    assert len(np.unique(post.draws.row_shape)) > 20
    assert "shape of W" in post.summary() and "shape of H" not in post.summary()
    again = psgld.sample(V, model, draws=40, start=post, progress=False)  # starts at the last shapes
    assert abs(np.log(again.draws.row_shape[:, 0] / post.draws.row_shape[:, -1])).max() < 2.0


def test_an_optimum_has_the_initial_shape():
    V = np.random.default_rng(0).poisson(3.0, (30, 20))
    learnt = psgld.optimize(V, psgld.FactorModel(2, "poisson"))
    exponential = psgld.optimize(V, psgld.FactorModel(2, "poisson", psgld.Exponential()))
    np.testing.assert_array_equal(learnt.W, exponential.W)
