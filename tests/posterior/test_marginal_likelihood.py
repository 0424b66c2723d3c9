"""Marginal likelihoods against quadrature: rank 1, two columns, W integrated in closed form, H on a grid."""

import json

import numpy as np
import pytest
from scipy.special import gammaln, logsumexp

import psgld
from psgld.errors import DataError, ModelError

GAUSSIAN = psgld.FactorModel(1, psgld.Gaussian(phi=1.0), psgld.Normal(1.0), psgld.Normal(0.5))
POISSON = psgld.FactorModel(1, psgld.Poisson(), psgld.Exponential(1.0), psgld.Exponential(0.5))
CAREFUL = {
    "sampler": psgld.PSGLD(blocks=1, step_size=0.02),
    "draws": 200,
    "tune": 1000,
    "thin": 20,
    "progress": False,
}


def gaussian():
    rng = np.random.default_rng(0)
    V = np.outer(rng.normal(size=8), [2.0, 1.0]) + rng.normal(size=(8, 2))
    grid = np.linspace(-10.0, 10.0, 401)
    a, b = np.meshgrid(grid, grid)
    square = a**2 + b**2
    logs = np.log(0.5 / (2 * np.pi)) - 0.25 * square
    for x, y in V:  # v ~ N(0, I + h hᵀ)
        quad = x * x + y * y - (a * x + b * y) ** 2 / (1 + square)
        logs = logs - np.log(2 * np.pi) - 0.5 * np.log1p(square) - 0.5 * quad
    return V, logsumexp(logs) + 2 * np.log(grid[1] - grid[0])


def poisson():
    rng = np.random.default_rng(0)
    V = rng.poisson(np.outer(rng.exponential(1, 8), [3.0, 1.0]))
    grid = np.linspace(-8.0, 4.5, 401)  # of log h
    a, b = np.meshgrid(grid, grid)
    total = np.exp(a) + np.exp(b)
    logs = 2 * np.log(0.5) - 0.5 * total + a + b
    for x, y in V:
        logs = logs + x * a + y * b - gammaln(x + 1) - gammaln(y + 1)
        logs = logs + gammaln(x + y + 1) - (x + y + 1) * np.log1p(total)
    return V, logsumexp(logs) + 2 * np.log(grid[1] - grid[0])


@pytest.mark.slow
@pytest.mark.parametrize(
    "case, model", [(gaussian, GAUSSIAN), (poisson, POISSON)], ids=["gaussian", "poisson"]
)
def test_against_quadrature(case, model):
    V, exact = case()
    found = psgld.marginal_likelihood(V, model, **CAREFUL)
    assert abs(found.value - exact) < 4 * found.se + 0.2  # and the bias of the step size
    assert found.se < 0.3
    assert found.temperatures[0] == 1.0 and (np.diff(found.mean) < 0).all()


QUICK = {"draws": 30, "tune": 200, "thin": 2, "chains": 2, "progress": False}


@pytest.mark.filterwarnings("ignore:R-hat of log p")
def test_learnt_parameters_are_fixed_at_their_means():
    V = gaussian()[0]
    found = psgld.marginal_likelihood(V, psgld.FactorModel(1, "gaussian"), **QUICK)
    assert found.posterior.model.likelihood.phi is None
    assert found.mean[0] == pytest.approx(found.posterior.predict().log_density(V.ravel()).sum(), abs=8)
    assert json.loads(json.dumps(found.to_dict()))["value"] == found.value
    assert str(found).startswith("log p(V) = ") and len(str(found).splitlines()) == 2 + len(found.mean)


@pytest.mark.filterwarnings("ignore:R-hat of log p")
def test_implicit_zeros_are_tempered():
    """The same as of the complete matrix, up to rounding of float32."""
    from scipy.sparse import csr_array

    V = poisson()[0]
    sparse = psgld.Observations.from_sparse(csr_array(V.astype(np.float32)), absent="zero")
    one, two = (psgld.marginal_likelihood(x, POISSON, **QUICK) for x in (V, sparse))
    assert one.value == pytest.approx(two.value, abs=6 * (one.se + two.se))


def test_refusals():
    with pytest.raises(ModelError, match="without a proper prior"):
        psgld.marginal_likelihood(np.eye(3), psgld.FactorModel(1, "gaussian", bias=True))
    with pytest.raises(ModelError, match=r"model must be FactorModel"):
        psgld.marginal_likelihood(np.eye(3), "gaussian")
    weighed = psgld.observations(np.eye(3), weights=2 * np.ones((3, 3)))
    with pytest.raises(DataError, match="weights"):
        psgld.marginal_likelihood(weighed, GAUSSIAN)
