"""The verdict: four things that can be the matter, each with its remedy; and the measured fit that it rests on."""

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array

import psgld
from psgld.datasets import synthetic
from psgld.posterior.spread import spread
from psgld.posterior.verdict import Evidence, Worst, verdict

FIT = {
    "entries": 100,
    "v": [1.0, 1.0],
    "mu": [1.0, 0.5],
    "spread": {"rows": [1.0, 0.03], "cols": [1.02, 0.03]},
}


def evidence(rhat=1.005, ess=600.0, within=1.005, chains=2, fit=FIT, temperature=1.0):
    levels = np.array([[-100.0 - 50 * c, 3.0] for c in range(chains)])
    return Evidence(
        Worst(rhat, "lp"), Worst(ess, "lp"), Worst(ess, "mu[1, 2]"), within, levels, fit, temperature
    )


def with_spread(square, error=0.03):
    return FIT | {"spread": FIT["spread"] | {"cols": [square, error]}}


@pytest.mark.parametrize(
    ("kind", "words", "given"),
    [
        ("fine", "converged: largest R-hat 1.00", {}),
        ("fine", "as far as one chain can tell", {"chains": 1}),
        ("slow", "enough for predictions, not for tails and components", {"ess": 399.0}),
        ("slow", "enough for predictions", {"rhat": 1.02, "within": 1.02}),
        ("slow", "more draws, or a larger thin", {"ess": 60.0}),
        ("slow", "more tune", {"rhat": 1.6, "within": 1.5}),
        ("slow", "more tune", {"rhat": 1.6, "within": 1.5, "chains": 1}),
        ("slow", "more draws", {"fit": with_spread(0.5)}),
        ("slow", "more draws", {"fit": with_spread(1.7, error=0.4)}),
        ("modes", "log posteriors -100 ± 3, -150 ± 3", {"rhat": 1.6, "within": 1.02}),
        ("modes", "starts=8", {"rhat": 1.6, "within": 1.02}),
        ("biased", "deviates 1.34 times", {"fit": with_spread(1.8)}),
        ("biased", "smaller step size", {"fit": with_spread(1.8), "rhat": 1.03}),
        ("biased", "48 times as large as the data", {"fit": FIT | {"mu": [48.0, 48.0]}}),
        ("slow", "more tune", {"fit": with_spread(1.8), "rhat": 1.6, "within": 1.5}),
        ("fine", "converged", {"fit": {}}),
        ("fine", "converged", {"fit": FIT | {"spread": {"rows": [1.8, 0.03]}}, "temperature": 1.7}),
        ("biased", "smaller step size", {"fit": with_spread(1.0), "temperature": 0.5}),
    ],
)
def test_kinds_and_remedies(kind, words, given):
    found = verdict(evidence(**given))
    assert found.kind == kind and words in found.text and "\n" not in found.text
    assert found.text.startswith("!") == (kind != "fine" and "enough for predictions" not in found.text)


def gibbs_runs():
    rng = np.random.default_rng(0)
    counts = rng.poisson(10 * rng.gamma(0.3, size=(20, 2)) @ rng.gamma(0.3, size=(2, 15)))
    sparse = psgld.GammaPrior(0.3)
    yield "counts", counts, psgld.FactorModel(2, "poisson"), psgld.Gibbs()
    yield "a density without bound", counts, psgld.FactorModel(2, "poisson", sparse, sparse), psgld.Gibbs()
    some = counts * (rng.random(counts.shape) < 0.5)
    entries = psgld.observations(csr_array(some.astype(float)), absent="zero")
    yield "zeros", entries, psgld.FactorModel(2, "poisson"), psgld.Gibbs()
    stars = 5.0 + rng.normal(size=(20, 2)) @ rng.normal(size=(2, 15)) + rng.normal(size=(20, 15))
    stars[rng.random(stars.shape) < 0.3] = np.nan
    wishart = psgld.NormalWishart()
    for bias in (False, True):
        yield (
            f"normal, biases {bias}",
            stars,
            psgld.FactorModel(2, "gaussian", wishart, wishart, bias),
            psgld.BPMFGibbs(),
        )
    weights = rng.integers(1, 5, counts.shape).astype(float)
    weighted = psgld.Observations.from_dense(counts, weights=weights)
    yield "weights", weighted, psgld.FactorModel(2, "poisson"), psgld.Gibbs()
    i, j = np.nonzero(some)
    more = {"weights": weights[i, j], "zero_weight": 0.25}
    weighted = psgld.Observations.from_coo(i, j, some[i, j], some.shape, "zero", **more)
    yield "weighted zeros", weighted, psgld.FactorModel(2, "poisson"), psgld.Gibbs()


@pytest.mark.parametrize("name", [run[0] for run in gibbs_runs()])
def test_the_spread_of_exact_samplers_is_one(name):
    _, V, model, sampler = next(run for run in gibbs_runs() if run[0] == name)
    post = psgld.sample(V, model, sampler=sampler, draws=400, thin=5, progress=False)
    for mode in model.modes:
        square, error = spread(post.draws, model, psgld.observations(V), mode)
        assert error < 0.1 and abs(square - 1.0) < 4 * error + 0.02
        # Draws that are spread around their means too widely: the square of the factor.
        factor = post.draws.modes[mode.axis].factor
        mean = factor.mean(axis=(0, 1))
        wide = np.abs(mean + 1.5 * (factor - mean)) if model.nonnegative else mean + 1.5 * (factor - mean)
        draws = post.draws.with_mode(mode.axis, factor=wide.astype(factor.dtype))
        assert spread(draws, model, psgld.observations(V), mode).square > 1.4


@pytest.fixture(scope="module")
def post():
    V = synthetic(40, 30, 2, "poisson", seed=3).V
    return psgld.sample(V, psgld.FactorModel(2, "poisson"), draws=40, tune=300, thin=5, progress=False)


def test_the_fit_is_recorded(post):
    fit = post.settings["fit"]
    assert fit["entries"] == 1200 and set(fit["spread"]) == {"rows", "cols"}
    mu = post.W @ post.H
    assert fit["mu"] == pytest.approx([mu.mean(), mu.std()], rel=1e-3)
    for groups in (fit["rows"], fit["cols"]):
        v, mean = np.array(groups).T
        assert (np.diff(mean) > 0).all() and v == pytest.approx(mean, rel=0.2)
    assert fit["log_likelihood"] > fit["baselines"]["rows_and_columns"] > fit["baselines"]["mean"]
    assert "data" in next(line for line in post.summary().splitlines() if line.startswith("  fit"))


@pytest.mark.parametrize("name", ["run.npz", "run.zarr"])
def test_the_fit_is_kept(post, tmp_path, name):
    if name.endswith("zarr"):
        pytest.importorskip("zarr")
    post.save(tmp_path / name)
    assert psgld.load(tmp_path / name).settings["fit"] == post.settings["fit"]
    assert json.loads(json.dumps(post.diagnose().record()))["fit"] == post.settings["fit"]


def test_the_store_of_a_run_has_the_fit_of_its_last_draws(tmp_path):
    pytest.importorskip("zarr")
    V, model = synthetic(20, 15, 2, "poisson", seed=3).V, psgld.FactorModel(2, "poisson")
    for draws in (20, 30):
        kept = psgld.sample(
            V, model, draws=draws, tune=50, thin=2, progress=False, store=tmp_path / "run.zarr", resume=True
        )
        assert psgld.load(tmp_path / "run.zarr").settings["fit"] == kept.settings["fit"]


@pytest.mark.filterwarnings("default:verdict:psgld.PsgldWarning")
def test_sample_warns_in_one_line():
    V, model = synthetic(40, 30, 2, "poisson", seed=3).V, psgld.FactorModel(2, "poisson")
    with pytest.warns(psgld.PsgldWarning, match="^verdict: .*; give more ") as said:
        psgld.sample(V, model, draws=60, tune=20, thin=1, progress=False)
    assert len(said) == 1 and "\n" not in str(said[0].message)


@pytest.mark.filterwarnings("error")
def test_too_few_draws_to_tell():
    V, model = synthetic(40, 30, 2, "poisson", seed=3).V, psgld.FactorModel(2, "poisson")
    psgld.sample(V, model, draws=40, tune=20, thin=1, progress=False)


def test_stacked_draws_have_no_chains(post):
    stacked = replace(post, settings=post.settings | {"stacking": {"weights": [1.0], "entries": 3}})
    with pytest.raises(psgld.SamplingError, match="weighted sample"):
        stacked.diagnose()
    assert "weighted sample" in stacked.summary()
