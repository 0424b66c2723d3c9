from dataclasses import replace

import numpy as np
import pytest

import psgld
from psgld import datasets

pytest.importorskip("matplotlib")

from psgld.posterior import plots

OF_A_POSTERIOR = (
    "trace",
    "parts",
    "certainty",
    "examples",
    "components",
    "dictionary",
    "activations",
    "factor_map",
)
OF_HELD_OUT = ("observed", "calibration", "coverage", "examples")


@pytest.fixture(scope="module")
def data():
    return datasets.ratings(users=80, items=50, entries=1500, rank=2)


@pytest.fixture(scope="module")
def posterior(data):
    model = psgld.FactorModel(3, "gaussian", bias=True)
    return psgld.sample(data.V, model, draws=40, tune=300, chains=2, progress=False)


def test_all_plots_are_in_these_tables():
    assert {*OF_A_POSTERIOR, *OF_HELD_OUT} == {*plots.__all__} - {"overview", "comparison", "least_level"}


def saved(ax, path):
    assert ax.get_title() and ax.get_xlabel() and ax.get_ylabel()
    ax.figure.savefig(path)
    return path.stat().st_size > 5000


@pytest.mark.parametrize("name", OF_A_POSTERIOR)
def test_plots_of_a_posterior(name, posterior, tmp_path):
    assert saved(getattr(plots, name)(posterior), tmp_path / "a.png")


@pytest.mark.parametrize("name", OF_HELD_OUT)
def test_plots_of_held_out_entries(name, posterior, data, tmp_path):
    assert saved(getattr(plots, name)(posterior, data.test), tmp_path / "a.png")


def test_entries_that_were_held_out_are_the_default():
    post = psgld.sample(
        psgld.split(datasets.ratings(users=40, items=30, entries=500).V, 0.2)[0],
        psgld.FactorModel(2, "gaussian"), draws=20, tune=50, progress=False,
    )  # fmt: skip
    assert "held (90 held-out values" in plots.coverage(post).get_legend_handles_labels()[1][1]
    with pytest.raises(psgld.DataError, match="no entries were held out"):
        plots.coverage(replace(post, held_out=None))


@pytest.mark.parametrize("name", [*OF_A_POSTERIOR, *OF_HELD_OUT])
def test_given_axes_are_used(name, posterior, data):
    from matplotlib.figure import Figure

    ax = Figure().subplots()
    given = (posterior, data.test) if name in OF_HELD_OUT else (posterior,)
    assert getattr(plots, name)(*given, ax=ax) is ax and ax.get_title()


def test_overview_with_held_out_values(posterior, data, tmp_path):
    figure = plots.overview(posterior, data.test)
    titles = [ax.get_title() for ax in figure.axes]
    assert len(set(titles)) == 4 and all(titles)
    figure.savefig(tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_overview_without(posterior, tmp_path):
    plots.overview(posterior).savefig(tmp_path / "a.svg")
    assert "<svg" in (tmp_path / "a.svg").read_text()


@pytest.mark.parametrize("likelihood", ["poisson", "inverse-gaussian"])
def test_overview_of_other_models(likelihood, tmp_path):
    truth = datasets.synthetic(20, 15, 2, likelihood)
    post = psgld.sample(truth.V, psgld.FactorModel(50, likelihood), draws=1, tune=0, chains=1, progress=False)
    plots.overview(post, ([0], [1], [2.0])).savefig(tmp_path / "a.png")


def test_pyplot_is_left_alone(posterior):
    from matplotlib import pyplot

    plots.overview(posterior)
    plots.trace(posterior)
    assert pyplot.get_fignums() == []


def test_curve_and_coverage_are_those_of_the_held_out_values(posterior, data):
    rows, cols, values = data.test
    p = posterior.predict(rows, cols)
    low, high = p.interval(0.9)
    held = np.mean((low <= values) & (values <= high))
    curve = max(plots.calibration(posterior, data.test).lines, key=lambda line: len(line.get_xdata()))
    at = np.argmin(np.abs(curve.get_xdata() - 0.9))
    assert curve.get_ydata()[at] == pytest.approx(held, abs=0.04)
    found = plots.coverage(posterior, data.test, level=0.9)
    shares = found.containers[0].lines[0].get_ydata()
    assert shares.mean() == pytest.approx(held, abs=0.01) and len(shares) == 8


def test_bands_hold_the_means(posterior):
    band = posterior.components().band("rows")
    ax = plots.dictionary(posterior, 2)
    np.testing.assert_allclose(ax.lines[0].get_ydata(), band.mean[1])
    low, high = np.array(ax.collections[0].get_segments())[:, :, 1].T
    np.testing.assert_allclose((low, high), (band.low[1], band.high[1]))


def test_parts_are_disjoint():
    V = np.random.default_rng(0).poisson(3.0, (40, 30)).astype(float)
    post = psgld.sample(
        V, psgld.FactorModel(2, "poisson"), sampler=psgld.PSGLD(blocks=4), draws=2, tune=4, progress=False
    )
    ax = plots.parts(post, 1)
    corners = np.round([patch.get_xy() for patch in ax.patches])
    assert len(corners) == 4 and all(len(set(side)) == 4 for side in corners.T)
    assert all(int(t.get_text()) == (t.get_position()[0] - t.get_position()[1]) % 4 for t in ax.texts)
    with pytest.raises(psgld.DataError, match="part must be"):
        plots.parts(post, 4)


@pytest.mark.filterwarnings("ignore:chains diverged")  # short chains
def test_labels_are_not_read_as_mathematics(tmp_path):
    rows, cols = (
        np.array(["$a_{", "b$"])[np.indices((2, 3))[0].ravel()],
        np.array(["$x^", "y\n", "z"])[np.indices((2, 3))[1].ravel()],
    )
    V = psgld.Observations.from_chunks([(rows, cols, np.arange(6.0))], absent="unobserved")
    post = psgld.sample(V, psgld.FactorModel(2, "gaussian"), draws=10, tune=20, progress=False)
    plots.factor_map(post).figure.savefig(tmp_path / "a.svg")
    with pytest.raises(psgld.DataError, match="component must be"):
        plots.factor_map(post, 0)


@pytest.mark.parametrize("likelihood", ["gaussian", "poisson", "bernoulli"])
def test_least_level_agrees_with_the_probabilities(likelihood):
    """Values drawn from the prediction have uniform levels, also if they are discrete."""
    V = datasets.synthetic(30, 25, 2, likelihood).V
    post = psgld.sample(V, psgld.FactorModel(2, likelihood), draws=40, tune=100, progress=False)
    p = post.predict()
    rng = np.random.default_rng(0)
    draws = p.new_draws()
    values = draws[rng.integers(len(draws), size=len(p)), np.arange(len(p))]
    levels = np.sort(plots.least_level(p, values))
    assert np.abs(levels - np.linspace(0, 1, len(levels))).max() < 1.7 / np.sqrt(len(levels))


def test_no_draws_is_an_error(data):
    model = psgld.FactorModel(2, "gaussian")
    post = psgld.sample(data.V, model, draws=2, tune=10, chains=1, keep=False, progress=False)
    for plot in (plots.overview, plots.components, plots.dictionary):
        with pytest.raises(psgld.SamplingError, match="no draws"):
            plot(post)
