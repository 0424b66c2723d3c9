"""New rows and columns: against closed forms, quadrature, and the rows of a posterior that knows them."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse, stats

import psgld
from psgld.datasets import ratings, synthetic
from psgld.dynamics.step_size import Power
from psgld.models import LIKELIHOODS
from psgld.posterior.fold_in import draw, gaussian, point
from psgld.posterior.map_rows import nonnegative_mode
from psgld.posterior.new_rows import Entries, Other
from psgld.posterior.posterior import Posterior


def other(H, phi, rate, prior, likelihood, draws=1, bias=None, bias_rate=None, theta=()):
    """The same fixed other factor in every draw."""
    H = np.repeat(np.asarray(H, float)[None], draws, axis=0)
    repeat = None if bias is None else np.repeat(np.asarray(bias, float)[None], draws, axis=0)
    own = None if bias_rate is None else np.full(draws, bias_rate)
    given = np.repeat([[*likelihood.constants, *theta]], draws, axis=0).reshape(draws, -1)
    rates = np.full((draws, H.shape[2]), rate)
    return Other(H, repeat, rates, own, np.full(draws, phi), prior, likelihood, given)


def entries(rows, zeros=False):
    """Rows as dictionaries from column to value."""
    i = np.concatenate([np.full(len(r), k) for k, r in enumerate(rows)]).astype(int)
    j = np.array([c for r in rows for c in r], int)
    return Entries.of(i, j, np.array([v for r in rows for v in r.values()]), len(rows), zeros)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("pattern", ["whole", "holes"])
def test_gaussian_rows_have_their_normal_posterior(bias, pattern):
    rng = np.random.default_rng(0)
    J, K, S = 12, 3, 20_000
    H, offset, v = rng.normal(size=(J, K)), rng.normal(size=J) if bias else None, rng.normal(size=J)
    kept = np.arange(J) if pattern == "whole" else np.array([1, 4, 5, 9])
    found = entries([{int(j): v[j] for j in kept}])
    o = other(H, 0.4, 2.0, psgld.Normal(), psgld.Gaussian(), S, offset, 3.0 if bias else None)
    X, own = gaussian(o, found, seed=1)
    design = np.hstack([H, np.ones((J, 1))])[kept] if bias else H[kept]
    rate = np.diag([2.0] * K + [3.0] * bias)
    cov = np.linalg.inv(design.T @ design / 0.4 + rate)
    mean = cov @ design.T @ (v - (offset if bias else 0.0))[kept] / 0.4
    got = np.hstack([X[:, 0], own]) if bias else X[:, 0]
    np.testing.assert_allclose(got.mean(0), mean, atol=5 * np.sqrt(np.diag(cov).max() / S))
    np.testing.assert_allclose(np.cov(got.T), cov, atol=0.03 * cov.max())
    exact, own = gaussian(
        other(H, 0.4, 2.0, psgld.Normal(), psgld.Gaussian(), 1, offset, 3.0 if bias else None), found, None
    )
    np.testing.assert_allclose(np.hstack([exact[0, 0], *(own if bias else [])]), mean, rtol=1e-9)


def test_a_whole_row_is_a_row_with_all_its_entries():
    """The two ways through a Gaussian row agree bit for bit in their noise: one matrix with a hole, one without."""
    rng = np.random.default_rng(0)
    o = other(rng.normal(size=(6, 2)), 0.4, 2.0, psgld.Normal(), psgld.Gaussian(), 5)
    row = dict(enumerate(rng.normal(size=6)))
    whole, _ = gaussian(o, entries([row, row]), seed=3)
    holes, _ = gaussian(o, entries([row, {0: 1.0}]), seed=3)
    np.testing.assert_allclose(whole[:, 0], holes[:, 0], rtol=1e-9)


@pytest.mark.parametrize("seed", [None, 1])
def test_a_precision_beyond_doubles_is_an_error(seed):
    """As of a damaged file: three equal components, so large that the prior is lost to rounding."""
    o = other(np.full((6, 3), 1e20), 0.4, 2.0, psgld.Normal(), psgld.Gaussian())
    with pytest.raises(psgld.ModelError, match=r"the precision of a new row is singular: .* up to 1\.5e\+41"):
        gaussian(o, entries([dict.fromkeys(range(6), 1.0)]), seed)


CASES = {  # one component: v | w ~ p(. | w h), w ~ prior
    "poisson": (psgld.Poisson(), 1.0, psgld.Exponential(), [2.0, 0.0, 5.0]),
    "poisson, gamma prior": (psgld.Poisson(), 1.0, psgld.GammaPrior(0.5), [2.0, 0.0, 5.0]),
    "gamma": (psgld.Gamma(), 0.5, psgld.Exponential(), [0.2, 1.0, 3.0]),
    "compound-poisson": (psgld.CompoundPoisson(0.5), 0.7, psgld.Exponential(), [0.0, 1.0, 3.0]),
    "inverse-gaussian": (psgld.InverseGaussian(), 0.5, psgld.Exponential(), [0.2, 1.0, 3.0]),
    "beta -0.5": (psgld.Tweedie(-0.5), 0.5, psgld.GammaPrior(2.0), [0.2, 1.0, 3.0]),
    "gaussian, non-negative": (psgld.Gaussian(), 0.5, psgld.Exponential(), [-1.0, 0.5, 0.3]),
    "nothing seen": (psgld.Poisson(), 1.0, psgld.Exponential(), []),
    "negative-binomial": (psgld.NegativeBinomial(1.5), 1.0, psgld.Exponential(), [2.0, 0.0, 5.0]),
}


def test_every_family_is_here():
    """Those whose η may be negative are in `test_rows_of_any_sign_against_quadrature`."""
    here = {case[0].name for case in CASES.values()} | {member.name for member in SIGNED}
    assert set(LIKELIHOODS) <= here


SIGNED = [psgld.Bernoulli(), psgld.Ordinal((0, 1, 2), cuts=(-0.4, 1.1))]


def others_of(likelihood):
    return tuple(getattr(likelihood, name) for name in likelihood.other_parameters)


@pytest.mark.parametrize("case", CASES)
def test_one_component_against_quadrature(case):
    likelihood, phi, prior, v = CASES[case]
    h, rate = np.array([0.5, 1.0, 2.0]), 0.8
    found = entries([dict(enumerate(v))])
    theta = others_of(likelihood)
    o = other(h[:, None], phi, rate, prior, likelihood, 20_000, theta=theta)
    X, _ = draw(o, found, seed=2, sweeps=8)
    w = np.exp(np.linspace(-25, 5, 60_001))
    log_density = prior.log_density(w, rate) + np.log(w)
    for a, b in zip(v, h, strict=False):
        log_density += likelihood.kernel(a, w * b, *theta) / phi
    density = np.exp(log_density - log_density.max())
    cdf = np.cumsum(density) / density.sum()
    assert stats.kstest(X[:, 0, 0], lambda x: np.interp(np.log(x), np.log(w), cdf)).pvalue > 1e-3


def test_each_draw_has_its_own_shape():
    H, rows = np.array([[0.5], [1.0], [2.0]]), [dict(enumerate([2.0, 0.0, 5.0])), {}]
    given = [other(H, 1.0, 0.8, psgld.GammaPrior(a), psgld.Poisson(), 6) for a in (0.3, 2.0)]
    shapes = np.array([0.3, 2.0, 2.0, 0.3, 0.3, 2.0])
    learnt = replace(given[0], prior=psgld.GammaPrior(), shape=shapes)
    expected = [draw(o, entries(rows), seed=3, sweeps=4)[0] for o in given]
    found, _ = draw(learnt, entries(rows), seed=3, sweeps=4)
    np.testing.assert_array_equal(found, np.where((shapes == 0.3)[:, None, None], *expected))
    for s, o in ((0, given[0]), (1, given[1])):
        np.testing.assert_array_equal(
            point(learnt.one(s), entries(rows))[0], point(o.one(s), entries(rows))[0]
        )


def test_two_components_against_quadrature():
    """Poisson counts, their zeros listed or left out: the moments of w on a fine grid."""
    rng = np.random.default_rng(0)
    H = rng.gamma(0.7, 1.0, (30, 2))
    v = rng.poisson(H @ [0.8, 0.1])
    grid = (np.arange(1500) + 0.5) / 1500 * 3.0
    w = np.stack(np.meshgrid(grid, grid, indexing="ij"), axis=-1)
    logs = -w @ (H.sum(0) + 0.7)
    for h, x in zip(H, v, strict=True):
        logs = logs + x * np.log(w @ h)
    weight = np.exp(logs - logs.max())
    weight /= weight.sum()
    mean = np.einsum("ab,abk->k", weight, w)
    sd = np.sqrt(np.einsum("ab,abk->k", weight, w**2) - mean**2)
    draws = 8000
    o = other(H, 1.0, 0.7, psgld.Exponential(), psgld.Poisson(), draws)
    for zeros in (False, True):
        row = {j: float(x) for j, x in enumerate(v) if x > 0 or not zeros}
        X, _ = draw(o, entries([row], zeros), seed=0, sweeps=30)
        np.testing.assert_allclose(X[:, 0].mean(0), mean, atol=4 * sd.max() / np.sqrt(draws))
        np.testing.assert_allclose(X[:, 0].std(0), sd, rtol=0.05)


def test_zeros_written_out_are_zeros_left_out():
    rng = np.random.default_rng(0)
    H = rng.gamma(1.0, 1.0, (9, 2))
    o = other(H, 0.8, 1.0, psgld.Exponential(), psgld.Tweedie(0.5), 4)
    left, out = entries([{2: 1.5}], zeros=True), entries([{j: 1.5 * (j == 2) for j in range(9)}])
    np.testing.assert_array_equal(draw(o, left, 0, 5)[0], draw(o, out, 0, 5)[0])
    np.testing.assert_allclose(nonnegative_mode(o, left), nonnegative_mode(o, out))


@pytest.mark.parametrize("case", CASES)
def test_the_mode_is_the_mode(case):
    likelihood, phi, prior, v = CASES[case]
    if likelihood.normal or not v:
        return
    h, rate = np.array([0.5, 1.0, 2.0]), 0.8
    theta = others_of(likelihood)
    o = other(h[:, None], phi, rate, prior, likelihood, theta=theta)
    found = nonnegative_mode(o, entries([dict(enumerate(v))]))[0, 0]
    w = np.exp(np.linspace(-10, 5, 100_001))
    log_density = sum(likelihood.kernel(a, w * b, *theta) / phi for a, b in zip(v, h, strict=True))
    shape = max(getattr(prior, "shape", 1.0), 1.0)
    log_density = log_density + (shape - 1.0) * np.log(w) - rate * w
    assert found == pytest.approx(w[np.argmax(log_density)], rel=1e-3)


@pytest.mark.parametrize("wishart", [False, True])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("likelihood", SIGNED, ids=lambda member: member.name)
def test_rows_of_any_sign_against_quadrature(likelihood, bias, wishart):
    """One component and perhaps a bias: the moments of w on a fine grid, and its mode."""
    rng = np.random.default_rng(1)
    h, offset, v = rng.normal(size=12), rng.normal(size=12), rng.integers(0, 2, 12).astype(float)
    draws, theta = 8000, likelihood.start(lambda: ())
    o = other(
        h[:, None], 1.0, 0.7, psgld.Normal(), likelihood, draws, offset, 1.3 if bias else None, theta=theta
    )
    K = 1 + bias
    precision, mean = np.diag([0.7, 1.3][:K]), np.zeros(K)
    if wishart:
        precision = precision + 0.3 * (1 - np.eye(K))
        mean = np.array([0.4, -0.5])[:K]
        o = replace(o, mean=np.repeat(mean[None], draws, 0), precision=np.repeat(precision[None], draws, 0))
    grid = np.linspace(-6.0, 6.0, 1201)
    w = np.stack(np.meshgrid(*[grid] * K, indexing="ij"), axis=-1)
    away = w - mean
    logs = -0.5 * np.einsum("...k,kl,...l->...", away, precision, away)
    for x, a, b in zip(v, h, offset, strict=True):
        eta = b + w[..., 0] * a + (w[..., 1] if bias else 0.0)
        logs = logs + likelihood.kernel(x, eta, *theta)
    weight = np.exp(logs - logs.max())
    weight /= weight.sum()
    expected = np.tensordot(weight, w, axes=K)
    sd = np.sqrt(np.tensordot(weight, (w - expected) ** 2, axes=K))
    found = entries([dict(enumerate(v))])
    X, own = draw(o, found, seed=3, sweeps=30)
    got = np.hstack([X[:, 0], own]) if bias else X[:, 0]
    np.testing.assert_allclose(got.mean(0), expected, atol=4 * sd.max() / np.sqrt(draws))
    np.testing.assert_allclose(got.std(0), sd, rtol=0.04)
    one, own = point(o.one(0), found)
    best = w.reshape(-1, K)[np.argmax(logs)]
    np.testing.assert_allclose(np.hstack([one[0], *([own] if bias else [])]), best, atol=0.006)


@pytest.mark.parametrize("side", ["rows", "cols"])
@pytest.mark.parametrize("likelihood", ["gaussian", "poisson", "gamma"])
def test_rows_that_were_known_come_out_as_they_were(likelihood, side):
    """Fold in rows of the data itself: μ agrees with the posterior that was sampled with them."""
    V = np.asarray(synthetic(60, 50, 2, likelihood, seed=2).V.dense)
    model = psgld.FactorModel(2, likelihood, bias=likelihood == "gaussian")
    post = psgld.sample(V, model, draws=100, tune=800, thin=5, progress=False)
    some = np.array([3, 8, 21])
    new = V[some] if side == "rows" else V[:, some]
    folded = post.fold_in(new, side)
    assert isinstance(folded, Posterior)
    assert folded.shape == ((3, 50) if side == "rows" else (60, 3))
    got = folded.predict()
    known = post.predict(some, None) if side == "rows" else post.predict(None, some)
    assert np.corrcoef(got.mean, known.mean)[0, 1] > 0.99
    assert np.median(np.abs(got.mean - known.mean) / known.sd) < 0.5
    assert np.median(got.sd / known.sd) == pytest.approx(1.0, abs=0.15)
    vectors = post.transform(new, side)
    assert vectors.shape == (3, 2) and np.isfinite(vectors).all()
    np.testing.assert_array_equal(vectors, post.transform(new, side))
    np.testing.assert_allclose(
        post.transform(new[:1] if side == "rows" else new[:, :1], side), vectors[:1], rtol=1e-4
    )


def test_labels_seeds_and_recommendations():
    data = ratings(users=80, items=40, entries=1500, seed=1)
    model = psgld.FactorModel(2, "gaussian", bias=True)
    post = psgld.sample(data.V, model, draws=30, tune=200, thin=2, progress=False)
    items = post.col_labels[[5, 9, 30]]
    new = psgld.Observations.from_chunks(
        [(np.array(["ann", "ann", "bob"]), items, np.array([5.0, 1.0, 3.0]))]
    )
    folded = post.fold_in(new)
    assert folded.row_labels.tolist() == ["ann", "bob"] and folded.shape == (2, 40)
    got = folded.recommend(["ann"], n=40, exclude_seen=True)
    assert not set(items[:2]) & set(got.cols[0]) and np.isnan(got.score[0, 38:]).all()
    likes, dislikes = folded.predict("ann", items[:2]).mean
    assert likes > post.predict(None, items[:1]).mean.mean() and dislikes < likes
    np.testing.assert_array_equal(post.fold_in(new).W, folded.W)
    assert (post.fold_in(new, seed=1).W != folded.W).all()
    unknown = psgld.Observations.from_chunks([(np.array(["ann"]), np.array(["x"]), np.ones(1))])
    with pytest.raises(psgld.DataError, match="unknown column"):
        post.fold_in(unknown)


def test_absent_entries_mean_what_they_meant():
    from scipy.sparse import csr_array

    counts = csr_array(np.random.default_rng(0).poisson(0.3, (40, 30)))
    data = psgld.Observations.from_sparse(counts, absent="zero")
    # A learnt shape would say that rows are alike, and draw a row with few entries to the mean.
    model = psgld.FactorModel(2, "poisson", psgld.Exponential())
    post = psgld.sample(data, model, draws=30, tune=200, thin=2, progress=False)
    row = counts[[4]]
    np.testing.assert_array_equal(
        post.fold_in(row).W, post.fold_in(psgld.Observations.from_sparse(row, absent="zero")).W
    )
    only = post.fold_in(psgld.Observations.from_sparse(row, absent="unobserved"))
    assert only.predict().mean.mean() > 2 * post.fold_in(row).predict().mean.mean()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"side": "both"}, "rows"),
        ({"sweeps": 0}, "sweeps"),
        ({"V": np.ones((2, 7))}, "7 columns, the posterior 5"),
        ({"V": -np.ones((2, 5))}, "v >= 0"),
    ],
)
def test_refusals(small, arguments, words):
    with pytest.raises(psgld.PsgldError, match=words):
        small.fold_in(**{"V": np.ones((2, 5)), **arguments})


@pytest.fixture(scope="module")
def small():
    V = np.random.default_rng(0).poisson(4.0, (6, 5))
    return psgld.sample(V, psgld.FactorModel(2, "poisson"), draws=10, tune=50, thin=1, progress=False)


# -- going on ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("likelihood", ["gaussian", "poisson"])
def test_update_goes_on_from_where_the_chains_were(likelihood):
    V = np.asarray(synthetic(80, 60, 2, likelihood, seed=5).V.dense)
    model = psgld.FactorModel(2, likelihood, bias=likelihood == "gaussian")
    post = psgld.sample(V[:70, :55], model, draws=40, tune=600, thin=3, progress=False)
    grown = post.update(V, tune=0, draws=40, thin=1, progress=False)
    assert grown.shape == (80, 60) and grown.chains == 2
    fresh = psgld.sample(V, model, draws=40, tune=0, thin=1, progress=False)
    long = psgld.sample(V, model, draws=40, tune=1500, thin=5, progress=False)
    level = long.sample_stats["lp"].mean()
    spread = np.abs(level - fresh.sample_stats["lp"][:, 0].mean())
    assert np.abs(grown.sample_stats["lp"].mean() - level) < 0.15 * spread
    assert np.corrcoef(grown.predict().mean, long.predict().mean)[0, 1] > 0.97


def test_update_matches_labels():
    data = ratings(users=60, items=40, entries=1200, seed=1).V
    rows, cols, values = data.entries(np.arange(data.stored))
    users, items = data.row_labels[rows], data.col_labels[cols]
    model = psgld.FactorModel(2, "gaussian", bias=True)
    early = np.isin(rows, np.arange(5, 60))
    post = psgld.sample(
        psgld.Observations.from_chunks([(users[early], items[early], values[early])]),
        model, draws=30, tune=400, thin=2, progress=False,
    )  # fmt: skip
    new = psgld.Observations.from_chunks([(users[~early], items[~early], values[~early])])
    with pytest.raises(
        psgld.DataError, match=r"55 of the 55 rows .* not in V; update takes the whole matrix"
    ):
        post.update(new)
    fewer = psgld.Observations.from_coo(rows[early][:-1], cols[early][:-1], values[early][:-1], data.shape)
    same = replace(post, row_labels=None, col_labels=None)
    with pytest.raises(psgld.DataError, match=f"V has {early.sum() - 1} entries, there were {early.sum()}"):
        same.update(fewer)
    grown = post.update(data, tune=0, draws=1, thin=1, progress=False)
    assert grown.row_labels.tolist() == data.row_labels.tolist()
    at = [post.row_labels.tolist().index(label) for label in data.row_labels[10:20]]
    # One iteration after the start, the rows are still near the last draw of before.
    moved = np.abs(grown.W[:, 0, 10:20] - post.W[:, -1][:, at]).mean()
    assert moved < 0.5 * np.abs(grown.W[:, 0, 10:20]).mean()
    with pytest.raises(psgld.ModelError, match="same model"):
        psgld.sample(data, psgld.FactorModel(3, "gaussian"), start=post, progress=False)


def test_start_takes_the_draws_as_they_are():
    """With a step size of nearly nothing, the first draw is the last one of before."""
    V = np.asarray(synthetic(30, 20, 2, "gaussian", seed=5).V.dense)
    model = psgld.FactorModel(2, psgld.Gaussian(0.5), psgld.Normal(1.0), psgld.Normal(1.0), bias=True)
    post = psgld.sample(V, model, draws=5, tune=100, thin=2, progress=False)
    sampler = psgld.PSGLD(step_size=1e-12, blocks=1)
    again = psgld.sample(V, start=post, sampler=sampler, draws=1, tune=0, thin=1, chains=3, progress=False)
    for chain, before in ((0, 0), (1, 1), (2, 0)):
        np.testing.assert_allclose(again.W[chain, 0], post.W[before, -1], atol=1e-3)
        np.testing.assert_allclose(again.H[chain, 0], post.H[before, -1], atol=1e-3)
    empty = replace(post, draws=post.draws.without_factors())
    with pytest.raises(psgld.SamplingError, match="keep=True"):
        empty.update(V)


@pytest.mark.parametrize("likelihood", ["poisson", psgld.CompoundPoisson(phi=1.0)])
def test_absent_zeros_stay_zeros_everywhere(likelihood):
    """Zeros that are not stored stay zeros in what is folded in, gone on with and recommended."""
    rng = np.random.default_rng(0)
    X = sparse.csr_array(rng.poisson(0.4, (30, 20)).astype(float))
    data = psgld.observations(X, absent="zero")
    post = psgld.sample(data, psgld.FactorModel(2, likelihood), draws=20, tune=500, progress=False)
    said = post.fold_in(psgld.observations(X[:3], absent="zero"), seed=3)
    silent = post.fold_in(X[:3], seed=3)
    np.testing.assert_array_equal(said.W, silent.W)
    assert post.update(X, draws=5, tune=20, progress=False).settings["entries"] == 600
    assert post.recommend([0], n=3).score.shape == (1, 3)


# -- normal–Wishart priors -----------------------------------------------------------------------------------


def conjugate(d, model, shift, side, c, s, at, v):
    """The mean of a new row's free components given draw (c, s), in the components that the chain works with.

    A row is [w, a, 1], a column [h, 1, c + offset]; v - shift ~ N(row · column, φ), row ~ N(m, Λ⁻¹) in what is free.
    """
    W, H = d.W[c, s].astype(float), d.H[c, s].astype(float)
    if model.bias:
        offset = d.offset[c, s] - shift
        a, b = d.row_bias[c, s][:, None].astype(float), d.col_bias[c, s][:, None] + offset
        W, H = np.hstack([W, a, np.ones_like(a)]), np.hstack([H, np.ones_like(b), b])
    X, free = (H, model.modes[0].free) if side == "rows" else (W, model.modes[1].free)
    m, precision = (d.row_mean, d.row_precision) if side == "rows" else (d.col_mean, d.col_precision)
    m, precision = m[c, s][free], precision[c, s][np.ix_(free, free)]
    X, phi = X[at], d.phi[c, s]
    left = v - shift - X[:, ~free].sum(axis=1)
    P = X[:, free].T @ X[:, free] / phi + precision
    return np.linalg.solve(P, X[:, free].T @ left / phi + precision @ m), np.linalg.inv(P)


@pytest.fixture(scope="module", params=[False, True], ids=["plain", "biases"])
def bpmf(request):
    """A BPMF model of data far from 0, by Gibbs."""
    rng = np.random.default_rng(0)
    V = 5.0 + rng.normal(size=(40, 3)) @ rng.normal(size=(3, 25)) + 0.3 * rng.normal(size=(40, 25))
    model = psgld.FactorModel(3, "gaussian", psgld.NormalWishart(), bias=request.param)
    quick = {"draws": 6, "tune": 60, "thin": 1, "progress": False}
    post = psgld.sample(V, model, sampler=psgld.BPMFGibbs(dtype="float64"), **quick)
    return V, post


@pytest.mark.parametrize("side", ["rows", "cols"])
@pytest.mark.parametrize("pattern", ["whole", "holes"])
def test_new_rows_under_a_normal_wishart_prior(bpmf, side, pattern):
    V, post = bpmf
    d, model, shift = post.draws, post.model, V.mean()
    lines = (V if side == "rows" else V.T)[:3] + 0.5
    at = np.arange(lines.shape[1]) if pattern == "whole" else np.array([0, 3, 4, 11, 17])
    found = entries([{int(j): v[j] for j in at} for v in lines])
    X, own = gaussian(Other.of(d, model, int(side == "cols")), found, None)
    for q, v in enumerate(lines):
        for s in range(6):
            exact, _ = conjugate(d, model, shift, side, 1, s, at, v[at])
            if model.bias and side == "cols":
                exact[-1] -= d.offset[1, s] - shift
            got = X[6 + s, q] if own is None else np.append(X[6 + s, q], own[6 + s, q])
            np.testing.assert_allclose(got, exact, rtol=1e-8, atol=1e-9)
    S = 4000
    again = replace(Other.of(d, model, int(side == "cols")).one(0), likelihood=psgld.Gaussian())
    many = {n: np.repeat(a, S, axis=0) for n, a in vars(again).items() if isinstance(a, np.ndarray)}
    X, own = gaussian(replace(again, **many), found, 3)
    _, cov = conjugate(d, model, shift, side, 0, 0, at, lines[0][at])
    np.testing.assert_allclose(np.cov(X[:, 0].T), cov[:3, :3], atol=0.1 * cov.max())


def test_known_rows_folded_in_predict_as_they_did(bpmf):
    V, post = bpmf
    for side, part in (("rows", V[:5]), ("cols", V[:, :5])):
        folded = post.fold_in(part, side)
        assert np.abs(folded.predict().mean.reshape(part.shape) - part).mean() < 0.5
    assert post.transform(V[:4]).shape == (4, 3)


@pytest.mark.parametrize("suffix", [".npz", ".zarr"])
def test_the_normals_are_saved(bpmf, suffix, tmp_path):
    V, post = bpmf
    post.save(tmp_path / f"p{suffix}")
    back = psgld.load(tmp_path / f"p{suffix}")
    for name in ("row_mean", "row_precision", "col_mean", "col_precision"):
        np.testing.assert_array_equal(getattr(back.draws, name), getattr(post.draws, name))
    np.testing.assert_array_equal(back.fold_in(V[:2]).draws.W, post.fold_in(V[:2]).draws.W)


@pytest.mark.parametrize("sampler", [psgld.BPMFGibbs(), psgld.PSGLD(blocks=2, step_size=Power(0.01, 0.51))])
def test_a_resumed_run_has_all_the_normals(sampler, tmp_path):
    V = np.random.default_rng(0).normal(size=(30, 20))
    model = psgld.FactorModel(2, "gaussian", psgld.NormalWishart())
    quick = {"tune": 30, "thin": 1, "progress": False, "sampler": sampler, "store": tmp_path / "run.zarr"}
    psgld.sample(V, model, draws=4, **quick)
    more = psgld.sample(V, model, draws=9, resume=True, **quick)
    assert np.isfinite(more.draws.row_precision).all()
    whole = psgld.sample(V, model, draws=9, **(quick | {"store": None}))
    for name in ("row_mean", "row_precision", "col_mean", "col_precision"):
        np.testing.assert_array_equal(getattr(more.draws, name), getattr(whole.draws, name))
        np.testing.assert_array_equal(
            getattr(psgld.load(quick["store"]).draws, name), getattr(more.draws, name)
        )
    # More data, the same sampler: it is in the record.
    grown = psgld.load(quick["store"]).update(np.vstack([V, V[:3]]), draws=5, tune=10, progress=False)
    assert grown.shape == (33, 20) and grown.settings["sampler"] == whole.settings["sampler"]


def test_update_under_a_normal_wishart_prior_goes_on(bpmf):
    """The chain starts where it was, hyperparameters included: its lp is that of a long run at once."""
    V, post = bpmf
    grown = post.update(np.vstack([V, V[:4]]), tune=0, draws=30, thin=1, progress=False)
    quick = {"tune": 200, "draws": 30, "thin": 1, "progress": False}
    long = psgld.sample(np.vstack([V, V[:4]]), post.model, sampler=psgld.BPMFGibbs(), **quick)
    lp = long.sample_stats["lp"]
    assert abs(grown.sample_stats["lp"].mean() - lp.mean()) < 6 * lp.std()
    np.testing.assert_allclose(grown.predict().mean, long.predict().mean, atol=0.5)


def test_draws_of_an_older_version_are_refused(bpmf):
    V, post = bpmf
    old = replace(post, draws=post.draws.with_mode(0, mean=None, precision=None))
    for ask in (lambda: old.fold_in(V[:2]), lambda: old.update(V)):
        with pytest.raises(psgld.ModelError, match="older psgld did not keep"):
            ask()


def test_a_sampler_that_cannot_be_made_again(small):
    for record in (
        {"name": "PSGLD", "step_size": "<function f>"},
        {"name": "x"},
        {"name": "PSGLD", "metric": "exit()"},
    ):
        post = replace(small, settings=small.settings | {"sampler": record})
        with pytest.raises(psgld.SamplingError, match="cannot be recreated from its record"):
            post.update(np.ones((12, 9)))


def test_the_summary_is_of_the_new_rows():
    V = synthetic(30, 20, 2, "poisson", seed=1).V
    post = psgld.sample(V, psgld.FactorModel(2, "poisson"), draws=40, tune=100, progress=False)
    new = post.fold_in(V.dense[:2])
    assert new.settings["entries"] == 40 and post.settings["entries"] == 600
    text = new.summary()
    assert "observed       40 entries" in text and "folded in      the rows" in text
    assert "log posterior" not in text and "step size" not in text
    assert "lp" not in new.diagnose().names
