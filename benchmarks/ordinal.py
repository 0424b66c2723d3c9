"""`Ordinal()` and `Gaussian()` on star ratings: `python -m benchmarks.ordinal DIR`, with the data of `real_data.py`.

Nine tenths of the ratings are fitted with the defaults, one chain; of the others, both models are asked for the
probability of each star. That of the Gaussian is its mass from half a star below to half a star above, without end
at the first and last star.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import psgld

from . import real_data
from .harness import Row


def fit(train: Any, rank: int, likelihood: str) -> tuple[psgld.Posterior, float]:
    """Return the posterior, and seconds of the processor."""
    start = time.process_time()
    model = psgld.FactorModel(rank, likelihood, bias=True)
    return psgld.sample(train, model, chains=1, progress=False), time.process_time() - start


def log_mass(p: psgld.Prediction, values: Any, stars: Any) -> Any:
    """Return the log probability of each star under a density."""
    middles = np.concatenate([[-1e9], (stars[1:] + stars[:-1]) / 2, [1e9]])
    at = np.searchsorted(stars, values)
    return np.log(p.exceeds(middles[at]) - p.exceeds(middles[at + 1]))


def compared(name: str, data: psgld.Observations, rank: int) -> Iterator[Row]:
    train, (rows, cols, values) = data.split(0.1, seed=0)
    stars, name = np.unique(values), f"{name}, rank {rank}"
    (gaussian, seconds), (ordinal, more) = (fit(train, rank, x) for x in ("gaussian", "ordinal"))
    a, b = (post.predict(rows, cols) for post in (gaussian, ordinal))
    masses = log_mass(a, values, stars).mean(), b.log_density(values).mean()
    rmse = [float(np.sqrt(np.mean((np.clip(p.mean, stars[0], stars[-1]) - values) ** 2))) for p in (a, b)]
    note = f"{masses[1]:.4f} and {masses[0]:.4f}"
    yield Row(f"{name}: log mass, ordinal - Gaussian", masses[1] - masses[0], 0.0, least=True, note=note)
    note = f"{rmse[1]:.4f} and {rmse[0]:.4f}"
    yield Row(f"{name}: RMSE, ordinal - Gaussian", rmse[1] - rmse[0], 0.003, note=note)
    low, high = b.interval(0.9)
    covered = 100 * float(np.mean((low <= values) & (values <= high)))
    yield Row(f"{name}: % in the 90 % intervals", covered, 90.0, least=True)
    yield Row(f"{name}: the same", covered, 96.0)
    on_scale = 100 * float(np.isin([low, high], stars).mean())
    yield Row(f"{name}: % of the ends on the scale", on_scale, 100.0, least=True)
    note = f"{more:.1f} and {seconds:.1f} s of the processor"
    yield Row(f"{name}: time, ordinal / Gaussian", more / seconds, 1.5, note=note)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ordinal", description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, metavar="DIR")
    parser.add_argument("--rank", type=int, nargs="+", default=[16, 32])
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    for name, read in (("ML-100K", real_data.movielens_100k), ("ML-1M", real_data.movielens_1m)):
        data = read(args.folder)
        for rank in args.rank:
            for row in compared(name, data, rank):
                print(row, flush=True)


if __name__ == "__main__":
    main()
