"""`psgld.split`: every entry is in one of the two parts, with its value, weight and labels."""

import numpy as np
import pytest
from scipy import sparse

import psgld


def entries(data):
    rows, cols, values = data.entries(np.arange(data.stored))
    weights = np.ones(data.stored) if data.entry_weights is None else data.entry_weights
    return set(zip(rows.tolist(), cols.tolist(), values.tolist(), weights.tolist(), strict=True))


def forms():
    rng = np.random.default_rng(0)
    V = rng.poisson(2.0, (12, 9)).astype(float)
    holes = np.where(rng.random(V.shape) < 0.3, np.nan, V)
    weights = rng.uniform(0.5, 2.0, V.shape)
    i, j = np.nonzero(V)
    labels = {"row_labels": [f"r{n}" for n in range(12)], "col_labels": np.arange(9) * 10}
    return {
        "dense": psgld.observations(V),
        "with holes": psgld.observations(holes),
        "weighted": psgld.observations(holes, weights=weights),
        "sparse": psgld.observations(sparse.csr_array(V), absent="unobserved"),
        "zeros": psgld.observations(sparse.csr_array(V), absent="zero"),
        "labelled": psgld.Observations.from_coo(
            i, j, V[i, j], V.shape, absent="unobserved", weights=weights[i, j], **labels
        ),
    }


@pytest.mark.parametrize("form", forms())
def test_the_parts_are_the_whole(form):
    data = forms()[form]
    train, test = psgld.split(data, 0.2, seed=3)
    assert entries(train) | entries(test) == entries(data)
    assert train.stored + test.stored == data.stored and test.stored == round(0.2 * data.stored)
    assert test.shape == train.shape == data.shape and test.absent == "unobserved" and test.absent_chosen
    assert train.absent == data.absent and train.is_sparse == data.is_sparse
    for part in (train, test):
        assert all(a is b for a, b in zip(part.labels, data.labels, strict=True))
    assert train.held_out is test and test.held_out is None
    again = psgld.split(data, 0.2, seed=3)[1]
    assert entries(again) == entries(test) != entries(psgld.split(data, 0.2, seed=4)[1])


def test_split_is_that_of_observations():
    data = forms()["labelled"]
    train, (rows, cols, values) = data.split(0.3, seed=1)
    other, test = psgld.split(data, 0.3, seed=1)
    assert train.fingerprint() == other.fingerprint()
    i, j, v = test.entries(np.arange(test.stored))
    assert rows.tolist() == data.row_labels[i].tolist() and cols.tolist() == data.col_labels[j].tolist()
    assert values.tolist() == v.tolist()


def test_cells_of_zeros_are_held_out_once_they_are_filled():
    data = forms()["zeros"].filled()
    train, test = psgld.split(data, 0.25)
    assert test.stored == 27 and (test.values == 0).any() and train.stored == 81
    assert train.before_filling is None  # else all cells would count as observed


@pytest.mark.parametrize("fraction", [0, 1, -0.5, "many"])
def test_wrong_fractions(fraction):
    with pytest.raises(psgld.DataError, match="fraction must lie between 0 and 1"):
        psgld.split(np.ones((3, 3)), fraction)


def test_results_keep_what_was_held_out(tmp_path):
    """In memory, in files and in stores; and what is wrong in a file is an error."""
    data = forms()["labelled"]
    train, test = psgld.split(data, 0.2)
    options = {"draws": 5, "tune": 20, "thin": 1, "chains": 1, "progress": False}
    post = psgld.sample(train, psgld.FactorModel(1, "poisson"), store=tmp_path / "run.zarr", **options)
    post.save(tmp_path / "run.npz")
    for kept in (post, psgld.load(tmp_path / "run.zarr"), psgld.load(tmp_path / "run.npz")):
        i, j, v = test.entries(np.arange(test.stored))
        np.testing.assert_array_equal(kept.held_out.rows, i)
        np.testing.assert_array_equal(kept.held_out.cols, j)
        np.testing.assert_array_equal(kept.held_out.values, v)
        np.testing.assert_array_equal(kept.held_out.weights, test.entry_weights)
        assert len(kept.observed) == train.stored
    assert psgld.sample(test, psgld.FactorModel(1, "poisson"), **options).held_out is None
    kept.held_out.rows[0] = 99
    kept.save(tmp_path / "bad.npz")
    with pytest.raises(psgld.DataError, match="rows of entries do not all lie in 0 to 11"):
        psgld.load(tmp_path / "bad.npz")
