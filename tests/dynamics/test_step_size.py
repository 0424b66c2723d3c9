"""Step sizes: plain functions of t, checked when tabulated."""

from __future__ import annotations

import numpy as np
import pytest

from psgld import PSGLD, Constant, Cyclical, Decay, ModelError, Power
from psgld.dynamics.step_size import as_step_size, tabulate

STEP_SIZES = [Constant(0.3), Power(0.01), Power(2.0, 1.0), Cyclical(0.2, 7), Decay(0.5, 0.1, 40)]
STEP_SIZES += [Decay(0.5, 0.1, 0)]


@pytest.mark.parametrize("step_size", STEP_SIZES, ids=repr)
def test_pieces_are_the_whole(step_size):
    whole = tabulate(step_size, 1, 100)
    assert whole.shape == (100,)
    assert whole.dtype == np.float64
    assert (whole > 0).all()
    pieces = [tabulate(step_size, t, n) for t, n in ((1, 1), (2, 49), (51, 50))]
    np.testing.assert_array_equal(np.concatenate(pieces), whole)


def test_formulas():
    t = np.array([1.0, 2.0, 8.0])
    np.testing.assert_array_equal(Constant(0.3)(t), 0.3)
    np.testing.assert_allclose(Power(0.01, 0.51)(t), (0.01 / t) ** 0.51)
    np.testing.assert_allclose(Decay(0.8, 0.1, 6)(t), 0.8 * (1 / 8) ** np.array([1 / 6, 2 / 6, 1.0]))
    np.testing.assert_allclose(Decay(0.5, 0.1, 100)(np.array([0.0, 100.0, 1e9])), [0.5, 0.1, 0.1])
    cyclical = Cyclical(0.2, 4)(np.arange(1.0, 10.0))
    np.testing.assert_allclose(cyclical[[0, 4, 8]], 0.2)
    np.testing.assert_allclose(cyclical[2], 0.1)
    assert (np.diff(cyclical[:4]) < 0).all()


def test_power_meets_the_conditions_of_the_paper():
    """Σε diverges and Σε² does not: b in (0.5, 1]."""
    for b in (0.5, 0.0, 1.01, np.nan):
        with pytest.raises(ModelError, match=r"b must be in \(0.5, 1\], got"):
            Power(1.0, b)
    steps = tabulate(Power(1.0, 1.0), 1, 10**6)
    assert steps.sum() > 14
    assert (steps**2).sum() < np.pi**2 / 6


@pytest.mark.parametrize("bad", [0.0, -1.0, np.nan, np.inf, "a", None], ids=repr)
def test_parameters_are_checked_at_once(bad):
    makers = (
        Constant,
        Power,
        lambda x: Cyclical(x, 5),
        lambda x: Decay(x, 0.1, 5),
        lambda x: Decay(0.1, x, 5),
    )
    for make in makers:
        with pytest.raises(ModelError, match="must be a finite number > 0, got"):
            make(bad)
    for make in (lambda: Power(0.1, "a"), lambda: Cyclical(0.1, "a"), lambda: Decay(0.2, 0.1, "a")):
        with pytest.raises(ModelError, match="got 'a'"):
            make()


def test_numbers_and_functions():
    assert as_step_size(0.1) == Constant(0.1)
    assert as_step_size(np.float32(0.5)) == Constant(0.5)
    assert as_step_size(1) == Constant(1.0)
    step = Power(0.01)
    assert as_step_size(step) is step
    np.testing.assert_array_equal(tabulate(as_step_size(lambda t: 1 / t), 4, 2), [0.25, 0.2])


@pytest.mark.parametrize("bad", [0.0, -0.1, np.nan, np.inf, "0.1", None, [0.1], np.ones(2)], ids=repr)
def test_what_is_no_step_size(bad):
    with pytest.raises(ModelError, match="step_size must be a positive number or a function of t, got"):
        as_step_size(bad)


@pytest.mark.parametrize("bad", [0.0, -1.0, "fast"], ids=repr)
def test_the_sampler_checks_at_once(bad):
    with pytest.raises(ModelError, match="step_size must be a positive number"):
        PSGLD(step_size=bad)


def test_functions_are_checked_where_they_are_tabulated():
    np.testing.assert_array_equal(tabulate(lambda t: 0.1, 1, 5), np.full(5, 0.1))
    with pytest.raises(ModelError, match=r"one value per t: 5 expected, got shape \(4,\)"):
        tabulate(lambda t: t[1:], 1, 5)
    with pytest.raises(ModelError, match=r"step size at t = 12 is -0\.5; it must be finite and > 0"):
        tabulate(lambda t: 11.5 - t, 10, 5)
    with pytest.raises(ModelError, match=r"step size at t = 11 is 0\.0; it must be finite and > 0"):
        tabulate(lambda t: 11.0 - t, 10, 5)
    with pytest.raises(ModelError, match="step size at t = 10 is nan"):
        tabulate(lambda t: t * np.nan, 10, 5)


def test_functions_of_one_number():
    """What users write: NumPy would say that the truth value of an array is ambiguous."""
    import math

    t = np.arange(1.0, 6.0)
    np.testing.assert_array_equal(tabulate(lambda t: 0.1 / max(t, 1), 1, 5), 0.1 / t)
    np.testing.assert_array_equal(tabulate(lambda t: 0.1 if t < 3 else 0.01, 1, 5), [0.1, 0.1, *[0.01] * 3])
    np.testing.assert_array_equal(tabulate(lambda t: math.sqrt(0.1 / t), 1, 5), np.sqrt(0.1 / t))
    with pytest.raises(ModelError, match=r"step size at t = 4 is -1\.0; it must be finite and > 0"):
        tabulate(lambda t: -1 if t > 3 else 0.1, 1, 5)
    with pytest.raises(ZeroDivisionError):  # the function's own
        tabulate(lambda t: 1 / (t - 4) if t > 3 else 0.1, 1, 5)
