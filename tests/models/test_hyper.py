"""Hyperparameters start at the scale of the data; their draws are the conditional distributions."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy import stats
from scipy.special import gammaln, logsumexp

from psgld.models import (
    CompoundPoisson,
    Exponential,
    FactorModel,
    FactorStats,
    Gamma,
    GammaPrior,
    Gaussian,
    Hyper,
    InverseGaussian,
    Moments,
    Normal,
    ParameterMove,
    Poisson,
    Tweedie,
)
from psgld.models.hyperparameters import draw, start

SCALES = [1e-4, 1.0, 1e4]


def stats_of(x):
    logs = np.log(x).sum(0) if (x > 0).all() else None
    return FactorStats(len(x), x.sum(0), (x**2).sum(0), sum_log=logs)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize(
    ("row", "col"),
    [
        (Exponential(), Exponential()),
        (GammaPrior(0.5), GammaPrior(3.0)),
        (Exponential(7.0), GammaPrior(2.0)),
        (Exponential(), Exponential(0.01)),
    ],
)
def test_nonnegative_start_has_the_mean_of_the_data(row, col, scale):
    hyper = start(FactorModel(5, "poisson", row, col), Moments(3.0 * scale, 1.0, 10), (1.0,))
    mean = 5 * (row.shape / hyper.row_rate) * (col.shape / hyper.col_rate)
    assert mean == pytest.approx(np.full(5, 3.0 * scale))
    for prior, rate in ((row, hyper.row_rate), (col, hyper.col_rate)):
        assert prior.given is None or (rate == prior.given).all()


@pytest.mark.parametrize("scale", SCALES)
def test_real_valued_start_has_the_spread_of_the_data(scale):
    moments = Moments(3.0 * scale, 4.0 * scale**2, 10)
    biased = start(FactorModel(5, "gaussian", bias=True), moments, (0.5,))
    assert 5 / (biased.row_rate * biased.col_rate)[:5] == pytest.approx(np.full(5, 4.0 * scale**2))
    assert biased.offset == moments.mean
    assert [biased.row_rate[5], biased.col_rate[6]] == pytest.approx([0.25 / scale**2] * 2)
    assert biased.row_rate[6] == biased.col_rate[5] == 1.0
    plain = start(FactorModel(5, "gaussian"), moments, (0.5,))
    assert 5 / (plain.row_rate * plain.col_rate) == pytest.approx(np.full(5, 13.0 * scale**2))
    assert plain.offset == 0.0


@pytest.mark.parametrize("name", ["gaussian", "poisson"])
def test_start_of_an_empty_matrix_is_finite(name):
    hyper = start(FactorModel(2, name), Moments(0.0, 0.0, 0), (1.0,))
    assert (hyper.row_rate > 0).all() and np.isfinite(hyper.row_rate).all()


def test_what_the_user_fixed_stays_exactly():
    model = FactorModel(2, Gaussian(0.7), Normal(3.0), Normal(4.0), bias=True)
    first = start(model, Moments(1.0, 2.0, 50), model.likelihood.start(lambda: [9.0]))
    x = np.random.default_rng(0).normal(size=(6, 4))
    hyper = draw(model, first, first, [stats_of(x), stats_of(x)], np.random.default_rng(0), rss=10.0, size=50)
    assert hyper.row_rate.tolist() == [3.0, 3.0, 3.0, 1.0]
    assert hyper.col_rate.tolist() == [4.0, 4.0, 1.0, 4.0]
    assert hyper.phi == 0.7
    assert hyper.offset != first.offset


def test_draws_of_a_biased_gaussian_are_the_conditionals():
    rng, model = np.random.default_rng(4), FactorModel(1, "gaussian", bias=True)
    first = start(model, Moments(3.0, 2.0, 100), theta=(0.5,))
    row, col = rng.normal(size=(30, 3)), 3.0 + rng.normal(size=(20, 3))
    drawn = [draw(model, first, first, [stats_of(row), stats_of(col)], rng, 40.0, 100) for _ in range(3000)]
    # W is the longer factor: its precision stays, which pins the scale; that of H is drawn.
    assert {h.row_rate[0] for h in drawn} == {first.row_rate[0]}
    rate = 1 / first.col_rate[0] + 0.5 * (col[:, 0] ** 2).sum()
    assert stats.kstest([h.col_rate[0] for h in drawn], stats.gamma(11, scale=1 / rate).cdf).pvalue > 1e-3
    rate = 1 / first.row_rate[1] + 0.5 * (row[:, 1] ** 2).sum()
    assert stats.kstest([h.row_rate[1] for h in drawn], stats.gamma(16, scale=1 / rate).cdf).pvalue > 1e-3
    rate = 1 / first.col_rate[2] + 0.5 * ((col[:, 2] - 3.0) ** 2).sum()
    assert stats.kstest([h.col_rate[2] for h in drawn], stats.gamma(11, scale=1 / rate).cdf).pvalue > 1e-3
    assert stats.kstest([1 / h.phi for h in drawn], stats.gamma(51, scale=1 / 20.0).cdf).pvalue > 1e-3
    residual = [(h.offset - col[:, 2].mean()) * np.sqrt(20 * h.col_rate[2]) for h in drawn]
    assert stats.kstest(residual, "norm").pvalue > 1e-3
    assert {h.row_rate[2] for h in drawn} == {h.col_rate[1] for h in drawn} == {1.0}


def test_draw_of_an_exponential_rate():
    rng, model = np.random.default_rng(5), FactorModel(3, "poisson", Exponential(), Exponential(2.0))
    first = start(model, Moments(6.0, 2.0, 100), theta=(1.0,))
    w = rng.gamma(2.0, size=(10, 3))
    drawn = [draw(model, first, first, [stats_of(w), stats_of(w)], rng, 1.0, 1) for _ in range(3000)]
    rate = 1 / first.row_rate[0] + w.sum()
    assert stats.kstest([h.row_rate[0] for h in drawn], stats.gamma(31, scale=1 / rate).cdf).pvalue > 1e-3
    assert all((h.col_rate == 2.0).all() and h.phi == 1.0 and h.offset == 0.0 for h in drawn)


@pytest.mark.parametrize(
    ("row", "rows"),
    [(GammaPrior(), 9), (GammaPrior(), 11), (GammaPrior(rate=2.0), 9)],
    ids=["learnt rate", "fixed mean", "given rate"],
)
def test_draws_of_a_shape_are_its_conditional(row, rows):
    """By quadrature over log a, with the rate integrated out by scipy's own formulas, or fixed."""
    rng, model = np.random.default_rng(3), FactorModel(2, "poisson", row, GammaPrior())
    first = start(model, Moments(6.0, 2.0, 100), theta=(1.0,))
    w, h = rng.gamma(0.4, 2.0, size=(rows, 2)), rng.gamma(2.0, size=(10, 2))
    mean, n, now = 1.0 / first.row_rate[0], w.size, first
    drawn = []
    for _ in range(3000):
        now = draw(model, now, first, [stats_of(w), stats_of(h)], rng)
        drawn.append((now.modes[0].shape, now.row_rate[0]))
    a, rates = np.exp(np.linspace(-4, 3, 2001)), np.geomspace(1e-3, 1e3, 1001)
    if row.given is not None:
        log_density = stats.gamma.logpdf(w.ravel()[:, None], a, scale=1 / row.given).sum(0)
    elif rows > 10:
        log_density = stats.gamma.logpdf(w.ravel()[:, None], a, scale=mean / a).sum(0)
    else:
        joint = n * (a[:, None] * np.log(rates) - gammaln(a)[:, None]) - rates * (w.sum() + mean / a[:, None])
        joint += (a[:, None] - 1.0) * np.log(w).sum() + np.log(mean / a)[:, None] + np.log(rates)
        log_density = logsumexp(joint, axis=1)
    weight = np.exp(log_density - 0.5 * np.log(a) ** 2 - log_density.max())
    cdf = np.cumsum(weight) / weight.sum()
    shapes, rate = np.array(drawn).T
    assert stats.kstest(np.interp(shapes[::3], a, cdf), "uniform").pvalue > 1e-3
    if row.given is not None or rows > 10:
        np.testing.assert_allclose(rate, row.given or shapes / mean)
    else:
        uniform = stats.gamma.cdf(rate * (w.sum() + mean / shapes), 1.0 + n * shapes)
        assert stats.kstest(uniform[::3], "uniform").pvalue > 1e-3


def test_without_residuals_the_noise_stays():
    model = FactorModel(1, "gaussian")
    first = start(model, Moments(0.0, 1.0, 10), theta=(0.5,))
    x = stats_of(np.ones((4, 1)))
    assert draw(model, first, first, [x, x], np.random.default_rng(0)).phi == 0.5


@pytest.mark.parametrize(
    "model", [FactorModel(3, "gaussian", bias=True), FactorModel(3, "poisson")], ids=repr
)
def test_there_and_back(model):
    hyper = start(model, Moments(1.0, 2.0, 10), (0.1,))
    again = Hyper.from_dict(json.loads(json.dumps(hyper.to_dict())))
    assert again.to_dict() == hyper.to_dict()


@pytest.mark.parametrize("off", [1 / 30, 30.0])
@pytest.mark.parametrize(
    ("member", "phi"),
    [
        (Gamma(), 0.3),
        (InverseGaussian(), 0.5),
        (CompoundPoisson(), 0.8),
        (Tweedie(-0.5), 0.4),
        (Gaussian(), 2.0),
    ],
    ids=lambda x: repr(x),
)
def test_dispersion_is_found_from_far_away(member, phi, off):
    rng = np.random.default_rng(6)
    mu = rng.gamma(3.0, size=500)
    move = ParameterMove(member, member.sample(mu, phi, rng), start=(off * phi,))
    chain, now = [], off * phi
    for _ in range(300):
        (now,) = move((now,), mu, rng)
        chain.append(now)
    log_phi = np.log(chain[50:])
    assert log_phi.mean() == pytest.approx(np.log(phi), abs=3.5 * log_phi.std())
    assert 0.02 < log_phi.std() < 0.15


def test_dispersion_move_leaves_its_posterior_invariant():
    # Gaussian: the posterior of φ under the move's prior, tabulated on a grid, is the reference.
    rng = np.random.default_rng(7)
    v, mu = rng.normal(0.0, 1.0, 40), np.zeros(40)
    move = ParameterMove(Gaussian(), v, start=(1.0,), proposals=20)
    grid = np.linspace(-2.0, 2.0, 2001)
    log_post = np.array([Gaussian().logpdf(v, 0.0, np.exp(g)).sum() for g in grid]) - 0.5 * (grid / 5) ** 2
    weight = np.exp(log_post - log_post.max())
    cdf = np.cumsum(weight) / weight.sum()
    chain, now = [], 1.0
    for _ in range(2000):
        (now,) = move((now,), mu, rng)
        chain.append(np.log(now))
    assert stats.kstest(np.interp(chain[::2], grid, cdf), "uniform").pvalue > 1e-3


def test_dispersion_of_counts_when_asked():
    rng = np.random.default_rng(8)
    v, mu = rng.negative_binomial(4, 0.2, 800), np.full(800, 16.0)
    move = ParameterMove(Poisson(phi=None), v, start=(1.0,), proposals=200)
    assert move((1.0,), mu, rng)[0] == pytest.approx(Poisson().deviance(v, mu).mean(), rel=0.25)


def test_no_values_no_move():
    move = ParameterMove(Gamma(), np.empty(0), start=(1.0,))
    assert move((0.3,), np.empty(0), np.random.default_rng(0)) == (0.3,)
