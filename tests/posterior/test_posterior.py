"""What comes back: draws, predictions, traces, labels, files."""

import sys
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import psgld
from psgld.datasets import ratings, synthetic


@pytest.fixture(scope="module")
def data():
    return synthetic(40, 30, 3, "gaussian", seed=1)


@pytest.fixture(scope="module")
def post(data):
    model = psgld.FactorModel(3, "gaussian", bias=True)
    return psgld.sample(data.V, model, draws=60, tune=400, thin=4, track=([1, 2], [3, 4]), progress=False)


def test_shapes(post):
    assert post.W.shape == (2, 60, 40, 3) and post.H.shape == (2, 60, 3, 30)
    assert post.draws.row_bias.shape == (2, 60, 40) and post.draws.col_bias.shape == (2, 60, 30)
    assert set(post.sample_stats) == {"iteration", "lp", "step_size", "diverging", "seconds"}
    assert all(table.shape == (2, 60) for table in post.sample_stats.values())
    assert post.sample_stats["iteration"][0].tolist() == list(range(404, 641, 4))
    assert post.warmup["lp"].shape == (2, 100)
    assert "rank-3 factorisation of a 40 × 30 matrix" in post.summary()


def test_a_prediction_is_what_the_draws_say(post):
    rows, cols = np.divmod(np.arange(1200), 30)
    p = post.predict(rows, cols)
    d = post.draws
    mu = post.W @ post.H + d.row_bias[..., None] + d.col_bias[..., None, :] + d.offset[..., None, None]
    mu = mu.reshape(120, 1200)
    np.testing.assert_allclose(p.draws, mu, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(p.mean, mu.mean(0), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(p.sd, mu.std(0, ddof=1), rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(p.new_sd, np.sqrt(p.sd**2 + d.phi.mean()), rtol=1e-6)
    low, high = p.mean_interval(0.8)
    np.testing.assert_allclose([low, high], np.quantile(mu, [0.1, 0.9], axis=0), rtol=1e-3, atol=1e-3)


def test_new_observations_spread_more_than_means(post, data):
    p = post.predict(*np.divmod(np.arange(1200), 30))
    (low, high), (mean_low, mean_high) = p.interval(0.9), p.mean_interval(0.9)
    assert ((high - low) > (mean_high - mean_low)).mean() > 0.99
    np.testing.assert_array_equal(p.interval(0.9)[0], low)  # the same draws every time
    assert p.new_draws().std() > p.draws.std()
    values = np.asarray(data.V.dense).ravel()
    # The log of an average over the draws, so at least as large as the average of the logs.
    logs = post.model.likelihood.logpdf(values, p.draws, post.draws.phi.reshape(-1, 1))
    assert (p.log_density(values) >= logs.mean(0) - 1e-9).all()
    np.testing.assert_allclose(p.log_density(values), np.log(np.exp(logs).mean(0)), rtol=1e-6)


def test_tracked_moments_are_those_of_the_draws(post):
    p = post.predict([1, 2], [3, 4])
    np.testing.assert_allclose(post.tracked.mean, p.mean, rtol=1e-4)
    np.testing.assert_allclose(post.tracked.sd, p.sd, rtol=1e-3)


def test_log_posterior_is_the_joint_density(post, data):
    """All entries are probes in a small problem: lp is exact."""
    d, model = post.draws, post.model
    W, H = d.W[1, -1].astype(float), d.H[1, -1].astype(float)
    a, c = d.row_bias[1, -1].astype(float), d.col_bias[1, -1].astype(float)
    mu = W @ H.T + a[:, None] + c + d.offset[1, -1]
    expected = model.likelihood.logpdf(np.asarray(data.V.dense), mu, d.phi[1, -1]).sum()
    for x, rate in ((W, d.row_rate[1, -1, :3]), (H, d.col_rate[1, -1, :3])):
        expected += model.row_prior.log_density(x, rate).sum()
    expected += model.row_prior.log_density(a, d.row_rate[1, -1, 3]).sum()
    expected += model.col_prior.log_density(c, d.col_rate[1, -1, 4]).sum()
    assert post.sample_stats["lp"][1, -1] == pytest.approx(expected, rel=1e-4)


def test_one_row_against_all_columns(post):
    assert len(post.predict(3, np.arange(30))) == 30
    assert len(post.predict([3], np.arange(30)).mean) == 30


def test_labels_come_back():
    data = ratings(60, 40, 1000, seed=2)
    post = psgld.sample(
        data.V,
        psgld.FactorModel(2, "gaussian", bias=True),
        draws=20,
        tune=100,
        thin=2,
        chains=1,
        progress=False,
    )
    assert post.row_labels[0].startswith("user-")
    by_label = post.predict([post.row_labels[5]], [post.col_labels[7]])
    assert (by_label.rows[0], by_label.cols[0]) == (5, 7)
    with pytest.raises(psgld.DataError, match="nobody"):
        post.predict(["nobody"], [post.col_labels[0]])


def test_there_and_back(post, tmp_path):
    post.save(tmp_path / "run.npz")
    again = psgld.load(tmp_path / "run.npz")
    assert again.model == post.model and again.settings == post.settings and again.shape == post.shape
    for name, array in post.draws.arrays().items():
        np.testing.assert_array_equal(getattr(again.draws, name), array)
    for name in post.sample_stats:
        np.testing.assert_array_equal(again.sample_stats[name], post.sample_stats[name])
    np.testing.assert_array_equal(again.tracked.mean, post.tracked.mean)
    np.testing.assert_array_equal(again.predict([1], [2]).draws, post.predict([1], [2]).draws)
    assert again.summary() == post.summary()


@settings(max_examples=150, deadline=None)
@given(at=st.floats(0, 1), value=st.integers(0, 255), cut=st.booleans())
def test_a_damaged_file_is_an_error_or_the_same(tmp_path_factory, saved, at, value, cut):
    whole = bytearray(saved)
    position = int(at * (len(whole) - 1))
    if cut:
        whole = whole[:position]
    else:
        whole[position] = value
    path = tmp_path_factory.getbasetemp() / "damaged.npz"
    path.write_bytes(whole)
    try:
        psgld.load(path).summary()
    except psgld.DataError as error:
        assert "damaged" in str(error) or "newer" in str(error)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    small = np.random.default_rng(0).poisson(4.0, (6, 5))
    model = psgld.FactorModel(2, "poisson")
    path = tmp_path_factory.mktemp("saved") / "small.npz"
    psgld.sample(small, model, draws=4, tune=20, thin=1, chains=1, progress=False).save(path)
    return path.read_bytes()


@pytest.mark.parametrize("path", ["", ".", "/"])
def test_a_posterior_needs_the_name_of_a_file(post, path):
    with pytest.raises(psgld.DataError, match="it has no file name; give one"):
        post.save(path)


def test_nothing_is_left_behind_when_a_file_cannot_be_written(post, tmp_path):
    with pytest.raises(psgld.DataError, match="cannot write"):
        post.save(tmp_path / "no" / "such" / "folder.npz")
    assert list(tmp_path.iterdir()) == []


def test_progress_is_reported(data):
    seen = []
    psgld.sample(
        data.V, psgld.FactorModel(2, "gaussian"), draws=10, tune=100, thin=5, chains=2, progress=seen.append
    )
    assert seen[-1].done == seen[-1].total == 300
    assert np.isfinite(seen[-1].lp) and seen[-1].divergences == 0


def test_as_many_draws_as_possible_survive_an_interrupt(monkeypatch, data):
    """One chain of three is done, one has few draws, one none: the first is kept whole."""
    module = sys.modules["psgld.runs.chains"]
    stops = iter([10**9, 12, 3])

    whole = module.run

    def early(chain, plan, recorder, *rest):
        stop = next(stops)
        yield from whole(chain, plan, recorder, *rest)
        recorder.kept = min(recorder.kept, stop)

    monkeypatch.setattr(module, "run", early)
    model = psgld.FactorModel(2, "gaussian")
    post = psgld.sample(
        data.V, model, draws=60, tune=20, thin=1, chains=3, engine=psgld.Threads(1), progress=False
    )
    assert post.W.shape[:2] == (1, 60) and post.sample_stats["lp"].shape == (1, 60)


def test_predictions_give_labels_back():
    V = ratings(users=40, items=30, entries=500, seed=2).V
    post = psgld.sample(V, psgld.FactorModel(2, "gaussian"), draws=10, tune=50, progress=False)
    pairs = ["user-3", "user-1"], ["item-2", "item-7"]
    p = post.predict(*pairs)
    assert (p.row_labels.tolist(), p.col_labels.tolist()) == pairs
    table = p.to_frame(level=0.5)
    assert list(table.columns) == ["row", "column", "mean", "sd", "low", "high"]
    assert table["row"].tolist() == pairs[0] and table["column"].tolist() == pairs[1]
    np.testing.assert_array_equal(table[["low", "high"]].T, p.interval(0.5))
    assert repr(p).startswith("<Prediction of 2 pairs from 20 draws")
    first = next(post.predict_chunks(30))
    assert first.col_labels.tolist() == V.col_labels.tolist() and set(first.row_labels) == {V.row_labels[0]}
    assert post.similar_cols("item-2", 3).to_frame().columns.tolist() == ["labels", "score", "sd"]
    plain = psgld.sample(np.ones((4, 3)), psgld.FactorModel(1, "poisson"), draws=2, tune=5, progress=False)
    assert plain.predict([3], [2]).row_labels.tolist() == [3]


def test_values_that_are_no_counts_are_told_of():
    V = np.random.default_rng(0).gamma(2.0, 1.0, (12, 9))
    short = {"draws": 2, "tune": 5, "progress": False}
    with pytest.warns(psgld.PsgldWarning, match=r"not counts, but the likelihood is Poisson\(\).*phi=None"):
        psgld.sample(V, psgld.FactorModel(1, "poisson"), **short)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        psgld.sample(np.rint(V), psgld.FactorModel(1, "poisson"), **short)
        psgld.sample(V, psgld.FactorModel(1, psgld.Poisson(phi=None)), **short)
        psgld.sample(V, psgld.FactorModel(1, "gamma"), **short)


def test_a_file_of_data_is_no_posterior(tmp_path):
    from scipy import sparse

    sparse.save_npz(tmp_path / "s.npz", sparse.eye_array(3, format="csr"))
    with pytest.raises(
        psgld.DataError,
        match=r"s\.npz is not a psgld posterior: it holds _is_array, data, .*psgld\.observations",
    ):
        psgld.load(tmp_path / "s.npz")
