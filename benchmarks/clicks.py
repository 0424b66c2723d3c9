"""Ranking of clicks with entry weights: `python -m benchmarks.clicks DIR`; DIR holds `ml-100k/u.data` (GroupLens).

Every rating is a click. The last click of each user is the test, the one before it is for validation. A method ranks
the items that the user has not clicked; the hit rate at 10 is the share of users whose test item is among the first
ten. The weight of a click, 1 to 40, is the one with the best hit rate on the validation items; the method is then
fitted to all clicks but the test. With `pip install implicit`, its ALS is measured in the same way. Neither the data
nor implicit is part of this project.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

import psgld

from .harness import Row

WEIGHTS = (1, 2, 5, 10, 20, 40)
RANK, BEST, SEEDS = 16, 10, 5

Index = NDArray[np.int64]


class Clicks(NamedTuple):
    """Clicks (users, items) to fit, and the item of each user to find."""

    users: Index
    items: Index
    target: Index
    shape: tuple[int, int]


Method = Callable[[Clicks, float], NDArray[Any]]
"""Returns the ten best items of each user, given the weight of a click; or several such tables."""


def read(folder: Path) -> tuple[Clicks, Clicks]:
    """Return the clicks for validation, and those for the test: `user item rating time`."""
    table = np.loadtxt(folder / "ml-100k" / "u.data", dtype=np.int64)
    table = table[np.lexsort((table[:, 3], table[:, 0]))]
    users, items = (np.unique(table[:, k], return_inverse=True)[1] for k in (0, 1))
    last = np.concatenate([np.flatnonzero(np.diff(users)), [len(users) - 1]])
    shape = (int(users.max()) + 1, int(items.max()) + 1)

    def without(places: Index, target: Index) -> Clicks:
        return Clicks(np.delete(users, places), np.delete(items, places), items[target], shape)

    return without(np.concatenate([last, last - 1]), last - 1), without(last, last)


def hits(clicks: Clicks, best: NDArray[Any]) -> NDArray[np.float64]:
    """Return for each user how often the target is among the best, over the tables."""
    found = (best == clicks.target[:, None]).any(axis=-1).astype(float)
    return np.asarray(found if found.ndim == 1 else found.mean(axis=0))


def bayesian(model: psgld.FactorModel) -> Method:
    """Return a method that ranks by the posterior mean."""

    def best(clicks: Clicks, weight: float) -> NDArray[Any]:
        ones = np.ones(len(clicks.users))
        data = psgld.Observations.from_coo(
            clicks.users, clicks.items, ones, clicks.shape, absent="zero", weights=weight * ones
        )
        post = psgld.sample(data, model, draws=100, chains=1, progress=False)
        return np.asarray(post.recommend(n=BEST).cols)

    return best


def als(clicks: Clicks, weight: float) -> NDArray[Any]:
    """Return the best items of implicit's ALS from several seeds."""
    from .peers.fits.implicit import best_items

    cells = sparse.csr_matrix(
        (np.ones(len(clicks.users), np.float32), (clicks.users, clicks.items)), shape=clicks.shape
    )
    tables = [best_items(cells, RANK, weight, seed, BEST) for seed in range(SEEDS)]
    return np.array(tables)


METHODS: dict[str, Method] = {
    "Bernoulli, biases": bayesian(psgld.FactorModel(RANK, "bernoulli", bias=True)),
    "Gaussian": bayesian(psgld.FactorModel(RANK, "gaussian")),
    "Poisson, GammaPrior(0.3)": bayesian(
        psgld.FactorModel(RANK, "poisson", psgld.GammaPrior(0.3), psgld.GammaPrior(0.3))
    ),
    "Poisson, Exponential()": bayesian(psgld.FactorModel(RANK, "poisson", psgld.Exponential())),
}


def measured(method: Method, validation: Clicks, test: Clicks) -> tuple[NDArray[np.float64], str]:
    """Return the hits of each user at the weight that is best on the validation items, and what was tried."""
    rates = {weight: float(hits(validation, method(validation, weight)).mean()) for weight in WEIGHTS}
    weight = max(rates, key=lambda w: rates[w])
    tried = ", ".join(f"{w}: {rate:.3f}" for w, rate in rates.items())
    return hits(test, method(test, weight)), f"weight {weight}; validation {tried}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.clicks", description=__doc__)
    parser.add_argument("folder", type=Path, metavar="DIR")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"some of: {'; '.join(METHODS)}")
    args = parser.parse_args()
    validation, test = read(args.folder)
    warnings.simplefilter("ignore")
    bar = None
    try:
        found, about = measured(als, validation, test)
        bar = float(found.mean() - _error(found))
        print(
            Row("implicit ALS: hit rate at 10", float(found.mean()), note=f"± {_error(found):.4f}; {about}")
        )
    except ImportError:
        print("implicit is not installed: no ALS to compare with")
    for name in args.names or METHODS:
        found, about = measured(METHODS[name], validation, test)
        note = f"± {_error(found):.4f}; {about}"
        print(Row(f"{name}: hit rate at 10", float(found.mean()), bar, least=True, note=note), flush=True)


def _error(found: NDArray[np.float64]) -> float:
    """Return the standard error of the hit rate."""
    rate = float(found.mean())
    return float(np.sqrt(rate * (1 - rate) / len(found)))


if __name__ == "__main__":
    main()
