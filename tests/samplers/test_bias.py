"""The bias of a finite step falls as theory says: halving ε at equal horizon ε T reduces the error of E[log posterior].

First order in ε for the step itself (LD); a second-order share comes from the parts where each cycle visits all of them
(PSGLD, cyclic and reshuffled), a first-order one where they are drawn independently (SGLD). `python -m benchmarks bias`
measures all samplers, both metrics and three steps; here are the steepest two, long enough to tell them apart.
"""

from __future__ import annotations

import numpy as np
import pytest

import psgld

ROWS, COLS, RANK, BLOCKS = 24, 20, 3, 4
STEP, HORIZON = 6e-3, 120.0
MODEL = psgld.FactorModel(RANK, psgld.Poisson(), psgld.Exponential(1.0), psgld.Exponential(1.0))
SAMPLERS = {
    "LD": psgld.LD,
    "PSGLD cyclic": lambda **s: psgld.PSGLD(blocks=BLOCKS, momentum=0.0, **s),
    "PSGLD reshuffled": lambda **s: psgld.PSGLD(
        blocks=BLOCKS, momentum=0.0, schedule=psgld.Reshuffled(), **s
    ),
    "SGLD": lambda **s: psgld.SGLD(size=1 / BLOCKS, **s),
}


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(1)
    V = rng.poisson(rng.exponential(size=(ROWS, RANK)) @ rng.exponential(2.0, size=(RANK, COLS)))
    post = psgld.sample(
        V, MODEL, sampler=psgld.Gibbs(), draws=20_000, thin=1, tune=500, keep=False, progress=False
    )
    means = post.sample_stats["lp"].mean(axis=1)
    return V, means.mean(), 0.5 * abs(means[0] - means[1])


def error(V, sampler, step, exact):
    """Return the error of E[log posterior] and its Monte Carlo error, from two chains."""
    iterations = round(HORIZON / step)
    sizes = {"draws": iterations // 5, "thin": 5, "tune": iterations // 5, "chains": 2, "keep": False}
    post = psgld.sample(V, MODEL, sampler=sampler(step_size=step, metric="identity"), progress=False, **sizes)
    assert post.divergences == 0
    means = post.sample_stats["lp"].mean(axis=1)
    return means.mean() - exact, 0.5 * abs(means[0] - means[1])


@pytest.mark.slow
@pytest.mark.parametrize("name", SAMPLERS)
def test_half_the_step_less_bias(problem, name):
    V, exact, uncertain = problem
    (large, noise), (small, less) = (error(V, SAMPLERS[name], step, exact) for step in (STEP, STEP / 2))
    print(f"{name}: {large:+.2f} ± {noise:.2f} at {STEP}, {small:+.2f} ± {less:.2f} at {STEP / 2}")
    monte_carlo = noise + less + uncertain + 0.2
    assert large < -monte_carlo  # a finite step spreads the draws, away from the mode
    assert abs(small) < 0.75 * abs(large) + monte_carlo
    assert abs(small) + 0.25 * monte_carlo < abs(large)


@pytest.mark.slow
def test_who_is_biased_most(problem):
    """Parts visited once a cycle add less than draws with replacement, the full gradient nothing."""
    V, exact, _ = problem
    errors = {name: abs(error(V, make, STEP, exact)[0]) for name, make in SAMPLERS.items()}
    assert errors["LD"] < errors["PSGLD cyclic"] < errors["SGLD"]
    assert errors["PSGLD reshuffled"] < errors["SGLD"]
