"""Predictions: what the draws say, the same bits in one piece or in many, on one thread or on four."""

import dataclasses

import numpy as np
import pytest
from scipy import sparse, stats

import psgld
from psgld import _core
from psgld.datasets import synthetic
from psgld.models import LIKELIHOODS
from psgld.models.likelihoods.survival import survival
from psgld.posterior import predict
from psgld.posterior.predict import Prediction
from psgld.runs.draws import Draws

MEMBERS = {
    "gaussian": psgld.Gaussian(),
    "poisson": psgld.Poisson(),
    "gamma": psgld.Gamma(),
    "compound-poisson": psgld.CompoundPoisson(0.3),
    "inverse-gaussian": psgld.InverseGaussian(),
    "beta -0.5": psgld.Tweedie(-0.5),
    **{
        name: make().resolved(lambda: np.arange(1.0, 6.0))
        for name, make in LIKELIHOODS.items()
        if not issubclass(make, psgld.Tweedie)
    },
}
TWEEDIE = [name for name, member in MEMBERS.items() if isinstance(member, psgld.Tweedie)]


def made_up(dtype="float32", bias=True, chains=2, kept=15, rows=23, cols=17, rank=5, phi=0.3, seed=0):
    """Draws of no model at all: positive means of about 3."""
    rng = np.random.default_rng(seed)
    W, H = (rng.gamma(4.0, 0.2, (chains, kept, n, rank)).astype(dtype) for n in (rows, cols))
    a, c = (rng.gamma(1.0, 0.1, (chains, kept, n)).astype(dtype) if bias else None for n in (rows, cols))
    rate = np.ones((chains, kept, rank))
    offset = rng.gamma(1.0, 0.1, (chains, kept)) if bias else np.zeros((chains, kept))
    return Draws.of(
        W=W, H=H, row_bias=a, col_bias=c, row_rate=rate, col_rate=rate, offset=offset,
        phi=phi * rng.gamma(50.0, 1 / 50.0, (chains, kept)),
    )  # fmt: skip


def with_parameters(d, likelihood):
    """Return the draws with typical parameters of the likelihood besides φ, in each draw by another factor."""
    _, others = likelihood.split(likelihood.typical(3.0))
    if not others:
        return d
    spread = np.random.default_rng(4).gamma(50.0, 1 / 50.0, (*d.phi.shape, 1))
    return dataclasses.replace(d, theta=spread * others)


def theta_of(d, likelihood):
    """The parameters of the likelihood, (S, 1) each."""
    others = [] if d.theta is None else [a.reshape(-1, 1) for a in np.moveaxis(d.theta, -1, 0)]
    return likelihood.joined(d.phi.reshape(-1, 1), others)


def means(d):
    """All of η, (S, I, J), in double precision."""
    mu = d.W.astype(float) @ d.H.astype(float).swapaxes(-1, -2)
    if d.row_bias is not None:
        mu = mu + d.row_bias[..., None].astype(float) + d.col_bias[..., None, :] + d.offset[..., None, None]
    return mu.reshape(-1, *mu.shape[2:])


def everything(d, likelihood, seed=0):
    rows, cols = d.W.shape[2], d.H.shape[2]
    return Prediction(d, likelihood, *(np.ravel(a) for a in np.mgrid[:rows, :cols]), seed)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("rank", [1, 5, 16, 33])
def test_moments_quantiles_and_draws(dtype, bias, rank):
    d = made_up(dtype, bias, rank=rank)
    mu = means(d).reshape(30, -1)
    p = everything(d, psgld.Poisson())
    close = {"rtol": 2e-6 if dtype == "float32" else 1e-12}
    np.testing.assert_allclose(p.draws, mu, **close)
    np.testing.assert_allclose(p.mean, mu.mean(0), **close)
    np.testing.assert_allclose(p.sd, mu.std(0, ddof=1), rtol=1e-4 if dtype == "float32" else 1e-10)
    levels = [0.0, 0.05, 0.31, 0.5, 1.0]
    np.testing.assert_allclose(p.mean_quantiles(levels), np.quantile(mu, levels, axis=0), **close)
    np.testing.assert_allclose(p.new_sd, np.sqrt(p.sd**2 + (d.phi.reshape(-1, 1) * mu).mean(0)), rtol=1e-5)
    np.testing.assert_allclose(p.mean_exceeds(3.0), (mu > 3.0).mean(0), atol=1e-9)


@pytest.mark.parametrize("kept", [1, 2, 3, 7, 16, 17, 100, 257])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_quantiles_are_those_of_the_new_draws(kept, dtype):
    """Whatever the number of draws (a network sorts them), with an offset far from 0, at a tile that is not full."""
    levels = [0.0, 0.05, 0.5, 0.77, 1.0]
    for member in ("gaussian", "poisson", "gamma"):
        d = made_up(dtype, bias=member == "gaussian", chains=1, kept=kept)
        if member == "gaussian":
            d = dataclasses.replace(d, offset=d.offset + 1e6)
        p = Prediction(d, MEMBERS[member], np.arange(21) % 23, np.arange(21) % 17, seed=3)
        exact = np.quantile(p.new_draws(), levels, axis=0)
        np.testing.assert_allclose(
            p.quantiles(levels), exact, rtol=1e-12, atol=2e-6 if dtype == "float32" else 0
        )


def one_distribution(likelihood, mu, phi, n, seed=2):
    """n new observations of the same distribution, at 16 pairs: a whole tile."""
    one, kept = np.ones((1, 1, 1)), n // 16
    W, H = np.full((1, kept, 1, 1), mu), np.ones((1, kept, 16, 1))
    d = Draws.of(
        W=W, H=H, row_rate=one, col_rate=one, offset=np.zeros((1, kept)), phi=np.full((1, kept), phi)
    )
    return Prediction(d, likelihood, np.zeros(16, int), np.arange(16), seed).new_draws().ravel()


def philox(counter, key):
    """Words of Philox4x32-10, by its definition: counters (4, n) of words, a key of two."""
    x = np.broadcast_arrays(*(np.asarray(c, np.uint64) for c in counter))
    word = np.uint64(0xFFFFFFFF)
    for turn in range(10):
        steps = zip(key, (0x9E3779B9, 0xBB67AE85), strict=True)
        k0, k1 = (np.uint64((k + turn * step) % 2**32) for k, step in steps)
        p, q = x[0] * np.uint64(0xD2511F53), x[2] * np.uint64(0xCD9E8D57)
        x = [(q >> np.uint64(32)) ^ x[1] ^ k0, q & word, (p >> np.uint64(32)) ^ x[3] ^ k1, p & word]
    return x


def test_small_counts_invert_the_words_of_their_stream():
    """The least n whose distribution function reaches the uniform of (seed; row, column, draw)."""
    d = made_up("float64", bias=False, kept=100)
    rows, cols, seed = np.arange(21) % 23, np.arange(21) % 17, (7 << 32) + 5
    p = Prediction(d, psgld.Poisson(), rows, cols, seed=seed)
    draws = np.arange(200)[:, None]
    high, low, _, _ = philox((0, rows, cols, draws), (5, 7))
    u = ((high >> np.uint64(5) << np.uint64(26) | low >> np.uint64(6)) + 0.5) * 2.0**-53
    phi = d.phi.reshape(-1, 1)
    mean = p.draws / phi
    expected = phi * stats.poisson.ppf(u, mean)
    small = mean < 10
    assert small.any() and (~small).any()
    np.testing.assert_allclose(p.new_draws()[small], expected[small], rtol=1e-14)


@pytest.mark.parametrize("mu", [0.01, 0.7, 4.0, 9.99, 10.0, 35.0, 400.0])
def test_counts_have_the_probabilities_of_the_poisson(mu):
    n = 320_000
    counts = one_distribution(psgld.Poisson(), mu, 1.0, n)
    law = stats.poisson(mu)
    inner = np.arange(law.ppf(1e-4), law.ppf(1 - 1e-4) + 1)  # and what lies beyond on either side
    expected = n * np.r_[law.cdf(inner[0] - 1), law.pmf(inner), law.sf(inner[-1])]
    seen = np.r_[(counts < inner[0]).sum(), [(counts == k).sum() for k in inner], (counts > inner[-1]).sum()]
    often = expected > 5
    rest = np.array([seen[~often].sum(), expected[~often].sum()])
    square = ((seen - expected)[often] ** 2 / expected[often]).sum() + (rest[0] - rest[1]) ** 2 / max(
        rest[1], 1
    )
    assert stats.chi2.sf(square, often.sum()) > 1e-4


@pytest.mark.parametrize("phi", [0.02, 0.5, 1.0, 3.0])
def test_gamma_and_compound_draws_have_their_distribution(phi):
    n, mu, beta = 320_000, 2.0, 0.5
    drawn = one_distribution(psgld.Gamma(), mu, phi, n)
    assert stats.kstest(drawn, stats.gamma(1 / phi, scale=phi * mu).cdf).pvalue > 1e-4
    drawn = one_distribution(psgld.CompoundPoisson(beta), mu, phi, n)
    none = np.exp(-(mu**beta) / (phi * beta))
    assert abs((drawn == 0).sum() - n * none) < 4.5 * np.sqrt(n * none * (1 - none)) + 1
    at = np.quantile(drawn[drawn > 0], np.linspace(0.01, 0.99, 50))
    share = (drawn[:, None] > at).mean(0)
    exact = survival(at[:, None], np.array([mu]), np.array([phi]), beta)[:, 0]
    assert np.abs(share - exact).max() < 4.5 * 0.5 / np.sqrt(n)


def test_tails_of_the_normal_behind_gamma_draws():
    """A gamma variable of a large shape is a cubed normal: its tails are where a ziggurat could go wrong."""
    n, shape = 400_000, 400.0
    one = np.ones((1, 1, 1))
    phi = np.full((1, n // 4), 1 / shape)
    W, H = np.ones((1, n // 4, 1, 1)), np.ones((1, n // 4, 4, 1))
    d = Draws.of(W=W, H=H, row_rate=one, col_rate=one, offset=np.zeros_like(phi), phi=phi)
    drawn = Prediction(d, psgld.Gamma(), np.zeros(4, int), np.arange(4), seed=2).new_draws().ravel()
    u = stats.gamma.cdf(drawn, shape, scale=1 / shape)
    for tail in (1e-4, 5e-4, 1e-3, 1e-2, 0.1, 0.3):
        for count in ((u < tail).sum(), (u > 1 - tail).sum()):
            assert abs(count - n * tail) < 4.5 * np.sqrt(n * tail)
    assert stats.kstest(u, "uniform").pvalue > 1e-4


@pytest.mark.parametrize("member", MEMBERS)
def test_noise_is_the_variance(member):
    likelihood = MEMBERS[member]
    d = with_parameters(made_up(bias=False), likelihood)
    p = everything(d, likelihood)
    noise = likelihood.variance(means(d).reshape(30, -1), *theta_of(d, likelihood)).mean(0)
    np.testing.assert_allclose(p.new_sd**2 - p.sd**2, noise, rtol=1e-4)


@pytest.mark.parametrize("member", TWEEDIE)
def test_new_observations_follow_the_likelihood(member):
    """μ and φ the same in all draws: new observations are a sample of one distribution."""
    likelihood, n = MEMBERS[member], 400 if member == "beta -0.5" else 20_000
    for mu, phi in ((0.3, 0.7), (4.0, 0.2), (60.0, 1.5)):
        if member == "poisson":
            phi = 1.0
        one = np.ones((1, 1, 1))
        d = Draws.of(
            W=np.full((1, n // 2, 1, 1), mu), H=np.ones((1, n // 2, 2, 1)), row_rate=one, col_rate=one,
            offset=np.zeros((1, n // 2)), phi=np.full((1, n // 2), phi),
        )  # fmt: skip
        drawn = Prediction(d, likelihood, np.zeros(2, int), np.arange(2), seed=5).new_draws().ravel()
        direct = likelihood.sample(np.full(20_000, mu), phi, np.random.default_rng(1))
        assert stats.ks_2samp(drawn, direct).pvalue > 1e-4
        assert drawn.mean() == pytest.approx(mu, abs=5 * np.sqrt(phi * mu ** (2 - likelihood.beta) / n))


@pytest.mark.parametrize("member", MEMBERS)
def test_the_same_bits_in_any_order_and_on_any_number_of_threads(member, monkeypatch):
    likelihood = MEMBERS[member]
    d = with_parameters(made_up(), likelihood)
    rng = np.random.default_rng(3)
    n = 60 if member == "beta -0.5" else 1000  # that one is slow
    rows, cols = rng.integers(23, size=n), rng.integers(17, size=n)

    def numbers(at):
        p = Prediction(d, likelihood, rows[at], cols[at], seed=9)
        found = [p.mean, p.sd, p.new_sd, *p.interval(), *p.mean_interval(), *p.draws, *p.new_draws()]
        return np.array([*found, p.exceeds(2.0), p.mean_exceeds(2.0)])

    whole = numbers(slice(None))
    order = rng.permutation(n)
    np.testing.assert_array_equal(numbers(order), whole[:, order])
    pieces = [numbers(slice(first, first + 77)) for first in range(0, n, 77)]
    np.testing.assert_array_equal(np.concatenate(pieces, axis=1), whole)
    for threads in (1, 4):
        monkeypatch.setattr(predict, "new_pool", lambda work, n=threads: _core.Pool(n))
        np.testing.assert_array_equal(numbers(slice(None)), whole)
    assert (Prediction(d, likelihood, rows, cols, seed=8).new_draws() != whole[-32:-2]).mean() > 0.05


@pytest.mark.parametrize("member", [name for name in MEMBERS if name not in TWEEDIE])
def test_draws_of_other_families_follow_their_survival_function(member):
    """η and θ the same in all draws, in the core where it draws them."""
    likelihood, n = MEMBERS[member], 20_000
    one, x = np.ones((1, 1, 1)), np.arange(-0.5, 30.0)
    theta = likelihood.typical(3.0)
    phi, others = likelihood.split(theta)
    for eta in (0.3, 4.0):
        d = Draws.of(
            W=np.full((1, n // 2, 1, 1), eta), H=np.ones((1, n // 2, 2, 1)), row_rate=one, col_rate=one,
            offset=np.zeros((1, n // 2)), phi=np.full((1, n // 2), phi),
            theta=np.broadcast_to(others, (1, n // 2, len(others))).astype(float) if others else None,
        )  # fmt: skip
        drawn = Prediction(d, likelihood, np.zeros(2, int), np.arange(2), seed=5).new_draws().ravel()
        share = likelihood.survival(x, eta, *theta)
        assert np.abs((drawn[:, None] > x).mean(0) - share).max() < 4.5 * 0.5 / np.sqrt(n)


@pytest.mark.parametrize("member", TWEEDIE)
def test_survival_is_what_samples_say(member):
    likelihood, rng = MEMBERS[member], np.random.default_rng(0)
    mu, phi = np.array([0.5, 3.0, 20.0]), np.array([1.0] * 3 if member == "poisson" else [0.5, 0.2, 1.0])
    x = np.array([-1.0, 0.0, 0.4, 2.0, 3.0, 25.0])[:, None]
    share = survival(x, mu, phi, likelihood.beta)
    if member == "beta -0.5":
        assert share is None
        return
    drawn = likelihood.sample(np.broadcast_to(mu, (40_000, 3)), phi, rng)
    np.testing.assert_allclose(share, (drawn[:, None] > x).mean(0), atol=0.012)
    assert ((share >= 0) & (share <= 1)).all()
    np.testing.assert_array_equal(survival([-np.inf, np.inf], 3.0, 0.2, likelihood.beta), [1.0, 0.0])


@pytest.mark.parametrize("beta", [0.003, 0.1, 0.5, 0.9, 0.99])
def test_survival_of_many_jumps_is_the_series(beta, monkeypatch):
    mu, rate = 3.0, 1001.0
    phi = mu**beta / (rate * beta)
    x = np.maximum(mu + np.linspace(-5, 5, 41) * np.sqrt(phi * mu ** (2 - beta)), 0.0)
    quick = survival(x, mu, phi, beta)
    monkeypatch.setattr("psgld.models.likelihoods.survival._MANY", np.inf)
    np.testing.assert_allclose(quick, survival(x, mu, phi, beta), atol=5e-5)


def test_survival_of_values_almost_without_noise_is_quick():
    np.testing.assert_allclose(survival([1.99, 2.0, 2.01], 2.0, 1e-12, 0.5), [1.0, 0.5, 0.0], atol=1e-6)


@pytest.mark.parametrize("member", MEMBERS)
def test_exceeding_is_the_share_of_new_observations(member):
    likelihood = MEMBERS[member]
    d = with_parameters(made_up(kept=100), likelihood)
    p = Prediction(d, likelihood, np.arange(10), np.arange(10))
    np.testing.assert_allclose(p.exceeds(4.0), (p.new_draws() > 4.0).mean(0), atol=0.17)
    each = p.exceeds(np.linspace(0.1, 20, 10))
    assert each[0] > 0.8 and each[-1] < 0.2
    with pytest.raises(psgld.DataError, match="one per pair"):
        p.exceeds([1.0, 2.0])
    for above in (p.exceeds, p.mean_exceeds):
        with pytest.raises(psgld.DataError, match="got NaN"):
            above(np.nan)


@pytest.fixture(scope="module")
def post():
    V = synthetic(40, 30, 2, "poisson", seed=3).V
    return psgld.sample(V, psgld.FactorModel(2, "poisson"), draws=40, tune=200, thin=2, progress=False)


def test_rows_columns_and_everything(post):
    rows = post.predict([3, 1])
    np.testing.assert_array_equal(rows.mean[30:], post.predict(1, np.arange(30)).mean)
    cols = post.predict(None, [2])
    np.testing.assert_array_equal(cols.mean, post.predict(np.arange(40), 2).mean)
    whole, pieces = post.predict(), list(post.predict_chunks(pairs=100))
    assert len(whole) == 1200 and len(pieces) == 14
    for value in (lambda p: p.mean, lambda p: p.interval()[1], lambda p: p.exceeds(3)):
        np.testing.assert_array_equal(np.concatenate([value(p) for p in pieces]), value(whole))
    with pytest.raises(psgld.DataError, match="pairs must be"):
        next(post.predict_chunks(pairs=0))


def test_log_predictive_density_of_zeros_that_are_absent(post):
    some = np.zeros(post.shape)
    some[[1, 2], [3, 0]] = 2.0
    data = psgld.Observations.from_sparse(sparse.coo_array(some), absent="zero")
    rows, cols = np.divmod(np.arange(some.size), some.shape[1])
    expected = post.predict(rows, cols).log_density(some.ravel())
    np.testing.assert_array_equal(post.log_predictive_density(data), expected)


def test_log_predictive_density(post):
    rows, cols, values = np.array([1, 5]), np.array([2, 4]), np.array([3.0, 0.0])
    expected = post.predict(rows, cols).log_density(values)
    np.testing.assert_array_equal(post.log_predictive_density((rows, cols, values)), expected)
    data = psgld.Observations.from_coo(rows, cols, values, shape=(40, 30))
    np.testing.assert_array_equal(post.log_predictive_density(data), expected)
    with pytest.raises(psgld.DataError, match="shape"):
        post.log_predictive_density(np.ones((3, 3)))
    pandas = pytest.importorskip("pandas")
    twice = pandas.DataFrame({"row": rows, "col": cols, "value": values}).loc[[0, 1, 0]]
    np.testing.assert_array_equal(post.log_predictive_density(twice), expected[[0, 1, 0]])


def test_refusals(post):
    p = post.predict([1], [2])
    for wrong in (lambda: p.interval(1.0), lambda: p.quantiles([0.5, 1.5]), lambda: p.log_density([1, 2])):
        with pytest.raises(psgld.DataError):
            wrong()
    with pytest.raises(psgld.DataError, match="seed"):
        post.predict([1], [2], seed=-1)


@pytest.mark.slow
@pytest.mark.parametrize("member", ["gamma", "compound-poisson"])
def test_intervals_cover(member):
    """Nine in ten of the held-out values lie in their 90 % intervals."""
    data = synthetic(150, 120, 3, member, seed=11)
    train, (rows, cols, values) = psgld.observations(data.V).split(0.3, seed=0)
    post = psgld.sample(train, psgld.FactorModel(3, member), draws=200, progress=False)
    p = post.predict(rows, cols)
    low, high = p.interval(0.9)
    plain = ((low <= values) & (values <= high)).mean()
    atom = (values == 0).any()
    assert 0.88 <= plain <= (0.96 if atom else 0.92)  # an interval that begins at an atom holds all of it
    few = slice(None, None, 9 if atom else 1)  # the probabilities of the compound Poisson are sums
    assert 0.86 <= held(post.predict(rows[few], cols[few]), values[few]).mean() <= 0.94


def held(p, values):
    """The share of each value that lies between the 5 % and the 95 % point: of an atom, as much as fits."""
    below, upto = 1 - p.exceeds(np.nextafter(values, -np.inf)), 1 - p.exceeds(values)
    inside = np.minimum(upto, 0.95) - np.maximum(below, 0.05)
    wide = upto - below > 1e-9
    return np.where(wide, np.clip(inside, 0, None) / np.where(wide, upto - below, 1), inside >= 0)
