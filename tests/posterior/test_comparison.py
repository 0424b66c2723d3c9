"""Comparison of models: the numbers, the recommendation, leave-one-out, the search for a rank."""

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array

import psgld
from psgld.model_selection.rank import grown

SHORT = {"draws": 60, "tune": 400, "thin": 5, "chains": 1, "progress": False}


def matrix(rank, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(60, rank)) @ rng.normal(size=(rank, 40)) + 0.5 * rng.normal(size=(60, 40))


@pytest.fixture(scope="module")
def runs():
    train, test = psgld.split(matrix(3), 0.15)
    fits = {f"rank {r}": psgld.sample(train, psgld.FactorModel(r, "gaussian"), **SHORT) for r in (1, 3, 5)}
    return fits, train, test


def test_the_numbers(runs):
    fits, _, test = runs
    found = psgld.compare(fits, test)
    logs = {name: post.log_predictive_density(test) for name, post in fits.items()}
    assert list(found.names) == sorted(logs, key=lambda name: -logs[name].sum())
    best = logs[found.names[0]]
    for n, name in enumerate(found.names):
        assert found.elpd[n] == pytest.approx(logs[name].sum())
        assert found.elpd_diff[n] == pytest.approx((best - logs[name]).sum())
        assert found.dse[n] == pytest.approx(np.sqrt(len(best)) * (best - logs[name]).std(ddof=1))
    assert found.choice == "rank 3" and found.posterior is fits["rank 3"]
    assert found.names[-1] == "rank 1" and found.weight.sum() == pytest.approx(1)
    assert json.loads(json.dumps(found.to_dict()))["choice"] == "rank 3"
    assert "choose rank 3" in str(found) and str(psgld.compare(fits)) == str(
        found
    )  # they keep what was held out


def test_the_simplest_within_a_standard_error(runs):
    fits, _, test = runs
    found = psgld.compare(fits, test)
    near = replace(found, elpd_diff=np.array([0.0, 10.0, 20.0]), dse=np.array([0.0, 30.0, 30.0]))
    assert near.choice == "rank 1" and "within one standard error" in near.recommendation
    far = replace(near, dse=np.array([0.0, 0.5, 0.5]))
    tiny = replace(far, elpd_diff=np.array([0.0, 1.0, 2.0]))
    assert tiny.choice == "rank 1"
    assert far.choice == found.names[0] and "its density is the highest" in far.recommendation


def test_training_data_are_left_out(runs):
    fits, train, _ = runs
    some = {name: fits[name] for name in ("rank 1", "rank 3")}
    found = psgld.compare(some, train)
    assert found.left_out == found.entries == train.stored and found.choice == "rank 3"
    assert found.elpd[0] < fits["rank 3"].log_predictive_density(train).sum()
    kept = {name: replace(post, held_out=None) for name, post in some.items()}
    assert psgld.compare(kept).entries == len(fits["rank 1"].observed)
    assert "left out one at a time" in str(found)


def test_mistakes(runs):
    fits, _, test = runs
    with pytest.raises(psgld.ModelError, match="give ranks"):
        psgld.compare(matrix(1))
    with pytest.raises(psgld.ModelError, match="compared as they are"):
        psgld.compare(fits, test, ranks=[1])
    with pytest.raises(psgld.DataError, match="posteriors by name"):
        psgld.compare({})
    with pytest.raises(psgld.DataError, match="ranks must be integers"):
        psgld.select_rank(matrix(1), ranks=[0])
    other = psgld.split(matrix(3), 0.15, seed=1)[0]
    strange = psgld.sample(other, psgld.FactorModel(1, "gaussian"), **SHORT)
    with pytest.raises(psgld.DataError, match="kept other entries"):
        psgld.compare({"one": fits["rank 1"], "other": strange})
    with pytest.raises(psgld.DataError, match="was trained on"):
        psgld.compare({"one": fits["rank 1"], "other": strange}, test)


def test_likelihoods_of_two_kinds():
    rng = np.random.default_rng(1)
    V = rng.poisson(rng.gamma(2, 1, (30, 1)) @ rng.gamma(2, 2, (1, 20)))
    with pytest.warns(psgld.PsgldWarning, match="probabilities"):
        found = psgld.compare(V, ranks=1, likelihoods=["poisson", "gaussian"], **SHORT)
    assert found.choice == "rank 1, poisson"


def test_select_rank():
    longer = SHORT | {"tune": 1000}
    found = psgld.select_rank(matrix(3), model=psgld.FactorModel(1, "gaussian"), **longer)
    assert found.posterior.model.rank == 3 and {"rank 1", "rank 2", "rank 4"} <= set(found.names)
    early = psgld.select_rank(matrix(1), ranks=[1, 2, 9], model=psgld.FactorModel(1, "gaussian"), **SHORT)
    assert early.posterior.model.rank == 1 and "rank 9" not in early.names


def test_a_warm_start_keeps_what_was_found(runs):
    fits, _, _ = runs
    W, H = grown(fits["rank 1"], 3, seed=0)
    assert W.shape == (60, 3) and H.shape == (3, 40)
    np.testing.assert_array_equal(W[:, :1], fits["rank 1"].W[0, -1])
    V = np.random.default_rng(0).poisson(3.0, (10, 8))
    counts = psgld.sample(V, psgld.FactorModel(1, "poisson"), draws=5, tune=20, progress=False)
    W, H = grown(counts, 2, seed=0)
    assert (W >= 0).all() and (H >= 0).all()


def test_components_in_use(runs):
    fits, _, _ = runs
    assert fits["rank 5"].components_in_use == 3 and fits["rank 1"].components_in_use == 1


def test_plot(runs):
    pytest.importorskip("matplotlib")
    ax = psgld.compare(runs[0]).plot()
    assert [label.get_text() for label in ax.get_yticklabels()] == list(psgld.compare(runs[0]).names)


def test_held_out_cells_of_data_with_zeros_are_held_out():
    """They were written out, so that some can be held out: none of them counts as trained on."""
    V = psgld.observations(csr_array(np.random.default_rng(0).poisson(0.5, (40, 30))), "zero")
    found = psgld.compare(V, ranks=[1], likelihoods=["poisson"], draws=20, tune=100)
    assert (found.entries, found.left_out) == (120, 0) and "held-out" in str(found)
    assert found.posterior.evaluate().seen == 0
