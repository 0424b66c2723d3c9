"""One contract for all sources: the same answers, whether the data are in memory or on disk."""

from __future__ import annotations

import numpy as np
import pytest

import psgld
from psgld.data.source import Share, Source

SHAPE = (40, 25)


def in_memory(absent, _):
    rng = np.random.default_rng(0)
    rows, cols = np.divmod(rng.choice(SHAPE[0] * SHAPE[1], 300, replace=False), SHAPE[1])
    return psgld.Observations.from_coo(rows, cols, rng.integers(1, 6, 300), SHAPE, absent)


def on_disk(absent, folder):
    pytest.importorskip("zarr")
    return psgld.shard(in_memory(absent, folder), folder / "shards", 3, absent=absent)


@pytest.mark.parametrize("absent", ["unobserved", "zero"])
@pytest.mark.parametrize("make", [in_memory, on_disk])
def test_all_sources_answer_alike(make, absent, tmp_path):
    found, truth = make(absent, tmp_path), in_memory(absent, tmp_path)
    assert isinstance(found, Source)
    V = np.zeros(SHAPE)
    rows = np.repeat(np.arange(SHAPE[0]), np.diff(truth.indptr))
    V[rows, truth.indices] = truth.values
    seen = np.ones(SHAPE, bool) if absent == "zero" else V > 0
    assert found.shape == SHAPE and found.stored == 300 and found.size == seen.sum()
    np.testing.assert_allclose([found.mean(), found.variance()], [V[seen].mean(), V[seen].var()])
    assert (found.min(), found.max()) == (V[seen].min(), V[seen].max())
    i, j, v = found.labelled_entries()
    np.testing.assert_array_equal(v, V[i, j])
    np.testing.assert_array_equal(found.row_counts(), seen.sum(axis=1))
    np.testing.assert_array_equal(found.col_counts(), seen.sum(axis=0))
    for axis in range(2):
        np.testing.assert_array_equal(found.counts(axis), seen.sum(axis=1 - axis))
    for n in (50, 10**6):
        i, j, v = found.sample_entries(n, seed=3)
        assert len(i) == min(n, found.size)
        np.testing.assert_array_equal(V[i, j], v)
        np.testing.assert_array_equal(found.sample_entries(n, seed=3)[2], truth.sample_entries(n, seed=3)[2])
    for mine, theirs in zip(found.entries(np.arange(300)), truth.entries(np.arange(300)), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    np.testing.assert_array_equal(np.sort(np.concatenate(list(found.value_parts()))), np.sort(truth.values))
    assert found.load().csr is not None and found.load().fingerprint() == truth.fingerprint()
    assert found.row_index([3]) == [3] and found.col_index([4]) == [4]
    with pytest.raises(psgld.DataError, match="entries are numbered 0 to 299"):
        found.entries([300])


@pytest.mark.parametrize("make", [in_memory, on_disk])
def test_strips_are_asked_for(make, tmp_path):
    """Data in memory can be cut in any way; of shards, all is as it was cut."""
    found = make("unobserved", tmp_path)
    everything = Share([range(3)], 0, lambda table: table, lambda parts: parts)
    if found.strips is None:
        assert found.cut is None and found.shared(everything) is found and found.on_disk is None
    else:
        assert found.on_disk is found
        assert found.strips == 3 and [len(side) for side in found.cut] == list(SHAPE)
        np.testing.assert_array_equal(found.shared(everything).indices, found.indices)


def test_zeros_of_shards_are_written_out(tmp_path):
    """As those in memory are, where the likelihood cannot do without."""
    shards, data = on_disk("zero", tmp_path), in_memory("zero", tmp_path)
    np.testing.assert_array_equal(shards.filled().dense, data.filled().dense)
    model, quick = (
        psgld.FactorModel(2, "compound-poisson"),
        {"draws": 3, "tune": 5, "thin": 1, "progress": False},
    )
    np.testing.assert_array_equal(
        psgld.sample(shards, model, **quick).W, psgld.sample(data, model, **quick).W
    )


def test_sources_say_what_they_lack():
    with pytest.raises(TypeError, match="abstract"):
        Source()
