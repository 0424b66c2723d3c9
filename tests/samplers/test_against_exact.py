"""PSGLD against posteriors that are known exactly."""

import numpy as np
import pytest

import psgld
from psgld.dynamics.probes import Probes
from psgld.engines import H, Threads, W


def conjugate(V, other, precision, phi):
    """Mean and covariance of each row w_i of a Gaussian model with H held fixed: a linear regression."""
    cov = np.linalg.inv(other.T @ other / phi + precision * np.eye(other.shape[1]))
    return V @ other @ cov / phi, cov


@pytest.mark.slow
@pytest.mark.parametrize("metric", ["real-valued", "identity"])
@pytest.mark.parametrize("blocks", [1, 4])
def test_gaussian_with_one_factor_held_fixed(metric, blocks):
    rng = np.random.default_rng(3)
    rows, cols, rank, phi, precision = 40, 80, 3, 0.5, 1.0
    h = rng.normal(size=(cols, rank))
    V = rng.normal(rng.normal(size=(rows, rank)) @ h.T, np.sqrt(phi))
    mean, cov = conjugate(V, h, precision, phi)

    prior = psgld.Normal(precision)
    model = psgld.FactorModel(rank, psgld.Gaussian(phi), prior, prior)
    step = 0.02 if metric == "real-valued" else 0.02 * cov.max()
    sampler = psgld.PSGLD(blocks=blocks, metric=metric, step_size=step, dtype="float64")
    data = psgld.Observations.from_dense(V)
    chain = sampler.prepare(data, model, Threads(1), tune=0).chain(7, Probes.of(data, 0))
    chain.factors.set_factor(H, h)
    chain.factors.set_move(H, np.zeros(rank))
    chain._refresh_metric()

    chain.advance(2000)
    draws = []
    for _ in range(6000):
        chain.advance(40)
        draws.append(chain.factors.factor(W).copy())
    draws = np.array(draws)
    np.testing.assert_array_equal(chain.factors.factor(H), h)
    # Successive draws are 0.8 relaxation times apart: some 2,000 of the 6,000 are effectively independent.
    standard = (draws.mean(axis=0) - mean) / np.sqrt(np.diag(cov))
    assert np.sqrt(np.mean(standard**2)) < 1.6 / np.sqrt(2000)
    ratio = draws.var(axis=0) / np.diag(cov)
    assert abs(ratio.mean() - 1) < 0.03
    assert np.abs(ratio - 1).max() < 5 * np.sqrt(2 / 2000)
    centred = (draws - draws.mean(axis=0)).reshape(-1, rank)
    np.testing.assert_allclose(centred.T @ centred / len(centred), cov, atol=0.04 * cov.max())


@pytest.mark.slow
def test_prior_alone_is_sampled_exactly():
    """A row with no entries has the prior as its posterior: Exponential under mirroring, Normal under D = 1/λ."""
    for likelihood, prior, sd in (
        (psgld.Poisson(), psgld.Exponential(2.0), 0.5),
        (psgld.Gaussian(1.0), psgld.Normal(4.0), 0.5),  # φ of a single entry could only sink to 0
    ):
        V = np.full((6, 6), np.nan)
        V[0, 0] = 1.0  # all other rows are free
        model = psgld.FactorModel(4, likelihood, prior, prior)
        post = psgld.sample(V, model, draws=4000, thin=20, tune=2000, chains=2, progress=False)
        free = post.W[:, :, 1:].astype(float)
        assert free.std() == pytest.approx(sd, rel=0.04)
        assert free.mean() == pytest.approx(0.5 if model.nonnegative else 0.0, abs=0.02)
