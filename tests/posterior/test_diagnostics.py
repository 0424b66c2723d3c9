"""R-hat and effective sample sizes: the right numbers, and the right words."""

import sys
from dataclasses import replace

import numpy as np
import pytest

import psgld
from psgld.datasets import synthetic
from psgld.posterior.diagnostics import Diagnostics, diagnose, watched
from psgld.runs.draws import Draws

pytest.importorskip("arviz_stats")


@pytest.fixture(scope="module")
def post():
    V = synthetic(40, 30, 2, "poisson", seed=3).V
    return psgld.sample(V, psgld.FactorModel(2, "poisson"), draws=100, tune=600, thin=10, progress=False)


def test_the_numbers_are_those_of_arviz(post):
    from arviz_stats.base import array_stats

    found = diagnose(post)
    assert found.names[0] == "lp" and len(found.names) == len(found.rhat) == 51
    rows, cols = watched(post)
    mu = post.predict(rows[:1], cols[:1]).draws[:, 0].reshape(2, 100)
    assert found.names[1] == f"mu[{rows[0]}, {cols[0]}]"
    assert found.rhat[1] == pytest.approx(array_stats.rhat(mu, chain_axis=0, draw_axis=1))
    assert found.ess_bulk[0] == pytest.approx(
        array_stats.ess(post.sample_stats["lp"], chain_axis=0, draw_axis=1)
    )
    assert (found.ess_tail > 0).all()


def white(rng, shift=0.0):
    """A posterior of independent draws; with a shift, the second chain is elsewhere."""
    model = psgld.FactorModel(1, "poisson")
    W, H = 1 + 0.1 * rng.random((2, 400, 6, 1)), 1 + 0.1 * rng.random((2, 400, 5, 1))
    W[1] += shift
    rate = np.ones((2, 400, 1))
    draws = Draws.of(W=W, H=H, row_rate=rate, col_rate=rate, offset=np.zeros((2, 400)), phi=np.ones((2, 400)))
    stats = {"lp": rng.normal(size=(2, 400))}
    return psgld.Posterior(draws, model, (6, 5), stats, {}, {})


def test_verdicts():
    rng = np.random.default_rng(0)
    good, bad = white(rng).diagnose(), white(rng, shift=0.3).diagnose()
    assert good.converged and "converged: largest R-hat 1.0" in good.verdict
    assert not bad.converged and "not converged" in bad.verdict and "more tune" in bad.verdict
    few = Diagnostics(["lp"], np.array([1.02]), np.array([30.0]), np.array([20.0]))
    assert (
        not few.converged
        and "smallest ESS 30 (lp), in the tails 20 (lp)" in few.verdict
        and "more draws" in few.verdict
    )
    still = Diagnostics(["lp"], np.array([np.nan]), np.array([np.nan]), np.array([np.nan]))
    assert "do not vary" in still.verdict and not still.converged


def test_one_chain_is_compared_with_itself():
    rng = np.random.default_rng(1)
    level = rng.normal(size=(1, 400))
    for lp, word in ((level, "converged"), (level + np.linspace(0, 20, 400), "! not converged")):
        one = white(rng)
        draws = one.draws.part([0], 400)
        found = replace(one, draws=draws, sample_stats={"lp": lp}).diagnose()
        assert found.verdict.startswith(word) and "of the halves of one chain" in found.verdict
        assert found.converged == (word == "converged") == found.record()["converged"]
        assert found.record()["rhat"] == found.rhat.max()


def test_cells_are_named_by_labels():
    named = replace(white(np.random.default_rng(2)), row_labels=np.array(list("abcdef")))
    i, j = watched(named)
    assert named.diagnose().names[1] == f"mu[{'abcdef'[i[0]]}, {j[0]}]"


def test_the_summary_ends_with_the_verdict(post, monkeypatch):
    assert post.summary().splitlines()[-1].strip() == post.diagnose().verdict
    monkeypatch.setitem(sys.modules, "arviz_stats", None)
    monkeypatch.setitem(sys.modules, "arviz_stats.base", None)
    assert "psgld[diagnostics]" in post.summary() and "log posterior is level" in post.summary()
    with pytest.raises(psgld.SamplingError, match="arviz-stats"):
        post.diagnose()


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
