"""Strips: not empty, every row in exactly one, balanced; and the errors of strips that cannot be."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from psgld import Assigned, InOrder, ModelError, Observations, Shuffled
from psgld.data.partition import choose_blocks


@st.composite
def problems(draw):
    """Return sparse data of any shape, some rows much fuller than others, and blocks that can be cut."""
    rows, cols = draw(st.integers(1, 40)), draw(st.integers(1, 40))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    share = rng.random((rows, 1)) ** draw(st.sampled_from([0, 1, 8])) * rng.random((1, cols))
    seen = rng.random((rows, cols)) < share
    seen[rng.integers(rows), rng.integers(cols)] = True
    i, j = np.nonzero(seen)
    data = Observations.from_coo(i, j, np.ones(len(i)), (rows, cols), absent="unobserved")
    return data, draw(st.integers(1, min(rows, cols)))


def check_strips(strips, n, blocks):
    assert strips.number == blocks
    assert strips.order.dtype == strips.bounds.dtype == np.int64
    assert strips.bounds[0] == 0
    assert strips.bounds[-1] == n
    assert (np.diff(strips.bounds) > 0).all()
    np.testing.assert_array_equal(np.sort(strips.order), np.arange(n))


@pytest.mark.parametrize("partition", [Shuffled(), Shuffled(5), InOrder()], ids=repr)
@given(problem=problems())
@settings(max_examples=60, deadline=None, derandomize=True)
def test_strips_cover_and_balance(partition, problem):
    data, blocks = problem
    counts = data.row_counts(), data.col_counts()
    for strips, n, count in zip(partition.cut(data, blocks), data.shape, counts, strict=True):
        check_strips(strips, n, blocks)
        weight = count[strips.order] + 1.0  # a row without entries costs something too
        held = np.add.reduceat(weight, strips.bounds[:-1])
        assert held.max() <= weight.sum() / blocks + weight.max() + 1e-9


@pytest.mark.parametrize("partition", [Shuffled(), InOrder()], ids=repr)
def test_equal_rows_make_equal_strips(partition):
    data = Observations.from_dense(np.ones((97, 24)))
    for strips in partition.cut(data, 8):
        assert np.ptp(np.diff(strips.bounds)) <= 1


def test_shuffled_depends_on_its_seed_alone():
    data = Observations.from_dense(np.ones((50, 50)))
    first, again, other = (Shuffled(s).cut(data, 4) for s in (1, 1, 2))
    for side in (0, 1):
        np.testing.assert_array_equal(first[side].order, again[side].order)
        assert not np.array_equal(first[side].order, other[side].order)
    assert not np.array_equal(first[0].order, first[1].order)
    np.testing.assert_array_equal(InOrder().cut(data, 4)[0].order, np.arange(50))


@pytest.mark.parametrize("partition", [Shuffled(), InOrder(), Assigned(np.arange(5), np.arange(9))], ids=repr)
def test_more_blocks_than_rows(partition):
    data = Observations.from_dense(np.ones((5, 9)))
    with pytest.raises(ModelError, match="6 blocks cannot be cut from 5 rows; choose blocks <= 5"):
        partition.cut(data, 6)
    with pytest.raises(ModelError, match="6 blocks cannot be cut from 5 columns"):
        InOrder().cut(Observations.from_dense(np.ones((9, 5))), 6)
    with pytest.raises(ModelError, match="10 blocks cannot be cut from 5 columns; choose blocks <= 5"):
        Shuffled().cut(Observations.from_dense(np.ones((9, 5))), 10)


@pytest.mark.parametrize("bad", [-1, "a", 1.5, None])
def test_seeds_are_checked_at_once(bad):
    with pytest.raises(ModelError, match="seed must be an integer >= 0, got"):
        Shuffled(seed=bad)


@pytest.mark.parametrize(
    "bad", ["a", [], ["a", "b"], None, [[0, 1], [0]], [0, np.nan], [np.inf], [str(n) for n in range(500)]]
)
def test_strips_are_checked_at_once(bad):
    with pytest.raises(ModelError, match="cols must be strip numbers, 0 to B - 1") as error:
        Assigned([0, 1], bad)
    assert len(str(error.value)) < 150


def test_assigned():
    data = Observations.from_dense(np.ones((5, 4)))
    rows, cols = Assigned([2, 0, 1, 0, 2], np.array([1, 1, 2, 0])).cut(data, 3)
    check_strips(rows, 5, 3)
    check_strips(cols, 4, 3)
    np.testing.assert_array_equal(rows.order, [1, 3, 2, 0, 4])
    np.testing.assert_array_equal(rows.bounds, [0, 2, 3, 5])
    np.testing.assert_array_equal(cols.order, [3, 0, 1, 2])


@pytest.mark.parametrize(
    ("rows", "cols", "message"),
    [
        (
            [0, 1],
            [0, 1, 2, 0],
            r"a strip number is needed for each of the 5 rows, got an array of shape \(2,\)",
        ),
        (
            [0, 1, 2, 0, 0],
            [[0, 1, 2, 0]],
            r"a strip number is needed for each of the 4 columns, .* shape \(1, 4\)",
        ),
        ([0, 1, 1, 0, 0], [0, 1, 2, 0], r"strip numbers of the rows must be 0 to 2, .* got \[0, 1\]"),
        ([0, 1, 2, 0, 0], [0, 1, 3, 0], r"strip numbers of the columns must be 0 to 2"),
        ([-1, 0, 1, 2, 2], [0, 1, 2, 0], r"strip numbers of the rows must be 0 to 2"),
        ([0, 1, 2, 0.5, 2], [0, 1, 2, 0], r"strip numbers of the rows must be 0 to 2"),
    ],
)
def test_assigned_errors(rows, cols, message):
    with pytest.raises(ModelError, match=message):
        Assigned(rows, cols).cut(Observations.from_dense(np.ones((5, 4))), 3)


@given(problem=problems(), most=st.integers(1, 100))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_chosen_blocks_can_be_cut(problem, most):
    data, _ = problem
    blocks = choose_blocks(data, most)
    assert 1 <= blocks <= min(*data.shape, most)
    Shuffled().cut(data, blocks)


def test_chosen_blocks_grow_with_the_work():
    small, large = (Observations.from_dense(np.ones((n, n), np.float32)) for n in (16, 1024))
    assert choose_blocks(small) == 1
    assert choose_blocks(large) == 32  # the setting of the paper's experiment


def test_two_long_assignments_can_be_told_apart():
    """A run knows its partition by its repr, and NumPy's leaves out the middle of a long array."""
    rows = np.arange(3000) % 4
    other = rows.copy()
    other[1000:1002] = other[1001], other[1000]
    assert repr(Assigned(rows, rows)) == repr(Assigned(rows.copy(), rows))
    assert repr(Assigned(rows, rows)) != repr(Assigned(other, rows)) != repr(Assigned(rows, other))
