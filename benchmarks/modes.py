"""Do chains agree on real data, and at the best mode? `python -m benchmarks.modes DIR`, with DIR as in `real_data.py`.

For digits (Poisson, K = 10), KOS (Poisson, K = 20) and a piano's power spectrogram (gamma, K = 8):

    R-hat of μ at 50 cells, of four chains that start at the best of eight short ones
    mean log p(V | W, H) of their draws - that of the best of 16 single chains of the same length
    held-out log density per entry of the stacked chains - that of equal weights, and - that of the best chain

The second is compared with its Monte Carlo error; the third is of four chains from random starts, which differ.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import psgld

from . import real_data, real_sets
from .harness import Row

Floats = NDArray[np.float64]

_DRAWS = 20
"""Draws of each chain at which the likelihood of all entries is computed."""


def digits(_: Path) -> tuple[Any, psgld.FactorModel]:
    """Return the images of scikit-learn's digits, 1,797 × 64 counts."""
    from sklearn.datasets import load_digits

    return psgld.observations(load_digits().data), psgld.FactorModel(10, "poisson")


def words(folder: Path) -> tuple[Any, psgld.FactorModel]:
    """Return the counts of words of KOS."""
    counts = psgld.Observations.from_sparse(real_data.kos(folder), absent="zero")
    return counts, psgld.FactorModel(20, "poisson")


def spectrogram(folder: Path) -> tuple[Any, psgld.FactorModel]:
    """Return the power spectrogram of five seconds of piano."""
    return psgld.observations(real_sets.piano(folder)), psgld.FactorModel(8, "gamma")


SETS = {"digits": digits, "KOS": words, "piano": spectrogram}


def log_likelihoods(post: psgld.Posterior, data: psgld.Observations) -> Floats:
    """Return log p(V | W, H, θ) of some draws of each chain, (chains, draws); absent entries of KOS are zeros."""
    chosen = np.linspace(0, post.draws.phi.shape[1] - 1, _DRAWS).astype(int)
    some = replace(post, draws=post.draws.each(lambda x: x[:, chosen]))
    return psgld.log_likelihood(some, data)


def error_of_mean(x: Floats) -> float:
    """Return the Monte Carlo error of the mean of a trace, from its halves' means and its autocorrelation."""
    from arviz_stats.base import array_stats

    ess = float(array_stats.ess(x[None], chain_axis=1, draw_axis=2, method="mean")[0])
    return float(x.std(ddof=1) / np.sqrt(max(ess, 1.0)))


def rows(name: str, folder: Path, chains: int = 4, singles: int = 16) -> Iterator[Row]:
    data, model = SETS[name](folder)
    begin = time.perf_counter()
    post = psgld.sample(data, model, chains=chains, starts=8, progress=False)
    seconds = time.perf_counter() - begin
    diagnosed = post.diagnose()
    mu = float(np.nanmax(diagnosed.rhat[1:]))
    yield Row(f"{name}: largest R-hat of μ", mu, 1.05, note=f"{chains} chains, 8 starts, {seconds:.0f} s")
    ours = log_likelihoods(post, data)
    begin = time.perf_counter()
    single = log_likelihoods(psgld.sample(data, model, chains=singles, seed=1, progress=False), data)
    alone = time.perf_counter() - begin
    best = single[single.mean(axis=1).argmax()]
    error = float(np.hypot(error_of_mean(ours), error_of_mean(best[None])))
    lowest = single.mean(axis=1).min()
    yield Row(
        f"{name}: log-likelihood - best of {singles}, in errors",
        (ours.mean() - best.mean()) / error,
        -2.0,
        least=True,
        note=f"{ours.mean():,.0f}; of {singles} {lowest:,.0f} to {best.mean():,.0f}, {alone:.0f} s; error {error:,.0f}",
    )
    yield from stacked(name, data, model)


def stacked(name: str, data: psgld.Observations, model: psgld.FactorModel) -> Iterator[Row]:
    """Weigh chains from random starts by one half of the held-out entries, and score them by the other."""
    train, (i, j, v) = data.split(0.1, seed=0)
    post = psgld.sample(train, model, chains=4, progress=False)
    half = np.random.default_rng(0).random(len(v)) < 0.5
    weighed = post.stack((i[half], j[half], v[half]))
    rest = i[~half], j[~half], v[~half]

    def density(p: Any) -> float:
        return float(np.mean(p.predict(*rest[:2]).log_density(rest[2])))

    one = [density(replace(post, draws=post.draws.each(lambda x, c=c: x[c : c + 1]))) for c in range(4)]
    ours, equal = density(weighed), density(post)
    about = f"weights {np.round(weighed.settings['stacking']['weights'], 2).tolist()}"
    yield Row(f"{name}: stacked - equal weights, nats per entry", ours - equal, 0.0, least=True, note=about)
    yield Row(f"{name}: stacked - best chain, nats per entry", ours - max(one), 0.0, least=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.modes", description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, metavar="DIR")
    parser.add_argument("--only", choices=tuple(SETS), action="append")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in given.only or SETS:
        for row in rows(name, given.folder):
            print(row, flush=True)


if __name__ == "__main__":
    main()
