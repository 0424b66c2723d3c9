"""`psgld.optimize` finds modes: as high as a general optimiser's, stationary, the same on any number of threads."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import gammaln

import psgld
from psgld import Estimate, FactorModel, Threads
from psgld.datasets import synthetic
from psgld.models import LIKELIHOODS


def counts(rows=40, cols=30, rank=3, seed=0):
    rng = np.random.default_rng(seed)
    return rng.poisson(rng.exponential(size=(rows, rank)) @ rng.exponential(3.0, size=(rank, cols))).astype(
        float
    )


def poisson_objective(V, rank, rate):
    """Return -(log posterior) and its gradient as functions of sqrt(W), sqrt(H): no bounds needed."""
    rows = V.shape[0]

    def value(x):
        x = x.reshape(-1, rank)
        w, h = x[:rows] ** 2, x[rows:] ** 2
        mu = w @ h.T + 1e-12
        score = V / mu - 1
        gradient = np.vstack([score @ h - rate, score.T @ w - rate]) * 2 * x
        lp = np.sum(V * np.log(mu) - mu - gammaln(V + 1)) - rate * (w.sum() + h.sum())
        return -lp, -gradient.ravel()

    return value


@pytest.mark.parametrize("priors", [True, False])
def test_as_high_as_lbfgs(priors):
    V, rank = counts(25, 20, 2), 2
    prior = psgld.Exponential(1.0)
    model = FactorModel(rank, psgld.Poisson(), prior, prior)
    objective = poisson_objective(V, rank, 1.0 if priors else 0.0)
    start = np.random.default_rng(0)
    best = max(
        -minimize(objective, start.random(sum(V.shape) * rank), jac=True, method="L-BFGS-B").fun
        for _ in range(5)
    )
    estimates = [psgld.optimize(V, model, priors=priors, seed=s, max_passes=5000) for s in range(3)]
    found = max(-objective(np.sqrt(np.vstack([e.W, e.H.T])).ravel())[0] for e in estimates)
    assert all(e.converged for e in estimates)
    assert found > best - 1.0  # nats, of some 1,000


@pytest.mark.parametrize("shape", [(40, 30), (90, 70)])  # more entries than a sampler would watch, too
def test_lp_is_the_log_posterior_and_grows(shape):
    V = counts(*shape)
    model = FactorModel(3, psgld.Poisson(), psgld.Exponential(1.0), psgld.Exponential(1.0))
    estimate = psgld.optimize(V, model, progress=False)
    lp = -poisson_objective(V, 3, 1.0)(np.sqrt(np.vstack([estimate.W, estimate.H.T])).ravel())[0]
    np.testing.assert_allclose(estimate.lp[-1], lp, rtol=1e-5)
    assert estimate.lp[-1] == pytest.approx(estimate.lp.max(), abs=0.5)
    assert estimate.lp[-1] > estimate.lp[0] + 100
    assert len(estimate.lp) == len(estimate.passes)
    assert (np.diff(estimate.passes) > 0).all()


def test_gaussian_map_is_ridge_regression():
    """At a mode each row solves its normal equations."""
    rng = np.random.default_rng(0)
    V = rng.normal(size=(50, 3)) @ rng.normal(size=(3, 40)) + 0.3 * rng.normal(size=(50, 40))
    V[rng.random(V.shape) < 0.3] = np.nan
    model = FactorModel(3, psgld.Gaussian(phi=0.1), psgld.Normal(1.0), psgld.Normal(1.0))
    estimate = psgld.optimize(V, model, sampler=psgld.DSGD(dtype="float64"), tolerance=1e-7, max_passes=5000)
    assert estimate.converged
    for i in range(50):
        seen = ~np.isnan(V[i])
        h = estimate.H[:, seen]
        row = np.linalg.solve(h @ h.T / 0.1 + np.eye(3), h @ V[i, seen] / 0.1)
        np.testing.assert_allclose(estimate.W[i], row, atol=0.02)


def test_ratings_with_biases_and_labels():
    rng = np.random.default_rng(1)
    i, j = np.nonzero(rng.random((60, 50)) < 0.5)
    v = 3.5 + rng.normal(size=60)[i] + rng.normal(size=50)[j] + 0.1 * rng.normal(size=len(i))
    names = np.array([f"u{n}" for n in range(60)])
    data = psgld.Observations.from_coo(i, j, v, (60, 50), absent="unobserved", row_labels=names)
    estimate = psgld.optimize(data, FactorModel(2, "gaussian", bias=True), progress=False)
    predicted = estimate.predict(names[i], j)
    assert np.sqrt(np.mean((predicted - v) ** 2)) < 0.2
    assert estimate.phi == pytest.approx(np.mean((predicted - v) ** 2), rel=1e-3)
    np.testing.assert_allclose(
        estimate.predict(["u3"], np.arange(50)), estimate.predict(["u3"] * 50, np.arange(50))
    )
    with pytest.raises(psgld.DataError, match="as many rows as columns"):
        estimate.predict(["u1", "u2"], [1, 2, 3])


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_every_likelihood_and_any_number_of_threads(likelihood):
    V = synthetic(40, 30, 3, likelihood, seed=1).V
    runs = [
        psgld.optimize(V, FactorModel(3, likelihood), engine=Threads(n), max_passes=60, progress=False)
        for n in (1, 2)
    ]
    np.testing.assert_array_equal(runs[0].W, runs[1].W)
    np.testing.assert_array_equal(runs[0].lp, runs[1].lp)
    assert runs[0].lp[-1] > runs[0].lp[0]
    assert runs[0].passes[-1] <= 60
    other = psgld.optimize(V, FactorModel(3, likelihood), seed=1, max_passes=60, progress=False)
    assert not np.array_equal(runs[0].W, other.W)


def test_stops_when_told():
    V, model = counts(), FactorModel(3, "poisson")
    short = psgld.optimize(V, model, max_passes=3, progress=False)
    assert isinstance(short, Estimate)
    assert short.passes.tolist() == [0, 1, 2, 3]
    assert not short.converged
    assert "not converged after 3 passes" in repr(short)
    seen = []
    psgld.optimize(V, model, max_passes=20, progress=seen.append)
    assert seen
    assert seen[-1].done <= seen[-1].total


def test_ctrl_c_keeps_what_it_has():
    import signal

    def press(progress):
        signal.raise_signal(signal.SIGINT)

    estimate = psgld.optimize(
        counts(400, 300), FactorModel(8, "poisson"), tolerance=0.0, max_passes=10**6, progress=press
    )
    assert estimate.interrupted
    assert np.isfinite(estimate.W).all()


def test_refusals():
    V, model = counts(), FactorModel(3, "poisson")
    with pytest.raises(psgld.SamplingError, match="DSGD"):
        psgld.optimize(V, model, sampler=psgld.PSGLD())
    with pytest.raises(psgld.SamplingError, match="max_passes"):
        psgld.optimize(V, model, max_passes=0)
    with pytest.raises(psgld.SamplingError, match="tolerance"):
        psgld.optimize(V, model, tolerance=-1.0)
