"""What `to_arviz` returns is what the installed ArviZ takes: 0.2x (`make test-arviz`) or 1."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest

import psgld
from psgld.datasets import synthetic
from psgld.posterior.psis import loo

GROUPS = {"posterior", "sample_stats", "observed_data", "posterior_predictive", "log_likelihood"}


@pytest.fixture(scope="module")
def post():
    V = synthetic(40, 30, 2, "poisson", seed=3).V
    return psgld.sample(V, psgld.FactorModel(2, "poisson"), draws=100, tune=600, thin=10, progress=False)


def groups(tree):
    """The names of the groups, of either kind of tree."""
    return {name.strip("/") for name in (tree.groups() if callable(tree.groups) else tree.groups)} - {""}


@pytest.mark.filterwarnings("ignore")  # of ArviZ 0.2x, of what is to come
def test_groups(post):
    pytest.importorskip("xarray")
    tree = post.to_arviz()
    assert groups(tree) == GROUPS
    cells = post.observed
    np.testing.assert_array_equal(tree["observed_data"]["v"].values, cells.values)
    each = post.predict(cells.rows, cells.cols).log_densities(cells.values)
    np.testing.assert_allclose(tree["log_likelihood"]["v"].values.reshape(200, -1), each)
    assert tree["posterior_predictive"]["v"].dims == ("chain", "draw", "entry")
    assert tree["log_likelihood"]["entry"].values[0] == f"{cells.rows[0]}, {cells.cols[0]}"


@pytest.mark.filterwarnings("ignore")  # of ArviZ and of matplotlib
def test_the_installed_arviz_takes_it(post):
    tree = post.to_arviz()
    az = pytest.importorskip("arviz" if "arviz" in installed() else "arviz_stats")
    table = az.summary(tree, var_names=["row_rate", "mu"])
    assert len(table) == 2 + len(set(post.diagnose().names[1:]))
    found = az.loo(tree)
    cells = post.observed
    own, _ = loo(post.predict(cells.rows, cells.cols).log_densities(cells.values))
    assert float(getattr(found, "elpd_loo", getattr(found, "elpd", None))) == pytest.approx(
        own.sum(), rel=1e-5
    )


@pytest.mark.filterwarnings("ignore")
def test_traces(post):
    if "arviz" in installed():
        import arviz
        import matplotlib

        matplotlib.use("agg")
        assert arviz.plot_trace(post.to_arviz(), var_names=["row_rate"]).shape == (1, 2)
    else:
        plots = pytest.importorskip("arviz_plots")
        assert plots.plot_trace(post.to_arviz(), var_names=["row_rate"]) is not None


def installed():
    from importlib.metadata import distributions

    return {d.metadata["Name"] for d in distributions()}


def test_either_generation(post, monkeypatch):
    """Of ArviZ 0.2x, its `from_dict` is called with groups by name."""
    from psgld.posterior import arviz

    monkeypatch.setattr(arviz, "_is_old", lambda: True)
    monkeypatch.setitem(sys.modules, "arviz", SimpleNamespace(from_dict=lambda **given: given))
    given = post.to_arviz()
    assert set(given) == GROUPS | {"coords", "dims", "attrs"}
    assert given["dims"]["v"] == ["entry"] and len(given["coords"]["entry"]) == len(post.observed)


@pytest.mark.filterwarnings("ignore")
def test_weights_count(post):
    w = np.random.default_rng(0).uniform(0.5, 2, (20, 15))
    V = psgld.observations(np.random.default_rng(1).poisson(3.0, (20, 15)), weights=w)
    own = psgld.sample(V, psgld.FactorModel(1, "poisson"), draws=10, tune=50, progress=False)
    found = own.to_arviz()["log_likelihood"]["v"].values.reshape(20, -1)
    each = own.predict(own.observed.rows, own.observed.cols).log_densities(own.observed.values)
    np.testing.assert_allclose(found, own.observed.weights * each, rtol=1e-6)
