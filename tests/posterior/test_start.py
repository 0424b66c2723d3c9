"""Where chains start: `start=` an estimate or a pair (W, H)."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import psgld

MODELS = {
    "poisson": psgld.FactorModel(3, "poisson"),
    "gaussian": psgld.FactorModel(3, "gaussian"),
    "gaussian with biases": psgld.FactorModel(3, "gaussian", bias=True),
    "normal-Wishart": psgld.FactorModel(
        3, "gaussian", bias=True, row_prior=psgld.NormalWishart(), col_prior=psgld.NormalWishart()
    ),
    "negative binomial": psgld.FactorModel(3, psgld.NegativeBinomial()),
    "bernoulli": psgld.FactorModel(3, "bernoulli", bias=True),
    "ordinal": psgld.FactorModel(3, psgld.Ordinal(range(5)), bias=True),
}
STILL = {
    "sampler": psgld.PSGLD(step_size=1e-9, blocks=2),
    "draws": 1,
    "tune": 0,
    "thin": 1,
    "progress": False,
}
"""One iteration that hardly moves: the draw is the start."""


def counts() -> np.ndarray:
    rng = np.random.default_rng(0)
    return rng.poisson(rng.gamma(2.0, size=(30, 3)) @ rng.gamma(2.0, size=(3, 20)))


def data_of(name: str) -> np.ndarray:
    if name == "ordinal":
        return np.clip(counts(), 0, 4)
    return (counts() > 10).astype(float) if name == "bernoulli" else counts()


@pytest.mark.parametrize("name", MODELS)
def test_chains_start_at_an_estimate(name):
    V, model = data_of(name), MODELS[name]
    estimate = psgld.optimize(V, model, max_passes=200)
    post = psgld.sample(V, start=estimate, **STILL)
    every = np.indices(V.shape).reshape(2, -1)
    assert post.model == model
    np.testing.assert_allclose(post.predict(*every).draws[0], estimate.predict(*every), rtol=2e-3, atol=2e-3)
    for parameter, value in estimate.parameters.items():
        np.testing.assert_allclose(post.parameters[parameter], value)  # drawn at the end of a cycle only


@pytest.mark.parametrize("name", ["poisson", "gaussian", "gaussian with biases"])
def test_chains_start_at_a_pair(name):
    V, model = data_of(name), MODELS[name]
    rng = np.random.default_rng(1)
    W, H = rng.gamma(2.0, size=(30, 3)), rng.gamma(2.0, size=(3, 20))
    post = psgld.sample(V, model, start=(W, H), **STILL)
    np.testing.assert_allclose(post.W, np.broadcast_to(W, post.W.shape), rtol=2e-3, atol=2e-3)
    np.testing.assert_allclose(post.H, np.broadcast_to(H, post.H.shape), rtol=2e-3, atol=2e-3)


def test_new_rows_of_an_estimate_are_folded_in():
    V = counts()
    rows, cols = np.indices(V.shape).reshape(2, -1)
    names = np.array([f"row-{i}" for i in range(len(V))])
    old = rows < 25
    frame = pd.DataFrame({"row": names[rows], "column": cols, "value": V.ravel()})
    estimate, data = psgld.optimize(frame[old], MODELS["poisson"]), psgld.observations(frame)
    post = psgld.sample(data, start=estimate, **STILL)
    assert post.shape == V.shape
    at = names[24:29]
    assert np.corrcoef(post.predict(at).mean, V[24:29].ravel())[0, 1] > 0.8


@pytest.mark.parametrize(
    ("start", "error", "words"),
    [
        (3, psgld.SamplingError, "start must be a Posterior, an Estimate .* got a int"),
        ((np.ones((30, 3)),), psgld.SamplingError, "a pair"),
        ((np.ones((30, 3)), np.ones((20, 3))), psgld.DataError, r"H must be 3 × 20, got shape \(20, 3\)"),
        ((np.ones((30, 2)), np.ones((2, 20))), psgld.DataError, r"W must be 30 × 3, got shape \(30, 2\)"),
        ((np.full((30, 3), np.nan), np.ones((3, 20))), psgld.DataError, "finite, got 90 values"),
        ((np.ones((30, 3)), -np.ones((3, 20))), psgld.DataError, "H must be >= 0"),
        ((np.ones((30, 3)), "H"), psgld.DataError, "H must be real numbers"),
    ],
)
def test_other_starts_are_refused(start, error, words):
    with pytest.raises(error, match=words) as caught:
        psgld.sample(counts(), MODELS["poisson"], start=start, progress=False)
    assert "\n" not in str(caught.value)


def test_the_estimate_of_another_model_is_refused():
    estimate = psgld.optimize(counts(), MODELS["poisson"], max_passes=5)
    with pytest.raises(psgld.ModelError, match="start was optimised with"):
        psgld.sample(counts(), psgld.FactorModel(2, "poisson"), start=estimate, progress=False)
