"""Gibbs: the draws of one sweep against their formulas, chains against exact posteriors, NUTS and each other."""

from __future__ import annotations

import importlib.util
import warnings
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import psgld
from psgld.dynamics.probes import Probes
from psgld.errors import DataError, ModelError

Exponential, GammaPrior = psgld.Exponential, psgld.GammaPrior


def chain_of(V, model, dtype="float64", threads=1, key=7):
    data = psgld.observations(V)
    engine = psgld.Threads(threads)
    return psgld.Gibbs(dtype).prepare(data, model, engine, 0).chain(key, Probes.of(data, 0), engine)


UNIT = Exponential(1.0)


def poisson(rank, row=UNIT, col=UNIT):
    return psgld.FactorModel(rank, psgld.Poisson(), row, col)


def counts(shape, rank, mean=3.0, seed=0):
    rng = np.random.default_rng(seed)
    W, H = rng.exponential(size=(shape[0], rank)), rng.exponential(size=(rank, shape[1]))
    return rng.poisson(mean / rank * W @ H).astype(float)


# -- one sweep -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rank", "mean", "shape", "dtype"),
    [
        (1, 2.0, 1.0, "float32"),
        (3, 4.0, 0.3, "float32"),
        (3, 4.0, 0.3, "float64"),
        (16, 30.0, 1.0, "float32"),
        (33, 5.0, 2.5, "float64"),
        (70, 60.0, 1.0, "float32"),
        (100, 1.0, 1.0, "float64"),
        (3, 3000.0, 1.0, "float32"),  # drawn as binomials
        (20, 20_000.0, 0.5, "float64"),
    ],
)
def test_first_factor_of_a_sweep(rank, mean, shape, dtype):
    """w | V, W, H has mean (a + Σ_j v p)/r and variance (a + Σ_j v p + Σ_j v p (1 - p))/r², r = λ + Σ_j h."""
    V = counts((9, 6), rank, mean)
    V[2, 3] = np.nan
    chain = chain_of(V, poisson(rank, GammaPrior(shape, 2.0), GammaPrior(shape, 0.7)), dtype)
    state = chain.state()
    state["H"][:, 0] *= 3  # shares that differ
    W, H = state["W"].astype(float), state["H"].astype(float)
    share = W[:, None, :] * H / (W @ H.T)[..., None]
    v, seen = np.nan_to_num(V)[..., None], ~np.isnan(V)
    number, spread = (v * share).sum(1), (v * share * (1 - share)).sum(1)
    rate = 2.0 + seen @ H

    n = 4000
    draws = np.empty((n, *W.shape))
    for t in range(n):
        chain.set_state(state | {"iteration": t})
        chain.advance(1)
        draws[t] = chain.factors.x[0]
    mean_w, var_w = (shape + number) / rate, (shape + number + spread) / rate**2
    z = (draws.mean(0) - mean_w) / np.sqrt(var_w / n)
    assert np.abs(z).max() < 4.5
    assert abs(np.mean(z**2) - 1) < 5 * np.sqrt(2 / z.size)
    # The fourth moment of a gamma variable of shape a is 3 + 6/a times the squared variance.
    error = np.sqrt((2 + 6 / (shape + number)) / n)
    assert np.abs((draws.var(0) / var_w - 1) / error).max() < 6


def test_second_factor_of_a_sweep_is_as_the_first():
    """V and its transpose: what is drawn first has the larger side, so the roles of W and H are swapped."""
    V = counts((8, 5), 3)
    one = chain_of(V, poisson(3, Exponential(2.0), Exponential(0.5)))
    two = chain_of(V.T.copy(), poisson(3, Exponential(0.5), Exponential(2.0)))
    state = one.state()
    swapped = {"W": "H", "H": "W", "hyper/row_rate": "hyper/col_rate", "hyper/col_rate": "hyper/row_rate"}
    two.set_state(state | {name: state[other] for name, other in swapped.items()})
    one.advance(5)
    two.advance(5)
    np.testing.assert_array_equal(one.factors.x[0], two.factors.x[1])
    np.testing.assert_array_equal(one.factors.x[1], two.factors.x[0])


# -- chains ----------------------------------------------------------------------------------------------


def quadrature(V, row, col, learnt=None):
    """Mean and sd of μ, and of the rate of H, for V (2 × J) and K = 1: H integrates out, the rest is a grid.

    p(w, λ) ∝ p(w) p(λ) Π_j λ^a (λ + Σ_i w_i)^{-(a + Σ_i v_ij)}, the sums over the observed entries of column j.
    """
    w0, w1 = np.meshgrid(*[np.exp(np.linspace(-12, 4, 250))] * 2, indexing="ij")
    rates = np.exp(np.linspace(-8, 3, 60)) if learnt else np.array([col.rate])
    seen, v = ~np.isnan(V), np.nan_to_num(V)
    mass, first, second, rate_moments = 0.0, np.zeros(V.shape), np.zeros(V.shape), np.zeros(2)
    a = col.shape + v.sum(0)
    for lam in rates:
        log = sum((row.shape + v[i].sum()) * np.log(w) - row.rate * w for i, w in enumerate((w0, w1)))
        sums = [lam + seen[0, j] * w0 + seen[1, j] * w1 for j in range(V.shape[1])]
        log = log + sum(col.shape * np.log(lam) - a[j] * np.log(s) for j, s in enumerate(sums))
        p = np.exp(log + (np.log(lam) - lam / learnt if learnt else 0.0) - 10.0)  # (a grid in log λ)
        mass += p.sum()
        rate_moments += p.sum() * np.array([lam, lam**2])
        for i, w in enumerate((w0, w1)):
            for j, s in enumerate(sums):
                first[i, j] += (p * w * a[j] / s).sum()
                second[i, j] += (p * w**2 * a[j] * (a[j] + 1) / s**2).sum()
    first, second, rate_moments = first / mass, second / mass, rate_moments / mass
    return first, np.sqrt(second - first**2), rate_moments[0]


def run(chain, n, burn=200):
    """μ and the rate of H along a chain."""
    chain.advance(burn)
    mu, rate = np.empty((n, *chain.setup.data.shape)), np.empty(n)
    for t in range(n):
        chain.advance(1)
        mu[t] = chain.factors.x[0] @ chain.factors.x[1].T
        rate[t] = chain.hyper.col_rate[0]
    return mu, rate


def error_of(x, batches=50):
    """The Monte Carlo error of a mean, from the means of batches."""
    means = x[: len(x) // batches * batches].reshape(batches, -1, *x.shape[1:]).mean(1)
    return means.std(0, ddof=1) / np.sqrt(batches)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("V", "row", "col"),
    [
        ([[3, 1], [0, 5]], Exponential(1.0), Exponential(0.5)),
        ([[2, np.nan], [0, 4]], Exponential(1.0), Exponential(0.5)),
        ([[3, 1], [0, 5]], GammaPrior(0.4, 1.0), GammaPrior(2.0, 0.7)),
        ([[30, 90], [4, 50]], GammaPrior(3.0, 0.2), Exponential(0.1)),  # as binomials
    ],
)
def test_exact_posterior(V, row, col, dtype):
    V = np.array(V, float)
    mean, sd, _ = quadrature(V, row, col)
    mu, _ = run(chain_of(V, poisson(1, row, col), dtype), 40_000)
    assert np.all(np.abs(mu.mean(0) - mean) < 4.5 * error_of(mu))
    assert np.all(np.abs(mu.std(0) / sd - 1) < 4.5 * error_of((mu - mean) ** 2) / sd**2)


@pytest.mark.slow
def test_exact_posterior_of_a_learnt_rate():
    V = np.array([[3.0, 1.0], [0.0, 5.0]])
    chain = chain_of(V, poisson(1, Exponential(1.0), Exponential()))
    mean, _, rate_mean = quadrature(V, Exponential(1.0), Exponential(), learnt=chain.setup.start.col_rate[0])
    mu, rate = run(chain, 20_000)
    assert np.all(np.abs(mu.mean(0) - mean) < 4.5 * error_of(mu))
    assert abs(rate.mean() - rate_mean) < 4.5 * error_of(rate)


def nuts(V, rank, draws, seeds):
    """μ from NUTS for each seed, (draws, I, J); compiled once."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import jax
        import numpyro
        import numpyro.distributions as dist
        from numpyro.infer import MCMC, NUTS

        with jax.enable_x64(True) if hasattr(jax, "enable_x64") else jax.experimental.enable_x64():

            def model():
                W = numpyro.sample("W", dist.Exponential(1.0).expand((V.shape[0], rank)).to_event(2))
                H = numpyro.sample("H", dist.Exponential(1.0).expand((rank, V.shape[1])).to_event(2))
                numpyro.sample("V", dist.Poisson(W @ H).to_event(2), obs=V)

            mcmc = MCMC(NUTS(model), num_warmup=500, num_samples=draws, progress_bar=False)
            runs = []
            for seed in seeds:
                mcmc.run(jax.random.PRNGKey(seed))
                found = mcmc.get_samples()
                runs.append(np.asarray(found["W"]) @ np.asarray(found["H"]))
            return runs


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("numpyro") is None, reason="NumPyro is not installed")
def test_against_nuts():
    V = counts((20, 15), 3, mean=6.0, seed=3)
    other = nuts(V, 3, 1500, range(2))
    own = []
    for key in range(2):
        chain = chain_of(V, poisson(3), "float32", key=key)
        own.append(run(chain, 12_000, burn=500)[0])
    sd = np.concatenate(own).std(0)
    error = (np.mean(own, axis=(0, 1)) - np.mean(other, axis=(0, 1))) / sd
    # Half the gap of two chains is the error of their average.
    gaps = [0.5 * (pair[0].mean(0) - pair[1].mean(0)) / sd for pair in (own, other)]
    monte_carlo = np.sqrt(np.mean(gaps[0] ** 2) + np.mean(gaps[1] ** 2))
    assert monte_carlo < 0.05
    assert np.sqrt(np.mean(error**2)) < 2 * monte_carlo
    assert 0.97 < np.mean(sd / np.concatenate(other).std(0)) < 1.03


# -- the same bits ---------------------------------------------------------------------------------------


def same(a, b):
    return all(np.array_equal(x, y) for x, y in zip(a.factors.x, b.factors.x, strict=True))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("rank", [5, 33, 70])
@pytest.mark.parametrize("complete", [True, False])
def test_threads(rank, dtype, complete):
    V = counts((60, 41), rank)
    if not complete:
        V[np.random.default_rng(0).random(V.shape) < 0.3] = np.nan
    model = poisson(rank, Exponential(), GammaPrior(0.5))
    chains = [chain_of(V, model, dtype, threads) for threads in (1, 2, 3, 7)]
    for chain in chains:
        chain.advance(6)
    assert all(same(chains[0], other) for other in chains[1:])
    assert not same(chains[0], chain_of(V, model, dtype, key=8))


def test_zeros_need_not_be_stored():
    V = counts((30, 50), 4, mean=0.5)
    sparse_zero = psgld.Observations.from_sparse(sparse.csr_array(V), absent="zero")
    one, two = chain_of(V, poisson(4)), chain_of(sparse_zero, poisson(4))
    one.advance(10)
    two.advance(10)
    assert same(one, two)


def test_stored_entries_are_those_of_an_array_with_gaps():
    V = counts((30, 50), 4)
    seen = np.random.default_rng(1).random(V.shape) < 0.4
    rows, cols = np.nonzero(seen)
    stored = psgld.Observations.from_coo(rows, cols, V[seen], V.shape, absent="unobserved")
    one, two = chain_of(np.where(seen, V, np.nan), poisson(4)), chain_of(stored, poisson(4))
    one.advance(10)
    two.advance(10)
    assert same(one, two)


@pytest.mark.parametrize("prior", [Exponential(1.0), Exponential(), GammaPrior(0.5)])
def test_state(prior):
    """A chain goes on from its state bit for bit, whatever the calls that the sweeps are divided into."""
    V = counts((12, 17), 3)
    whole, first, second = (chain_of(V, poisson(3, prior, prior)) for _ in range(3))
    whole.advance(9)
    first.advance(4)
    second.set_state(first.state())
    second.advance(2)
    second.advance(3)
    assert second.iteration == 9 and same(whole, second)
    assert whole.log_posterior() == second.log_posterior()


# -- through the front door ------------------------------------------------------------------------------


def test_sample():
    V = counts((25, 18), 3)
    post = psgld.sample(V, psgld.FactorModel(3, "poisson"), sampler="gibbs", draws=40, progress=False)
    assert post.W.shape == (2, 40, 25, 3) and post.H.shape == (2, 40, 3, 18)
    assert post.settings["tune"] == 500 and post.settings["thin"] == 5
    assert (post.W > 0).all() and np.isfinite(post.sample_stats["lp"]).all()
    assert len(np.unique(post.draws.col_rate)) > 1 or len(np.unique(post.draws.row_rate)) > 1
    prediction = post.predict(np.arange(18), np.arange(18)).mean
    assert np.corrcoef(prediction, V[np.arange(18), np.arange(18)])[0, 1] > 0.7


def test_rows_and_columns_without_counts():
    V = np.zeros((6, 4))
    V[:3, :2] = [[1, 0], [2, 3], [0, 4]]
    V[5] = np.nan
    chain = chain_of(V, poisson(2), "float32")
    chain.advance(50)
    assert all(np.isfinite(x).all() and (x > 0).all() for x in chain.factors.x)


REFUSED: list[tuple[Any, str]] = [
    (psgld.FactorModel(2, psgld.Gaussian()), "needs the Poisson likelihood"),
    (psgld.FactorModel(2, psgld.Poisson(phi=2.0)), "phi = 1"),
    (psgld.FactorModel(2, psgld.Poisson(phi=None)), "phi = 1"),
    (psgld.FactorModel(2, psgld.CompoundPoisson()), "PSGLD"),
]


@pytest.mark.parametrize(("model", "reason"), REFUSED)
def test_other_models_are_refused(model, reason):
    with pytest.raises(ModelError, match=reason):
        psgld.sample(np.ones((3, 3)), model, sampler=psgld.Gibbs())


@pytest.mark.filterwarnings("ignore:values are not counts:psgld.PsgldWarning")
def test_other_values_are_refused():
    model = poisson(2)
    with pytest.raises(DataError, match=r"1 of 9 values are not, the first is 1\.5; round them"):
        psgld.sample(np.array([[1, 2, 3], [0, 1.5, 2], [1, 1, 1]]), model, sampler=psgld.Gibbs())
    with pytest.raises(DataError, match="of a row add up to 3e"):
        psgld.sample(np.full((2, 3), 1e9), model, sampler=psgld.Gibbs(dtype="float64"))
    with pytest.raises(ModelError, match="dtype"):
        psgld.Gibbs(dtype="float16")
