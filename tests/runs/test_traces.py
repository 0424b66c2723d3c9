"""The wall time of each mark, the log likelihood of all entries, and the cost of a run."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from chain_cases import CASES, assert_same, dense_counts, ratings, words, zero_gaussian
from scipy.special import gammaln
from scipy.stats import gamma

import psgld

PLAN = dict(tune=30, draws=6, thin=4, chains=2, seed=5, progress=False)


def draw(case, **options):
    V, model, sampler = case()
    return psgld.sample(V, model, sampler=sampler, **(PLAN | options))


@pytest.fixture(scope="module", params=[c for c in CASES if c.__name__ != "large_dense_counts"])
def pair(request):
    """A run that records the log likelihood, and one that does not."""
    case = request.param
    with pytest.MonkeyPatch.context():
        return case, draw(case, log_likelihood=True), draw(case)


pytestmark = pytest.mark.filterwarnings("ignore:verdict:psgld.PsgldWarning")


@pytest.mark.filterwarnings("ignore::psgld.PsgldWarning")
def test_a_chain_is_the_same_with_and_without(pair):
    _, full, plain = pair
    assert set(full.sample_stats) - set(plain.sample_stats) == {"log_likelihood", "log_posterior"}
    full = replace(full, sample_stats={name: full.sample_stats[name] for name in plain.sample_stats})
    assert_same(plain, full)


@pytest.mark.filterwarnings("ignore::psgld.PsgldWarning")
def test_it_is_the_sum_over_all_entries(pair):
    case, full, _ = pair
    V, likelihood = psgld.observations(case()[0]), full.model.likelihood
    filled = V.filled()
    i, j, v = filled.entries(np.arange(filled.stored))
    expected = np.empty((2, 6))
    for at in np.ndindex(2, 6):
        eta = full.draws.eta(at, np.arange(V.shape[0]), np.float64)[i, j]
        theta = likelihood.joined(float(full.draws.phi[at]), ())
        expected[at] = likelihood.logpdf(v, eta, *theta).sum()
    np.testing.assert_allclose(full.sample_stats["log_likelihood"], expected, rtol=2e-6)
    np.testing.assert_allclose(psgld.log_likelihood(full, case()[0]), expected, rtol=2e-6)
    assert full.warmup["log_likelihood"].shape == full.warmup["lp"].shape


@pytest.mark.parametrize("case", [dense_counts, words])
@pytest.mark.filterwarnings("ignore::psgld.PsgldWarning")
def test_it_depends_neither_on_threads_nor_on_thin(case):
    one, two = (
        draw(case, thin=thin, draws=24 // thin, chains=1, log_likelihood=True, engine=psgld.Threads(n))
        for n, thin in ((1, 2), (2, 8))
    )
    for name in ("log_likelihood", "log_posterior"):
        np.testing.assert_array_equal(one.sample_stats[name][:, 3::4], two.sample_stats[name])


def test_lp_is_the_log_posterior_where_all_entries_are_monitored():
    post = draw(dense_counts, log_likelihood=True)
    assert post.settings["lp_entries"] == post.settings["entries"]
    np.testing.assert_allclose(post.sample_stats["log_posterior"], post.sample_stats["lp"], rtol=1e-7)
    prior = post.sample_stats["log_posterior"] - post.sample_stats["log_likelihood"]
    d = post.draws
    sides = ((d.W, d.row_rate, d.row_shape), (d.H, d.col_rate, d.col_shape))
    expected = sum(gamma.logpdf(x[1, 5], a[1, 5], scale=1 / r[1, 5]).sum() for x, r, a in sides)
    assert prior[1, 5] == pytest.approx(expected, rel=1e-6)


def test_gibbs_and_psgld_have_the_same_scale():
    V, model, _ = dense_counts()
    post = psgld.sample(V, model, sampler=psgld.Gibbs(), log_likelihood=True, **PLAN)
    mu = post.draws.eta((0, 3), np.arange(60), np.float64)
    expected = (V * np.log(mu) - mu - gammaln(V + 1)).sum()
    assert post.sample_stats["log_likelihood"][0, 3] == pytest.approx(expected, rel=1e-6)


def test_an_entry_of_weight_two_counts_twice():
    V, model, sampler = ratings()
    weights = np.where(np.arange(V.stored) < 1000, 2.0, 1.0)
    i, j, v = V.entries(np.arange(V.stored))
    weighted = psgld.Observations.from_coo(i, j, v, V.shape, "unobserved", weights=weights)
    post = psgld.sample(V, model, sampler=sampler, **(PLAN | {"draws": 1}))
    first = psgld.Observations.from_coo(i[:1000], j[:1000], v[:1000], V.shape, "unobserved")
    both = psgld.log_likelihood(post, V) + psgld.log_likelihood(post, first)
    np.testing.assert_allclose(psgld.log_likelihood(post, weighted), both, rtol=1e-9)


def test_of_one_draw_and_of_an_estimate():
    V, model, _ = dense_counts()
    post = draw(dense_counts)
    every = psgld.log_likelihood(post, V)
    assert every.shape == (2, 6)
    assert psgld.log_likelihood(post, V, (1, -1)) == every[1, 5]
    found = psgld.optimize(V, model, max_passes=50)
    mu = found.W.astype(float) @ found.H
    expected = (V * np.log(mu) - mu - gammaln(V + 1)).sum()
    assert psgld.log_likelihood(found, V) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("at", [(0, 6), (2, 0), (0,), "last", 3])
def test_a_draw_that_is_not_there(at):
    with pytest.raises(psgld.DataError, match=r"draw must be \(chain, draw\), one of 2 chains × 6 draws"):
        psgld.log_likelihood(draw(dense_counts), dense_counts()[0], at)


def test_wrong_arguments():
    V, model, _ = dense_counts()
    with pytest.raises(psgld.DataError, match="must be a Posterior or an Estimate, got a FactorModel"):
        psgld.log_likelihood(model, V)
    with pytest.raises(psgld.SamplingError, match="log_likelihood must be True or False, got 'full'"):
        psgld.sample(V, model, log_likelihood="full")
    with pytest.raises(psgld.DataError):
        psgld.log_likelihood(draw(dense_counts), -V)


def test_seconds_grow_along_a_run_and_count_no_pass():
    post = draw(zero_gaussian, log_likelihood=True)
    for chain in range(2):
        seconds = np.concatenate([table["seconds"][chain] for table in (post.warmup, post.sample_stats)])
        assert (np.diff(seconds) >= 0).all() and 0 < seconds[0] <= seconds[-1] < 60


def test_a_resumed_run_continues_to_count(tmp_path):
    store = tmp_path / "run.memory"
    short = draw(dense_counts, store=store, log_likelihood=True)
    longer = draw(dense_counts, draws=10, store=store, resume=True, log_likelihood=True)
    for name in ("seconds", "log_likelihood", "log_posterior"):
        np.testing.assert_array_equal(longer.sample_stats[name][:, :6], short.sample_stats[name])
        np.testing.assert_array_equal(psgld.load(store).sample_stats[name], longer.sample_stats[name])
    assert (np.diff(longer.sample_stats["seconds"], axis=1) >= 0).all()
    with pytest.raises(psgld.DataError, match="log_likelihood of all entries in the store, None now"):
        draw(dense_counts, draws=12, store=store, resume=True)


@pytest.mark.parametrize("suffix", [".npz", ".memory"])
def test_results_of_older_versions_have_no_seconds(suffix, tmp_path):
    post = draw(dense_counts)
    old = {
        name: {n: a for n, a in getattr(post, name).items() if n != "seconds"}
        for name in ("sample_stats", "warmup")
    }
    replace(post, **old).save(tmp_path / f"old{suffix}")
    again = psgld.load(tmp_path / f"old{suffix}")
    assert "seconds" not in again.sample_stats and "lp" in again.warmup
    full = draw(dense_counts, log_likelihood=True)
    full.save(tmp_path / f"full{suffix}")
    again = psgld.load(tmp_path / f"full{suffix}")
    for name, column in full.sample_stats.items():
        np.testing.assert_array_equal(again.sample_stats[name], column)


def test_cost_of_a_run():
    V, model, sampler = dense_counts()
    iterations, size = 2 * (30 + 6 * 4), V.size
    cost = {
        sampler: size / 3,
        psgld.LD(): size,
        psgld.SGLD(size=100): 100,
        psgld.Gibbs(): size,
    }
    for one, entries in cost.items():
        settings = psgld.sample(V, model, sampler=one, **PLAN).settings
        assert settings["entries_read"] == round(entries * iterations)
        assert settings["coefficients_updated"] == iterations * sum(V.shape) * 3
