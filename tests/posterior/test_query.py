"""Entries to observe next: unobserved ones, those that teach most, each given the ones before."""

import numpy as np
import pytest

import psgld
from psgld.datasets import synthetic


@pytest.fixture(scope="module")
def post():
    truth = synthetic(30, 20, 2, "gaussian", observed=0.3, seed=1)
    return psgld.sample(
        truth.V, psgld.FactorModel(2, "gaussian"), draws=100, tune=400, thin=5, progress=False
    )


@pytest.mark.parametrize("by", ["information", "variance"])
def test_the_first_is_the_best_of_all(post, by):
    found = post.query(4, by=by)
    cells = np.flatnonzero(~post.seen.holds(*np.divmod(np.arange(600), 20), 20))
    p = post.predict(*np.divmod(cells, 20))
    score = p.sd**2 if by == "variance" else 0.5 * np.log(p.new_sd**2 / (p.new_sd**2 - p.sd**2))
    assert found.rows[0] * 20 + found.cols[0] == cells[np.argmax(score)]
    assert found.score[0] == pytest.approx(score.max(), rel=1e-3)
    assert len(set(zip(found.rows.tolist(), found.cols.tolist(), strict=True))) == 4
    assert not post.seen.holds(found.rows, found.cols, 20).any()


def test_scores_are_those_after_the_entries_before(post):
    """As the normal distribution with the covariance of the draws has them."""
    rows, cols = np.divmod(np.arange(50), 20)
    found = post.query(5, candidates=(rows, cols), by="variance")
    at = np.array([int(i) * 20 + int(j) for i, j in zip(found.rows, found.cols, strict=True)])
    p = post.predict(rows, cols)
    C, noise = np.cov(p.draws.T), p.new_sd**2 - p.sd**2
    for n, c in enumerate(at):
        before = at[:n]
        K = C[np.ix_(before, before)] + np.diag(noise[before])
        left = (
            np.diag(C) - np.einsum("nq,nq->q", C[before], np.linalg.solve(K, C[before])) if n else np.diag(C)
        )
        assert found.score[n] == pytest.approx(left[c], rel=1e-2)
        assert left[c] == pytest.approx(np.delete(left, before).max(), rel=0.05)


def related(rows, cols):
    """Which pairs of candidates share a row or a column."""
    return (rows[:, None] == rows) | (cols[:, None] == cols)


def test_predictions_of_others_gain_most(post):
    """The gains are those of the covariances of the draws; those of the next entries, given the ones before."""
    rows, cols = np.divmod(np.arange(240), 20)
    found = post.query(6, candidates=(rows, cols))
    at = np.array([int(i) * 20 + int(j) for i, j in zip(found.rows, found.cols, strict=True)])
    assert len(set(at)) == 6
    p = post.predict(rows, cols)
    X, noise, near, size = p.draws - p.mean, p.new_sd**2 - p.sd**2, related(rows, cols), len(p.draws)
    X = X / np.sqrt(size - 1)
    for n, c in enumerate(at):
        v = np.square(X).sum(axis=0)
        gain = ((np.square(X.T @ X) - np.outer(v, v) / size) * near).sum(axis=1) / (v + noise)
        assert found.score[n] == pytest.approx(gain[c], rel=1e-3)
        assert gain[c] > 0.97 * np.delete(gain, at[:n]).max()
        # Conditioned on v_c, the variance of μ_c is v_c noise / (v_c + noise).
        u = X[:, c] / np.sqrt(v[c])
        X = X - (1 - np.sqrt(noise[c] / (v[c] + noise[c]))) * np.outer(u, np.where(near[c], u @ X, 0.0))
        assert np.square(X[:, c]).sum() == pytest.approx(v[c] * noise[c] / (v[c] + noise[c]))


def test_labels_and_tables(post):
    data = psgld.datasets.ratings(users=30, items=20, entries=200)
    model = psgld.FactorModel(1, "gaussian", bias=True)
    found = psgld.sample(data.V, model, draws=20, tune=50, progress=False).query(12)
    assert found.rows[0].startswith("user-") and len(found) == 12
    assert str(found).splitlines()[0].split() == ["row", "column", "score", "mean", "sd"]
    assert "… 2 more" in str(found)


@pytest.mark.parametrize(
    "given, words",
    [
        ({"n": 0}, "n must be an integer >= 1"),
        ({"by": "entropy"}, "by must be one of prediction, information, variance"),
        ({"candidates": [1, 2, 3]}, "candidates must be a pair"),
        ({"candidates": ([1, 2], [3])}, "as many rows as columns"),
        ({"candidates": ([99], [3])}, "99"),
    ],
)
def test_wrong_arguments(post, given, words):
    with pytest.raises(psgld.DataError, match=words):
        post.query(**given)


def test_nothing_to_ask():
    full = psgld.sample(np.ones((4, 3)), psgld.FactorModel(1, "poisson"), draws=10, tune=20, progress=False)
    with pytest.raises(psgld.DataError, match="all entries were observed"):
        full.query(1)
    assert len(full.query(3, candidates=([0, 1], [0, 1]))) == 2
