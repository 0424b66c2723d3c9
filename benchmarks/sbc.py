"""Simulation-based calibration: `python -m benchmarks.sbc [--data-sets N]`.

    W, H ~ prior,   V ~ p(V | W, H),   W_1 … W_L, H_1 … H_L ~ the sampler given V

If the sampler is right, the rank of the true value of any quantity among its draws is uniform on 0 … L (Talts 2018).
The quantities are means μ, their sums and the log likelihood: what does not depend on the order of the components.
"""

from __future__ import annotations

import argparse
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray
from scipy import stats

import psgld

SHAPE, RANK = (12, 10), 2
DRAWS, BINS = 39, 10
QUANTITIES = ("μ of a cell", "μ of another", "sum of a row", "sum of all", "log likelihood")

MODELS = {
    "Poisson": psgld.FactorModel(RANK, psgld.Poisson(), psgld.Exponential(1.0), psgld.Exponential(1.0)),
    "Gaussian": psgld.FactorModel(RANK, psgld.Gaussian(phi=0.5), psgld.Normal(1.0), psgld.Normal(1.0)),
    "compound Poisson": psgld.FactorModel(
        RANK, psgld.CompoundPoisson(phi=0.5), psgld.Exponential(1.0), psgld.Exponential(1.0)
    ),
}
EXACT = {"Poisson": psgld.Gibbs(), "Gaussian": psgld.BPMFGibbs()}


def ranks(name: str, sampler: object, data_sets: int, thin: int, seed: int = 0) -> NDArray[np.int64]:
    """Return the ranks of the true quantities, one row a data set."""
    model = MODELS[name]

    def one(number: int) -> list[int]:
        rng = np.random.default_rng([seed, number])
        truth = _prior_draw(model, rng)
        V = model.likelihood.sample(truth, model.likelihood.phi, rng)
        post = psgld.sample(
            V, model, sampler=sampler, engine=psgld.Threads(1), chains=1, draws=DRAWS, tune=10 * thin, thin=thin,
            seed=number, progress=False,
        )  # fmt: skip
        drawn = [_quantities(model, V, w @ h) for w, h in zip(post.W[0], post.H[0], strict=True)]
        return list(np.sum(np.array(drawn) < _quantities(model, V, truth), axis=0))

    with ThreadPoolExecutor(psgld.Threads().workers) as pool:
        return np.array(list(pool.map(one, range(data_sets))))


def p_values(found: NDArray[np.int64]) -> dict[str, float]:
    """Return the chi-squared p-value of each quantity's ranks."""
    bins = found * BINS // (DRAWS + 1)
    counts = [np.bincount(column, minlength=BINS) for column in bins.T]
    return {q: float(stats.chisquare(c).pvalue) for q, c in zip(QUANTITIES, counts, strict=True)}


def _prior_draw(model: psgld.FactorModel, rng: np.random.Generator) -> NDArray[np.float64]:
    draw = rng.standard_exponential if model.nonnegative else rng.standard_normal
    return np.asarray(draw((SHAPE[0], RANK)) @ draw((RANK, SHAPE[1])))


def _quantities(model: psgld.FactorModel, V: NDArray[np.float64], mu: NDArray[np.float64]) -> list[float]:
    likelihood = float(np.sum(model.likelihood.kernel(V, np.maximum(mu, 1e-12) if model.nonnegative else mu)))
    return [float(mu[0, 0]), float(mu[3, 4]), float(mu[1].sum()), float(mu.sum()), likelihood]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data-sets", type=int, default=400)
    n = parser.parse_args().data_sets
    for name in MODELS:
        samplers = {"PSGLD": (psgld.PSGLD(), 200)}
        if name in EXACT:
            samplers[type(EXACT[name]).__name__] = (EXACT[name], 20)
        for label, (sampler, thin) in samplers.items():
            found = p_values(ranks(name, sampler, n, thin))
            print(f"{name:<17} {label:<10}", "  ".join(f"{q} {p:.3f}" for q, p in found.items()), flush=True)


if __name__ == "__main__":
    main()
