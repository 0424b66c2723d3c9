"""Every prior keeps the same contract: score, sums, conjugate draws, checks."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from psgld.errors import ModelError
from psgld.models.priors.families import (
    PRIORS,
    Exponential,
    GammaPrior,
    Normal,
    NormalWishart,
    prior_from_dict,
)

CASES = [
    Exponential(),
    GammaPrior(0.5),
    GammaPrior(1.0),
    GammaPrior(3.0),
    GammaPrior().at_shape(0.4),
    Normal(),
    NormalWishart(),
]
each = pytest.mark.parametrize("prior", CASES, ids=repr)
SIZES = st.floats(0.1, 10.0)


def test_no_prior_is_left_out():
    assert {p.name for p in CASES} == set(PRIORS)


@each
@given(x=SIZES, rate=SIZES, mean=st.floats(-3, 3))
def test_score_is_the_derivative_of_the_log_density(prior, x, rate, mean):
    step = 1e-6 * x
    slope = (prior.log_density(x + step, rate, mean) - prior.log_density(x - step, rate, mean)) / (2 * step)
    scale = 1 + rate * (1 + x + abs(mean)) + 1 / x
    assert prior.score(x, rate, mean) == pytest.approx(slope, abs=1e-5 * scale)


@each
def test_coefficients_reproduce_the_score(prior):
    rng = np.random.default_rng(0)
    x, rate, mean = rng.gamma(2.0, size=(7, 3)), rng.gamma(2.0, size=3), rng.normal(size=3)
    inv, lin, quad = prior.coefficients(rate, mean)
    assert lin.shape == quad.shape == (3,)
    assert prior.score(x, rate, mean) == pytest.approx(inv / x + lin - quad * x)


@each
def test_sums_give_the_total_log_density(prior):
    rng = np.random.default_rng(1)
    x, rate, mean = rng.gamma(2.0, size=(50, 3)), rng.gamma(2.0, size=3), rng.normal(size=3)
    sums = x.sum(0), (x**2).sum(0)
    total = prior.log_density_from_sums(50, *sums, rate, mean, sum_log=np.log(x).sum(0))
    assert total == pytest.approx(prior.log_density(x, rate, mean).sum())


def test_log_densities_agree_with_scipy():
    x = np.array([0.2, 1.0, 4.0])
    assert Exponential().log_density(x, 2.0) == pytest.approx(stats.expon.logpdf(x, scale=0.5))
    assert GammaPrior(3.0).log_density(x, 2.0) == pytest.approx(stats.gamma.logpdf(x, 3.0, scale=0.5))
    assert Normal().log_density(x, 4.0, 1.0) == pytest.approx(stats.norm.logpdf(x, 1.0, 0.5))
    assert Exponential().log_density(-1.0, 2.0) == -math.inf
    assert Exponential().log_density(0.0, 2.0) == pytest.approx(math.log(2.0))


def test_sum_of_logs_is_asked_for_only_where_it_matters():
    assert [p.needs_log_sum for p in CASES] == [False, True, False, True, True, False, False]
    with pytest.raises(ModelError, match="needs sum_log"):
        GammaPrior(2.0).log_density_from_sums(1, 1.0, 1.0, 1.0)


@each
def test_evidence_is_the_likelihood_of_the_rate(prior):
    """log p(x | λ) - n log λ + r λ does not depend on λ."""
    rng = np.random.default_rng(2)
    x, mean = rng.gamma(2.0, size=(20, 2)), (0.0 if prior.nonnegative else 0.3)
    number, total = prior.evidence(20, x.sum(0), (x**2).sum(0), mean)
    rest = [
        prior.log_density(x, rate, mean).sum(0) - number * np.log(rate) + total * rate
        for rate in (0.5, 2.0, 7.0)
    ]
    np.testing.assert_allclose(rest[1:], [rest[0]] * 2, rtol=1e-10, atol=1e-9)


@each
@given(size=st.floats(1e-6, 1e6))
def test_rate_and_size_are_inverse(prior, size):
    assert prior.size_at(prior.rate_for(size)) == pytest.approx(size)


@pytest.mark.parametrize(
    "prior",
    [
        *CASES,
        Exponential(2),
        GammaPrior(),
        GammaPrior(rate=2.0),
        GammaPrior(0.3, 1.0),
        Normal(np.float32(0.5)),
    ],
    ids=repr,
)
def test_there_and_back(prior):
    assert prior_from_dict(json.loads(json.dumps(prior.to_dict()))) == prior


def test_what_is_learnt_and_what_is_given():
    assert Exponential().learnt and Exponential().given is None
    assert not Normal(2.0).learnt and Normal(2.0).given == 2.0
    assert [p.nonnegative for p in CASES] == [True, True, True, True, True, False, False]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Exponential(0.0), "Exponential: rate must be a finite number > 0, got 0.0; leave rate out"),
        (lambda: Exponential(math.inf), "got inf"),
        (lambda: Exponential("1"), "got '1'"),
        (lambda: GammaPrior(-1.0), "GammaPrior: shape must be a finite number > 0, got -1.0"),
        (lambda: GammaPrior(True), "got True"),
        (lambda: GammaPrior().score(1.0, 1.0), "has no shape yet, it is learnt"),
        (lambda: GammaPrior(1.0, math.nan), "rate must be a finite number > 0, got nan"),
        (lambda: NormalWishart(0.0), "NormalWishart: beta0 must be a finite number > 0, got 0.0"),
        (lambda: NormalWishart(nu0=-1), "NormalWishart: nu0 must be a finite number > 0, got -1"),
        (lambda: Normal(-2.0), "Normal: precision must be a finite number > 0, got -2.0"),
        (
            lambda: prior_from_dict({"name": "laplace"}),
            "unknown prior 'laplace'; allowed: exponential, gamma, normal",
        ),
    ],
)
def test_priors_that_do_not_exist(make, message):
    with pytest.raises(ModelError, match=message):
        make()


def test_a_learnt_shape_is_filled_in_and_a_given_one_stays():
    learnt = GammaPrior(rate=2.0)
    assert learnt.learns_shape and learnt.learnt and learnt.given == 2.0 and learnt.needs_log_sum
    assert learnt.at_shape(0.3) == GammaPrior(0.3, 2.0)
    for prior in (GammaPrior(0.5), Exponential(), Normal()):
        assert not prior.learns_shape and prior.at_shape(3.0) is prior
