"""Modes: the layout of stored components, and that the product over modes adds up the biases."""

import numpy as np
import pytest

from psgld.models import FactorModel, Normal
from psgld.models.modes import FACTORS, NAMES, NORMALS, Mode

K, SIZES, OFFSET = 3, (5, 4), 2.5


@pytest.fixture
def parts():
    rng = np.random.default_rng(0)
    return [(rng.normal(size=(n, K)), rng.normal(size=n)) for n in SIZES]


def test_the_product_of_packed_rows_adds_up_the_biases(parts):
    model = FactorModel(K, "gaussian", bias=True)
    w, h = (mode.pack(*part, OFFSET) for mode, part in zip(model.modes, parts, strict=True))
    (W, a), (H, c) = parts
    np.testing.assert_allclose(w @ h.T, W @ H.T + a[:, None] + c + OFFSET)


@pytest.mark.parametrize("modes", [2, 3])
def test_every_mode_has_its_bias_and_carries_the_others(modes):
    """Also of more than two modes: exactly one moves in each bias component, the others are ones."""
    layouts = [Mode(axis, K, Normal(), modes) for axis in range(modes)]
    free = np.array([mode.free for mode in layouts])
    np.testing.assert_array_equal(free[:, K:], np.eye(modes, dtype=bool))
    assert free[:, :K].all() and [mode.centred for mode in layouts] == [False] * (modes - 1) + [True]
    rows = [np.full((2, K + modes), np.nan) for _ in layouts]
    for mode, x in zip(layouts, rows, strict=True):
        mode.start_biases(x, OFFSET)
    np.testing.assert_array_equal(np.prod([x[0, K:] for x in rows], axis=0), [0.0] * (modes - 1) + [OFFSET])


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_there_and_back(parts, bias, dtype):
    for mode, (factor, own) in zip(FactorModel(K, "gaussian", bias=bias).modes, parts, strict=True):
        given = factor.astype(dtype), own.astype(dtype) if bias else None
        stored = mode.pack(*given, OFFSET)
        assert stored.dtype == dtype and stored.shape == (len(factor), mode.components)
        back = mode.unpack(stored, OFFSET)
        np.testing.assert_array_equal(back[0], given[0])
        assert (back[1] is None) == (given[1] is None)
        if bias:
            np.testing.assert_allclose(back[1], given[1], rtol=1e-5)


def test_names_are_those_of_stores():
    assert FACTORS == ("W", "H", "row_bias", "col_bias")
    assert NORMALS == ("row_mean", "row_precision", "col_mean", "col_precision")
    assert len({name for names in NAMES for name in names}) == sum(map(len, NAMES))
