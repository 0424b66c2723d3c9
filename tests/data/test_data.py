import datetime
import os
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from psgld.data.observations import Observations, observations
from psgld.errors import DataError

FORMATS = ("bsr", "coo", "csc", "csr", "dia", "dok", "lil")
fixed = settings(derandomize=True, deadline=None)


@st.composite
def matrices(draw, dtype=np.float64):
    """A small matrix with NaN where nothing was observed, and at least two entries."""
    shape = draw(st.tuples(st.integers(1, 7), st.integers(2, 7)))
    cell = st.one_of(st.just(np.nan), st.integers(-3, 3).map(float))
    cells = draw(st.lists(cell, min_size=shape[0] * shape[1], max_size=shape[0] * shape[1]))
    X = np.array(cells, dtype=dtype).reshape(shape)
    X[0, :2] = 1, -2
    return X


def coo(X):
    rows, cols = np.nonzero(~np.isnan(X))
    return rows, cols, X[rows, cols]


def dense(V):
    """The matrix with NaN where nothing is stored."""
    X = np.full(V.shape, np.nan, V.values.dtype)
    rows, cols, values = V.entries(np.arange(V.stored))
    X[rows, cols] = values
    return X


# -- forms and round trips


@fixed
@given(matrices(), st.randoms(use_true_random=False))
def test_dense_and_coo_agree(X, random):
    full = Observations.from_dense(X)
    order = list(range(full.stored))
    random.shuffle(order)
    rows, cols, values = (array[order] for array in coo(X))
    sparse = Observations.from_coo(rows, cols, values, X.shape)
    for V in (full, sparse):
        np.testing.assert_array_equal(dense(V), X)
        assert V.size == V.stored == np.count_nonzero(~np.isnan(X))
        np.testing.assert_array_equal(V.row_counts(), (~np.isnan(X)).sum(axis=1))
        np.testing.assert_array_equal(V.col_counts(), (~np.isnan(X)).sum(axis=0))
        assert V.row_counts().dtype == V.col_counts().dtype == np.int64
        np.testing.assert_allclose([V.mean(), V.variance()], [np.nanmean(X), np.nanvar(X)], atol=1e-12)
        assert (V.min(), V.max()) == (np.nanmin(X), np.nanmax(X))
    assert full.fingerprint() == sparse.fingerprint()
    assert (full.is_sparse, sparse.is_sparse) == (False, True)
    assert sparse.indptr.dtype == np.int64 and sparse.indices.dtype == np.int32


@fixed
@given(matrices(), st.sampled_from(FORMATS), st.booleans())
def test_every_scipy_format(X, format, matrix):
    X = np.nan_to_num(X)
    make = sp.coo_matrix if matrix else sp.coo_array
    V = Observations.from_sparse(make(X).asformat(format), absent="zero")
    np.testing.assert_array_equal(np.nan_to_num(dense(V)), X)
    assert V.size == X.size and type(V.size) is int
    np.testing.assert_allclose([V.mean(), V.variance()], [X.mean(), X.var()], atol=1e-12)
    assert (V.min(), V.max()) == (X.min(), X.max())
    assert set(V.row_counts()) == {X.shape[1]} and set(V.col_counts()) == {X.shape[0]}


def test_long_rows_are_sorted():
    rng = np.random.default_rng(0)
    cells = rng.permutation(40 * 70_000)[:200_000]
    rows, cols = np.divmod(cells, 70_000)
    V = Observations.from_coo(rows.astype(np.int32), cols, np.arange(200_000, dtype=np.float32), (40, 70_000))
    want = sp.csr_array((np.arange(200_000, dtype=np.float32), (rows, cols)), (40, 70_000))
    want.sort_indices()
    for got, expected in zip(V.csr, (want.indptr, want.indices, want.data), strict=True):
        np.testing.assert_array_equal(got, expected)


def test_explicit_zeros_are_observed():
    V = Observations.from_sparse(sp.csr_array((np.zeros(2), ([0, 1], [1, 0])), (2, 2)))
    assert V.stored == V.size == 2 and V.mean() == 0


@pytest.mark.parametrize(
    ("dtype", "kept"),
    [("f4", "f4"), ("f8", "f8"), ("f2", "f8"), ("i4", "f8"), ("u1", "f8"), ("?", "f8"), (">f4", "f4")],
)
def test_dtypes(dtype, kept):
    X = np.array([[1, 0], [1, 1]], dtype=dtype)
    assert Observations.from_dense(X).values.dtype == np.dtype(kept)
    assert Observations.from_coo([0, 1], [1, 0], X[1]).values.dtype == np.dtype(kept)


def test_dense_is_not_copied():
    X = np.ones((3, 2), np.float32, order="F")
    assert Observations.from_dense(X).dense is X


def test_fingerprint():
    X = np.array([[0.1, np.nan], [-0.0, 3]])
    same = Observations.from_dense(X).fingerprint()
    assert len(same) == 64
    assert Observations.from_dense(X.astype(np.float32)).fingerprint() == same
    assert Observations.from_dense(np.abs(X)).fingerprint() == same
    sparse = Observations.from_coo(*coo(X))
    labelled = Observations.from_coo(*coo(X), row_labels=["a", "b"])
    others = [sparse.fingerprint(), labelled.fingerprint(), observations(sparse, "zero").fingerprint()]
    others += [
        Observations.from_coo(*coo(X), shape=(2, 3)).fingerprint(),
        Observations.from_dense(X + 1).fingerprint(),
    ]
    assert others[0] == same and len(set(others)) == 5


def test_repr():
    V = Observations.from_coo([0, 1], [1, 0], [1.0, 2.0], (4, 2), row_labels=list("abcd"))
    assert repr(V) == "Observations(4 × 2, 2 stored (25 %), absent='unobserved', float64, row labels: str)"
    assert repr(Observations.from_dense([[1.0]])) == "Observations(1 × 1, 1 stored (100 %), dense, float64)"


def test_shapes_do_not_overflow():
    V = Observations.from_coo([0], [2**31 - 2], [1.0], (2**20, 2**31 - 1), absent="zero")
    assert V.size == 2**20 * (2**31 - 1)
    rows, cols, values = V.sample_entries(5, seed=1)
    assert rows.max() < 2**20 and cols.max() < 2**31 - 1 and not values.any()


# -- entries, samples, splits


@fixed
@given(matrices(), st.integers(0, 60), st.sampled_from(["dense", "unobserved", "zero"]))
def test_sample_entries(X, n, kind):
    V = (
        Observations.from_dense(X)
        if kind == "dense"
        else Observations.from_coo(*coo(X), X.shape, absent=kind)
    )
    rows, cols, values = V.sample_entries(n, seed=3)
    truth = np.nan_to_num(X) if kind == "zero" else X
    np.testing.assert_array_equal(truth[rows, cols], values)
    assert len(set(zip(rows.tolist(), cols.tolist(), strict=True))) == len(rows) == min(n, V.size)
    for again, first in zip(V.sample_entries(n, seed=3), (rows, cols, values), strict=True):
        np.testing.assert_array_equal(again, first)


@fixed
@given(matrices(np.float32), st.floats(0.01, 0.99), st.booleans())
def test_split_is_a_partition(X, fraction, sparse):
    V = Observations.from_coo(*coo(X), X.shape) if sparse else Observations.from_dense(X)
    train, (rows, cols, values) = V.split(fraction, seed=1)
    assert train.shape == V.shape and train.stored + len(values) == V.stored
    assert train.is_sparse == sparse and train.values.dtype == np.float32
    together = dense(train)
    assert np.isnan(together[rows, cols]).all()
    together[rows, cols] = values
    np.testing.assert_array_equal(together, X)
    np.testing.assert_array_equal(dense(V), X)  # not changed by the split


def test_entries_and_split_errors():
    V = Observations.from_dense([[1.0, 2.0]])
    with pytest.raises(DataError, match="numbered 0 to 1, got -1 to 2"):
        V.entries([-1, 2])
    with pytest.raises(DataError, match=r"got 1\.5 of 2"):
        V.split(1.5)


# -- labels


def test_labels_given():
    V = Observations.from_coo([0, 1], [1, 0], [1, 2], row_labels=["z", "a"], col_labels=[30, 10])
    assert V.row_labels.tolist() == ["z", "a"] and V.col_labels.tolist() == [30, 10]
    assert V.row_index(["a", "z", "a"]).tolist() == [1, 0, 1]
    assert V.col_index([10]).tolist() == V.col_index("10").tolist() == [1]
    assert V.row_index([]).dtype == np.int64
    assert V.split(0.5)[0].row_labels is V.row_labels
    with pytest.raises(
        DataError, match=r"6 unknown row label\(s\): '1', '2', '3', '4', '5', …; known are 'z', 'a'"
    ):
        V.row_index(["a", *"123456"])
    with pytest.raises(DataError, match=r"1 unknown column label\(s\): 11; known"):
        V.col_index([10, 11])
    with pytest.raises(DataError, match=r"2 unknown column label\(s\): '123456789012345678901', 'x'"):
        V.col_index(["x", "123456789012345678901", "10"])
    with pytest.raises(DataError, match=r"1 null row label\(s\)"):
        V.row_index(["a", None])


def test_labels_that_are_indices():
    V = Observations.from_coo([0, 1], [1, 0], [1, 2], row_labels=[0, 1])
    assert V.row_labels.tolist() == [0, 1] and V.col_labels is None
    assert V.row_index([1, 0, 1]).tolist() == V.row_index(["1", "0", "1"]).tolist() == [1, 0, 1]
    with pytest.raises(DataError, match=r"2 unknown row label\(s\): -1, 2; known are 0, 1"):
        V.row_index([-1, 0, 2])
    with pytest.raises(DataError, match=r"2 unknown column label\(s\): -1, 2; known are 0 to 1"):
        V.col_index([-1, 0, 2])


def test_label_errors():
    with pytest.raises(DataError, match="row labels must be distinct, 'a' occur"):
        Observations.from_coo([0, 1], [1, 0], [1, 2], row_labels=["a", "a"])
    with pytest.raises(DataError, match="3 column labels for 2 columns"):
        Observations.from_coo([0, 1], [1, 0], [1, 2], (2, 2), col_labels=["a", "b", "c"])


label = st.one_of(st.integers(-(2**62), 2**62), st.integers(0, 9))
entry = st.tuples(label, st.text("abé", max_size=3), st.integers(-5, 5).map(float))


@fixed
@given(st.lists(entry, min_size=1, max_size=30), st.integers(1, 5))
def test_chunks_give_labels_back(entries, n_chunks):
    entries = list({(r, c): (r, c, v) for r, c, v in entries}.values())
    chunks = [entries[i::n_chunks] for i in range(n_chunks)]
    V = Observations.from_chunks(tuple(zip(*chunk, strict=True)) for chunk in chunks if chunk)
    rows, cols, values = V.entries(np.arange(V.stored))
    names = V.row_labels if V.row_labels is not None else np.arange(V.shape[0])
    assert names.dtype == np.int64 and names.tolist() == sorted({r for r, _, _ in entries})
    assert V.col_labels.tolist() == sorted({c for _, c, _ in entries})
    back = zip(names[rows].tolist(), V.col_labels[cols].tolist(), values.tolist(), strict=True)
    assert sorted(back) == sorted(entries)
    whole = Observations.from_chunks([tuple(zip(*entries[::-1], strict=True))])
    assert whole.fingerprint() == V.fingerprint()
    assert V.row_index([r for r, _, _ in entries]).tolist() == [
        names.tolist().index(r) for r, _, _ in entries
    ]


def test_mixed_and_odd_labels():
    V = Observations.from_chunks(
        [([1, 2], ["a", "b"], [1, 2]), (["x", "1"], np.array([2**63, 5], "u8"), [3, 4])]
    )
    assert V.row_labels.tolist() == ["1", "2", "x"]
    assert V.col_labels.tolist() == ["5", "9223372036854775808", "a", "b"]
    V = Observations.from_chunks([(np.array([1.0, 7.0]), np.array([0.5, 1.5]), [1, 2])])
    assert V.row_labels.tolist() == [1, 7] and V.col_labels.tolist() == ["0.5", "1.5"]
    V = Observations.from_chunks(
        [(np.array([b"a", "é".encode()]), np.array([b"b", b"\xe9"], object), [1, 2])]
    )
    assert V.row_labels.tolist() == ["a", "é"] and V.col_labels.tolist() == ["\\xe9", "b"]


def test_times_are_the_same_labels_in_every_unit_and_library():
    pandas = pytest.importorskip("pandas")
    noon = datetime.datetime(2020, 1, 2, 12, 0, 0, 500_000)
    days = np.array(["2020-01-01", "2020-01-02T12:00:00.5"], "M8[ns]")
    V = Observations.from_chunks(
        [(days.astype(f"M8[{unit}]"), [n, n], [1, 2]) for n, unit in enumerate(["ms", "us", "ns"])]
    )
    assert V.shape == (2, 3) and V.row_labels.tolist() == ["2020-01-01", "2020-01-02T12:00:00.5"]
    day = datetime.date(2020, 1, 1)
    for first in (day, pandas.Timestamp(day), np.datetime64(day), "2020-01-01"):
        assert V.row_index([first]).tolist() == [0]
    assert V.row_index([noon, day]).tolist() == [1, 0]
    zone = datetime.timezone(datetime.timedelta(hours=3))
    aware = noon.replace(hour=15, tzinfo=zone)
    for there in (aware, pandas.Timestamp(aware), pandas.Timestamp(aware).tz_convert("UTC")):
        assert V.row_index([there]).tolist() == [1]
    there = pandas.DatetimeIndex([aware])
    for column in (there, there.to_numpy(), there.astype(object), there.tz_convert("UTC")):
        frame = pandas.DataFrame({"row": column, "col": ["a"], "value": [1.0]})
        assert Observations.from_frame(frame).row_labels.tolist() == ["2020-01-02T12:00:00.5"]


def test_durations_are_not_cut_short():
    spans = np.array([1, 86_400_000_000], "m8[us]")
    V = Observations.from_chunks([(spans, [0, 0], [1, 2])])
    assert V.row_labels.tolist() == ["1 microseconds", "86400000000 microseconds"]
    assert V.row_index(spans[1:]).tolist() == [1]


@pytest.mark.parametrize("unit", ["h", "m", "s", "ns"])
def test_hours_and_minutes_are_times_of_day(unit):
    times = np.array(["2020-01-01", "2020-01-02T12:00"], f"M8[{unit}]")
    V = Observations.from_chunks([(times, [0, 0], [1, 2])])
    assert V.row_labels.tolist() == ["2020-01-01", "2020-01-02T12:00:00"]
    assert V.row_index([times[1]]).tolist() == V.row_index(["2020-01-02T12:00:00"]).tolist() == [1]


@pytest.mark.parametrize(
    ("chunk", "message"),
    [
        (([None, 1, None], [1, 2, 3], [1, 2, 3]), r"2 null row label\(s\)"),
        (([1, 2], [1.0, np.nan], [1, 2]), r"1 null column label\(s\)"),
        (([1, 2], np.array(["2020-01-01", "NaT"], "M8[D]"), [1, 2]), r"1 null column label\(s\)"),
        (([1, 2], [1, 2], [1.0]), "the same length, got 2, 2 and 1"),
        (
            (["u", "v"], [7, 8], [1.0, np.inf]),
            r"1 value\(s\) are NaN or infinite, the first \(inf\) at row 'v', column 8",
        ),
        (([[1]], [1], [1]), "1-D array, got 2 dimensions"),
        ("abc", "a chunk must be"),
    ],
)
def test_chunk_errors(chunk, message):
    with pytest.raises(DataError, match=message):
        Observations.from_chunks([chunk])


# -- duplicates


@fixed
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(-9, 9).map(float)), min_size=1))
@pytest.mark.parametrize("policy", ["sum", "mean", "last"])
def test_duplicates_like_pandas(policy, entries):
    pandas = pytest.importorskip("pandas")
    df = pandas.DataFrame(entries, columns=["row", "col", "value"])
    want = df.groupby(["row", "col"], sort=True)["value"].agg(policy).reset_index()
    V = Observations.from_coo(df.row, df.col, df.value, duplicates=policy)
    for got, name in zip(V.entries(np.arange(V.stored)), want, strict=True):
        np.testing.assert_allclose(got, want[name], atol=1e-12)


def test_duplicates_error():
    rows, cols = ["u", "v", "u", "u"], [5, 6, 5, 5]
    with pytest.raises(
        DataError, match=r"2 duplicate\(s\), for example at row 'u', column 5; choose duplicates='sum'"
    ):
        Observations.from_chunks([(rows, cols, [1, 2, 3, 4])])
    with pytest.raises(DataError, match="duplicates must be 'error', 'sum', 'mean' or 'last', got 'first'"):
        Observations.from_coo([0], [0], [1], duplicates="first")
    with pytest.raises(DataError, match=r"duplicates must be .* got 'first'"):
        observations(np.eye(3), duplicates="first")


def test_observations_merges_duplicates(tmp_path):
    """What the error advises can be given where it was raised: to `observations`."""
    pandas = pytest.importorskip("pandas")
    df = pandas.DataFrame({"row": ["u", "v", "u"], "col": [5, 6, 5], "value": [1.0, 2.0, 3.0]})
    df.to_csv(tmp_path / "t.csv", index=False)
    for V in (df, tmp_path / "t.csv", iter([df])):
        assert observations(V, duplicates="sum").values.tolist() == [4.0, 2.0]
    with pytest.raises(DataError, match=r"duplicates='sum', 'mean' or 'last' in psgld\.observations"):
        observations(df)


# -- refusals


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.ones(3), r"2-D array, got 1 dimension"),
        (np.ones((2, 2, 2)), r"2-D array, got 3 dimension"),
        (np.ones((2, 2), complex), "real numbers, got an array of complex128"),
        (np.array([["a"]]), "real numbers, got an array of <U1"),
        (np.array([[None]]), "real numbers, got an array of object"),
        (np.array([[1, np.inf], [-np.inf, 0]]), r"2 infinite value\(s\), the first at row 0, column 1"),
        (np.full((2, 3), np.nan), "empty: 2 rows, 3 columns, 0 observed"),
        (np.ones((0, 3)), "empty: 0 rows"),
        (np.ones((3, 0)), "empty: 3 rows, 0 columns"),
        ([[1, 2], [3]], "not a 2-D array"),
        (sp.coo_array(np.ones(3)), "must have 2 dimensions, got 1"),
        (sp.csr_array((2, 2)), "empty: 2 rows, 2 columns, 0 observed"),
        (
            sp.csr_array(np.array([[0, np.nan]])),
            r"1 value\(s\) are NaN or infinite, the first \(nan\) at row 0, column 1",
        ),
        (sp.csr_array(np.array([[1j]])), "real numbers, got an array of complex128"),
        (np.array([[1, None]], object), r"got an array of object; if they are, convert them: values.astype"),
        (
            sp.coo_array(([1, 2], ([0, 0], [1, 1])), (2, 2)),
            r"1 duplicate\(s\), for example at row 0, column 1",
        ),
        (iter(()), "empty: there are no chunks"),
        (3.0, "V must be a 2-D array.*got float"),
        (({}, {}), "V must be a 2-D array.*got tuple"),
    ],
)
def test_refused(X, message):
    with pytest.raises(DataError, match=message):
        observations(X)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"shape": (2, 5)}, "row indices must lie in 0 to 1, got 0 to 2"),
        ({"shape": (5, 2)}, "column indices must lie in 0 to 1, got 1 to 3"),
        ({"shape": (2**31, 5)}, "at most 2147483647 rows and columns are possible, got 2147483648 × 5"),
        ({"rows": [0, -1, 2]}, "row indices must be >= 0, got -1"),
        ({"rows": ["a", "b", "c"]}, "row indices must be integers, got <U1; from_frame"),
        ({"rows": [0, 0.5, 1]}, "row indices must be integers, got float64"),
        ({"cols": [[0, 1, 2]]}, "column indices must be a 1-D array, got 2"),
        ({"cols": [0, 1]}, "the same length, got 3, 2 and 3"),
        ({"absent": "nought"}, "absent must be 'unobserved' or 'zero', got 'nought'"),
    ],
)
def test_coo_refused(arguments, message):
    given = {"rows": [0, 1, 2], "cols": [1, 2, 3], "values": [1.0, 2.0, 3.0]}
    with pytest.raises(DataError, match=message):
        Observations.from_coo(**(given | arguments))


def test_from_sparse_refuses_arrays():
    with pytest.raises(DataError, match=r"must be a scipy\.sparse matrix or array, got ndarray"):
        Observations.from_sparse(np.ones((2, 2)))


# -- the friendly function


def test_absent():
    X = sp.csr_array(np.eye(3))
    V = observations(X)
    assert (V.absent, V.absent_chosen, V.size) == ("unobserved", False, 3)
    W = observations(V, absent="zero")
    assert (W.absent, W.absent_chosen, W.size) == ("zero", True, 9)
    assert observations(W) is W and W.csr is V.csr
    assert observations(np.eye(3), absent="unobserved").absent_chosen
    with pytest.raises(DataError, match="absent='zero' is for sparse data"):
        observations(np.eye(3), absent="zero")
    with pytest.raises(DataError, match="absent must be 'unobserved' or 'zero', got 'x'"):
        observations(np.eye(3), absent="x")


def test_masked_array_and_list():
    X = np.ma.masked_array(np.array([[1, 2], [np.inf, 4]], np.float32), mask=[[0, 1], [1, 0]])
    V = observations(X)
    np.testing.assert_array_equal(V.dense, np.array([[1, np.nan], [np.nan, 4]], np.float32))
    assert V.stored == 2 and V.dense.dtype == np.float32
    assert observations([[1, 2], [3, 4]]).mean() == 2.5


def test_generator_of_chunks():
    V = observations(([i, i + 1], ["a", "b"], [1.0, 2.0]) for i in (10, 20))
    assert V.row_labels.tolist() == [10, 11, 20, 21] and V.stored == 4


def test_imports_nothing_optional():
    code = "import sys, psgld.data; print({'pandas', 'polars', 'pyarrow'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "set()\n"


def test_held_out_entries_are_given_in_labels():
    V = Observations.from_coo(
        [0, 0, 1, 1], [0, 1, 0, 1], [1.0, 2.0, 3.0, 4.0], row_labels=[7, 9], col_labels=["a", "b"]
    )
    _, (rows, cols, values) = V.split(0.5, seed=0)
    index = V.row_index(rows), V.col_index(cols)
    np.testing.assert_array_equal(np.array([[1.0, 2.0], [3.0, 4.0]])[index], values)
    assert set(rows.tolist()) <= {7, 9} and set(cols.tolist()) <= {"a", "b"}


def test_labels_of_a_dense_matrix(tmp_path):
    V = Observations.from_dense(np.eye(2), row_labels=["u", "v"], col_labels=[7, 5])
    assert V.row_index(["v"]).tolist() == [1] and V.col_index([5, 7]).tolist() == [1, 0]
    V.save(tmp_path / "V.npz")
    again = Observations.from_file(tmp_path / "V.npz")
    assert again.row_labels.tolist() == ["u", "v"] and again.col_labels.tolist() == [7, 5]
    with pytest.raises(DataError, match="3 row labels for 2 rows"):
        Observations.from_dense(np.eye(2), ["a", "b", "c"])
    with pytest.raises(DataError, match="column labels must be distinct"):
        Observations.from_dense(np.eye(2), None, ["a", "a"])


@pytest.mark.skipif("asan" in os.environ.get("LD_PRELOAD", ""), reason="the sanitizer reserves terabytes")
def test_a_shape_that_does_not_fit_in_memory():
    code = """if True:
        import resource, psgld
        resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
        try:
            psgld.Observations.from_coo([0, 5], [0, 3], [1.0, 2.0], shape=(2**31 - 1, 2**31 - 1))
        except psgld.DataError as error:
            print(error)
        """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("not enough memory for 2 entries of a 2,147,483,647 × 2,147,483,647 matrix")


@pytest.mark.parametrize("fraction", [0, 1, 1.5, "a", None, True])
def test_the_fraction_to_hold_out(fraction):
    with pytest.raises(DataError, match=f"fraction must lie between 0 and 1.*got {fraction!r} of 16"):
        observations(np.eye(4)).split(fraction)
