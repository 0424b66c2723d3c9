"""Simulation-based calibration: the true value of a quantity has a uniform rank among the draws.

`python -m benchmarks.sbc` does the same with more data sets, and prints the p-values.
"""

import numpy as np
import pytest
from benchmarks import sbc

import psgld

DATA_SETS = 100


@pytest.mark.slow
@pytest.mark.parametrize("name", sbc.EXACT)
def test_exact_samplers(name):
    found = sbc.p_values(sbc.ranks(name, sbc.EXACT[name], DATA_SETS, thin=10))
    # Five quantities: the least of five p-values is below 0.01 in one run of twenty, so the seed is fixed.
    assert min(found.values()) > 0.01, found


@pytest.mark.slow
@pytest.mark.parametrize("name", sbc.MODELS)
def test_psgld_at_its_default_step(name):
    found = sbc.p_values(sbc.ranks(name, psgld.PSGLD(), DATA_SETS, thin=200))
    assert min(found.values()) > 1e-4, found


@pytest.mark.slow
def test_a_wrong_sampler_is_found_out():
    """Draws at half the temperature are too narrow."""
    found = sbc.p_values(sbc.ranks("Gaussian", psgld.PSGLD(temperature=0.5), DATA_SETS, thin=200))
    assert min(found.values()) < 1e-4, found


def test_p_values_of_uniform_and_of_skewed_ranks():
    rng = np.random.default_rng(0)
    uniform = rng.integers(sbc.DRAWS + 1, size=(400, len(sbc.QUANTITIES)))
    assert min(sbc.p_values(uniform).values()) > 0.01
    assert max(sbc.p_values(uniform // 2).values()) < 1e-6
