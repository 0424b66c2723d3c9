"""R-hat and effective sample sizes: the right numbers, and the right words."""

import sys
import warnings
from dataclasses import replace

import numpy as np
import pytest

import psgld
from psgld.datasets import synthetic
from psgld.posterior import mixing
from psgld.posterior.diagnostics import diagnose, monitored
from psgld.runs.draws import Draws


@pytest.fixture(scope="module")
def post():
    V = synthetic(40, 30, 2, "poisson", seed=3).V
    return psgld.sample(V, psgld.FactorModel(2, "poisson"), draws=100, tune=600, thin=10, progress=False)


def chains_of(rng, n):
    """Quantities of two chains: white, drifting, autocorrelated, discrete, anticorrelated, constant, apart."""
    x = rng.normal(size=(7, 2, n))
    x[1] = np.cumsum(x[1], axis=-1)
    for t in range(1, n):
        x[2, :, t] += 0.9 * x[2, :, t - 1]
        x[4, :, t] -= 0.7 * x[4, :, t - 1]
    x[3], x[5] = np.round(x[3]), 1.0
    x[6, 1] += 3.0
    return x


@pytest.mark.parametrize("n", [10, 12, 57, 200, 401])
def test_the_numbers_are_those_of_arviz(n):
    array_stats = pytest.importorskip("arviz_stats.base").array_stats
    x = chains_of(np.random.default_rng(n), n)
    axes = {"chain_axis": 1, "draw_axis": 2}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the quantity that does not vary
        theirs = {
            mixing.rhat: array_stats.rhat(x, **axes),
            mixing.ess_bulk: array_stats.ess(x, method="bulk", **axes),
            mixing.ess_tail: array_stats.ess(x, method="tail", prob=(0.05, 0.95), **axes),
            mixing.ess_mean: array_stats.ess(x, method="mean", **axes),
        }
        for own, expected in theirs.items():
            np.testing.assert_allclose(own(x), expected, rtol=1e-6, err_msg=own.__name__)


def test_the_numbers_are_those_of_the_draws(post):
    found = diagnose(post)
    assert found.names[0] == "lp" and len(found.names) == len(found.rhat) == 51
    rows, cols = monitored(post)
    mu = post.predict(rows[:1], cols[:1]).draws[:, 0].reshape(2, 100)
    assert found.names[1] == f"mu[{rows[0]}, {cols[0]}]"
    assert found.rhat[1] == mixing.rhat(mu) and found.ess_bulk[0] == mixing.ess_bulk(post.sample_stats["lp"])
    assert (found.ess_tail > 0).all()


def white(rng, shift=0.0, draws=400):
    """A posterior of independent draws; with a shift, the second chain is elsewhere."""
    model = psgld.FactorModel(1, "poisson")
    W, H = 1 + 0.1 * rng.random((2, draws, 6, 1)), 1 + 0.1 * rng.random((2, draws, 5, 1))
    W[1] += shift
    rate = np.ones((2, draws, 1))
    kept = Draws.of(
        W=W, H=H, row_rate=rate, col_rate=rate, offset=np.zeros((2, draws)), phi=np.ones((2, draws))
    )
    stats = {"lp": rng.normal(size=(2, draws))}
    return psgld.Posterior(kept, model, (6, 5), stats, {}, {})


def test_one_chain_is_never_said_to_agree_with_others():
    rng = np.random.default_rng(1)
    level = rng.normal(size=(1, 1600))
    for lp, kind in ((level, "fine"), (level + np.linspace(0, 20, 1600), "slow")):
        one = white(rng, draws=1600)
        found = replace(one, draws=one.draws.part([0], 1600), sample_stats={"lp": lp}).diagnose()
        assert found.kind == kind and "of the halves of one chain" in found.verdict
        assert found.converged == (kind == "fine") == found.record()["converged"]
        assert found.record()["rhat"] == found.rhat.max() and "all chains" not in found.verdict
        assert kind != "fine" or "as far as one chain can tell" in found.verdict


def test_cells_are_named_by_labels():
    named = replace(white(np.random.default_rng(2)), row_labels=np.array(list("abcdef")))
    i, j = monitored(named)
    assert named.diagnose().names[1] == f"mu[{'abcdef'[i[0]]}, {j[0]}]"


def test_the_summary_ends_with_the_verdict(post, monkeypatch):
    assert post.summary().splitlines()[-1].strip() == post.diagnose().verdict
    monkeypatch.setitem(sys.modules, "arviz_stats", None)
    monkeypatch.setitem(sys.modules, "arviz_base", None)
    assert post.summary().splitlines()[-1].strip() == post.diagnose().verdict
    with pytest.raises(psgld.SamplingError, match=r"psgld\[diagnostics\]"):
        post.to_arviz()


def test_what_cannot_be_told(post):
    short = replace(post, sample_stats={"lp": post.sample_stats["lp"][:, :5]})
    with pytest.raises(psgld.SamplingError, match="10 draws"):
        short.diagnose()
    V = synthetic(20, 15, 2, "poisson", seed=3).V
    only = psgld.sample(
        V, psgld.FactorModel(2, "poisson"), draws=30, tune=50, thin=1, keep=False, progress=False
    )
    assert only.diagnose().names == ["lp"]


def test_to_arviz():
    pytest.importorskip("arviz_base")
    data = psgld.datasets.ratings(users=30, items=20, entries=300)
    model = psgld.FactorModel(2, "gaussian", bias=True)
    post = psgld.sample(data.V, model, draws=20, tune=50, thin=1, progress=False)
    tree = post.to_arviz()
    p = tree["posterior"]
    assert p["W"].dims == ("chain", "draw", "row", "component") and p["H"].shape == (2, 20, 2, post.shape[1])
    assert p["row"].values.tolist() == post.row_labels.tolist()
    np.testing.assert_array_equal(p["W"].values, post.W)
    np.testing.assert_array_equal(tree["sample_stats"]["lp"].values, post.sample_stats["lp"])
    cell = p["mu"].isel(cell=3)
    one = post.predict(*cell["cell"].item().split(", ")).draws[:, 0]
    np.testing.assert_allclose(cell.values.ravel(), one)


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")  # of what does not vary
def test_arviz_takes_it(post):
    pytest.importorskip("xarray_einstats")
    arviz_stats = pytest.importorskip("arviz_stats")
    tree = post.to_arviz()
    table = arviz_stats.summary(tree, var_names=["row_rate", "mu"])
    found = post.diagnose()
    assert set(found.names[1:]) <= set(table.index)
    assert float(tree["sample_stats"]["lp"].azstats.rhat()) == pytest.approx(found.rhat[0])
