"""`psgld.sample(V, FactorModel(rank, likelihood))` with nothing else given: any scale, any density, any shape."""

import numpy as np
import pytest
from scipy import sparse

import psgld
from psgld.datasets import synthetic
from psgld.models import LIKELIHOODS, likelihood

pytestmark = pytest.mark.filterwarnings("ignore:values are not counts:psgld.PsgldWarning")  # of made-up data

SCALES = [1e-4, 1.0, 1e4]


def fit(V, model, **options):
    post = psgld.sample(V, model, progress=False, **options)
    assert np.isfinite(post.W).all() and np.isfinite(post.H).all()
    assert np.isfinite(post.sample_stats["lp"]).all() and np.isfinite(post.draws.phi).all()
    return post


def cells(shape, n=4000):
    return np.divmod(
        np.random.default_rng(0).choice(shape[0] * shape[1], min(n, shape[0] * shape[1]), False), shape[1]
    )


def agreement(post, mu, rows, cols):
    """Correlation of the posterior mean with the truth (of logarithms where means are positive)."""
    mean, truth = post.predict(rows, cols).mean, mu[rows, cols]
    if post.model.nonnegative:
        mean, truth = np.log(mean), np.log(truth)
    return np.corrcoef(mean, truth)[0, 1]


def is_level(post):
    """Whether the log posterior of both halves of the draws agrees, in units of its own sd."""
    lp = post.sample_stats["lp"]
    half = lp.shape[1] // 2
    return abs(lp[:, half:].mean() - lp[:, :half].mean()) < 1.2 * lp.std(axis=1).mean()


@pytest.mark.slow
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", [name for name in LIKELIHOODS if likelihood(name).dispersion])
def test_every_likelihood_at_every_scale(name, scale):
    """Of those that have one: counts of a negative binomial, and yes or no, come in units of their own."""
    rng = np.random.default_rng(5)
    member = likelihood(name)
    if name == "gaussian":
        mu = scale * rng.normal(size=(100, 4)) @ rng.normal(size=(4, 80)) / 2
    else:
        mu = scale * rng.gamma(2.0, 0.5, (100, 4)) @ rng.gamma(2.0, 0.5, (4, 80)) / 4
    # Noise that is as large, relative to the mean, at every scale; counts are counts at scale 1.
    phi = {"poisson": scale / 8, "gaussian": 0.04 * scale**2, "gamma": 0.1}.get(
        name, 0.1 * scale**member.beta
    )
    V = member.sample(mu, phi, rng)
    post = fit(V, psgld.FactorModel(4, name))
    if name == "poisson" and scale < 1:
        # 8,000 cells with a mean of 1e-4 and φ = 1: hardly a count in all, nothing to find but that.
        assert post.predict(*cells(mu.shape)).mean.mean() < 0.01 and is_level(post)
        return
    assert agreement(post, mu, *cells(mu.shape)) > (0.9 if name != "gaussian" else 0.99)
    assert np.median(post.predict(*cells(mu.shape)).mean / mu[cells(mu.shape)]) == pytest.approx(1, abs=0.05)
    if member.phi is None:
        assert post.draws.phi.mean() == pytest.approx(phi, rel=0.1)
    assert is_level(post) or (name, scale) == ("poisson", 1e4)  # 10⁸ counts: a ridge 10⁴ times narrower
    assert post.divergences == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["poisson", "gaussian"])
@pytest.mark.parametrize(
    ("rows", "cols", "observed", "least"),
    [
        (2000, 1500, 0.001, 0.4),  # three entries for every two rows: the prior, mostly
        (2000, 1500, 0.01, 0.85),
        (500, 400, 0.1, 0.94),
        (300, 200, 0.5, 0.97),
        (300, 200, 1.0, 0.97),
        (3, 2000, 1.0, 0.85),
        (2000, 3, 1.0, 0.7),
        (1, 50, 1.0, 0.5),
        (50, 1, 1.0, 0.5),
    ],
)
def test_any_density_and_shape(name, rows, cols, observed, least):
    rng = np.random.default_rng(6)
    positive = name == "poisson"
    W, H = ((rng.gamma(2.0, 0.5, s) if positive else rng.normal(size=s)) for s in ((rows, 3), (3, cols)))
    mu = 5 * W @ H / (3 if positive else np.sqrt(3))
    V = likelihood(name).sample(mu, 1.0 if positive else 0.25, rng)
    seen = rng.random(mu.shape) < observed
    data = psgld.Observations.from_coo(*np.nonzero(seen), V[seen], shape=mu.shape, absent="unobserved")
    post = fit(
        data if observed < 0.3 else np.where(seen, V, np.nan), psgld.FactorModel(3, name, bias=not positive)
    )
    if (name, observed) != ("gaussian", 0.001):  # there, signs and all, nothing can be found
        assert agreement(post, mu, *cells(mu.shape)) > least
    assert post.divergences == 0
    # Rank 3 of at most three rows or columns fits all: φ sinks slowly.
    assert is_level(post) or (name == "gaussian" and min(rows, cols) <= 3)


@pytest.mark.slow
def test_rows_from_one_entry_to_a_hundred_thousand():
    rng = np.random.default_rng(7)
    n = 100_000
    rows = np.concatenate([np.zeros(n, int), np.arange(1, 500)])
    cols = np.concatenate([np.arange(n), rng.integers(0, n, 499)])
    for name, values in (
        ("poisson", rng.poisson(3.0, len(rows))),
        ("gaussian", rng.normal(3.0, 1.0, len(rows))),
    ):
        data = psgld.Observations.from_coo(rows, cols, values.astype(float), absent="unobserved")
        # With one entry per column, a learnt shape would move for as long as one likes.
        prior = psgld.Exponential() if name == "poisson" else None
        model = psgld.FactorModel(2, name, prior, bias=name == "gaussian")
        post = fit(data, model, draws=50, chains=1, tune=600)
        assert post.predict(np.zeros(200, int), np.arange(200)).mean.mean() == pytest.approx(3.0, abs=0.4)
        assert is_level(post) and post.divergences == 0


def test_zero_rows_constant_rows_and_a_huge_row():
    rng = np.random.default_rng(8)
    V = rng.poisson(5 * rng.gamma(2.0, 0.5, (100, 3)) @ rng.gamma(2.0, 0.5, (3, 80)) / 3).astype(float)
    V[3], V[:, 7], V[5], V[10] = 0, 0, 4, V[10] * 1000
    post = fit(V, psgld.FactorModel(3, "poisson"))
    everywhere = np.arange(80)
    # Zeros only, 80 of them: the mean that explains them is of the order of 1/80.
    assert post.predict(3, everywhere).mean.mean() < 0.1
    assert post.predict(5, everywhere[everywhere != 7]).mean.mean() == pytest.approx(4, rel=0.25)
    assert post.predict(10, everywhere).mean.sum() == pytest.approx(V[10].sum(), rel=0.1)
    assert is_level(post)


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("name", ["poisson", "gaussian", "gamma", "inverse-gaussian"])
def test_a_constant_matrix(name, seed):
    post = fit(np.full((40, 30), 2.5), psgld.FactorModel(2, name), seed=seed)
    assert not post.divergences
    assert post.predict(np.arange(30), np.arange(30)).mean == pytest.approx(2.5, rel=0.25)


def test_all_zeros():
    post = fit(np.zeros((40, 30)), psgld.FactorModel(2, "poisson"))
    assert post.predict(np.arange(30), np.arange(30)).mean.max() < 1.0


def test_implicit_zeros_equal_written_zeros():
    data = synthetic(60, 50, 3, "poisson", seed=1)
    V = np.asarray(data.V.dense) * (np.random.default_rng(0).random((60, 50)) < 0.3)
    model = psgld.FactorModel(3, "poisson")
    implicit = psgld.Observations.from_sparse(sparse.coo_array(V), absent="zero")
    # The same sums in another order: the same posterior, not the same bits.
    a, b = (fit(x, model, draws=400, seed=2).predict(*cells((60, 50))) for x in (implicit, V))
    assert np.sqrt(np.mean(((a.mean - b.mean) / b.sd) ** 2)) < 0.4
    assert np.mean(a.sd / b.sd) == pytest.approx(1, abs=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("name", LIKELIHOODS)
def test_intervals_of_new_observations_cover(name):
    data = synthetic(150, 120, 3, name, observed=0.6, seed=3)
    post = fit(data.V, psgld.FactorModel(3, name))
    rng = np.random.default_rng(4)
    rows, cols = cells((150, 120))
    theta = data.likelihood.start(lambda: ())  # all of them given
    new = data.likelihood.sample(data.likelihood.link(data.mu[rows, cols], *theta), *theta, rng)
    low, high = post.predict(rows, cols).interval(0.9)
    covered = np.mean((low <= new) & (new <= high))
    # Counts are discrete: intervals cover more; of yes and no often both.
    assert (
        0.87
        < covered
        <= {"poisson": 0.97, "negative-binomial": 0.97, "bernoulli": 1.0, "ordinal": 0.98}.get(name, 0.94)
    )


@pytest.mark.slow
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("offset", [0.0, 30.0, 1000.0, 1e5])
def test_a_large_mean_hides_neither_the_noise_nor_the_structure(offset, bias):
    rng = np.random.default_rng(9)
    mu = offset + rng.normal(size=(80, 3)) @ rng.normal(size=(3, 60))
    post = fit(rng.normal(mu, 0.5), psgld.FactorModel(5, "gaussian", bias=bias))
    # float32 factors resolve means of 1e5 to about 0.01 only if an offset carries them.
    slack = 1.15 if bias or offset < 1e4 else 1.6
    assert 0.25 / slack < post.draws.phi.mean() < 0.25 * slack
    low, high = post.predict(*cells(mu.shape)).mean_interval(0.9)
    covered = np.mean((low <= mu[cells(mu.shape)]) & (mu[cells(mu.shape)] <= high))
    assert 0.8 < covered < 0.97


@pytest.mark.slow
@pytest.mark.parametrize("noise", [0.01, 0.003])
def test_noise_far_below_the_signal_is_found(noise):
    rng = np.random.default_rng(10)
    mu = rng.normal(size=(80, 3)) @ rng.normal(size=(3, 60))
    sd = noise * mu.std()
    post = fit(rng.normal(mu, sd), psgld.FactorModel(3, "gaussian"))
    assert post.draws.phi.mean() == pytest.approx(sd**2, rel=0.3)


@pytest.mark.parametrize(("sampler", "bias"), [("psgld", False), ("psgld", True), ("bpmf-gibbs", False)])
def test_a_perfect_fit_of_implicit_zeros(sampler, bias):
    """Σ(v - μ)² is a difference of large sums there, and may come out below 0."""
    V = sparse.csr_array(np.kron(np.eye(5), np.ones((40, 30))))
    post = fit(
        psgld.observations(V, absent="zero"),
        psgld.FactorModel(5, "gaussian", bias=bias),
        sampler=sampler,
        draws=50,
    )
    assert post.draws.phi.min() > 0.0 and post.draws.phi.max() < 1e-6 and post.divergences == 0
    np.testing.assert_allclose(post.predict([0, 0], [0, 35]).mean, [1.0, 0.0], atol=0.01)


@pytest.mark.parametrize("prior", [psgld.Normal, psgld.NormalWishart])
@pytest.mark.parametrize(
    ("shape", "value"), [((7, 9), 0.1), ((7, 9), 4.1), ((100, 101), 0.7), ((40, 30), 1e-3)]
)
def test_a_constant_whose_mean_is_rounded(shape, value, prior):
    """The variance that is left is none."""
    model = psgld.FactorModel(2, "gaussian", prior(), prior(), bias=prior is psgld.Normal)
    post = fit(np.full(shape, value), model, draws=50)
    assert post.predict([0, 6], [8, 1]).mean == pytest.approx(value, abs=0.02)


@pytest.mark.parametrize("mean", [-1e-9, 1e-9, 1e-3])
def test_non_negative_factors_of_centred_data(mean):
    rng = np.random.default_rng(0)
    V = rng.gamma(1.0, 1.0, (60, 4)) @ rng.gamma(1.0, 1.0, (4, 50))
    V = 4.0 * (V - V.mean()) / V.std() + rng.normal(0.0, 0.5, V.shape)
    model = psgld.FactorModel(4, "gaussian", psgld.Exponential(), psgld.Exponential())
    post = fit(V - V.mean() + mean, model, draws=50)
    mu = (post.W @ post.H).mean(axis=(0, 1))
    assert np.corrcoef(mu.ravel(), V.ravel())[0, 1] > 0.9 and post.divergences == 0


def test_values_over_ten_powers_of_ten():
    """As of a power spectrogram: steps that follow the gradient to the letter would be far too long."""
    rng = np.random.default_rng(0)
    W, H = 10.0 ** rng.normal(-1.0, 2.0, (200, 6)), 10.0 ** rng.normal(-1.0, 2.0, (6, 150))
    post = fit(rng.gamma(1.0, W @ H), psgld.FactorModel(6, "gamma"), draws=50)
    assert post.divergences == 0 and post.draws.phi.mean() == pytest.approx(1.0, rel=0.15)


@pytest.mark.filterwarnings("ignore:chains diverged:psgld.PsgldWarning")
def test_a_chain_that_ran_away_once_is_given_time_to_come_back():
    """Its step is halved no more often than it must be: too small a step would not reach the posterior in time."""
    rng = np.random.default_rng(1)
    mu = rng.gamma(2.0, 1.0, (60, 3)) @ rng.gamma(2.0, 0.3, (3, 40))
    V = psgld.Tweedie(-1.5, 0.1).sample(mu, 0.1, rng)
    post = fit(V, psgld.FactorModel(3, psgld.Tweedie(-1.5)), chains=1, seed=1, draws=30)
    assert post.divergences <= 3 and post.draws.phi.mean() == pytest.approx(0.1, rel=0.08)


@pytest.mark.parametrize("weak", [1e-2, 1e-4, 1e-8])
def test_weak_priors_of_both_factors_do_not_start_the_chain_far_from_the_data(weak):
    rng = np.random.default_rng(11)
    mu = rng.gamma(2.0, 1.0, (60, 3)) @ rng.gamma(2.0, 0.3, (3, 40))
    normal, rate = psgld.Normal(weak), psgld.Exponential(weak)
    V, model = rng.normal(mu, 0.3), psgld.FactorModel(3, "gaussian", normal, normal)
    post = fit(V, model, draws=50)
    assert post.draws.phi.mean() == pytest.approx(0.09, rel=0.15)
    post = fit(V, model, draws=50, sampler=psgld.PSGLD(metric="identity"))  # a step of that scale
    assert post.draws.phi.mean() == pytest.approx(0.09, rel=0.15) and post.divergences == 0
    post = fit(rng.gamma(10.0, mu / 10.0), psgld.FactorModel(3, "gamma", rate, rate), draws=50)
    assert post.draws.phi.mean() == pytest.approx(0.1, rel=0.15) and post.divergences == 0


def test_many_blocks_do_not_throttle_momentum():
    rng = np.random.default_rng(0)
    V = rng.poisson(rng.exponential(1.0, (256, 8)) @ rng.exponential(1.0, (8, 256))).astype(float)
    model = psgld.FactorModel(rank=8, likelihood="poisson")

    def level(sampler):
        post = psgld.sample(V, model, sampler=sampler, draws=20, tune=3000, thin=25, chains=1)
        mu = post.W[0, -1] @ post.H[0, -1]
        return (V * np.log(mu) - mu).sum()

    cost = level(psgld.PSGLD()) - level(psgld.PSGLD(blocks=32))
    assert cost < 0.2 * (256 + 256) * 8, (
        "draws lie half a unit per coefficient below the mode: most of that is left"
    )
