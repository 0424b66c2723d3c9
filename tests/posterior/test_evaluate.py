"""Scores of held-out entries: the numbers, their standard errors, chunks, weights, and what was trained on."""

import json
from dataclasses import replace

import numpy as np
import pytest

import psgld
from psgld.data.cells import Cells
from psgld.datasets import ratings, synthetic
from psgld.posterior import evaluate as module
from psgld.posterior.evaluate import Means, crps


@pytest.fixture(scope="module")
def fitted():
    data = ratings(users=60, items=40, entries=1000)
    train, test = psgld.split(data.V, 0.2)
    model = psgld.FactorModel(2, "gaussian", bias=True)
    return psgld.sample(train, model, draws=60, tune=300, thin=5, progress=False), train, test


def test_the_numbers(fitted):
    post, _, test = fitted
    found = post.evaluate(test)
    cells = post.held_out
    p = post.predict(post.row_labels[cells.rows], post.col_labels[cells.cols])
    v, error = cells.values, cells.values - p.mean
    assert found.entries == len(v) and found.seen == 0
    assert found.rmse.value == pytest.approx(np.sqrt(np.mean(error**2)))
    assert found.mae.value == pytest.approx(np.abs(error).mean())
    assert found.log_density.value == pytest.approx(p.log_density(v).mean())
    assert found.log_density.se == pytest.approx(p.log_density(v).std(ddof=1) / np.sqrt(len(v)))
    low, high = p.interval(0.9)
    assert found.coverage[0.9].value == pytest.approx(np.mean((low <= v) & (v <= high)))
    x = p.new_draws()
    apart = np.abs(x[:, None] - x[None]).sum(axis=(0, 1)) / (len(x) * (len(x) - 1))
    assert found.crps.value == pytest.approx((np.abs(x - v).mean(0) - apart / 2).mean())
    assert found.baseline_rmse == pytest.approx(v.std())
    assert post.evaluate().to_dict() == found.to_dict() == json.loads(json.dumps(found.to_dict()))
    assert "RMSE" in str(found) and "trained on" not in str(found)


def test_chunks_and_weights(fitted, monkeypatch):
    """Chunks change nothing but the last digits; an entry of weight 2 counts as two."""
    post, _, _ = fitted
    cells = post.held_out
    weights = np.where(np.arange(len(cells)) % 3 == 0, 2.0, 1.0)
    twice = np.repeat(np.arange(len(cells)), weights.astype(int))
    whole = post.evaluate(replace(cells, weights=weights))
    monkeypatch.setattr(module, "_DRAWN", 7 * 120)
    parts = post.evaluate(replace(cells, weights=weights))
    again = post.evaluate(cells.part(twice))
    for name in ("rmse", "mae", "log_density", "crps"):
        assert getattr(parts, name) == pytest.approx(getattr(whole, name), rel=1e-9)
        assert getattr(again, name).value == pytest.approx(getattr(whole, name).value)
    assert parts.calibration[0.5] == pytest.approx(whole.calibration[0.5])


def test_standard_errors_are_those_of_repetition():
    rng = np.random.default_rng(0)
    w = rng.uniform(0.5, 2.0, 400)
    means, errors = [], []
    for _ in range(400):
        sums, x = Means(), rng.normal(50.0, 3.0, (1, 400))
        sums.add(x[:, :150], w[:150])
        sums.add(x[:, 150:], w[150:])
        [score] = sums.scores()
        assert score.value == pytest.approx(np.average(x[0], weights=w))
        means.append(score.value)
        errors.append(score.se)
    assert np.mean(errors) == pytest.approx(np.std(means), rel=0.15)


def test_crps_of_a_normal_distribution():
    """σ (z (2 Φ(z) - 1) + 2 φ(z) - 1 / √π), Gneiting and Raftery 2007."""
    from scipy.stats import norm

    x, v = np.sort(np.random.default_rng(0).normal(size=(20_000, 1)), axis=0), np.array([0.7])
    exact = v * (2 * norm.cdf(v) - 1) + 2 * norm.pdf(v) - 1 / np.sqrt(np.pi)
    assert crps(x, v) == pytest.approx(exact, abs=0.01)


@pytest.mark.parametrize("name", ["poisson", "gaussian", "ordinal"])
def test_the_true_model_is_calibrated(name):
    """Coverage of at least the level (discrete intervals are wider), shares below quantiles near their probability."""
    truth = synthetic(40, 30, 1, name, seed=5)
    train, test = psgld.split(truth.V, 0.3)
    bias = name == "ordinal"
    model = psgld.FactorModel(1, name, bias=bias)
    found = psgld.sample(train, model, draws=100, tune=400, thin=5, chains=1, progress=False).evaluate(test)
    for level, share in found.coverage.items():
        assert share.value > level - 4 * share.se - 0.02
    for probability, share in found.calibration.items():
        assert share.value == pytest.approx(probability, abs=4 * share.se + 0.03)


def test_what_was_trained_on_is_said(fitted):
    post, train, _ = fitted
    with pytest.warns(
        psgld.PsgldWarning, match=f"{train.stored:,} of the {train.stored:,} entries were in the data"
    ):
        found = post.evaluate(train)
    assert found.seen == train.stored and f"{train.stored:,} of them trained on" in str(found)
    dense = psgld.sample(np.ones((4, 3)), psgld.FactorModel(1, "poisson"), draws=10, tune=20, progress=False)
    with pytest.warns(psgld.PsgldWarning, match="12 of the 12"):
        assert dense.evaluate(np.ones((4, 3))).seen == 12
    with pytest.raises(psgld.DataError, match="no entries were held out"):
        dense.evaluate()


def test_ranking():
    """Two rows, whose best columns are known: found at the first rank, at the third, or not."""
    V = np.full((3, 6), np.nan)
    V[:, 0] = [4.0, 5.0, 6.0]
    post = psgld.sample(
        V, psgld.FactorModel(1, "gaussian"), draws=10, tune=20, thin=1, chains=1, progress=False
    )
    W, H = np.ones((1, 10, 3, 1)), np.array([9.0, 5.0, 4.0, 3.0, 2.0, 1.0])[:, None] * np.ones((1, 10, 6, 1))
    known = replace(post, draws=post.draws.with_mode(0, factor=W).with_mode(1, factor=H))
    test = ([0, 1, 1, 2, 2], [1, 3, 5, 5, 2], [1.0, 1.0, 1.0, 1.0, 0.0])
    found = known.evaluate(test, k=3, relevant=1.0).ranking
    best_of_two = 1 + 1 / np.log2(3)
    assert found.rows == 3 and found.hit_rate[0] == pytest.approx(2 / 3)
    assert found.recall[0] == pytest.approx((1 + 1 / 2 + 0) / 3)
    assert found.ndcg[0] == pytest.approx((1 + (1 / np.log2(4)) / best_of_two + 0) / 3)
    assert known.evaluate(test, k=3, relevant=1.0).to_dict()["k"] == 3
    with pytest.raises(psgld.DataError, match="no entry has a value >= 7"):
        known.evaluate(test, k=3, relevant=7)
    with pytest.raises(psgld.DataError, match="k must be an integer >= 1"):
        known.evaluate(test, k=0)


def test_wrong_arguments(fitted):
    post, _, test = fitted
    for levels in (1.0, [0.5, 0], ["a"]):
        with pytest.raises(psgld.DataError, match="levels must lie between 0 and 1"):
            post.evaluate(test, levels)
    with pytest.raises(psgld.DataError, match="no entries to evaluate"):
        post.evaluate(Cells(*np.zeros((2, 0), np.int64), np.zeros(0)))


def test_results_print_as_tables(fitted):
    post, _, _ = fitted
    assert str(post.predict(post.row_labels[:3], post.col_labels[0])).splitlines()[0].split() == [
        "row", "column", "mean", "sd", "low", "high",
    ]  # fmt: skip
    assert str(post.recommend(n=2)).splitlines()[0].split() == [
        "row",
        "rank",
        "column",
        "score",
        "mean",
        "sd",
        "low",
        "high",
    ]
    found = post.diagnose()
    assert str(found).splitlines()[0].split() == ["quantity", "rhat", "ess_bulk", "ess_tail"]
    assert str(found).endswith(found.verdict)
