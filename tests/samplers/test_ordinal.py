"""Ordered levels and a bounded Gaussian: against NUTS, and from data to predictions, files and commands."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest
from scipy import stats
from test_new_families import compare, numpyro_is_here, nuts

import psgld
from psgld.datasets import synthetic
from psgld.models.likelihoods.cut_points import CutMove

QUICK = {"draws": 40, "tune": 150, "thin": 5, "chains": 2, "progress": False}
HALVES = (0.5, 1.0, 1.5, 2.0, 3.5, 5.0)
CUTS = (-2.0, -1.0, 0.0, 1.0, 2.0)


def stars(rows=40, cols=30, levels=HALVES, seed=0):
    return synthetic(rows, cols, 2, psgld.Ordinal(levels), seed=seed).V.dense


@pytest.fixture(scope="module")
def posterior():
    V = stars()
    V[np.random.default_rng(1).random(V.shape) < 0.2] = np.nan
    return V, psgld.sample(V, psgld.FactorModel(2, "ordinal", bias=True), **QUICK)


@pytest.mark.slow
@numpyro_is_here
def test_ordinal_against_nuts():
    import jax
    import jax.numpy as jnp
    import numpyro
    import numpyro.distributions as dist

    rng = np.random.default_rng(0)
    E = rng.normal(size=(12, 2)) @ rng.normal(size=(2, 10))
    V = 1.0 + np.sum(E[..., None] + rng.logistic(size=(12, 10, 1)) > [-1.5, 0.0, 1.5], axis=-1)

    def log_p(level, eta, c):
        ends = jnp.concatenate([jnp.array([-50.0]), c, jnp.array([50.0])])
        return jnp.log(jax.nn.sigmoid(ends[level + 1] - eta) - jax.nn.sigmoid(ends[level] - eta))

    def program(V):
        W = numpyro.sample("W", dist.Normal(0.0, 1.0).expand((12, 2)).to_event(2))
        H = numpyro.sample("H", dist.Normal(0.0, 1.0).expand((2, 10)).to_event(2))
        c = numpyro.sample("c", dist.ImproperUniform(dist.constraints.ordered_vector, (), (3,)))
        numpyro.factor("prior", log_p(jnp.arange(4), 0.0, c).sum())  # one entry of each level at η = 0
        numpyro.factor("V", log_p(V.astype(int) - 1, W @ H, c).sum())

    found = nuts(program, V)
    member = psgld.Ordinal(4)
    E = (found["W"] @ found["H"]).reshape(len(found["W"]), -1)
    theirs = member.response(E, *found["c"].T[..., None])
    model = psgld.FactorModel(2, member, psgld.Normal(1.0), psgld.Normal(1.0))
    sampler = psgld.PSGLD(blocks=2, step_size=0.02)
    post = psgld.sample(V, model, sampler=sampler, draws=3000, thin=60, tune=4000, chains=2, progress=False)
    compare(post.predict().draws, theirs, effective=1000)
    ours = np.stack([x.ravel() for x in post.parameters.values()], axis=1)
    sd = found["c"].std(0)
    np.testing.assert_allclose(ours.mean(0), found["c"].mean(0), atol=0.2 * sd.max())
    np.testing.assert_allclose(ours.std(0) / sd, 1.0, atol=0.1)


def test_levels_are_those_of_the_data_and_stay_in_files(posterior, tmp_path):
    _, post = posterior
    assert post.model.likelihood == psgld.Ordinal(HALVES)
    assert list(post.parameters) == [f"cut_{n}" for n in range(1, 6)]
    theta = np.stack(list(post.parameters.values()), axis=-1)
    assert (np.diff(theta, axis=-1) > 0).all() and theta.std(axis=1).min() > 0
    assert (post.draws.offset == 0).all()
    for name in ("post.npz", "post.zarr"):
        post.save(tmp_path / name)
        back = psgld.load(tmp_path / name)
        assert back.model == post.model
        np.testing.assert_array_equal(back.predict().probabilities, post.predict().probabilities)


def test_predictions_are_of_levels(posterior):
    V, post = posterior
    p = post.predict()
    np.testing.assert_allclose(p.probabilities.sum(1), 1.0, atol=1e-12)
    np.testing.assert_allclose(p.probabilities @ p.levels, p.mean, rtol=1e-6)
    assert set(np.unique([*p.interval(0.9), *p.quantiles([0.2, 0.7]), p.new_draws()[0]])) <= set(HALVES)
    second = p.probabilities @ p.levels**2
    np.testing.assert_allclose(p.new_sd**2, second - p.mean**2, atol=3 * (p.sd**2).max() / 79)
    np.testing.assert_allclose(p.exceeds(1.5), p.probabilities[:, 3:].sum(1), atol=1e-12)
    np.testing.assert_allclose((p.new_draws() > 1.5).mean(0), p.exceeds(1.5), atol=0.3)
    level = np.full(len(p), 2.0)
    np.testing.assert_allclose(np.exp(p.log_density(level)), p.probabilities[:, 3], rtol=1e-9)
    assert (p.log_density(level + 0.25) == -np.inf).all()
    with pytest.raises(
        psgld.DataError, match=r"Gaussian has no levels, as Ordinal\(\) and Bernoulli\(\) have"
    ):
        _ = psgld.sample(V, psgld.FactorModel(1, "gaussian"), **QUICK).predict().probabilities


def test_intervals_are_the_shortest_runs_of_levels(posterior):
    p = posterior[1].predict()
    for level in (0.5, 0.9, 0.99):
        low, high = (np.searchsorted(p.levels, end) for end in p.interval(level))
        for q, (a, b) in enumerate(zip(low, high, strict=True)):
            mass = p.probabilities[q]
            assert mass[a : b + 1].sum() >= level - 1e-9
            assert all(mass[s : s + b - a].sum() < level for s in range(len(mass) - (b - a) + 1))


def test_the_held_out_are_covered_and_better_than_guessed():
    V = stars(150, 100, levels=5, seed=3)
    hidden = np.random.default_rng(0).random(V.shape) < 0.2
    i, j = np.nonzero(hidden)
    post = psgld.sample(np.where(hidden, np.nan, V), psgld.FactorModel(2, "ordinal"), progress=False)
    p, v = post.predict(i, j), V[hidden]
    low, high = p.interval(0.9)
    assert 0.9 < np.mean((low <= v) & (v <= high)) < 0.98
    shares = np.bincount(V[~hidden].astype(int), minlength=6)[1:] / (~hidden).sum()
    assert p.log_density(v).mean() > np.log(shares)[v.astype(int) - 1].mean() + 0.05
    assert np.sqrt(np.mean((p.mean - v) ** 2)) < 0.95 * v.std()


@pytest.mark.parametrize("policy", [psgld.Mean(), psgld.UCB(0.5), psgld.Thompson(), psgld.Probability(2.6)])
def test_recommendations_are_by_the_expected_level(posterior, policy):
    post = posterior[1]
    chosen = post.recommend(n=4, policy=policy, exclude_seen=False)
    p = post.predict()
    shape = (*post.shape,)
    if policy == psgld.Thompson():
        assert ((chosen.score >= 0.5) & (chosen.score <= 5.0)).all()
        return
    score = {
        "mean": p.mean, "ucb": p.mean + 0.5 * p.sd, "probability": p.mean_exceeds(2.6)
    }[policy.name].reshape(shape)  # fmt: skip
    np.testing.assert_allclose(chosen.score, -np.sort(-score, axis=1)[:, :4], atol=1e-6)


def test_new_rows_have_the_predictions_of_the_old(posterior):
    V, post = posterior
    again = post.fold_in(V[:8], sweeps=30).predict().mean
    old = post.predict(np.arange(8)).mean
    assert np.corrcoef(again, old)[0, 1] > 0.97
    assert post.transform(V[:8]).shape == (8, 2)


def test_estimates_and_estimators():
    V = stars(levels=5)
    found = psgld.optimize(V, psgld.FactorModel(2, "ordinal", bias=True), max_passes=30, progress=False)
    mean = found.predict(np.arange(30), np.arange(30))
    assert ((mean > 1) & (mean < 5)).all()
    mf = psgld.BayesianMF(n_components=2, likelihood="ordinal", draws=20, tune=60, random_state=0).fit(V)
    back = mf.inverse_transform(mf.transform(V))
    assert ((back > 1) & (back < 5)).all() and np.corrcoef(back.ravel(), V.ravel())[0, 1] > 0.5
    assert np.isfinite(mf.score(V))


def test_shards_have_the_levels_of_memory(tmp_path):
    V = stars(levels=5)
    i, j = np.nonzero(np.random.default_rng(0).random(V.shape) < 0.6)
    data = psgld.Observations.from_coo(i, j, V[i, j], V.shape, absent="unobserved")
    psgld.shard(data, tmp_path / "shards", blocks=2)
    model = psgld.FactorModel(2, "ordinal", bias=True)
    a, b = (psgld.sample(x, model, seed=1, **QUICK) for x in (psgld.Shards.open(tmp_path / "shards"), data))
    assert a.model == b.model and a.model.likelihood.levels == (1.0, 2.0, 3.0, 4.0, 5.0)


def test_from_the_command_line(tmp_path, capsys):
    from psgld.cli import main

    np.save(tmp_path / "V.npy", stars())
    options = ["--likelihood", "ordinal", "--rank", "2", "--draws", "15", "--tune", "50", "--quiet"]
    assert main(["fit", str(tmp_path / "V.npy"), "-o", str(tmp_path / "p.npz"), *options]) == 0
    post = psgld.load(tmp_path / "p.npz")
    assert post.model == psgld.FactorModel(2, psgld.Ordinal(HALVES), bias=True)
    assert main(["summary", str(tmp_path / "p.npz")]) == 0
    assert "Ordinal(levels=" in capsys.readouterr().out


def test_ratings_without_a_model_are_ordinal():
    V = stars(60, 50, levels=10)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        post = psgld.sample(np.minimum(V, 9) / 2 + 0.5, rank=2, **QUICK)
    assert post.model.likelihood.levels == tuple(np.arange(2, 11) / 2) and post.model.bias
    assert "ordinal likelihood, because the values look like ratings" in str(caught[0].message)


@pytest.mark.parametrize(
    ("levels", "said"),
    [
        (1, "levels must be an integer from 2 to 32"),
        (33, "got 33"),
        ((1, 1, 2), "numbers in increasing order"),
        ((3, 2), "increasing order"),
        (("a", "b"), "increasing order"),
        ((0.0, np.nan), "increasing order"),
        ("12", "increasing order"),
        (True, "got True"),
    ],
)
def test_levels_that_are_none(levels, said):
    with pytest.raises(psgld.ModelError, match=said):
        psgld.Ordinal(levels)


def test_cut_points_that_are_none():
    for cuts in ((1.0,), (0.0, 0.0), (np.inf, 1.0), 3):
        with pytest.raises(psgld.ModelError, match="cuts must be 2 numbers in increasing order"):
            psgld.Ordinal(3, cuts)
    with pytest.raises(psgld.ModelError, match="need levels"):
        psgld.Ordinal(cuts=(1.0, 2.0))
    fixed = psgld.Ordinal(3, np.array([-1.0, 1.0]))
    V = stars(levels=3)
    post = psgld.sample(V, psgld.FactorModel(1, fixed), **QUICK)
    assert (post.parameters["cut_2"] == 1.0).all()


def test_a_value_that_is_no_level_is_one_clear_line():
    V = stars(levels=5)
    V[3, 4] = 2.5
    said = r"Ordinal needs levels 1, 2, 3, 4, 5, but 1 of 1200 values are not, the first is 2\.5; name all levels"
    with pytest.raises(psgld.DataError, match=said):
        psgld.sample(V, psgld.FactorModel(1, psgld.Ordinal(5)))
    with pytest.raises(psgld.ModelError, match="the values have 1200 distinct levels, allowed are 2 to 32"):
        psgld.sample(np.arange(1200.0).reshape(30, 40), psgld.FactorModel(1, "ordinal"))


def test_a_level_that_nobody_chose():
    """The prior, one entry of each level, keeps the cut points of an empty level apart."""
    V = stars(levels=4) + 1.0
    post = psgld.sample(V, psgld.FactorModel(1, psgld.Ordinal(7), bias=True), **QUICK)
    p = post.predict()
    assert (p.probabilities > 0).all() and p.probabilities[:, [0, 5, 6]].max() < 0.2


# -- a Gaussian with a support -------------------------------------------------------------------------------


def test_a_support_truncates_new_observations_only(tmp_path):
    V = np.clip(np.random.default_rng(0).normal(4.0, 1.0, (30, 20)), 1.0, 5.0)
    free, bounded = (
        psgld.sample(V, psgld.FactorModel(2, psgld.Gaussian(support=s)), seed=3, **QUICK)
        for s in (None, (1, 5))
    )
    np.testing.assert_array_equal(free.W, bounded.W)
    bounded.save(tmp_path / "b.npz")
    p, q = free.predict(), psgld.load(tmp_path / "b.npz").predict()
    np.testing.assert_array_equal(p.mean, q.mean)
    assert p.interval(0.9)[1].max() > 5.0 >= q.interval(0.9)[1].max() and q.new_draws().min() >= 1.0
    mu, sd = q.draws[:, 0], np.sqrt(bounded.draws.phi.ravel())
    exact = stats.truncnorm((1 - mu) / sd, (5 - mu) / sd, mu, sd)
    assert q.exceeds(4.5)[0] == pytest.approx(exact.sf(4.5).mean(), rel=1e-6)
    assert np.exp(q.log_density(np.full(len(q), 4.5))[0]) == pytest.approx(exact.pdf(4.5).mean(), rel=1e-6)
    assert q.new_sd[0] ** 2 == pytest.approx(exact.var().mean() + exact.mean().var(ddof=1), rel=1e-6)
    assert (q.log_density(np.full(len(q), 5.5)) == -np.inf).all()
    assert stats.kstest(exact.cdf(q.new_draws()[:, 0]), "uniform").pvalue > 1e-4
    record = json.loads(json.dumps(bounded.model.to_dict()))
    assert (
        psgld.FactorModel.from_dict(record) == bounded.model
        and "support" not in free.model.likelihood.to_dict()
    )


def test_values_outside_of_a_support():
    with pytest.raises(psgld.DataError, match=r"needs 1 <= v <= 5, but 2 of 2 values are not.*wider support"):
        psgld.sample(np.array([[0.0, 6.0]]), psgld.FactorModel(1, psgld.Gaussian(support=(1, 5))))
    for support in ((5, 1), (1,), 3, (1, "a"), (np.nan, 1.0)):
        with pytest.raises(psgld.ModelError, match=r"support must be two numbers \(low, high\)"):
            psgld.Gaussian(support=support)


def test_cut_points_stay_where_no_slope_is_left():
    """η of a chain that diverges, or of a damaged checkpoint: the Hessian is 0 in doubles."""
    move = CutMove(np.array([0, 1, 2, 2]), levels=3)
    far = (-1e9, 1e9)
    assert move(far, np.zeros(4), np.random.default_rng(0)) == far
