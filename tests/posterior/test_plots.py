import numpy as np
import pytest

import psgld
from psgld import datasets

pytest.importorskip("matplotlib")

from psgld.posterior import plots


@pytest.fixture(scope="module")
def data():
    return datasets.ratings(users=80, items=50, entries=1500, rank=2)


@pytest.fixture(scope="module")
def posterior(data):
    model = psgld.FactorModel(3, "gaussian", bias=True)
    return psgld.sample(data.V, model, draws=40, tune=300, chains=2, progress=False)


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
    assert pyplot.get_fignums() == []


def test_least_level_agrees_with_the_intervals(posterior, data):
    rows, cols, values = data.test
    prediction = posterior.predict(rows, cols)
    least = plots.least_level(prediction, values)
    for level in (0.5, 0.9):
        low, high = prediction.interval(level)
        inside = (low <= values) & (values <= high)
        # 80 draws place a quantile to about 1/80 on either side
        assert np.all(inside[least < level - 0.03]) and not np.any(inside[least > level + 0.03])


def test_no_draws_is_an_error(data):
    model = psgld.FactorModel(2, "gaussian")
    post = psgld.sample(data.V, model, draws=2, tune=10, chains=1, keep=False, progress=False)
    with pytest.raises(psgld.SamplingError, match="no draws"):
        plots.overview(post)
