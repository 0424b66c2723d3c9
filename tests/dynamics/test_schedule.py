"""Schedules: every part once a cycle, the same sequence in any pieces, scales 1 / P(an entry is in the part).

(That the average gradient is the full one is in `test_kernels.py`.)
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from psgld import Cyclic, Proportional, Reshuffled

SCHEDULES = [Cyclic(), Reshuffled(), Proportional()]
KEYS = st.integers(0, 2**64 - 1)
SIZES = st.lists(st.integers(0, 50), min_size=1, max_size=9).filter(any).map(np.array)

PIECES = st.lists(st.integers(1, 12), min_size=1, max_size=8)


@pytest.mark.parametrize("schedule", [Cyclic(), Reshuffled()], ids=repr)
@given(sizes=SIZES, key=KEYS, cycle=st.integers(0, 10**6))
@settings(max_examples=50, deadline=None, derandomize=True)
def test_every_part_once_a_cycle(schedule, sizes, key, cycle):
    blocks = len(sizes)
    parts, scales = schedule.parts(cycle * blocks + 1, 3 * blocks, sizes, key)
    np.testing.assert_array_equal(np.sort(parts.reshape(3, blocks)), np.tile(np.arange(blocks), (3, 1)))
    np.testing.assert_array_equal(scales, blocks)


@pytest.mark.parametrize("schedule", SCHEDULES, ids=repr)
@given(sizes=SIZES, key=KEYS, start=st.integers(1, 10**6), pieces=PIECES)
@settings(max_examples=50, deadline=None, derandomize=True)
def test_pieces_are_the_whole(schedule, sizes, key, start, pieces):
    """A chain that is resumed, or run in pieces, visits the same parts."""
    whole, scales = schedule.parts(start, sum(pieces), sizes, key)
    assert whole.dtype == np.int32
    assert scales.dtype == np.float64
    assert len(whole) == len(scales) == sum(pieces)
    begins = start + np.concatenate([[0], np.cumsum(pieces)[:-1]])
    cut = [schedule.parts(int(t), n, sizes, key) for t, n in zip(begins, pieces, strict=True)]
    np.testing.assert_array_equal(np.concatenate([parts for parts, _ in cut]), whole)
    np.testing.assert_array_equal(np.concatenate([scale for _, scale in cut]), scales)


def test_cyclic_is_the_ring():
    parts, _ = Cyclic().parts(3, 6, np.ones(4, int), 0)
    np.testing.assert_array_equal(parts, [2, 3, 0, 1, 2, 3])


@pytest.mark.parametrize("schedule", [Reshuffled(), Proportional()], ids=repr)
@pytest.mark.parametrize("key", [0, 7, 2**63, 2**64 - 2])
def test_random_orders_depend_on_every_bit_of_the_key(schedule, key):
    sizes = np.arange(1, 10)
    parts, other, again = (schedule.parts(1, 90, sizes, k)[0] for k in (key, key ^ 1, key))
    np.testing.assert_array_equal(parts, again)
    assert not np.array_equal(parts, other)
    cycles = parts.reshape(10, 9)
    assert len(np.unique(cycles, axis=0)) == 10


def test_proportional_draws_by_size():
    sizes = np.array([10, 0, 30, 60])
    parts, scales = Proportional().parts(1, 8000, sizes, 3)
    seen = np.bincount(parts, minlength=4)
    assert seen[1] == 0
    assert stats.chisquare(seen[[0, 2, 3]], 8000 * sizes[[0, 2, 3]] / 100).pvalue > 1e-3
    np.testing.assert_allclose(scales, 100 / sizes[parts])


@pytest.mark.parametrize("schedule", [Reshuffled(), Proportional()], ids=repr)
def test_cycles_are_independent(schedule):
    """What one cycle draws is not what the one before drew, moved along by a few places."""
    blocks, cycles = 64, 200
    drawn = schedule.parts(1, cycles * blocks, np.ones(blocks, int), 5)[0].reshape(cycles, blocks)
    for a, b in ((drawn[:-1], drawn[1:]), (drawn[1:], drawn[:-1])):
        for lag in range(17):
            same = a[:, lag:] == b[:, : blocks - lag]
            assert abs(same.mean() - 1 / blocks) < 6 * np.sqrt(1 / blocks / same.size), lag


def test_reshuffled_orders_are_uniform():
    parts, _ = Reshuffled().parts(1, 3 * 3000, np.ones(3, int), 5)
    _, seen = np.unique(parts.reshape(3000, 3), axis=0, return_counts=True)
    assert len(seen) == 6
    assert stats.chisquare(seen).pvalue > 1e-3
