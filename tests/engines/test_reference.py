"""The reference itself: AES and ARS against known answers, noise against the normal law and the compiled
noise, score and weight against the models, the step against cases that are known exactly."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from psgld import Tweedie
from psgld.data.observations import Observations
from psgld.data.partition import InOrder
from psgld.engines import Threads
from psgld.engines.reference import update as reference

BETAS = (1.0, 2.0, 0.0, -1.0, 0.5, 0.3, -0.5)


@pytest.mark.parametrize(
    ("block", "key", "last", "expected"),
    [  # rounds 1 and 10 of the example in FIPS 197, appendix C.1
        ("00102030405060708090a0b0c0d0e0f0", "d6aa74fdd2af72fadaa678f1d6ab76fe", False,
         "89d810e8855ace682d1843d8cb128fe4"),
        ("bd6e7c3df2b5779e0b61216e8b10b689", "13111d7fe3944a17f307a78b4d2b30c5", True,
         "69c4e0d86a7b0430d8cdb78070b4c55a"),
    ],
)  # fmt: skip
def test_aes_known_answers(block, key, last, expected):
    block, key = (np.frombuffer(bytes.fromhex(x), np.uint8) for x in (block, key))
    assert reference.aes_round(block, key, last).tobytes().hex() == expected


@pytest.mark.parametrize(
    ("rounds", "expected"),
    [  # what other implementations give
        (1, 0x1A0B14C707B64224E548EF12331396EF),
        (2, 0x3CED8E0970690F718336318BA22E8AE1),
        (3, 0xB6621A8B006319E867C841642C32FC19),
        (10, 0xAC35DF44F996ED824E287697BAD2F9A2),
    ],
)
def test_ars_known_answers(rounds, expected):
    counter, key = 0x9799B5D54F7B9227B47607190D0DFEFC, 0x07B8E4B6AA98EC245A7DA274D3B8146A
    words = reference.ars(np.frombuffer(counter.to_bytes(16, "little"), np.uint32), key, rounds)
    assert int.from_bytes(words.tobytes(), "little") == expected


def compiled_noise(rows: int, cols: int, components: int, key: int, which: int, t: int) -> np.ndarray:
    data = Observations.from_dense(np.ones((rows, cols)))
    grid = Threads(1).grid(data, InOrder().cut(data, 1), 0.0, np.dtype(np.float32))
    chain = Threads(1).factors(grid, components, Tweedie(1.0), 1e-30)
    chain.set_dynamics(key, "identity", mirror=False, temperature=1.0)
    return chain.noise(which, t)


@pytest.mark.parametrize("components", [1, 2, 3, 4, 5, 17, 130])
@pytest.mark.parametrize("shape", [(7, 3), (3, 7)])
@pytest.mark.parametrize(("key", "t"), [(0, 0), (2**64 - 1, 2**32 + 5), (0x9E3779B97F4A7C15, 2**32 - 1)])
def test_compiled_noise_is_the_reference_noise(components, shape, key, t):
    for which in (0, 1):
        z = compiled_noise(*shape, components, key, which, t)
        expected = reference.noise(np.arange(shape[which]), components, which, t, key)
        assert z.shape == expected.shape
        np.testing.assert_allclose(z, expected, rtol=0, atol=2e-6)


@pytest.mark.parametrize("instructions", ["plain", "aes", "vaes"])
def test_noise_does_not_depend_on_instructions_for_aes(instructions):
    code = (
        "import test_reference as t; print(t.compiled_noise(33, 5, 50, 2**64 - 7, 0, 2**40).tobytes().hex())"
    )
    path = os.pathsep.join([str(Path(__file__).parent), *filter(None, sys.path)])
    env = {**os.environ, "PSGLD_AES": instructions, "PYTHONPATH": path}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == compiled_noise(33, 5, 50, 2**64 - 7, 0, 2**40).tobytes().hex()


def test_noise_is_standard_normal():
    z = compiled_noise(20_000, 1, 50, 11, 0, 3).astype(np.float64)
    expected = reference.noise(np.arange(20_000), 50, 0, 3, 11)
    assert np.abs(z - expected).max() < 3e-6
    z = z.ravel()
    n = z.size
    assert n == 1_000_000
    # Moments of the normal within five standard errors: var(z^p) = E z^2p - (E z^p)^2.
    for power, mean, variance in ((1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96), (6, 15, 10170)):
        assert abs(np.mean(z**power) - mean) < 5 * np.sqrt(variance / n), power
    assert stats.kstest(z, "norm").pvalue > 1e-3
    assert 4.5 < np.abs(z).max() < 6.7
    assert np.unique(z.astype(np.float32)).size > 0.9 * n
    # Neighbours are independent: the two of a pair, quartets, rows.
    z = z.reshape(20_000, 50)
    for a, b in ((z[:, :-1], z[:, 1:]), (z[:, :-4], z[:, 4:]), (z[:-1], z[1:])):
        for f in (np.asarray, np.square, np.abs):
            assert abs(np.corrcoef(f(a).ravel(), f(b).ravel())[0, 1]) < 5 / np.sqrt(a.size)


def test_noise_differs_with_everything_it_depends_on():
    draws = [
        reference.noise(np.arange(5), 9, factor, t, key)
        for factor, t, key in itertools.product((0, 1), (1, 2, 2**32, 2**32 + 1), (1, 2, 2**32, 2**32 + 1))
    ]
    values = np.concatenate([d.ravel() for d in draws])
    assert np.unique(values).size == values.size


def test_noise_of_a_coefficient_does_not_depend_on_what_else_is_made():
    rows = np.array([3, 0, 41])
    whole = reference.noise(np.arange(50), 12, 1, 7, 5)
    np.testing.assert_array_equal(reference.noise(rows, 7, 1, 7, 5), whole[rows, :7])


@pytest.mark.parametrize("beta", BETAS)
def test_gradients_are_derivatives_of_the_log_likelihood(beta):
    rng = np.random.default_rng(1)
    V, W, H = rng.gamma(2.0, size=(4, 3)), rng.gamma(2.0, size=(4, 2)), rng.gamma(2.0, size=(3, 2))
    V[1, 2] = V[3, 0] = np.nan

    def total(W, H):
        return np.nansum(Tweedie(beta).kernel(V, W @ H.T))

    for which, gradient in enumerate(reference.gradients(V, W, H, reference.Model(Tweedie(beta), 0.0))):
        for at in np.ndindex(gradient.shape):
            low, high = ([W.copy(), H.copy()] for _ in range(2))
            low[which][at] -= 1e-5
            high[which][at] += 1e-5
            assert gradient[at] == pytest.approx((total(*high) - total(*low)) / 2e-5, rel=1e-6, abs=1e-6)


def test_mu_is_kept_above_the_floor():
    V, W, H = np.ones((2, 2)), np.zeros((2, 1)), np.ones((2, 1))
    gradient, _ = reference.gradients(V, W, H, reference.Model(Tweedie(1.0), 0.01))
    np.testing.assert_allclose(gradient, 2 * (1 / 0.01 - 1))


def rule(metric="identity", **changes):
    ones = np.ones(2)
    defaults = {
        "factor": 0, "inverse": 0.0, "linear": -ones, "quadratic": 0 * ones, "metric": metric,
        "b": np.ones((4, 2)), "move": ones, "mirror": False, "temperature": 0.0, "key": 0, "momentum": 0.0,
    }  # fmt: skip
    settings = {**defaults, **changes}
    settings.setdefault("empty", np.zeros(len(settings["b"]), bool))
    return reference.Rule(**settings, m=np.zeros(settings["b"].shape))


def test_multiplicative_update():
    """With τ = 0 and ε = 1 the non-negative metric makes the step of Lee and Seung."""
    rng = np.random.default_rng(2)
    V, W, H = rng.poisson(4.0, (4, 5)).astype(float), rng.gamma(2.0, size=(4, 2)), rng.gamma(2.0, size=(5, 2))
    model = reference.Model(Tweedie(1.0), 0.0)
    b = reference.gradients(V, W, H, model, weights=True)[0] + 1.0
    moved = reference.step(
        W, reference.gradients(V, W, H, model)[0], np.arange(4), 1, 1.0, rule("non-negative", b=b)
    )
    np.testing.assert_allclose(moved, W * ((V / (W @ H.T)) @ H) / b, rtol=1e-12)


@pytest.mark.parametrize("momentum", [0.0, 0.8])
@pytest.mark.parametrize("metric", ["identity", "real-valued"])
def test_step_samples_a_normal_prior(metric, momentum):
    """Without data, x is an autoregression whose stationary variance is known exactly: that of BAOAB is 1/b."""
    x, precision, epsilon = np.zeros((400, 2)), np.array([4.0, 0.25]), 0.2
    b = np.broadcast_to(precision if metric == "real-valued" else np.ones(2), (400, 2))
    how = rule(
        metric, b=b, linear=np.zeros(2), quadratic=precision, temperature=1.0, key=9, momentum=momentum
    )
    squares, kept = np.zeros(2), 0
    for t in range(1, 301):
        x = reference.step(x, np.zeros_like(x), np.arange(400), t, epsilon, how)
        if t > 150:
            squares += (x**2).mean(axis=0)
            kept += 1
    expected = 1 / precision  # exact, at any step
    if metric == "identity" and not momentum:
        expected = 1 / precision / (1 - epsilon * precision / 2)
    np.testing.assert_allclose(squares / kept, expected, rtol=0.06)


@pytest.mark.parametrize("momentum", [0.0, 0.5, 0.9])
@pytest.mark.parametrize("shape", [1.0, 3.0])
def test_step_samples_a_gamma_prior(shape, momentum):
    """Without data but the prior's, in the non-negative metric: mean and variance of Gamma(shape, 2)."""
    x, rate = np.full((2000, 2), shape / 2.0), 2.0
    b, linear = np.full((2000, 2), rate), np.full(2, -rate)
    how = rule("non-negative", b=b, linear=linear, inverse=shape - 1.0, temperature=1.0, key=9, momentum=momentum,
               mirror=True)  # fmt: skip
    kept = []
    for t in range(1, 401):
        x = reference.step(x, np.zeros_like(x), np.arange(2000), t, 0.05, how)
        if t > 200 and t % 10 == 0:
            kept.append(x)
    assert np.mean(kept) == pytest.approx(shape / rate, rel=0.03)
    assert np.std(kept) == pytest.approx(shape**0.5 / rate, rel=0.04)


def test_move_and_mirror():
    x = np.array([[0.1, 0.1], [2.0, 2.0]])
    how = rule(linear=np.array([-1.0, -1.0]), move=np.array([1.0, 0.0]), mirror=True)
    moved = reference.step(x, np.zeros_like(x), np.arange(2), 1, 0.5, how)
    np.testing.assert_allclose(moved, [[0.4, 0.1], [1.5, 2.0]])


def test_momentum_is_mirrored():
    """A push of -0.5, of which half is left: 0.1 moves by -0.375, with the momentum 0.25 after the mirror."""
    x, how = np.array([[0.1, 3.0]]), rule(mirror=True, momentum=0.5, b=np.ones((1, 2)))
    for expected in ([0.275, 2.625], [0.0875, 2.0625]):
        x = reference.step(x, np.zeros_like(x), np.arange(1), 1, 0.5, how)
        np.testing.assert_allclose(x[0], expected)
