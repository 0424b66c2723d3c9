import numpy as np
import pytest

from psgld.datasets import ratings, synthetic
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
