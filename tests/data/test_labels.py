"""Labels: what they are read as, and how those of two data sets meet. `test_differential.py` has the meeting points."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import psgld
from psgld.data.labels import align_labels, encode, match_labels
from psgld.errors import DataError

LABELS = st.one_of(
    st.none(),
    st.lists(st.integers(-(2**63), 2**63 - 1), unique=True, min_size=1, max_size=6),
    st.lists(st.integers(-3, 6), unique=True, min_size=1, max_size=6),
    st.lists(st.text("0123456789+-. ax", max_size=3), unique=True, min_size=1, max_size=6),
)


@given(known=LABELS, wanted=LABELS.filter(bool), size=st.integers(1, 6))
def test_matching_is_comparing_names(known, wanted, size):
    """The specification: a label is found where its text is the same."""
    names = [str(x) for x in (range(size) if known is None else known)]
    labels = None if known is None else np.array(known)
    found = match_labels(labels, len(names), np.array(wanted))
    assert found.tolist() == [names.index(str(x)) if str(x) in names else -1 for x in wanted]


def test_data_sets_meet_by_label_or_in_full():
    films = np.array([0, 1, 2, 3, 5, 6, 7])
    assert align_labels(films, 7, np.array([0, 4, 5]), 3, "column").tolist() == [0, -1, 4]
    assert align_labels(films, 7, None, 7, "column").tolist() == list(range(7))
    with pytest.raises(
        DataError,
        match=r"5 columns without labels cannot be matched with 7 that have labels \(0, 1, 2, 3, 5, …\)",
    ):
        align_labels(films, 7, None, 5, "column")
    assert align_labels(None, 3, None, 5, "row").tolist() == [0, 1, 2, -1, -1]
    assert align_labels(None, 3, np.array(["2", "x", "-0"]), 3, "row").tolist() == [2, -1, -1]


@pytest.mark.parametrize("text", ["+5", "-0", "007", "5.0", "1e3"])
def test_text_that_is_no_usual_integer_stays_text(text, tmp_path):
    for delimiter in (",", "\t", " "):
        if delimiter in text:
            continue
        (tmp_path / "x.csv").write_text(f"{text}{delimiter}1{delimiter}2.5\n7{delimiter}2{delimiter}-0.5\n")
        V = psgld.Observations.from_file(tmp_path / "x.csv")
        assert (
            V.row_labels.tolist() == sorted(["7", text])
            and V.values.tolist() == [2.5, -0.5][:: 1 if text < "7" else -1]
        )
        shards = psgld.shard(tmp_path / "x.csv", tmp_path / f"shards{ord(delimiter)}", blocks=1)
        assert shards.row_labels.tolist() == V.row_labels.tolist()


def test_no_text_finds_the_least_integer():
    V = psgld.Observations.from_coo([0, 1], [0, 1], [1.0, 2.0], row_labels=[-(2**63), 5])
    assert V.row_index([-(2**63), "5", str(-(2**63))]).tolist() == [0, 1, 0]
    for typo in ("typo", "", "9" * 30, "+5"):
        with pytest.raises(DataError, match="1 unknown row label"):
            V.row_index([typo])


def test_floats_are_one_label_in_every_chunk():
    chunks = [([1.0, 2.0], [1, 2], [1.0, 1.0]), ([1.0, 1.5], [3, 3], [1.0, 1.0])]
    V = psgld.Observations.from_chunks(chunks)
    assert V.row_labels.tolist() == ["1", "1.5", "2"]
    assert V.row_index([1.0, 1.5]).tolist() == V.row_index([1, 1.5]).tolist() == [0, 1]
    assert encode([1.0, 2, "x"]).labels.tolist() == ["1.0", "2", "x"]  # NumPy has made text of them


MASKED = np.ma.array([1.0, -999.0], mask=[False, True])


@pytest.mark.parametrize(
    "make",
    [
        lambda: psgld.Observations.from_coo([0, 1], [0, 1], MASKED),
        lambda: psgld.Observations.from_coo(MASKED, [0, 1], [1.0, 2.0]),
        lambda: psgld.Observations.from_coo([0, 1], MASKED, [1.0, 2.0]),
        lambda: psgld.Observations.from_coo([0, 1], [0, 1], [1.0, np.ma.masked]),
        lambda: psgld.Observations.from_coo([0, 1], [0, 1], [1.0, 2.0], row_labels=MASKED),
        lambda: psgld.Observations.from_chunks([(["a", "b"], ["x", "y"], MASKED)]),
        lambda: psgld.Observations.from_chunks([(MASKED, ["x", "y"], [1.0, 2.0])]),
        lambda: psgld.shard(iter([([1, 2], [3, 4], MASKED)]), "masked", blocks=1),
        lambda: psgld.shard(iter([([1, 2], MASKED.astype(int), [1.0, 2.0])]), "masked", blocks=1),
        lambda: psgld.Observations.from_coo([0, 1], [0, 1], [1.0, 2.0]).row_index(MASKED),
    ],
)
def test_masks_are_not_ignored(make, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match=r"1 of the .* are masked; drop those entries first"):
        make()


def test_masked_rows_of_a_nested_list_are_unobserved():
    V = psgld.observations([np.ma.array([1.0, 2.0], mask=[0, 1]), np.ma.array([3.0, 4.0], mask=[0, 0])])
    assert V.stored == 3 and np.isnan(V.dense[0, 1])


def test_masks_in_predictions_and_estimators():
    V = np.random.default_rng(0).poisson(4.0, (6, 5)).astype(float)
    quick = {"draws": 3, "tune": 10, "chains": 1, "progress": False}
    post = psgld.sample(V, psgld.FactorModel(2, "poisson"), **quick)
    with pytest.raises(DataError, match="1 of the values are masked"):
        post.predict([0, 1], [0, 1]).log_density(MASKED)
    with pytest.raises(DataError, match="masked"):
        post.recommend([0], exclude_seen=False, filter=np.ma.array([True] * 5, mask=[0, 0, 1, 0, 0]))
    pytest.importorskip("sklearn")
    masked = np.ma.array(V, mask=np.zeros_like(V))
    masked[2, 3] = np.ma.masked
    nan = np.where(masked.mask, np.nan, V)
    nmf = psgld.BayesianNMF(2, draws=3, tune=10, chains=1)
    assert np.array_equal(nmf.fit(masked).posterior_.W, nmf.fit(nan).posterior_.W)


@pytest.mark.parametrize("label", [np.inf, -np.inf, np.float32(np.inf)])
def test_infinite_labels_are_text(label):
    found = encode(np.array([label, "x", 2.0], dtype=object))
    assert sorted(found.labels.tolist()) == sorted([str(label), "x", "2"])
