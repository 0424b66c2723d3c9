"""Leave-one-out densities of normal observations against posteriors that were sampled without the entry."""

import numpy as np
import pytest

import psgld
from psgld.posterior.held_out import densities, entries
from psgld.posterior.psis import UNRELIABLE, excess, loo

LONG = {"draws": 400, "tune": 1000, "thin": 20, "chains": 2, "progress": False}
MODEL = psgld.FactorModel(2, psgld.Gaussian(phi=1.0), psgld.Normal(1.0), psgld.Normal(0.5))


@pytest.mark.slow
def test_against_refits():
    rng = np.random.default_rng(0)
    V = rng.normal(size=(12, 2)) @ (rng.normal(size=(2, 9)) * 1.4) + rng.normal(size=(12, 9))
    post = psgld.sample(V, MODEL, **LONG)
    cells = entries(post, V)
    got, k = densities(post, post.draws, cells, np.ones(len(cells), bool))
    assert (k < UNRELIABLE).all()
    at = rng.choice(V.size, 6, replace=False)
    exact = []
    for n in at:
        i, j = divmod(int(n), 9)
        without = V.copy()
        without[i, j] = np.nan
        exact.append(psgld.sample(without, MODEL, **LONG).log_predictive_density(([i], [j], [V[i, j]]))[0])
    assert np.abs(got[at] - exact).max() < 0.15
    seen = post.log_predictive_density(V)[at]
    assert np.abs(got[at] - exact).sum() < 0.3 * np.abs(seen - exact).sum()


def test_ratios_of_few_draws_are_nearer_after_correction():
    """log N(v; η, 1) with η ~ N(0, s²) in S draws: -log E[1 / p] is known."""
    rng, s = np.random.default_rng(1), 0.5
    v = rng.normal(size=4000)
    logs = -0.5 * np.log(2 * np.pi) - 0.5 * (v - s * rng.normal(size=(100, 4000))) ** 2
    exact = -0.5 * np.log(2 * np.pi) + 0.5 * np.log(1 - s**2) - 0.5 * v**2 / (1 - s**2)
    raw, _ = loo(logs)
    assert raw.mean() > exact.mean()
    assert abs((raw - excess(logs) - exact).mean()) < 0.8 * (raw - exact).mean()


def test_few_draws_are_not_corrected():
    assert (excess(np.zeros((3, 5))) == 0).all()


def test_unreliable_models_are_not_chosen():
    """With many components and little noise, an entry determines its own mean."""
    rng = np.random.default_rng(2)
    V = rng.normal(size=(20, 15))
    fits = {
        f"rank {r}": psgld.sample(
            V, psgld.FactorModel(r, psgld.Gaussian(phi=p)), draws=60, tune=300, progress=False
        )
        for r, p in ((1, 1.0), (12, 0.01))
    }
    with pytest.warns(psgld.PsgldWarning, match="unreliable"):
        found = psgld.compare(fits, V)
    assert found.unreliable[0] <= 30 < found.unreliable[1]
    assert found.names == ("rank 1", "rank 12") and found.choice == "rank 1"
