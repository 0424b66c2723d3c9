"""The Langevin samplers against an exact one: a small Poisson factorisation whose posterior a long Gibbs run tells.

(`test_gibbs.py` holds the Gibbs sampler itself against exact posteriors and against NUTS.)

Tolerances: with S nearly independent draws the mean of μ has a Monte Carlo error of sd/sqrt(S_eff). The Gibbs run tells
its own error by the gap between its two chains; the others' is estimated from their two chains in the same way.
"""

import numpy as np
import pytest

import psgld

RANK, SIZE = 8, 128


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(1)
    V = rng.poisson(rng.exponential(size=(SIZE, RANK)) @ rng.exponential(size=(RANK, SIZE)))
    (mean0, sd0), (mean1, sd1) = chains_of(V, psgld.Gibbs(), draws=2000, tune=500, thin=2)
    return V, 0.5 * (mean0 + mean1), np.sqrt(0.5 * (sd0**2 + sd1**2)), np.abs(mean0 - mean1)


def chains_of(V, sampler, draws=3000, tune=4000, thin=10):
    """Mean and sd of μ of each of two long chains."""
    prior = psgld.Exponential(1.0)
    model = psgld.FactorModel(RANK, psgld.Poisson(), prior, prior)
    rows, cols = np.divmod(np.arange(SIZE * SIZE), SIZE)
    runs = [
        psgld.sample(
            V,
            model,
            sampler=sampler,
            chains=1,
            seed=s,
            draws=draws,
            tune=tune,
            thin=thin,
            track=(rows, cols),
            keep=False,
            progress=False,
        )
        for s in range(2)
    ]
    assert all(r.divergences == 0 for r in runs)
    return [(r.tracked.mean.reshape(V.shape), r.tracked.sd.reshape(V.shape)) for r in runs]


SAMPLERS = {
    "non-negative metric, defaults": psgld.PSGLD(),
    "non-negative metric, 16 blocks": psgld.PSGLD(blocks=16),
    "identity metric, a good step": psgld.PSGLD(metric="identity", step_size=5e-4, blocks=8),
    "non-negative metric, first order": psgld.PSGLD(momentum=0.0),
    "identity metric, momentum": psgld.PSGLD(metric="identity", step_size=1e-4, blocks=8, momentum=0.9),
    "reshuffled parts": psgld.PSGLD(blocks=8, schedule=psgld.Reshuffled()),
    "LD": psgld.LD(),
    "SGLD, a small step": psgld.SGLD(size=1 / 8, step_size=0.03),
    "DSGLD, a small step": psgld.DSGLD(workers=4, exchange=4, step_size=0.02),
}
LENGTHS = {"SGLD, a small step": (3000, 8000, 20), "DSGLD, a small step": (3000, 8000, 20)}
"""Draws, burn-in and thinning of those that need more iterations."""


@pytest.mark.slow
@pytest.mark.parametrize("name", SAMPLERS)
def test_means_and_sds_of_mu(problem, name):
    V, mean, sd, gap = problem
    (mean0, sd0), (mean1, sd1) = chains_of(V, SAMPLERS[name], *LENGTHS.get(name, ()))
    error = (0.5 * (mean0 + mean1) - mean) / sd
    # Half the gap of two chains is the error of their average.
    monte_carlo = np.sqrt(np.mean((0.5 * (mean0 - mean1) / sd) ** 2 + (0.5 * gap / sd) ** 2))
    assert np.sqrt(np.mean(error**2)) < 1.5 * monte_carlo + 0.02
    assert abs(error.mean()) < 0.03
    assert 0.95 < np.mean(0.5 * (sd0 + sd1) / sd) < 1.05


@pytest.mark.slow
def test_sparse_factors():
    """A prior whose density has no bound at zero, where a mirrored step is at its worst."""
    rng = np.random.default_rng(0)
    prior = psgld.GammaPrior(0.3)
    V = rng.poisson(30 * rng.gamma(0.3, size=(60, 4)) @ rng.gamma(0.3, size=(4, 50)))
    model = psgld.FactorModel(4, "poisson", prior, prior)
    rows, cols = np.indices(V.shape).reshape(2, -1)
    settings = dict(progress=False, track=(rows, cols), keep=False, seed=1)
    gibbs = psgld.sample(V, model, sampler=psgld.Gibbs(), tune=1000, draws=1000, thin=5, **settings).tracked
    langevin = psgld.sample(V, model, tune=10_000, draws=1000, thin=40, **settings).tracked
    error = (langevin.mean - gibbs.mean) / gibbs.sd
    assert np.sqrt(np.mean(error**2)) < 0.1
    assert abs(error.mean()) < 0.03
    assert 0.95 < np.mean(langevin.sd / gibbs.sd) < 1.05
    small = gibbs.mean < 0.1
    assert small.sum() > 100
    assert 0.9 < np.median(langevin.mean[small] / gibbs.mean[small]) < 1.1
