"""A dozen of the runs of `benchmarks/verdict.py`: never "converged" where a run is off; always by default."""

import numpy as np
import pytest
from benchmarks.verdict import Problem, Run, answer, outcome

import psgld

SHAPE = (12, 10, 2)
RUNS = [
    *(Run(Problem(name, SHAPE), None) for name in ("Poisson", "Gaussian")),
    *(
        Run(Problem("Poisson", SHAPE), sampler, factor)
        for sampler in ("PSGLD", "SGLD")
        for factor in (1 / 30, 100.0)
    ),
    *(Run(Problem("Poisson", SHAPE), "LD identity", factor) for factor in (10.0, 30.0)),
    *(
        Run(Problem("Gaussian", SHAPE), sampler, 30.0)
        for sampler in ("PSGLD", "SGLD", "DSGLD", "LD identity")
    ),
]


@pytest.fixture(scope="module")
def answers():
    return {problem: answer(problem) for problem in {run.problem for run in RUNS}}


@pytest.mark.slow
@pytest.mark.parametrize(
    "run", RUNS, ids=lambda r: f"{r.problem.likelihood}-{r.sampler or 'defaults'}-{r.factor:.3g}"
)
def test_converged_is_right(answers, run):
    found = outcome(run, answers[run.problem])
    assert found.kind != "fine" or not found.off
    if run.sampler is None:
        assert found.kind == "fine" and not found.off
    if run.factor < 0.1:
        assert found.kind == "slow"


@pytest.mark.filterwarnings("ignore:chains diverged:psgld.PsgldWarning")
def test_a_stationary_inflated_chain_is_noticed():
    """R-hat was 1.01, and the mean of μ 48 times that of the data."""
    one = psgld.Exponential(1.0)
    model = psgld.FactorModel(32, psgld.CompoundPoisson(0.5, 1.0), one, one)
    rng = np.random.default_rng(0)
    mu = rng.exponential(size=(128, 32)) @ rng.exponential(size=(32, 128))
    V = model.likelihood.sample(mu, 1.0, rng)
    post = psgld.sample(
        V,
        model,
        sampler=psgld.LD(metric="identity", step_size=0.4),
        draws=20,
        thin=5,
        tune=700,
        progress=False,
    )
    assert post.divergences > 0 and not post.diagnose().converged
    assert post.settings["fit"]["mu"][0] < 3 * V.mean()
