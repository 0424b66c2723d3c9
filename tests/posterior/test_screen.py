"""Screening by whole numbers leaves the choice as it is: that of scores in floats, to the column."""

import os
from pathlib import Path

import numpy as np
import pytest

import psgld
from psgld import _core
from psgld.posterior.predict import held
from psgld.posterior.recommend import Among, Context
from psgld.runs.draws import Draws

_INFO = Path("/proc/cpuinfo")
_SCREENS = "avx512_vnni" in (_INFO.read_text() if _INFO.exists() else "")
screens = pytest.mark.skipif(
    not _SCREENS or os.environ.get("PSGLD_ISA", "v4") != "v4", reason="no products of whole numbers here"
)


def made_up(rng, draws, rows, cols, rank, bias=False, offset=0.0, dtype=np.float32):
    """Factors and biases of that many draws, each around a value of its own."""

    def around(*shape):
        return (rng.normal(size=(1, *shape)) + 0.3 * rng.normal(size=(draws, *shape))).astype(dtype)[None]

    rate = np.ones((1, draws, rank))
    a, c = (around(rows), around(cols)) if bias else (None, None)
    level = offset + 0.1 * offset * rng.normal(size=(1, draws))
    return Draws.of(
        W=around(rows, rank), H=around(cols, rank), row_bias=a, col_bias=c, row_rate=rate, col_rate=rate,
        offset=level, phi=np.ones((1, draws)),
    )  # fmt: skip


def among(rng, rows, cols, seen=0.0, allowed=1.0):
    there = rng.random((rows, cols)) < seen
    start = np.concatenate([[0], np.cumsum(there.sum(1))]).astype(np.int64)
    return Among(start, np.nonzero(there)[1].astype(np.int32), rng.random(cols) < allowed)


def both(draws, rows, n, width, among, threads=2):
    """The choice by floats and by the screen, and how many cells were scored in floats for the second."""
    context = Context(draws, psgld.Gaussian(), held(draws, psgld.Gaussian()), 0)
    plain, out = np.empty((2, len(rows), n), np.int64)
    score, _ = context.scores(rows, "bound", width)
    pool = _core.Pool(threads)
    _core.best(pool, score, None, among.start, among.seen, among.allowed, plain)
    looked = context.core.best_by_bound(pool, rows, width, among.start, among.seen, among.allowed, out)
    return plain, out, looked


@pytest.mark.parametrize("case", range(60))
def test_the_same_columns_are_chosen(case):
    rng = np.random.default_rng([3, case])
    rank, draws = int(rng.integers(1, 71)), int(rng.choice([1, 2, 3, 4, 5, 9, 40]))
    rows, cols = int(rng.integers(1, 70)), int(rng.integers(1, 500))
    d = made_up(rng, draws, rows, cols, rank, bool(rng.integers(2)), float(rng.choice([0.0, 3.0, -1000.0])))
    scale = rng.choice([1.0, 1e-3, 100.0])
    d.W[...] *= scale
    d.H[...] /= rng.choice([1.0, scale])
    index = rng.integers(rows, size=rng.integers(1, 2 * rows + 1))
    asked = among(rng, len(index), cols, rng.choice([0.0, 0.3]), rng.choice([1.0, 0.5]))
    width, n = float(rng.choice([0.0, 1.0, -1.0, 2.5, -0.3])), int(rng.integers(1, min(cols, 12) + 1))
    plain, out, looked = both(d, index, n, width, asked)
    np.testing.assert_array_equal(plain, out)
    assert 0 <= looked <= len(index) * cols


@screens
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("width", [0.0, 1.0, -1.5])
def test_few_columns_are_scored_twice(bias, width):
    """More rows and columns than a tile has, and what was seen cannot be chosen however good it is."""
    rng = np.random.default_rng(1)
    d = made_up(rng, 9, 700, 611, 19, bias, 4.0 * bias)
    d.H[:, :, 100:] *= 0.2  # the best are among the first
    asked = among(rng, 700, 611, 0.1)
    asked.allowed[:90] = False
    plain, out, looked = both(d, rng.permutation(700), 5, width, asked)
    np.testing.assert_array_equal(plain, out)
    assert (out >= 90).all() and looked < 0.15 * 700 * 611


@screens
@pytest.mark.parametrize("draws", [1, 2, 50])
@pytest.mark.parametrize("width", [0.0, 1.0, -1.0])
def test_columns_closer_than_whole_numbers_can_tell(draws, width):
    rng = np.random.default_rng(2)
    d = made_up(rng, draws, 40, 400, 33)
    close = rng.permutation(400)[:60]
    d.W[...] = np.abs(d.W)
    d.H[...] = -np.abs(d.H)
    d.H[:, :, close] = np.abs(d.H[:, :, close[:1]]) + 1e-5 * rng.normal(size=(60, 33))
    d.H[:, :, close[7]] = d.H[:, :, close[3]]  # the same to the bit: the lower index first
    plain, out, looked = both(d, np.arange(40), 10, width, among(rng, 40, 400))
    np.testing.assert_array_equal(plain, out)
    assert np.isin(out, close).all() and 40 * 10 < looked < 0.25 * 40 * 400


@screens
@pytest.mark.parametrize(
    ("factors", "width"), [((1, 1), 0.0), ((1, 1), 1.0), ((1, -1), 3.0), ((1, -1, 2, -2), 3.0)]
)
@pytest.mark.parametrize("rank", [16, 31, 64])
def test_roundings_that_all_point_one_way(rank, factors, width):
    """The better columns lie just below half a unit in all components, and lose it; the others just above, and gain."""
    rng = np.random.default_rng(rank)
    d = made_up(rng, len(factors), 20, 800, rank)
    middle = rng.uniform(0.9, 1.1, rank)
    middle = np.floor(32760 * middle / np.linalg.norm(middle)) + 0.5
    # Of the length that a vector is given, in units.
    middle[0] -= np.rint((middle @ middle - 32760**2) / 2 / middle[0])
    columns = np.stack([rng.permutation(middle) for _ in range(80)])
    columns[:40] -= 0.05
    columns[:40, 0] += 1 + np.arange(40) % 4
    columns[40:] += 0.05
    columns[40:, : int(0.1 * rank) + 2] -= 1
    d.W[...] = np.asarray(factors)[:, None, None]
    d.H[...] = -0.1
    d.H[:, :, :80] = columns / 4096
    plain, out, looked = both(d, np.arange(20), 10, width, among(rng, 20, 800))
    np.testing.assert_array_equal(plain, out)
    assert (out < 40).all() and looked < 0.25 * 20 * 800


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d.W.fill(0.0),
        lambda d: d.H.fill(0.0),
        lambda d: d.H[:, :, 5:].fill(0.0),
        lambda d: d.W.__imul__(1e9),
        lambda d: [d.W.__imul__(1e6), d.H.__imul__(1e6)],
        lambda d: [
            d.W.__imul__(1e-4),
            d.H.__imul__(1e-4),
            d.row_bias.fill(0),
            d.col_bias.fill(0),
            d.offset.fill(0),
        ],
        lambda d: d.W.__imul__(1e-20),
        lambda d: d.H.__imul__(1e-30),
        lambda d: d.H.__imul__(1e25),
        lambda d: d.W[0, 2, 3].fill(np.inf),
        lambda d: d.H[0, 2, 3].fill(np.inf),
        lambda d: d.H[0, 0, 3].__setitem__(0, np.nan),
        lambda d: d.row_bias[0, 1].fill(1e30),
        lambda d: d.col_bias[0, 1].fill(-3e6),
        lambda d: d.col_bias[0, 1, :4].fill(1e30),
        lambda d: d.offset.fill(1e6),
        lambda d: d.offset.fill(1e20),
        lambda d: [a.__setitem__((0, slice(1, None)), a[0, :1]) for a in (d.W, d.H, d.row_bias, d.col_bias)],
        lambda d: d.H[:, :, ::2].__setitem__(slice(None), d.H[:, :, 1::2]),
    ],
)
@pytest.mark.parametrize("width", [1.0, -1.0, 1e9])
def test_extreme_values(change, width):
    rng = np.random.default_rng(5)
    d = made_up(rng, 6, 30, 200, 11, bias=True, offset=1.0)
    change(d)
    plain, out, _ = both(d, np.arange(30), 4, width, among(rng, 30, 200, 0.1))
    np.testing.assert_array_equal(plain, out)


def test_fewer_candidates_than_asked_for():
    rng = np.random.default_rng(6)
    d = made_up(rng, 5, 10, 300, 8)
    asked = among(rng, 10, 300, 0.2, 0.02)
    plain, out, _ = both(d, np.arange(10), 20, 1.0, asked)
    np.testing.assert_array_equal(plain, out)
    assert (out[:, 0] >= 0).all() and (out[:, -1] == -1).all()
    asked.allowed[...] = False
    assert (both(d, np.arange(10), 20, 1.0, asked)[1] == -1).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_threads_do_not_show(dtype):
    rng = np.random.default_rng(7)
    d = made_up(rng, 5, 600, 300, 10, dtype=dtype)
    asked = among(rng, 600, 300, 0.1)
    plain, one, looked = both(d, np.arange(600), 7, 1.0, asked, threads=1)
    np.testing.assert_array_equal(plain, one)
    for threads in (2, 3):
        _, out, again = both(d, np.arange(600), 7, 1.0, asked, threads)
        np.testing.assert_array_equal(one, out)
        assert looked == again
