"""Every likelihood keeps the same contract: score, normalisation, sampling, checks, names."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats
from scipy.special import ive, logsumexp

import psgld
from psgld import _core
from psgld.errors import DataError, ModelError
from psgld.models import (
    FAMILIES,
    LIKELIHOODS,
    CompoundPoisson,
    Gamma,
    Gaussian,
    InverseGaussian,
    Ordinal,
    Poisson,
    Tweedie,
    guess,
    likelihood,
    likelihood_from_dict,
)
from psgld.models.likelihoods import compound_poisson, positive_stable

GENERAL = [Tweedie(b) for b in (0.05, 0.3, 0.8, 0.97, -0.1, -0.5, -2.0, -4.5)]
MEMBERS = [*(make() for make in FAMILIES if issubclass(make, Tweedie)), *GENERAL]
BETAS = st.one_of(st.sampled_from([2.0, 1.0, 0.0, -1.0]), st.floats(0.02, 0.98), st.floats(-6.0, -0.05))
SIZES = st.floats(0.05, 20.0)


def by_beta(members):
    return pytest.mark.parametrize("member", members, ids=lambda m: f"{m.name}:{m.beta:g}")


# -- what every family of the registry keeps -----------------------------------------------------------------

every = pytest.mark.parametrize("make", FAMILIES, ids=lambda make: make.name)


def member_of(make):
    """Return a family with what it takes from data, such as levels."""
    return make().resolved(lambda: np.arange(1.0, 6.0))


def case(make, n=400, seed=0):
    """Return a family with its parameters, θ, the parameters but φ, values that occur and η."""
    family = member_of(make)
    theta = family.typical(2.0)
    rng = np.random.default_rng(seed)
    eta = rng.gamma(3.0, 0.7, n) + 0.05 if family.nonnegative_mean else rng.normal(0.0, 2.0, n)
    return family, theta, family.split(theta)[1], family.sample(eta, *theta, rng), eta


@every
def test_it_is_exported_and_has_a_functor(make):
    assert getattr(psgld, make.__name__) is make and make.__name__ in psgld.__all__
    family = member_of(make)
    assert family.functor in _core.families()
    assert len(family.typical(2.0)) == len(family.parameters) == len(family.starts(np.arange(1.0, 5.0)))


@every
def test_the_score_is_the_derivative_of_the_log_density(make):
    family, theta, others, v, eta = case(make)
    step = 1e-6 * (1.0 + np.abs(eta))
    high, low = (family.logpdf(v, eta + d, *theta) for d in (step, -step))
    score = family.score(v, eta, *theta)
    np.testing.assert_allclose((high - low) / (2 * step), score, rtol=1e-5, atol=1e-5 * np.abs(score).max())
    phi = family.split(theta)[0]
    parts = family.positive(v, eta, *others), family.weight(v, eta, *others)
    np.testing.assert_allclose((parts[0] - parts[1]) / phi, score, rtol=1e-9, atol=1e-12)
    if family.nonnegative_mean:
        assert min(part.min() for part in parts) >= 0.0


@every
def test_the_parts_of_the_score_differ_where_values_and_means_do(make):
    """The non-negative metric moves by their ratio: near 1 at v = 2μ, it would hardly move."""
    family, _, others, _, _ = case(make)
    if not family.nonnegative_mean:
        return
    mu = np.logspace(-2, 6, 9)
    for v, sign in ((2.0 * mu, 1.0), (0.5 * mu, -1.0)):
        ratio = family.positive(v, mu, *others) / family.weight(v, mu, *others)
        assert (sign * np.log(ratio) > 0.3).all()


@every
def test_values_between_two_that_occur(make):
    family = member_of(make)
    assert family.lattice == (not family.can_occur(np.array([0.5])).any())


@every
def test_the_curvature_is_the_slope_of_the_score(make):
    family, theta, others, v, eta = case(make)
    step, phi = 1e-6 * (1.0 + np.abs(eta)), family.split(theta)[0]
    high, low = (family.score(v, eta + d, *theta) for d in (step, -step))
    bend = family.curvature(v, eta, *others)
    np.testing.assert_allclose(
        -phi * (high - low) / (2 * step), bend, rtol=1e-4, atol=1e-5 * np.abs(bend).max()
    )
    if family.curvature_bound is not None:
        if family.levels is not None:  # the mean over what can occur
            levels = np.array(family.levels)[:, None]
            bend = np.sum(
                np.exp(family.logpdf(levels, eta, *theta)) * family.curvature(levels, eta, *others), 0
            )
        assert bend.max() <= family.curvature_bound * (1 + 1e-12)


@every
def test_draws_have_the_moments_and_the_survival_function(make):
    family, theta, _, _, _ = case(make)
    rng, n = np.random.default_rng(1), 40_000
    for eta in (0.4, 3.0):
        v = family.sample(np.full(n, eta), *theta, rng)
        assert family.can_occur(v).all()
        variance = float(family.variance(eta, *theta))
        assert v.mean() == pytest.approx(float(family.response(eta, *theta)), abs=5 * np.sqrt(variance / n))
        fourth = np.mean((v - v.mean()) ** 4)
        assert v.var() == pytest.approx(variance, abs=6 * np.sqrt(fourth / n))
        x = np.array([-1.0, 0.0, 0.5, 1.0, 2.0, 3.5, 8.0])
        share = family.survival(x, eta, *theta)
        assert share is not None
        np.testing.assert_allclose(share, (v[:, None] > x).mean(0), atol=5 * 0.5 / np.sqrt(n))
        np.testing.assert_array_equal(family.survival([-np.inf, np.inf], eta, *theta), [1.0, 0.0])


@every
def test_the_density_adds_up_to_the_survival_function(make):
    """Of families on the integers every probability; of others their integral between two values."""
    family, theta, _, _, _ = case(make)
    for eta in (0.4, 3.0):
        if family.levels is not None:
            p = np.exp(family.logpdf(family.levels, eta, *theta))
            np.testing.assert_allclose(
                1.0 - np.cumsum(p), family.survival(family.levels, eta, *theta), atol=1e-9
            )
            continue
        if family.counts and family.can_occur(np.arange(2.0)).all():
            v = np.arange(400.0)
            p = np.exp(family.logpdf(v, eta, *theta))
            np.testing.assert_allclose(1.0 - np.cumsum(p), family.survival(v, eta, *theta), atol=1e-9)
            continue
        low, high = 0.7, 2.9
        mass, _ = integrate.quad(lambda v, eta=eta: float(np.exp(family.logpdf(v, eta, *theta))), low, high)
        survival = family.survival([low, high], eta, *theta)
        assert mass == pytest.approx(survival[0] - survival[1], abs=1e-6)


@every
def test_draws_of_the_core_follow_the_density(make):
    """New observations from the core, at one η, against the survival function: a goodness of fit."""
    family, theta, _, _, _ = case(make)
    S, eta = 20_000, 1.7
    phi, others = family.split(theta)
    whole = np.ones((S, 1, 1))
    parameters = np.repeat([[*family.constants, *others]], S, axis=0).reshape(S, -1)
    held = _core.Draws64(
        eta * whole, whole, None, None, np.zeros(S), np.full(S, phi), family.functor, parameters, 1e-30
    )
    one, out = np.zeros(1, np.int64), np.empty((S, 1))
    held.values(_core.Pool(1), one, one, "new", 3, out)
    x = np.unique(np.quantile(out, [0.1, 0.25, 0.5, 0.75, 0.9]))
    survival = family.survival(x, eta, *theta)
    np.testing.assert_allclose((out > x).mean(0), survival, atol=5 * 0.5 / np.sqrt(S))
    moments = np.empty((3, 1))
    held.moments(_core.Pool(1), one, one, moments)
    assert moments[0, 0] == pytest.approx(float(family.response(eta, *theta)), rel=1e-12)
    assert moments[2, 0] == pytest.approx(float(family.variance(eta, *theta)), rel=1e-9)
    if family.lattice:
        quantiles = np.empty((3, 1))
        held.quantiles(_core.Pool(1), one, one, True, 3, np.array([0.05, 0.5, 0.95]), quantiles)
        assert family.can_occur(quantiles).all()


@every
def test_values_that_cannot_occur_are_counted(make):
    family = member_of(make)
    values = np.array([1.0, math.nan, math.nan])
    if not family.normal:
        with pytest.raises(DataError, match="but 2 of 3 values are not, the first is nan; "):
            family.check(values)
    family.check(np.ones(3))
    assert not family.can_occur(np.array([math.nan])).any()


@every
def test_the_link_undoes_the_response(make):
    family, theta, _, _, eta = case(make)
    mean = family.response(eta, *theta)
    np.testing.assert_allclose(family.link(mean, *theta), eta, rtol=1e-9, atol=1e-9)
    assert family.identity == np.array_equal(mean, eta)


@every
def test_given_parameters_are_kept_there_and_back(make):
    family, theta, _, _, _ = case(make)
    fixed = family.fixed(theta)
    assert fixed.learnt == () and fixed.start(lambda: []) == theta
    assert likelihood_from_dict(json.loads(json.dumps(fixed.to_dict()))) == fixed
    assert likelihood_from_dict(json.loads(json.dumps(family.to_dict()))) == family
    assert likelihood(family.name) == make()


@every
def test_learnt_parameters_are_found(make):
    """The move, or the draw from residuals, from far away: the posterior holds the parameters of the data."""
    family, theta, _, v, eta = case(make, n=4000, seed=5)
    if not family.parameters:
        return
    family = family.fixed(tuple(None for _ in theta))
    if family.conjugate:
        rng = np.random.default_rng(2)
        draws = np.array(
            [family.draw_phi(1.0, float(np.sum((v - eta) ** 2)), v.size, rng) for _ in range(200)]
        )
        assert draws.mean() == pytest.approx(theta[0], rel=0.1)
        return
    move, now, rng, kept = family.move(v, tuple(20.0 * t for t in theta)), theta, np.random.default_rng(2), []
    now = tuple(20.0 * t for t in theta)
    for _ in range(120):
        now = move(now, eta, rng)
        kept.append(now)
    same = np.log if min(theta) > 0.0 else np.asarray
    np.testing.assert_allclose(same(kept[60:]).mean(0), same(theta), atol=0.15)


def test_negative_binomial_is_scipys_and_tends_to_poisson():
    from psgld import NegativeBinomial

    v, mu, r = np.arange(30.0), 3.0, 2.5
    expected = stats.nbinom.logpmf(v, r, r / (r + mu))
    np.testing.assert_allclose(NegativeBinomial().logpdf(v, mu, r), expected, rtol=1e-10)
    for large in (1e8, 1e15, 1e40):
        np.testing.assert_allclose(
            NegativeBinomial().logpdf(v, mu, large), Poisson().logpdf(v, mu, 1.0), rtol=1e-5
        )
    with pytest.raises(
        DataError, match=r"needs counts 0, 1, 2, …, but 1 of 2 values are not, the first is 0\.5; round"
    ):
        NegativeBinomial().check([1.0, 0.5])


# -- the Tweedie family --------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=150)
@given(BETAS, SIZES, SIZES, st.floats(0.1, 10.0))
def test_score_is_the_derivative_of_logpdf(beta, v, mu, phi):
    member, step = Tweedie(beta), 1e-6 * mu
    high, low = (member.kernel(v, mu + d) / phi for d in (step, -step))
    scale = (v + mu) * mu ** (beta - 2) / phi
    assert (high - low) / (2 * step) == pytest.approx(member.score(v, mu, phi), abs=1e-6 * scale)
    change = member.logpdf(v, 1.1 * mu, phi) - member.logpdf(v, mu, phi)
    assert change == pytest.approx(
        (member.kernel(v, 1.1 * mu) - member.kernel(v, mu)) / phi, rel=1e-6, abs=1e-6
    )


@by_beta([m for m in MEMBERS if m.beta not in (1.0, 2.0)])
@pytest.mark.parametrize("phi", [0.05, 1.0, 4.0])
@pytest.mark.parametrize("mu", [0.3, 2.0])
def test_density_on_the_half_line_integrates_to_one_with_its_mean(member, mu, phi):
    # In log v the integrand is smooth and decays at both ends, so the trapezoidal rule is all but exact.
    # On the left the density of log v falls as v^{β/(1-β)} for 0 < β < 1, as v^{1/φ} for β = 0, faster below.
    left = 30.0 * max(1.0 / member.beta if member.beta > 0 else phi * max(mu**-member.beta, 1.0), 1.0)
    s = np.linspace(max(np.log(mu) - left, -700.0), np.log(mu) + 12.0, 20_001)
    v = np.exp(s)
    density = np.exp(member.logpdf(v, mu, phi) + s)
    atom = math.exp(member.logpdf(0.0, mu, phi)) if 0 < member.beta < 1 else 0.0
    assert atom + integrate.trapezoid(density, s) == pytest.approx(1.0, abs=1e-6)
    assert integrate.trapezoid(density * v, s) == pytest.approx(mu, rel=1e-6)


def test_density_of_poisson_and_gaussian_sums_to_one():
    assert np.exp(Poisson().logpdf(np.arange(200), 30.0, 1.0)).sum() == pytest.approx(1.0)
    total, _ = integrate.quad(lambda v: float(np.exp(Gaussian().logpdf(v, 1.0, 2.5))), -20, 20)
    assert total == pytest.approx(1.0)


@given(SIZES, SIZES, st.floats(0.01, 10.0))
def test_logpdf_agrees_with_scipy(v, mu, phi):
    n = round(v)
    assert Poisson().logpdf(n, mu, 1.0) == pytest.approx(stats.poisson.logpmf(n, mu))
    assert Gaussian().logpdf(v, mu, phi) == pytest.approx(
        stats.norm.logpdf(v, mu, phi**0.5), rel=1e-9, abs=1e-9
    )
    assert Gamma().logpdf(v, mu, phi) == pytest.approx(
        stats.gamma.logpdf(v, 1 / phi, scale=phi * mu), rel=1e-9, abs=1e-9
    )
    ours = InverseGaussian().logpdf(v, mu, phi)
    assert ours == pytest.approx(stats.invgauss.logpdf(v, mu * phi, scale=1 / phi), rel=1e-9, abs=1e-8)


@pytest.mark.parametrize("beta", [0.02, 0.3, 0.5, 0.8, 0.97])
@pytest.mark.parametrize("phi", [1e-3, 0.1, 1.0, 1e3])
def test_compound_poisson_is_the_sum_over_the_number_of_gammas(beta, phi):
    mu, v = 1.5, np.array([1e-3, 0.2, 1.5, 4.0])
    rate, shape, scale = mu**beta / (phi * beta), beta / (1 - beta), phi * (1 - beta) * mu ** (1 - beta)
    number = np.arange(1, 100_000)[:, None]
    terms = stats.poisson.logpmf(number, rate) + stats.gamma.logpdf(v, number * shape, scale=scale)
    member = CompoundPoisson(beta)
    assert member.logpdf(v, mu, phi) == pytest.approx(logsumexp(terms, axis=0), rel=1e-8, abs=1e-8)
    assert member.logpdf(0.0, mu, phi) == pytest.approx(-rate)


@pytest.mark.parametrize("alpha", [1e-3, 0.3, 1.0, 5.0, 200.0])
def test_the_two_ways_of_summing_meet(alpha):
    peak = 100.0 / (1.0 + alpha) * np.array([0.99, 1.01])
    log_z = (1 + alpha) * np.log(peak) + alpha * np.log(alpha)
    few, many = (f(log_z, peak, alpha) for f in (compound_poisson._sum_few, compound_poisson._sum_many))
    assert many == pytest.approx(few, rel=1e-12, abs=1e-11)


def test_compound_poisson_over_many_decades():
    v = np.geomspace(1e-8, 1e8, 400)
    for phi in np.geomspace(1e-4, 1e4, 9):
        root = 2 * np.sqrt(v) / phi  # β = 1/2: the series is sqrt(z) I_1(2 sqrt(z)), a Bessel function
        exact = np.log(root) + np.log(ive(1, 2 * root)) + 2 * root - np.log(v)
        assert CompoundPoisson().log_normaliser(v, phi) == pytest.approx(exact, rel=1e-12, abs=1e-11)


@given(st.floats(1e-3, 1e3), st.floats(1e-3, 1e3))
def test_zolotarevs_integral_gives_the_inverse_gaussian(v, phi):
    ours = positive_stable.log_normaliser(v, phi, -1.0)
    assert ours == pytest.approx(InverseGaussian().log_normaliser(v, phi), rel=1e-10, abs=1e-9)


@pytest.mark.parametrize("beta", [0.5, 0.9, -0.5, -2.0])
def test_dispersion_and_values_broadcast(beta):
    member, v, phi = Tweedie(beta), np.array([0.5, 1.0, 30.0]), np.array([[0.1], [2.0]])
    rows = [member.logpdf(v, 1.0, p) for p in (0.1, 2.0)]
    assert member.logpdf(v, 1.0, phi) == pytest.approx(np.array(rows), rel=1e-12)
    assert member.sample(np.ones(3), phi, np.random.default_rng(0)).shape == (2, 3)
    assert member.logpdf(np.empty(0), 1.0, 0.1).shape == (0,)


@by_beta([*MEMBERS, Poisson(phi=2.5)])
@pytest.mark.parametrize(("mu", "phi"), [(2.0, 0.4), (0.7, 0.02)])
def test_sample_has_the_moments_of_the_model(member, mu, phi):
    phi, n = member.phi or phi, 10_000
    draws = member.sample(np.full(n, mu), phi, np.random.default_rng(1))
    variance = phi * mu ** (2 - member.beta)
    assert member.variance(mu, phi) == pytest.approx(variance)
    assert draws.mean() == pytest.approx(mu, abs=5 * (variance / n) ** 0.5)
    # The sampling error of the variance from the fourth cumulant of a Tweedie variable.
    p = 2 - member.beta
    excess = max(p * (2 * p - 1), 0.0) * phi**3 * mu ** (3 * p - 2)
    assert draws.var() == pytest.approx(variance, abs=6 * ((2 * variance**2 + excess) / n) ** 0.5)


@pytest.mark.parametrize("beta", [-0.3, -2.0, -5.0])
@pytest.mark.parametrize("phi", [1.0, 0.05, 0.002, 1e-4])
def test_stable_draws_follow_the_density(beta, phi):
    n = 2_000
    draws = np.sort(Tweedie(beta).sample(np.ones(n), phi, np.random.default_rng(2)))
    s = np.linspace(-14.0, 12.0, 20_001) * min(1.0, 2 * phi**0.5)
    density = np.exp(Tweedie(beta).logpdf(np.exp(s), 1.0, phi) + s)
    cdf = integrate.cumulative_trapezoid(density, s, initial=0.0)
    assert stats.kstest(np.interp(np.log(draws), s, cdf), "uniform").pvalue > 1e-3


@settings(deadline=None)
@given(BETAS, SIZES, SIZES)
def test_deviance_is_twice_the_loss_against_the_best_mean(beta, v, mu):
    member = Tweedie(beta)
    assert member.deviance(v, mu) >= 0
    assert member.deviance(v, v) == pytest.approx(0.0, abs=1e-10 * (1 + v**beta))
    expected = 2 * (member.kernel(v, v) - member.kernel(v, mu))
    assert member.deviance(v, mu) == pytest.approx(expected, rel=1e-6, abs=1e-9 * (1 + v**beta + mu**beta))


def test_deviance_at_zero_is_finite():
    assert Poisson().deviance(0.0, 3.0) == 6.0
    assert CompoundPoisson().deviance(0.0, 4.0) == 8.0


@by_beta(MEMBERS)
@pytest.mark.parametrize("scale", [1e-4, 1.0, 1e4])
def test_start_phi_follows_the_scale_of_the_data(member, scale):
    values = np.random.default_rng(0).gamma(2.0, 1.0, 500)
    assert member.start_phi(scale * values) == pytest.approx(scale**member.beta * member.start_phi(values))
    assert member.start_phi(np.full(5, scale)) > 0
    assert member.start_phi(np.zeros(5)) > 0
    assert member.start_phi(np.empty(0)) > 0


def test_weight_is_the_negative_part_of_the_score():
    for member in MEMBERS:
        assert member.weight(1.0, 3.0) == pytest.approx(-member.score(0.0, 3.0, 1.0))
    assert [m.nonnegative_mean for m in (Gaussian(), Poisson())] == [False, True]


@pytest.mark.parametrize(
    ("member", "values", "message"),
    [
        (
            Gamma(),
            [1.0, 0.0, 0.0],
            "needs v > 0, but 2 of 3 values are not, the first is 0; drop them, add a small",
        ),
        (InverseGaussian(), [-2.5, 0.0], "2 of 2 values are not, the first is -2.5; use Gaussian"),
        (Poisson(), [3, -1, 2], "needs v >= 0, but 1 of 3 values are not, the first is -1; use Gaussian"),
        (CompoundPoisson(), [math.nan, 1.0], "needs v >= 0, but 1 of 2"),
    ],
)
def test_impossible_values_are_counted_and_a_remedy_is_named(member, values, message):
    with pytest.raises(DataError, match=message.replace("(", r"\(")):
        member.check(np.array(values))


def test_possible_values_pass():
    Poisson().check([0, 0.5, 3])
    CompoundPoisson().check([0.0, 1.2])
    Gamma().check([0.1])
    Gaussian().check([-1.0, 0.0])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: Tweedie(1.5),
            "no Tweedie distribution exists for 1 < beta < 2, got beta = 1.5; allowed: beta <= 1",
        ),
        (lambda: Tweedie(3), "not supported, got beta = 3"),
        (lambda: Tweedie(math.nan), "finite number, got nan"),
        (lambda: Tweedie("1"), "finite number, got '1'"),
        (lambda: Gaussian(phi=0.0), "Gaussian: phi must be a finite number > 0, got 0.0; leave phi out"),
        (lambda: Gamma(phi=math.nan), "phi must be a finite number > 0, got nan"),
        (lambda: Poisson(phi=-1), "got -1"),
        (lambda: CompoundPoisson(beta=0.0), "must be in 0 < beta < 1, got 0"),
        (lambda: likelihood("student"), "unknown likelihood 'student'; allowed: poisson, gaussian, gamma,"),
    ],
)
def test_models_that_do_not_exist(make, message):
    with pytest.raises(ModelError, match=message):
        make()


@by_beta([*MEMBERS, Poisson(phi=None), Gamma(phi=0.3), CompoundPoisson(0.2, 3.0), Tweedie(1, 1)])
def test_there_and_back(member):
    assert likelihood_from_dict(json.loads(json.dumps(member.to_dict()))) == member


def test_words():
    for name, make in LIKELIHOODS.items():
        assert likelihood(name) == make()
        assert likelihood(name).name == name
    assert likelihood(Tweedie(-3)) == Tweedie(-3.0)
    assert repr(Poisson()) == "Poisson(phi=1.0)"


RNG = np.random.default_rng(0)


@pytest.mark.parametrize(
    ("values", "expected", "reason"),
    [
        (RNG.poisson(4.0, 500), Poisson(), "counts"),
        (RNG.poisson(0.1, 500), Poisson(), "counts"),
        (1 + RNG.poisson(0.3, 500), Poisson(), "counts"),
        (np.ones(50), Poisson(), "counts"),
        (RNG.choice([1, 2, 3, 4, 5], 500, p=[0.05, 0.1, 0.25, 0.35, 0.25]), Ordinal(), "ratings"),
        (RNG.choice(np.arange(1, 11) / 2, 500, p=np.arange(1, 11) / 55), Ordinal(), "ratings"),
        (RNG.normal(size=100), Gaussian(), "negative"),
        (RNG.gamma(2.0, size=100), Gamma(), "continuous and positive"),
        (np.r_[0.0, RNG.gamma(2.0, size=100)], CompoundPoisson(), "exact zeros"),
    ],
)
def test_guess(values, expected, reason):
    member, why = guess(values)
    assert member == expected
    assert reason in why


def test_nothing_to_guess_from():
    with pytest.raises(DataError, match="0 observed values"):
        guess([])


def test_overdispersed_counts_favour_the_mean_deviance():
    v, mu = np.random.default_rng(0).negative_binomial(4, 0.2, 1000), 16.0
    phis = np.geomspace(0.5, 50, 2001)
    best = phis[np.argmax([Poisson().logpdf(v, mu, p).sum() for p in phis])]
    assert best == pytest.approx(Poisson().deviance(v, mu).mean(), rel=0.01)
    assert Poisson().log_normaliser(7, 1.0) == pytest.approx(
        Poisson().log_normaliser(7, 1.0 + 1e-9), abs=1e-3
    )


@pytest.mark.parametrize("phi", [0.5, 1.0])
@pytest.mark.parametrize("beta", [2.0, 1.0, 0.5, 0.0, -0.5, -1.0])
def test_what_cannot_occur_has_no_density(beta, phi):
    values = np.array([-100.0, -1.0, 0.0, 1.5, np.inf, np.nan])
    never = [beta <= 1, beta <= 1, beta <= 0, False, True]
    logs = Tweedie(beta).logpdf(values, 2.0, phi)
    np.testing.assert_array_equal(logs[:5] == -np.inf, never)
    assert np.isfinite(logs[:5][~np.array(never)]).all() and np.isnan(logs[5])
    assert logs[3] == pytest.approx(float(Tweedie(beta).logpdf(1.5, 2.0, phi)))
