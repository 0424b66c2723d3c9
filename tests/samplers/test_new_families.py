"""Samplers of likelihoods outside the Tweedie family: against NUTS, and from data to predictions and back."""

from __future__ import annotations

import importlib.util
import warnings

import numpy as np
import pytest
from scipy import sparse
from scipy.special import expit

import psgld
from psgld.datasets import synthetic

numpyro_is_here = pytest.mark.skipif(
    importlib.util.find_spec("numpyro") is None, reason="NumPyro is not installed"
)


def nuts(program, V, draws=3000, chains=2):
    """Return NUTS' draws of a program with W (I, K) and H (K, J), by name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import jax
        from numpyro.infer import MCMC, NUTS

        precise = jax.enable_x64 if hasattr(jax, "enable_x64") else jax.experimental.enable_x64
        with precise(True):
            mcmc = MCMC(
                NUTS(program), num_warmup=1000, num_samples=draws, num_chains=chains, progress_bar=False,
                chain_method="sequential",
            )  # fmt: skip
            mcmc.run(jax.random.PRNGKey(0), V)
            return {name: np.asarray(x) for name, x in mcmc.get_samples().items()}


def compare(ours, theirs, effective):
    """Compare means in their standard errors, and standard deviations; draws first."""
    sd = theirs.std(axis=0)
    z = (ours.mean(axis=0) - theirs.mean(axis=0)) / (sd * np.sqrt(2 / effective))
    assert np.sqrt(np.mean(z**2)) < 1.5, np.sqrt(np.mean(z**2))
    assert np.mean(ours.std(axis=0) / sd) == pytest.approx(1.0, abs=0.04)


def small(seed):
    rng = np.random.default_rng(seed)
    return rng, (12, 10)


@pytest.mark.slow
@numpyro_is_here
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_bernoulli_against_nuts(momentum):
    import numpyro
    import numpyro.distributions as dist

    rng, shape = small(0)
    E = rng.normal(size=(12, 2)) @ rng.normal(size=(2, 10)) - 0.5
    V = (rng.random(shape) < expit(E)).astype(float)

    def program(V):
        W = numpyro.sample("W", dist.Normal(0.0, 1.0).expand((12, 2)).to_event(2))
        H = numpyro.sample("H", dist.Normal(0.0, 1.0).expand((2, 10)).to_event(2))
        numpyro.sample("V", dist.Bernoulli(logits=W @ H).to_event(2), obs=V)

    found = nuts(program, V)
    theirs = expit(found["W"] @ found["H"]).reshape(len(found["W"]), -1)
    model = psgld.FactorModel(2, psgld.Bernoulli(), psgld.Normal(1.0), psgld.Normal(1.0))
    sampler = psgld.PSGLD(blocks=2, step_size=0.05 if momentum == 0.0 else 0.02, momentum=momentum)
    post = psgld.sample(V, model, sampler=sampler, draws=3000, thin=60, tune=4000, chains=2, progress=False)
    compare(post.predict().draws, theirs, effective=1000)


@pytest.mark.slow
@numpyro_is_here
def test_negative_binomial_against_nuts():
    import numpyro
    import numpyro.distributions as dist

    rng, shape = small(1)
    mu = rng.gamma(1.0, 1.0, (12, 2)) @ rng.gamma(1.0, 1.0, (2, 10))
    V = rng.poisson(rng.gamma(1.5, mu / 1.5, shape)).astype(float)

    def program(V):
        W = numpyro.sample("W", dist.Exponential(1.0).expand((12, 2)).to_event(2))
        H = numpyro.sample("H", dist.Exponential(1.0).expand((2, 10)).to_event(2))
        r = numpyro.sample("r", dist.LogNormal(np.log(start), 5.0))
        numpyro.sample("V", dist.NegativeBinomial2(W @ H, r).to_event(2), obs=V)

    model = psgld.FactorModel(2, psgld.NegativeBinomial(), psgld.Exponential(1.0), psgld.Exponential(1.0))
    (start,) = psgld.NegativeBinomial().starts(V)
    found = nuts(program, V)
    theirs = np.log(found["W"] @ found["H"]).reshape(len(found["W"]), -1)
    sampler = psgld.PSGLD(blocks=2, step_size=0.02)
    post = psgld.sample(V, model, sampler=sampler, draws=4000, thin=60, tune=4000, chains=2, progress=False)
    compare(np.log(post.predict().draws), theirs, effective=1000)
    ours, others = np.log(post.parameters["r"].ravel()), np.log(found["r"])
    assert ours.mean() == pytest.approx(others.mean(), abs=0.15 * others.std())
    assert ours.std() == pytest.approx(others.std(), rel=0.15)


def test_r_is_recovered():
    truth = synthetic(60, 50, 2, psgld.NegativeBinomial(1.5), seed=3)
    model = psgld.FactorModel(2, "negative-binomial")
    post = psgld.sample(truth.V, model, draws=100, tune=1000, thin=10, progress=False)
    r = post.parameters["r"]
    assert r.shape == (2, 100)
    assert r.mean() == pytest.approx(1.5, abs=4 * r.std() + 0.05)
    assert 0.01 < r.std() < 0.3
    p = post.predict()
    low, high = p.interval(0.9)
    V = truth.V.dense.ravel()
    assert 0.88 < np.mean((low <= V) & (high >= V)) < 0.97
    assert np.array_equal(low, np.floor(low)) and np.array_equal(high, np.floor(high))


def test_negative_binomial_takes_implicit_zeros(tmp_path):
    rng = np.random.default_rng(0)
    V = rng.poisson(rng.gamma(0.5, 1.0, (30, 20)))
    zero = psgld.Observations.from_sparse(sparse.csr_array(V), absent="zero")
    model, given = (
        psgld.FactorModel(2, "negative-binomial"),
        {"draws": 15, "tune": 100, "thin": 2, "progress": False},
    )
    implicit, written = psgld.sample(zero, model, **given), psgld.sample(V, model, **given)
    np.testing.assert_array_equal(implicit.W, written.W)
    np.testing.assert_array_equal(implicit.parameters["r"], written.parameters["r"])
    new = sparse.csr_array(V[:3])
    folded = implicit.fold_in(new)
    assert "\n  r   " in implicit.summary() and "dispersion" not in implicit.summary()
    assert folded.W.shape == (2, 15, 3, 2) and (folded.W > 0).all()
    assert implicit.transform(new).shape == (3, 2)
    for name in ("run.npz", "run.zarr"):
        implicit.save(tmp_path / name)
        again = psgld.load(tmp_path / name)
        np.testing.assert_array_equal(again.parameters["r"], implicit.parameters["r"])
        np.testing.assert_array_equal(
            again.predict([0], [1]).new_draws(), implicit.predict([0], [1]).new_draws()
        )


def test_a_store_of_a_negative_binomial_run_is_resumed(tmp_path):
    V = np.random.default_rng(0).negative_binomial(2, 0.4, (20, 15))
    model, given = (
        psgld.FactorModel(2, "negative-binomial"),
        {"tune": 60, "thin": 2, "seed": 3, "progress": False},
    )
    whole = psgld.sample(V, model, draws=20, **given)
    psgld.sample(V, model, draws=10, store=tmp_path / "run.zarr", **given)
    resumed = psgld.sample(V, model, draws=20, store=tmp_path / "run.zarr", resume=True, **given)
    np.testing.assert_array_equal(resumed.W, whole.W)
    np.testing.assert_array_equal(resumed.parameters["r"], whole.parameters["r"])


def test_bernoulli_from_data_to_predictions():
    rng = np.random.default_rng(4)
    E = rng.normal(size=(80, 2)) @ rng.normal(size=(2, 60)) + rng.normal(size=(80, 1)) - 1.0
    V = (rng.random(E.shape) < expit(E)).astype(float)
    hidden = rng.random(E.shape) < 0.2
    post = psgld.sample(
        np.where(hidden, np.nan, V), psgld.FactorModel(2, "bernoulli", bias=True), draws=100, progress=False
    )
    p = post.predict()
    mean = p.mean.reshape(E.shape)
    assert (p.draws >= 0).all() and (p.draws <= 1).all()
    np.testing.assert_allclose(p.mean, p.draws.mean(axis=0), rtol=1e-6)
    np.testing.assert_allclose(p.new_sd, np.sqrt(p.mean * (1 - p.mean)), rtol=3e-3)
    np.testing.assert_allclose(p.exceeds(0.5), p.mean, rtol=1e-6)
    low, high = p.interval(0.9)
    assert set(np.unique(low)) <= {0.0, 1.0} and set(np.unique(high)) == {0.0, 1.0}
    inside, _ = p.mean_interval(0.9)
    assert (inside >= 0).all() and (inside <= p.mean + 1e-9).all()
    # Calibrated: where 30 to 40 % are promised, about so many are ones.
    at = hidden & (mean > 0.3) & (mean < 0.5)
    assert V[at].mean() == pytest.approx(mean[at].mean(), abs=4 * 0.5 / np.sqrt(at.sum()))
    log_loss = -np.mean(p.log_density(V.ravel()).reshape(E.shape)[hidden])
    assert log_loss < -np.mean(np.where(V, np.log(V.mean()), np.log(1 - V.mean()))[hidden]) - 0.03
    sd = p.sd.reshape(E.shape)
    for policy, score in (("mean", mean), (psgld.UCB(1.0), mean + sd), (psgld.UCB(-2.0), mean - 2 * sd)):
        best = post.recommend(n=3, policy=policy, exclude_seen=False)
        np.testing.assert_array_equal(best.cols, np.argsort(-score, axis=1, kind="stable")[:, :3])
        np.testing.assert_allclose(best.score, -np.sort(-score, axis=1)[:, :3], rtol=1e-6)
    above = post.recommend([0], n=2, policy=psgld.Probability(0.5), exclude_seen=False)
    np.testing.assert_allclose(above.score[0, 0], post.predict(0).mean_exceeds(0.5).max())
    track = post.recommend([1], n=1, policy="thompson", exclude_seen=False)
    assert 0.0 <= track.score[0, 0] <= 1.0


def test_new_rows_of_a_bernoulli_model_have_the_predictions_of_the_old():
    rng = np.random.default_rng(5)
    E = rng.normal(size=(60, 2)) @ rng.normal(size=(2, 50)) - 0.5
    V = (rng.random(E.shape) < expit(E)).astype(float)
    post = psgld.sample(V, psgld.FactorModel(2, "bernoulli", bias=True), draws=150, progress=False)
    old = post.predict(np.arange(5)).mean
    new = post.fold_in(V[:5]).predict().mean
    assert np.corrcoef(old, new)[0, 1] > 0.98 and np.abs(old - new).mean() < 0.05
    columns = post.fold_in(V[:, :4], side="cols")
    assert columns.predict().mean.shape == (240,)


def test_tracked_pairs_are_on_the_scale_of_the_response():
    V = np.random.default_rng(0).integers(0, 2, (20, 15)).astype(float)
    given = {"draws": 30, "tune": 50, "thin": 2, "progress": False}
    post = psgld.sample(V, psgld.FactorModel(2, "bernoulli"), track=([0, 3], [1, 2]), **given)
    np.testing.assert_allclose(post.tracked.mean, post.predict([0, 3], [1, 2]).mean, rtol=1e-5)
    np.testing.assert_allclose(post.tracked.sd, post.predict([0, 3], [1, 2]).sd, rtol=1e-4)


def test_values_other_than_0_and_1_are_refused_with_their_number():
    V = np.array([[0.0, 1.0], [0.5, 1.0], [0.25, np.nan]])
    with pytest.raises(
        psgld.DataError, match=r"needs v = 0 or v = 1, but 2 of 5 values are not, the first is 0\.5; convert"
    ):
        psgld.sample(V, psgld.FactorModel(1, "bernoulli"))


def test_probabilities_need_factors_of_both_signs():
    with pytest.raises(psgld.ModelError, match=r"Bernoulli\(\) needs both signs; use Normal\(\)"):
        psgld.FactorModel(2, "bernoulli", psgld.Exponential(), psgld.Exponential())


def test_zeros_that_are_written_out_are_said(monkeypatch):
    zero = psgld.Observations.from_sparse(sparse.csr_array(np.eye(40)), absent="zero")
    model = psgld.FactorModel(1, "negative-binomial")
    monkeypatch.setattr("psgld.runs.inputs._MANY_CELLS", 100)
    with pytest.warns(
        psgld.PsgldWarning, match=r"stores zeros explicitly: 1,600 cells, .* instead of 40 entries"
    ):
        psgld.sample(zero, model, draws=5, tune=10, thin=1, progress=False)
    monkeypatch.setattr("psgld.runs.inputs.MOST_CELLS", 100)
    with pytest.raises(
        psgld.ModelError, match=r"needs all 1,600 cells in memory, .*; use Poisson\(\) or Gaussian\(\)"
    ):
        psgld.sample(zero, model, draws=5)


@pytest.mark.parametrize(
    "sampler", [psgld.LD(), psgld.SGLD(), psgld.DSGLD(), psgld.DSGD()], ids=lambda s: type(s).__name__
)
@pytest.mark.parametrize("name", ["negative-binomial", "bernoulli"])
def test_every_langevin_sampler_runs_them(name, sampler):
    truth = synthetic(40, 30, 2, name, seed=0)
    post = psgld.sample(
        truth.V, psgld.FactorModel(2, name), sampler=sampler, draws=20, tune=3000, thin=20, progress=False
    )
    assert np.isfinite(post.sample_stats["lp"]).all() and post.divergences == 0
    assert np.corrcoef(post.predict().mean, truth.mu.ravel())[0, 1] > 0.5


@pytest.mark.parametrize("name", ["negative-binomial", "bernoulli"])
def test_estimates_are_means(name):
    truth = synthetic(40, 30, 2, name, seed=0)
    estimate = psgld.optimize(truth.V, psgld.FactorModel(2, name), max_passes=200)
    mean = estimate.predict(np.repeat(np.arange(40), 30), np.tile(np.arange(30), 40))
    assert np.corrcoef(mean, truth.mu.ravel())[0, 1] > 0.6
    assert mean.min() >= 0 and (name != "bernoulli" or mean.max() <= 1)


def test_estimators_take_them():
    pytest.importorskip("sklearn")
    given = {"draws": 20, "tune": 300, "thin": 5}
    X = synthetic(40, 15, 2, "negative-binomial", seed=0).V.dense
    nmf = psgld.BayesianNMF(n_components=2, likelihood="negative-binomial", **given).fit(X)
    assert (nmf.transform(X[:4]) >= 0).all() and np.isfinite(nmf.score(X[:10]))
    B = synthetic(40, 15, 2, "bernoulli", seed=0).V.dense
    for bias in (False, True):
        mf = psgld.BayesianMF(n_components=2, likelihood="bernoulli", bias=bias, **given).fit(B)
        W = mf.transform(B)
        assert W.shape == (40, 2 + bias) and mf.get_params()["likelihood"] == "bernoulli"
        mean = mf.inverse_transform(W)
        assert (mean > 0).all() and (mean < 1).all() and np.corrcoef(mean.ravel(), B.ravel())[0, 1] > 0.3
        assert mf.score(B) < 0.0


def test_the_command_line_takes_them(tmp_path, capsys):
    from psgld.cli import main

    B = synthetic(30, 20, 2, "bernoulli", seed=0).V.dense
    np.save(tmp_path / "yes.npy", B)
    out = tmp_path / "run.npz"
    options = ["--likelihood", "bernoulli", "--rank", "2", "--draws", "15", "--tune", "50", "--quiet"]
    main(["fit", str(tmp_path / "yes.npy"), "-o", str(out), *options])
    post = psgld.load(out)
    assert post.model == psgld.FactorModel(2, "bernoulli", bias=True)
    capsys.readouterr()
    main(["summary", str(out)])
    assert "Bernoulli()" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("scale", [1.0, 100.0, 1e4])
def test_means_far_above_r_are_found(scale):
    """The metric rests on how the score is split: its parts must not cancel where μ is large beside r."""
    rng = np.random.default_rng(0)
    mu = scale * rng.gamma(2.0, 0.5, (100, 3)) @ rng.gamma(2.0, 0.5, (3, 80)) / 3
    V = psgld.NegativeBinomial().sample(mu, 1.0, rng)
    post = psgld.sample(V, psgld.FactorModel(3, "negative-binomial"), progress=False)
    p = post.predict(*np.indices(mu.shape).reshape(2, -1))
    low, high = p.mean_interval(0.9)
    assert 0.85 < np.mean((low <= mu.ravel()) & (mu.ravel() <= high)) < 0.95
    assert post.parameters["r"].mean() == pytest.approx(1.0, rel=0.1) and post.divergences == 0
