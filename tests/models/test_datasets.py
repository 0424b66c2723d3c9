import zipfile

import numpy as np
import pytest

from psgld.data.movielens import FILES
from psgld.datasets import movielens, ratings, synthetic
from psgld.errors import DataError, ModelError
from psgld.models import LIKELIHOODS, Gamma, Tweedie


@pytest.mark.parametrize("likelihood", [*LIKELIHOODS, Tweedie(beta=-0.5), Gamma(phi=0.1)])
def test_values_follow_the_means(likelihood):
    truth = synthetic(120, 100, rank=3, likelihood=likelihood, seed=1)
    V, mu = truth.V.dense, truth.mu
    truth.likelihood.check(V)
    theta = truth.likelihood.start(lambda: ())
    z = (V - mu) / np.sqrt(truth.likelihood.variance(truth.W @ truth.H, *theta))
    assert abs(z.mean()) < 5 / np.sqrt(z.size)
    assert abs(np.mean(z**2) - 1) < 0.2
    assert truth.W.shape == (120, 3) and truth.H.shape == (3, 100)


def test_given_dispersion_is_used():
    assert synthetic(5, 4, 2, Gamma(phi=0.1)).likelihood == Gamma(phi=0.1)


def test_partly_observed():
    truth = synthetic(40, 30, 2, "gaussian", observed=0.25, seed=3)
    assert truth.V.is_sparse and truth.V.stored == 300 and truth.V.absent == "unobserved"
    rows, cols, values = truth.V.entries(np.arange(300))
    assert np.corrcoef(values, truth.mu[rows, cols])[0, 1] > 0.8


@pytest.mark.parametrize(
    "make", [lambda s: synthetic(9, 8, 2, seed=s), lambda s: ratings(30, 20, 90, seed=s)]
)
def test_seeds(make):
    assert make(4).V.fingerprint() == make(4).V.fingerprint()
    assert make(4).V.fingerprint() != make(5).V.fingerprint()


def test_ratings():
    data = ratings(users=300, items=200, entries=6000, seed=2)
    V, (users, items, values) = data.V, data.test
    assert V.stored == 5400 and len(users) == len(items) == len(values) == 600
    assert set(np.unique(V.values)) == {1.0, 2.0, 3.0, 4.0, 5.0}
    assert V.row_labels[16] == "user-17" and V.col_labels[3] == "item-4"
    counts = np.sort(V.col_counts())[::-1]
    assert counts[:20].sum() > 2 * counts[-100:].sum()  # a tenth has twice as many as the lower half
    i, j = V.row_index(users), V.col_index(items)
    assert np.corrcoef(values, data.mu[i, j])[0, 1] > 0.6
    train = set(zip(np.repeat(np.arange(300), V.row_counts()).tolist(), V.indices.tolist(), strict=True))
    assert not train & set(zip(i.tolist(), j.tolist(), strict=True))


def test_half_full_ratings_are_possible():
    assert ratings(users=12, items=10, entries=60).V.stored == 54


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: synthetic(0, 3, 1), DataError, "rows must be an integer >= 1, got 0"),
        (lambda: synthetic(3, 3, 1.5), DataError, "rank must be"),
        (lambda: synthetic(3, 3, 1, observed=0), DataError, "0 < observed <= 1"),
        (lambda: synthetic(3, 3, 1, "normal"), ModelError, "unknown likelihood"),
        (lambda: synthetic(3, 3, 1, seed=-1), DataError, "seed must be"),
        (lambda: ratings(10, 10, 51), DataError, "at most half"),
        (lambda: ratings(10, 10, 20, test=1.5), DataError, "fraction"),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()


LINES = {
    "100k": "7\t20\t3\t881250949\n9\t10\t5\t1\n",
    "1m": "7::20::3::9\n9::10::5::1\n",
    "10m": "7::20::3.5::9\n9::10::5::1\n",
}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("unpacked", [True, False])
def test_movielens(name, unpacked, tmp_path):
    archive, member, _ = FILES[name]
    if unpacked:
        (tmp_path / member).parent.mkdir()
        (tmp_path / member).write_text(LINES[name])
    else:
        with zipfile.ZipFile(tmp_path / archive, "w") as file:
            file.writestr(member, LINES[name])
    V = movielens(name, tmp_path)
    assert V.shape == (2, 2) and V.stored == 2 and V.absent == "unobserved"
    assert V.row_labels.tolist() == [7, 9] and V.col_labels.tolist() == [10, 20]
    assert V.values.tolist() == [3.5 if name == "10m" else 3.0, 5.0]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "10m",
            r"has neither ml-10m\.zip nor ml-10M100K/ratings\.dat; get ml-10m\.zip from https://grouplens\.org/",
        ),
        ("1m", r"has a damaged MovieLens-1m: .*; get ml-1m\.zip again from https://grouplens\.org/"),
        ("100k", r"has a damaged MovieLens-100k: its lines are not user, movie, rating, time; get"),
        ("20m", r"no MovieLens set '20m'; there are '100k', '1m', '10m'"),
    ],
)
def test_movielens_that_cannot_be_read(name, message, tmp_path):
    (tmp_path / "ml-1m.zip").write_bytes(b"PK nonsense")
    (tmp_path / "ml-100k").mkdir()
    (tmp_path / "ml-100k" / "u.data").write_text("1\t2\t3\n")
    with pytest.raises(DataError, match=message):
        movielens(name, tmp_path)
