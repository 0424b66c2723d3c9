"""Weights of entries in the data: every constructor, their order, what is refused, what carries them along."""

import re

import numpy as np
import pytest
from scipy import sparse

import psgld
from psgld import DataError, Observations, observations

ROWS, COLS = np.array([2, 0, 0, 1]), np.array([1, 3, 0, 2])
V, W = np.array([5.0, 3.0, 4.0, 1.0]), np.array([0.5, 2.0, 3.0, 1.0])
TABLE = np.full((3, 4), np.nan)
TABLE[ROWS, COLS] = V
WEIGHTS = np.full((3, 4), np.nan)
WEIGHTS[ROWS, COLS] = W
EXPECTED = [3.0, 2.0, 1.0, 0.5]  # row by row


def frame():
    pandas = pytest.importorskip("pandas")
    return pandas.DataFrame({"row": ROWS, "col": COLS, "value": V, "times": W})


def file(folder, name, delimiter=","):
    lines = (delimiter.join(map(str, line)) for line in zip(ROWS, W, COLS, V, strict=True))
    (folder / name).write_text("\n".join([delimiter.join(("row", "times", "col", "value")), *lines]) + "\n")
    return folder / name


def parquet(folder):
    pytest.importorskip("pyarrow")
    frame().to_parquet(folder / "v.parquet")
    return folder / "v.parquet"


def saved(data, folder):
    data.save(folder / "v.npz")
    return Observations.from_file(folder / "v.npz")


def matrix(values):
    return sparse.coo_array((values, (ROWS, COLS)), shape=(3, 4))


FORMS = {
    "from_dense": lambda _: Observations.from_dense(TABLE, weights=WEIGHTS),
    "from_dense, masked": lambda _: Observations.from_dense(
        np.ma.masked_invalid(TABLE), weights=np.ma.masked_invalid(WEIGHTS)
    ),
    "from_sparse": lambda _: Observations.from_sparse(matrix(V), weights=W),
    "from_sparse, a matrix": lambda _: Observations.from_sparse(matrix(V).tocsc(), weights=matrix(W).tocsr()),
    "from_coo": lambda _: Observations.from_coo(ROWS, COLS, V, weights=W),
    "from_frame": lambda _: Observations.from_frame(frame(), weight="times"),
    "from_chunks": lambda _: Observations.from_chunks(
        [(ROWS[part], COLS[part], V[part], W[part]) for part in (slice(2), slice(2, None))]
    ),
    "from_file": lambda folder: Observations.from_file(file(folder, "v.csv"), weight="times"),
    "from_file, a number": lambda folder: Observations.from_file(file(folder, "v.tsv", "\t"), weight=1),
    "from_file, parquet": lambda folder: Observations.from_file(parquet(folder), weight="times"),
    "observations, dense": lambda _: observations(TABLE, weights=WEIGHTS),
    "observations, sparse": lambda _: observations(matrix(V), weights=W),
    "observations, frame": lambda _: observations(frame(), weights="times"),
    "observations, frame and an array": lambda _: observations(frame()[["row", "col", "value"]], weights=W),
    "observations, file": lambda folder: observations(file(folder, "v.csv"), weights="times"),
    "observations of observations": lambda _: observations(Observations.from_coo(ROWS, COLS, V), weights=EXPECTED),
    "saved, sparse": lambda folder: saved(Observations.from_coo(ROWS, COLS, V, weights=W), folder),
    "saved, dense": lambda folder: saved(Observations.from_dense(TABLE, weights=WEIGHTS), folder),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_every_constructor_keeps_weights_with_their_entries(form, tmp_path):
    data = FORMS[form](tmp_path)
    assert data.weighted
    np.testing.assert_array_equal(data.values, [4.0, 3.0, 1.0, 5.0])
    np.testing.assert_array_equal(data.entry_weights, EXPECTED)
    assert data.total_weight == W.sum()
    np.testing.assert_allclose(data.weight_sums(0), [5.0, 1.0, 0.5])
    np.testing.assert_allclose(data.weight_sums(1), [3.0, 0.5, 1.0, 2.0])
    mean = (W * V).sum() / W.sum()
    assert data.mean() == pytest.approx(mean)
    assert data.variance() == pytest.approx((W * (V - mean) ** 2).sum() / W.sum())


def test_implicit_zeros_have_a_weight_of_their_own():
    data = Observations.from_coo(ROWS, COLS, V, absent="zero", weights=W, zero_weight=0.25)
    full = data.filled()
    assert data.total_weight == pytest.approx(W.sum() + 0.25 * 8) == pytest.approx(full.total_weight)
    for axis in (0, 1):
        np.testing.assert_allclose(data.weight_sums(axis), full.weight_sums(axis))
    assert data.mean() == pytest.approx(full.mean())
    assert data.variance() == pytest.approx(full.variance())
    for n in (5, 12):
        np.testing.assert_array_equal(data.sample_weights(n), full.sample_weights(n))
        np.testing.assert_array_equal(data.sample_entries(n)[2], full.sample_entries(n)[2])
    only_zeros = Observations.from_coo(ROWS, COLS, V, absent="zero", zero_weight=0.25)
    np.testing.assert_array_equal(only_zeros.entry_weights, np.ones(4))


def test_weights_of_one_are_none():
    plain = Observations.from_coo(ROWS, COLS, V)
    ones = Observations.from_coo(ROWS, COLS, V, weights=np.ones(4))
    assert not ones.weighted and ones.fingerprint() == plain.fingerprint()
    assert not Observations.from_dense(TABLE, weights=np.ones((3, 4))).weighted


def test_other_weights_are_another_data_set():
    made = [
        Observations.from_coo(ROWS, COLS, V, absent="zero"),
        Observations.from_coo(ROWS, COLS, V, absent="zero", weights=W),
        Observations.from_coo(ROWS, COLS, V, absent="zero", weights=W[::-1]),
        Observations.from_coo(ROWS, COLS, V, absent="zero", weights=W, zero_weight=0.5),
    ]
    for exact in (False, True):
        assert len({data.fingerprint(exact) for data in made}) == len(made)


@pytest.mark.parametrize("form", ["from_coo", "from_dense"])
def test_split_keeps_the_weights_of_the_rest(form):
    data = FORMS[form](None)
    left, (rows, cols, _) = data.split(0.25, seed=1)
    kept = ~np.isin(data.indices + 10 * np.repeat(np.arange(3), np.diff(data.indptr)), cols + 10 * rows)
    np.testing.assert_array_equal(left.entry_weights, data.entry_weights[kept])


def test_the_last_duplicate_has_its_weight():
    twice = Observations.from_coo([0, 0, 1], [0, 0, 1], [1.0, 2.0, 3.0], duplicates="last", weights=[5, 6, 7])
    np.testing.assert_array_equal(twice.entry_weights, [6, 7])


BAD = {
    "0": (
        lambda: Observations.from_coo(ROWS, COLS, V, weights=W * [1, 0, 1, 1]),
        "1 of 4 are not, the first is 0; an entry that should not count is unobserved",
    ),
    "negative": (
        lambda: Observations.from_dense(TABLE, weights=-WEIGHTS),
        "weights must be numbers from 1e-12 to 1e",
    ),
    "NaN": (
        lambda: Observations.from_coo(ROWS, COLS, V, weights=W * np.nan),
        "4 of 4 are not, the first is nan",
    ),
    "NaN at an observed cell": (
        lambda: Observations.from_dense(np.ones((3, 4)), weights=WEIGHTS),
        "8 of 12 are not",
    ),
    "infinite": (
        lambda: Observations.from_coo(ROWS, COLS, V, weights=W / 0.0),
        "the first is inf",
    ),
    "text": (
        lambda: Observations.from_coo(ROWS, COLS, V, weights=list("abcd")),
        "must be real numbers",
    ),
    "too few": (
        lambda: Observations.from_coo(ROWS, COLS, V, weights=W[:3]),
        "3 weights for 4 entries",
    ),
    "another shape": (
        lambda: Observations.from_dense(TABLE, weights=W),
        "must be a 2-D array",
    ),
    "another size": (
        lambda: Observations.from_dense(TABLE, weights=WEIGHTS.T),
        re.escape("shape (4, 3), the values (3, 4)"),
    ),
    "another pattern": (
        lambda: Observations.from_sparse(matrix(V), weights=sparse.eye_array(3, 4)),
        "not all at the same places",
    ),
    "summed": (
        lambda: Observations.from_coo(ROWS, COLS, V, weights=W, duplicates="sum"),
        "does not say which weight",
    ),
    "no zeros": (
        lambda: Observations.from_coo(ROWS, COLS, V, zero_weight=2.0),
        "for sparse data with absent='zero'",
    ),
    "no zeros any more": (
        lambda: observations(Observations.from_coo(ROWS, COLS, V, absent="zero", zero_weight=2.0), absent="unobserved"),
        "for sparse data with absent='zero'",
    ),
    "dense zeros": (
        lambda: observations(TABLE, zero_weight=2.0),
        "for sparse data",
    ),
    "zero weight 0": (
        lambda: Observations.from_coo(ROWS, COLS, V, absent="zero", zero_weight=0),
        "zero_weight must be a number from",
    ),
    "a column of an array": (
        lambda: observations(TABLE, weights="times"),
        "names a column, but V is not a table",
    ),
    "no such column": (
        lambda: observations(frame(), weights="weight"),
        "no column 'weight'",
    ),
    "the value column": (
        lambda: Observations.from_frame(frame(), weight="value", value="value"),
        "different columns",
    ),
    "chunks without": (
        lambda: Observations.from_chunks([(ROWS, COLS + 9, V, W), (ROWS, COLS, V)]),
        "1 of 2 chunks have no weights",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
@pytest.mark.filterwarnings("ignore:divide by zero")
def test_bad_weights_are_one_clear_line(name):
    call, message = BAD[name]
    with pytest.raises(DataError, match=message) as error:
        call()
    assert "\n" not in str(error.value)


def test_a_bad_weight_in_a_file_has_its_line(tmp_path):
    path = tmp_path / "v.csv"
    path.write_text("row,col,value,times\n1,2,3,1\n1,3,3,x\n")
    with pytest.raises(DataError, match=r"v\.csv, line 3: weight 'x' is not a number"):
        Observations.from_file(path, weight="times")
    np.save(tmp_path / "v.npy", TABLE)
    with pytest.raises(DataError, match=r"v\.npy has no columns, so none of weights"):
        observations(tmp_path / "v.npy", weights="times")


def test_shards_refuse_weights(tmp_path):
    pytest.importorskip("zarr")
    with pytest.raises(DataError, match="shards have no weights"):
        psgld.shard(FORMS["from_coo"](None), tmp_path / "shards", blocks=2)
    shards = psgld.shard(Observations.from_coo(ROWS, COLS, V), tmp_path / "shards", blocks=2)
    with pytest.raises(DataError, match="shards have no weights"):
        observations(shards, weights=W)
