"""Recommendations are those of the draws, in labels, without what was seen."""

from dataclasses import replace

import numpy as np
import pytest

import psgld
from psgld.datasets import ratings
from psgld.posterior.predict import held
from psgld.posterior.recommend import POLICIES, Context, as_policy


@pytest.fixture(scope="module")
def data():
    return ratings(users=70, items=45, entries=1200, seed=4)


@pytest.fixture(scope="module")
def post(data):
    model = psgld.FactorModel(3, "gaussian", bias=True)
    return psgld.sample(data.V, model, draws=40, tune=300, thin=3, progress=False)


@pytest.fixture(scope="module")
def mu(post):
    return post.predict().draws.reshape(80, 70, 45)


def reference(policy, mu):
    if policy == psgld.Mean():
        return mu.mean(0)
    if isinstance(policy, psgld.UCB):
        return mu.mean(0) + policy.width * mu.std(0, ddof=1)
    if isinstance(policy, psgld.Probability):
        return (mu > policy.threshold).mean(0) + 1e-9 * mu.mean(0)
    chosen = np.random.default_rng([0, 1]).integers(80, size=70)
    return mu[chosen, np.arange(70)]


ALL = [psgld.Mean(), psgld.UCB(1.5), psgld.UCB(-1.0), psgld.Thompson(), psgld.Probability(3.7)]


def test_every_policy_is_tested():
    assert {type(p) for p in ALL} == set(POLICIES.values())


@pytest.mark.parametrize("policy", ALL, ids=str)
@pytest.mark.parametrize("seen", [True, False])
def test_the_best_are_the_best(post, data, mu, policy, seen):
    score = reference(policy, mu).copy()
    if seen:
        rows, cols, _ = data.V.entries(np.arange(data.V.stored))
        score[rows, cols] = -np.inf
    best = np.argsort(-score, axis=1, kind="stable")[:, :6]
    got = post.recommend(n=6, policy=policy, exclude_seen=seen)
    assert got.rows.tolist() == post.row_labels.tolist()
    expected = np.take_along_axis(score, best, axis=1)
    np.testing.assert_allclose(got.score, expected, rtol=1e-5, atol=1e-5)
    # Equal scores may change places; nothing else may.
    same = got.cols == post.col_labels[best]
    assert same.mean() > 0.98
    at = np.searchsorted(np.sort(post.col_labels), got.cols)
    at = np.argsort(post.col_labels)[at]
    everyone = np.arange(70)[:, None]
    np.testing.assert_allclose(got.sd, mu.std(0, ddof=1)[everyone, at], rtol=1e-4)
    np.testing.assert_allclose(got.mean, mu.mean(0)[everyone, at], rtol=1e-5)
    assert (np.diff(got.score, axis=1) <= 0).all()


def test_blocks_of_rows_do_not_show(post, monkeypatch):
    for policy in ALL:
        whole = post.recommend(n=4, policy=policy)
        some = post.recommend(post.row_labels[[50, 3]], n=4, policy=policy)
        np.testing.assert_array_equal(whole.cols[[50, 3]], some.cols)
        np.testing.assert_array_equal(whole.score[[50, 3]], some.score)
    monkeypatch.setattr("psgld.posterior.recommend._BLOCK", 100)
    again = post.recommend(n=4, policy=ALL[-1])
    np.testing.assert_array_equal(whole.cols, again.cols)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(("rank", "kept"), [(7, 8), (21, 1), (21, 4)])
def test_scores_of_large_tiles(dtype, bias, rank, kept):
    """More rows and columns than a tile of the kernel has, and none a multiple of a vector."""
    from test_predict import made_up, means

    d = made_up(dtype, bias, chains=1, kept=kept, rows=301, cols=531, rank=rank)
    d = replace(d, offset=d.offset + (rank == 21))
    context, mu = Context(d, psgld.Poisson(), held(d, psgld.Poisson()), 0), means(d)
    if not bias:
        mu += d.offset.reshape(-1, 1, 1)
    rows = np.random.default_rng(0).permutation(301)[:280]
    close = {"rtol": 1e-5 if dtype == "float32" else 1e-12}
    sd = mu.std(0, ddof=1)[rows] if kept > 1 else np.zeros((280, 531))
    for kind, second in (("mean", None), ("sd", sd), ("above", (mu > 4.0).mean(0)[rows])):
        mean, other = context.scores(rows, kind, 4.0)
        np.testing.assert_allclose(mean, mu.mean(0)[rows], **close)
        if second is None:
            assert other is None
        else:
            np.testing.assert_allclose(other, second, rtol=1e-3, atol=1e-6)
    bound, nothing = context.scores(rows, "bound", -1.5)
    np.testing.assert_allclose(bound, mu.mean(0)[rows] - 1.5 * sd, rtol=1e-3, atol=1e-3)
    assert nothing is None
    with pytest.raises(ValueError, match='there is no score "median"'):
        context.scores(rows, "median")


def test_filters(post):
    allowed = post.col_labels[[3, 4, 5, 6]]
    got = post.recommend(["user-1"], n=10, exclude_seen=False, filter=allowed)
    assert sorted(got.cols[0][:4]) == sorted(allowed) and np.isnan(got.score[0, 4:]).all()
    assert (got.cols[0, 4:] == "").all() and len(got.records()["column"]) == 4
    mask = np.isin(post.col_labels, allowed)
    for same in (mask, set(allowed), dict.fromkeys(allowed).keys(), lambda labels: np.isin(labels, allowed)):
        again = post.recommend(["user-1"], n=10, exclude_seen=False, filter=same)
        np.testing.assert_array_equal(again.cols, got.cols)
    frame = got.to_frame()
    assert list(frame.columns) == ["row", "rank", "column", "score", "mean", "sd", "low", "high"]
    assert len(frame) == 4


def test_other_entries_to_leave_out(post):
    first = post.recommend(["user-1"], n=2, exclude_seen=False)
    used = psgld.Observations.from_chunks([(np.array(["user-1"]), first.cols[0, :1], np.ones(1))])
    then = post.recommend(["user-1"], n=1, exclude_seen=used)
    assert then.cols[0, 0] == first.cols[0, 1]


def test_what_was_seen_is_known(data, post):
    assert post.seen.indptr is data.V.indptr and post.seen.indices is data.V.indices  # nothing is copied
    V = np.random.default_rng(0).poisson(3.0, (8, 6)).astype(float)
    model = psgld.FactorModel(2, "poisson")
    full = psgld.sample(V, model, draws=5, tune=10, thin=1, chains=1, progress=False)
    with pytest.raises(psgld.DataError, match="exclude_seen=False"):
        full.recommend([0])
    assert full.recommend([0], n=99, exclude_seen=False).cols.shape == (1, 6)
    V[2, :5] = np.nan
    holes = psgld.sample(V, model, draws=5, tune=10, thin=1, chains=1, progress=False)
    got = holes.recommend([2, 3], n=6)
    assert sorted(got.cols[0].tolist()) == [-1, 0, 1, 2, 3, 4] and (got.cols[1] == -1).all()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"policy": "best"}, "mean, ucb, thompson, probability"),
        ({"policy": "probability"}, "threshold"),
        ({"n": 0}, "n must be"),
        ({"filter": [True]}, "one per column"),
        ({"filter": lambda labels: labels}, "must return 45 booleans"),
        ({"rows": ["nobody"]}, "nobody"),
        ({"exclude_seen": np.ones((2, 2))}, "shape"),
    ],
)
def test_refusals(post, arguments, words):
    with pytest.raises(psgld.DataError, match=words):
        post.recommend(**arguments)


def test_policies_by_name():
    assert as_policy("ucb") == psgld.UCB() and as_policy(psgld.UCB(2.0)).width == 2.0
    for wrong in (lambda: psgld.UCB(np.nan), lambda: psgld.Probability("high")):
        with pytest.raises(psgld.DataError, match="finite number"):
            wrong()


@pytest.mark.parametrize("side", ["rows", "cols"])
def test_similar_is_the_cosine_of_the_fits(post, side):
    fit = post.W @ post.H
    fit = (fit if side == "rows" else fit.swapaxes(-1, -2)).reshape(80, -1, 45 if side == "rows" else 70)
    fit = fit.astype(float)
    fit /= np.linalg.norm(fit, axis=2, keepdims=True)
    cosine = np.einsum("sij,sj->si", fit, fit[:, 7])
    labels = post.row_labels if side == "rows" else post.col_labels
    got = getattr(post, f"similar_{side}")(labels[7], n=5)
    order = np.argsort(-cosine.mean(0))
    assert order[0] == 7 and got.labels.tolist() == labels[order[1:6]].tolist()
    np.testing.assert_allclose(got.score, cosine.mean(0)[order[1:6]], rtol=1e-4)
    np.testing.assert_allclose(got.sd, cosine.std(0, ddof=1)[order[1:6]], rtol=1e-3)


def test_similar_does_not_see_the_symmetries(post):
    """Components turned within each draw: W R and H R^-T give the same rows."""
    rng = np.random.default_rng(0)
    turn = rng.normal(size=(2, 40, 3, 3))
    d = post.draws
    turned = d.with_mode(0, factor=d.W @ turn).with_mode(1, factor=d.H @ np.linalg.inv(turn).swapaxes(-1, -2))
    a, b = post.similar_rows("user-1"), replace(post, draws=turned).similar_rows("user-1")
    assert a.labels.tolist() == b.labels.tolist()
    np.testing.assert_allclose(a.score, b.score, rtol=1e-3)
    with pytest.raises(psgld.DataError, match="one label"):
        post.similar_rows(["user-1", "user-2"])


def test_a_seed_that_is_none():
    """Found by fuzzing: a negative one reached NumPy."""
    V = np.random.default_rng(0).poisson(4.0, (6, 5))
    post = psgld.sample(V, psgld.FactorModel(2, "poisson"), draws=3, tune=5, thin=1, progress=False)
    with pytest.raises(psgld.DataError, match="seed must be an integer from 0"):
        post.recommend(None, 2, "thompson", exclude_seen=False, seed=-1)


def test_intervals_are_those_of_predict(post):
    found = post.recommend(["user-1", "user-2"], n=4, policy="ucb")
    low, high = found.interval(0.8)
    for m, label in enumerate(found.rows):
        expected = post.predict(label, found.cols[m]).interval(0.8)
        assert np.array_equal(low[m], expected[0]) and np.array_equal(high[m], expected[1])
    table = found.records(0.8)
    assert table["low"] == low.ravel().tolist() and list(table)[-2:] == ["low", "high"]


def test_intervals_of_missing_candidates_are_nan(post):
    found = post.recommend(["user-1"], n=4, filter=["item-1", "item-2"], exclude_seen=False)
    assert np.isnan(found.interval()[0][0, 2:]).all() and len(found.records()["high"]) == 2
