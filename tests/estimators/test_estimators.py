"""The scikit-learn estimators: its checks, its tools, and that they give what `sample` and `fold_in` give."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.validation import has_fit_parameter

import psgld
import psgld.sklearn.base
from psgld import BayesianMF, BayesianNMF, DataError, FactorModel, ModelError, SamplingError

pytestmark = pytest.mark.filterwarnings("ignore:values are not counts:psgld.PsgldWarning")  # of made-up data

SHORT = {"draws": 5, "tune": 30, "thin": 1, "chains": 1}
FAILS: dict[str, str] = {}
"""Checks of scikit-learn that are expected to fail, with the reason: there are none."""


def counts(rows=60, cols=30, rank=3, seed=0):
    rng = np.random.default_rng(seed)
    return rng.poisson(rng.gamma(1.0, 1.0, (rows, rank)) @ rng.gamma(0.5, 3.0, (rank, cols))).astype(float)


def reals(rows=60, cols=30, rank=3, seed=0):
    rng = np.random.default_rng(seed)
    levels = 2.0 + rng.normal(size=cols) + rng.normal(size=(rows, 1))
    X = rng.normal(size=(rows, rank)) @ rng.normal(size=(rank, cols)) + levels
    X += 0.3 * rng.normal(size=X.shape)
    X[rng.random(X.shape) < 0.2] = np.nan
    return X


@parametrize_with_checks(
    [
        BayesianNMF(2, **SHORT),
        BayesianMF(2, **SHORT),
        BayesianMF(2, bias=False, absent="unobserved", **SHORT),
    ],
    expected_failed_checks=lambda estimator: FAILS,
)
def test_checks_of_sklearn(estimator, check):
    check(estimator)


CASES = {
    "nmf": (BayesianNMF(3, draws=20, random_state=5), FactorModel(3, "poisson"), counts),
    "mf": (BayesianMF(3, draws=20, random_state=5), FactorModel(3, "gaussian", bias=True), reals),
    "plain": (BayesianMF(3, bias=False, draws=20, random_state=5), FactorModel(3, "gaussian"), reals),
}


@pytest.fixture(scope="module", params=CASES)
def case(request):
    estimator, model, make = CASES[request.param]
    X = make()
    return clone(estimator).fit(X[:50]), model, X[:50], X[50:]


def test_the_posterior_is_that_of_sample(case):
    fitted, model, X, _ = case
    same = psgld.sample(X, model, draws=20, seed=5, engine=psgld.Threads(1))
    assert fitted.posterior_.model == model
    np.testing.assert_array_equal(fitted.posterior_.W, same.W)
    np.testing.assert_array_equal(fitted.posterior_.H, same.H)


def test_transform_is_that_of_the_posterior(case):
    fitted, model, _, new = case
    W = fitted.transform(new)
    assert W.dtype == np.float64 and W.shape == (10, 3 + model.bias)
    np.testing.assert_allclose(W[:, :3], fitted.posterior_.transform(new), rtol=1e-4, atol=1e-5)


def test_components_are_the_draw_that_transform_rests_on(case):
    fitted, model, _, new = case
    post = fitted.posterior_
    chain = np.argmax(post.sample_stats["lp"].mean(axis=1))
    np.testing.assert_array_equal(fitted.components_[:3], post.H[chain, -1])
    mu = fitted.inverse_transform(fitted.transform(new))
    expected = fitted.transform(new) @ fitted.components_
    if model.bias:
        np.testing.assert_array_equal(fitted.components_[3], 1.0)
        expected = expected + post.draws.col_bias[chain, -1] + post.draws.offset[chain, -1]
    np.testing.assert_allclose(mu, expected, rtol=1e-6, atol=1e-6)
    # new rows are explained: much better than by the means of the columns
    left, before = np.nanmean((new - mu) ** 2), np.nanmean((new - np.nanmean(new, axis=0)) ** 2)
    assert left < 0.5 * before


def test_score_predicts_each_half_from_the_other(case):
    fitted, _, _, new = case
    post = fitted.posterior_
    second = np.random.default_rng(0).permutation(30) % 2 == 1
    logs = []
    for given in (second, ~second):
        folded = post.fold_in(np.where(given, new, np.nan))
        i, j = np.nonzero(~np.isnan(np.where(given, np.nan, new)))
        logs.append(folded.predict(i, j).log_density(new[i, j]))
    assert sum(map(len, logs)) == np.count_nonzero(~np.isnan(new))
    assert fitted.score(new) == pytest.approx(np.concatenate(logs).mean(), rel=1e-5)


def test_score_uses_a_spread_of_many_draws():
    X = counts(20, 10, 2)
    fitted = BayesianNMF(2, draws=120, tune=200, thin=1).fit(X)
    some = psgld.sklearn.base._some(fitted.posterior_.draws, 100)
    assert some.phi.shape == (2, 40)
    np.testing.assert_array_equal(some.H, fitted.posterior_.draws.H[:, 2::3])
    assert np.isfinite(fitted.score(X))


@pytest.mark.parametrize("make, estimator", [(counts, BayesianNMF()), (reals, BayesianMF())])
def test_grid_search_finds_the_rank(make, estimator):
    estimator = estimator.set_params(draws=20, tune=300)
    search = GridSearchCV(estimator, {"n_components": [1, 3, 9]}, cv=2, error_score="raise").fit(make())
    assert search.best_params_ == {"n_components": 3}
    assert search.best_estimator_.n_components == 3


def test_pipeline_and_pandas():
    frame = pd.DataFrame(reals(), columns=[f"f{j}" for j in range(30)])
    pipe = make_pipeline(StandardScaler(), BayesianMF(2, **SHORT)).set_output(transform="pandas")
    out = pipe.fit_transform(frame)
    assert list(out.columns) == ["bayesianmf0", "bayesianmf1", "bayesianmf2"]
    assert list(out.index) == list(frame.index)
    assert list(pipe.get_feature_names_out()) == list(out.columns)
    assert list(pipe[-1].feature_names_in_) == list(frame.columns)
    with pytest.raises(ValueError, match="feature names"):
        pipe[-1].transform(frame[frame.columns[::-1]])
    sparse = make_pipeline(MaxAbsScaler(), BayesianNMF(2, likelihood="gaussian", **SHORT))
    assert sparse.fit_transform(csr_array(counts())).shape == (60, 2)


def test_sparse_is_dense_with_zeros_or_with_nan():
    X = counts()
    dense, zeros = BayesianNMF(3, draws=20).fit(X), BayesianNMF(3, draws=20).fit(csr_array(X))
    assert zeros.posterior_.seen.absent == "zero"
    zeros.posterior_, zeros.components_ = dense.posterior_, dense.components_
    np.testing.assert_allclose(zeros.transform(csr_array(X)), dense.transform(X), rtol=1e-6, atol=1e-9)
    assert zeros.score(csr_array(X)) == pytest.approx(dense.score(X), rel=1e-3)

    unseen = BayesianNMF(3, draws=20, absent="unobserved").fit(csr_array(X))
    assert unseen.posterior_.seen.absent == "unobserved"
    gaps = np.where(X == 0, np.nan, X)
    np.testing.assert_allclose(unseen.transform(csr_array(X)), unseen.transform(gaps), rtol=1e-6)
    assert unseen.score(csr_array(X)) == pytest.approx(unseen.score(gaps), rel=1e-6)
    np.testing.assert_allclose(unseen.transform(csr_array(gaps)), unseen.transform(gaps), rtol=1e-6)


def test_entries_of_a_sparse_matrix_given_twice_are_added():
    X = counts(12, 8)
    once = csr_array(X)
    halves, columns = np.repeat(once.data / 2, 2), np.repeat(once.indices, 2)
    twice = csr_array((halves, columns, 2 * once.indptr), shape=X.shape)
    one, two = (BayesianNMF(2, **SHORT).fit(V) for V in (once, twice))
    np.testing.assert_array_equal(one.posterior_.W, two.posterior_.W)
    np.testing.assert_array_equal(one.transform(once), two.transform(twice))
    assert len(twice.data) == 2 * len(once.data)  # the caller's matrix is as it was


def test_rows_without_entries():
    nmf = BayesianNMF(2, **SHORT).fit(csr_array(counts()))
    assert np.isfinite(nmf.transform(csr_array((1, 30)))).all()
    mf = BayesianMF(2, **SHORT).fit(reals())
    np.testing.assert_array_equal(mf.transform(np.full((1, 30), np.nan)), 0.0)  # the mean of the prior


def test_a_single_feature_is_predicted_from_the_prior():
    X = reals(40, 1)
    assert np.isfinite(BayesianMF(1, **SHORT).fit(X).score(X))


def test_some_rows_at_a_time(case, monkeypatch):
    fitted, _, X, _ = case
    whole = fitted.transform(X)
    monkeypatch.setattr(psgld.sklearn.base, "_CELLS", 7 * 30)
    np.testing.assert_allclose(fitted.transform(X), whole, rtol=1e-9, atol=1e-12)
    assert np.isfinite(fitted.score(X))


@pytest.mark.parametrize("kind", [np.asarray, csr_array])
def test_partial_fit_goes_on(kind):
    X, more, test = np.split(counts(120), [60, 90])
    fitted = BayesianNMF(3, draws=40).fit(kind(X))
    before = fitted.posterior_
    assert fitted.partial_fit(kind(more)) is fitted
    after = fitted.posterior_
    assert before.shape == (60, 30) and after.shape == (90, 30)
    assert after.settings["tune"] < before.settings["tune"]
    assert not set(after.settings["keys"]) & set(before.settings["keys"])
    # as good as all rows at once
    whole = BayesianNMF(3, draws=40).fit(kind(np.vstack([X, more])))
    assert fitted.score(kind(test)) == pytest.approx(whole.score(kind(test)), abs=0.03)
    fitted.partial_fit(kind(test))
    assert fitted.posterior_.shape == (120, 30)
    assert not set(fitted.posterior_.settings["keys"]) & set(after.settings["keys"])


def test_partial_fit_first_is_fit():
    X = counts()
    one, two = BayesianNMF(2, **SHORT).partial_fit(X), BayesianNMF(2, **SHORT).fit(X)
    np.testing.assert_array_equal(one.components_, two.components_)


def test_clone_and_pickle():
    fitted = BayesianNMF(2, likelihood=psgld.CompoundPoisson(0.4), **SHORT).fit(counts())
    fresh = clone(fitted)
    assert not hasattr(fresh, "posterior_") and fresh.get_params() == fitted.get_params()
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.transform(counts()), fitted.transform(counts()))


def test_threads_and_seeds():
    X = counts()
    one, two, all_ = (BayesianNMF(2, n_jobs=n, **SHORT).fit(X).components_ for n in (1, 2, -1))
    np.testing.assert_array_equal(one, two)
    np.testing.assert_array_equal(one, all_)
    states = [np.random.RandomState(3), np.random.RandomState(3), None, None]
    a, b, c, d = (BayesianNMF(2, random_state=s, **SHORT).fit(X).components_ for s in states)
    np.testing.assert_array_equal(a, b)
    assert not np.array_equal(c, d)


def test_every_likelihood_is_non_negative():
    X = counts() + 0.5
    for name in ("poisson", "gaussian", "gamma", "compound-poisson", "inverse-gaussian"):
        fitted = BayesianNMF(2, likelihood=name, **SHORT).fit(X)
        assert (fitted.components_ >= 0).all() and (fitted.transform(X) >= 0).all()
        assert np.isfinite(fitted.score(X))


def test_weights_are_not_taken():
    assert not has_fit_parameter(BayesianNMF(), "sample_weight")
    assert not has_fit_parameter(BayesianMF(), "sample_weight")


GAPS = np.where(counts() == 0, np.nan, counts())

WRONG = [
    (BayesianNMF(0), counts(), ModelError, "n_components must be an integer >= 1, got 0"),
    (BayesianMF(True), reals(), ModelError, "n_components must be an integer >= 1, got True"),
    (BayesianMF(2000), reals(), ModelError, "1 to 1000"),
    (BayesianNMF(2, likelihood="x"), counts(), ModelError, "unknown likelihood 'x'"),
    (BayesianNMF(2), -counts(), ValueError, "Negative values"),
    (BayesianNMF(2), np.where(GAPS > 5, -GAPS, GAPS), ValueError, "v >= 0"),
    (BayesianNMF(2, likelihood="gamma"), counts(), DataError, "needs v > 0"),
    (BayesianNMF(2, likelihood="gamma"), csr_array(counts()), ModelError, 'absent="zero"'),
    (BayesianNMF(2, absent="no"), counts(), DataError, "absent must be"),
    (BayesianNMF(2), csr_array(GAPS), DataError, "NaN among sparse data"),
    (BayesianNMF(2), np.full((3, 3), np.nan), DataError, "empty"),
    (BayesianNMF(2, draws=0), counts(), SamplingError, "draws must be"),
    (BayesianNMF(2, n_jobs=0), counts(), ModelError, "n_jobs must be"),
    (BayesianNMF(2, random_state="a"), counts(), ValueError, "seed"),
]


@pytest.mark.parametrize("estimator, X, error, words", WRONG, ids=[w[3] for w in WRONG])
def test_errors(estimator, X, error, words):
    with pytest.raises(error, match=words) as caught:
        estimator.fit(X)
    assert "\n" not in str(caught.value)
    assert not hasattr(estimator, "posterior_")


def test_errors_after_fit():
    X = counts()
    fitted = BayesianNMF(2, **SHORT).fit(X)
    with pytest.raises(DataError, match="X has 30 columns, transform gives 2"):
        fitted.inverse_transform(X)
    with pytest.raises(DataError, match="sparse rows after dense ones"):
        fitted.partial_fit(csr_array(X))
    with pytest.raises(DataError, match="no observed entry"):
        fitted.score(np.full((2, 30), np.nan))
    with pytest.raises(ModelError, match="call fit to change the model"):
        fitted.set_params(n_components=3).partial_fit(X)


def run(code):
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)


def test_sklearn_is_imported_when_asked_for():
    done = run(
        "import sys, psgld; assert 'BayesianNMF' in dir(psgld); assert 'sklearn' not in sys.modules\n"
        "from psgld import BayesianNMF; assert 'sklearn' in sys.modules; assert not hasattr(psgld, 'nonsense')"
    )
    assert done.returncode == 0, done.stderr


def test_without_sklearn():
    done = run("import sys; sys.modules['sklearn'] = None; import psgld; psgld.BayesianMF")
    assert done.stderr.splitlines()[-1] == (
        "ImportError: psgld.BayesianMF needs scikit-learn >= 1.6: pip install 'psgld[sklearn]'"
    )


def test_the_names_of_a_data_frame_are_labels():
    X = counts(20, 6)
    films = [f"film-{j}" for j in range(6)]
    frame = pd.DataFrame(X, index=[f"user-{i}" for i in range(20)], columns=films)
    fitted = BayesianNMF(2, **SHORT).fit(frame.iloc[:15])
    post = fitted.posterior_
    assert post.row_labels.tolist() == frame.index[:15].tolist() and post.col_labels.tolist() == films
    assert post.recommend("user-3", n=1, exclude_seen=False).cols[0, 0].startswith("film-")
    same = BayesianNMF(2, **SHORT).fit(X[:15]).posterior_
    np.testing.assert_array_equal(post.W, same.W)
    assert same.row_labels is None and same.col_labels is None
    fitted.partial_fit(frame.iloc[15:])
    assert fitted.posterior_.row_labels.tolist() == frame.index.tolist()
    fitted.partial_fit(frame.iloc[:1])  # a new row with the name of an old one: rows go by their order
    assert fitted.posterior_.row_labels is None and fitted.posterior_.shape == (21, 6)
    assert fitted.posterior_.col_labels.tolist() == films


@pytest.mark.parametrize(
    ("index", "labels"),
    [
        (None, None),
        ([3, 1, 2], [3, 1, 2]),
        (["a", "b", "a"], None),
        ([0.5, 1.5, 2.5], None),
        (["a", None, "b"], None),
        (pd.MultiIndex.from_product([["a"], [1, 2, 3]]), None),
        (pd.date_range("2020-01-01", periods=3), None),
    ],
)
def test_an_index_that_names_no_rows(index, labels):
    frame = pd.DataFrame(counts(3, 5), index=index)
    found = BayesianNMF(1, **SHORT).fit(frame).posterior_
    assert (None if found.row_labels is None else found.row_labels.tolist()) == labels
    assert found.col_labels is None  # 0, 1, 2, …


def test_names_of_other_frames():
    polars = pytest.importorskip("polars")
    X = counts(8, 3)
    assert BayesianNMF(1, **SHORT).fit(
        polars.DataFrame(X, schema=["a", "b", "c"])
    ).posterior_.col_labels.tolist() == [*"abc"]
    sparse = pd.DataFrame.sparse.from_spmatrix(csr_array(X), index=list("stuvwxyz"), columns=list("abc"))
    post = BayesianNMF(1, **SHORT).fit(sparse).posterior_
    assert post.row_labels.tolist() == [*"stuvwxyz"] and post.col_labels.tolist() == [*"abc"]


def test_a_table_of_entries_is_refused():
    table = pd.DataFrame({"user": [0, 1, 1], "item": [0, 0, 1], "rating": [3.0, 4.0, 5.0]})
    with pytest.raises(
        psgld.DataError, match=r"table of entries with columns 'user', 'item', 'rating'; use psgld\.sample"
    ):
        psgld.BayesianNMF(1).fit(table)


def test_pairs_and_a_warm_start():
    X = np.random.default_rng(0).poisson(4.0, (12, 8)).astype(float)
    best = psgld.optimize(X, psgld.BayesianNMF(2)._model(), max_passes=20, progress=False)
    nmf = psgld.BayesianNMF(2, draws=10, tune=20).fit(X, start=best)
    mean, sd = nmf.predict_pairs([0, 1], [2, 3], return_std=True)
    p = nmf.posterior_.predict([0, 1], [2, 3])
    assert np.array_equal(mean, p.mean) and np.array_equal(sd, p.new_sd)
    assert np.array_equal(nmf.predict_pairs([0, 1], [2, 3]), mean)
