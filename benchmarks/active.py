"""Does active learning beat random choice? `python -m benchmarks.active [DIR] [--seeds 5]`, with DIR/ml-100k/u.data.

A tenth of the entries is the test, a tenth of the others is known at the start. In each of ten rounds a policy chooses
as many more as a tenth of that, and the posterior is updated. The last column is the test RMSE after the last round.
Data: a synthetic 200 × 150 Gaussian matrix of rank 5, and MovieLens-100K (GroupLens), which is no part of this project.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import psgld

_ROUNDS = 10
_POLICIES = ("random", "prediction", "information", "variance")

Index = NDArray[np.int64]


class Pool(NamedTuple):
    """Entries, their shape, and the model that suits them."""

    rows: Index
    cols: Index
    values: NDArray[np.float64]
    shape: tuple[int, int]
    model: psgld.FactorModel

    def some(self, at: Index) -> psgld.Observations:
        """Return some of the entries as data."""
        return psgld.Observations.from_coo(
            self.rows[at], self.cols[at], self.values[at], self.shape, absent="unobserved"
        )


def synthetic(seed: int) -> Pool:
    """Return a complete matrix of rank 5, with noise as large as a component."""
    rng, (rows, cols) = np.random.default_rng([seed, 1]), (200, 150)
    V = rng.normal(size=(rows, 5)) @ rng.normal(size=(5, cols)) + rng.normal(size=(rows, cols))
    i, j = (x.ravel() for x in np.indices(V.shape))
    return Pool(i, j, V.ravel(), V.shape, psgld.FactorModel(5, "gaussian"))


def movielens(folder: Path) -> Pool:
    """Return `user item rating time`."""
    table = np.loadtxt(folder / "ml-100k" / "u.data", dtype=np.int64)
    users, items = table[:, 0] - 1, table[:, 1] - 1
    shape = (int(users.max()) + 1, int(items.max()) + 1)
    return Pool(users, items, table[:, 2].astype(float), shape, psgld.FactorModel(8, "gaussian", bias=True))


def learn(pool: Pool, policy: str, seed: int) -> list[float]:
    """Return the test RMSE at the start and after each round."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(pool.values))
    tenth = len(order) // 10
    test, others = order[:tenth], order[tenth:]
    first = len(others) // 10
    known, left = others[:first], others[first:]
    post = psgld.sample(pool.some(known), pool.model, draws=200, tune=1000, thin=10, chains=1, seed=seed)
    errors = [rmse(post, pool, test)]
    for turn in range(1, _ROUNDS + 1):
        at = chosen(post, pool, left, first // _ROUNDS, policy, rng)
        known, left = np.concatenate([known, left[at]]), np.delete(left, at)
        options: dict[str, Any] = {"draws": 200, "tune": 400, "thin": 10}
        post = post.update(pool.some(known), seed=100 * seed + turn, **options)
        errors.append(rmse(post, pool, test))
    return errors


def chosen(
    post: psgld.Posterior, pool: Pool, left: Index, n: int, policy: str, rng: np.random.Generator
) -> Index:
    """Return the positions in `left` of the entries to observe next."""
    if policy == "random":
        return rng.choice(len(left), n, replace=False)
    rows, cols = pool.rows[left], pool.cols[left]
    found = post.query(n, candidates=(rows, cols), by=policy)
    cells, wanted = (np.asarray(i) * pool.shape[1] + j for i, j in ((rows, cols), (found.rows, found.cols)))
    order = np.argsort(cells)
    return np.asarray(order[np.searchsorted(cells, wanted, sorter=order)])


def rmse(post: psgld.Posterior, pool: Pool, test: Index) -> float:
    error = pool.values[test] - post.predict(pool.rows[test], pool.cols[test]).mean
    return float(np.sqrt(np.mean(error**2)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--policies", default=",".join(_POLICIES))
    args = parser.parse_args()
    warnings.simplefilter("ignore", psgld.PsgldWarning)
    sets: dict[str, Any] = {"synthetic": synthetic}
    if args.folder is not None:
        pool = movielens(args.folder)
        sets["MovieLens-100K"] = lambda _: pool
    for name, make in sets.items():
        for seed in range(args.seeds):
            ends = {p: learn(make(seed), p, seed) for p in args.policies.split(",")}
            start = next(iter(ends.values()))[0]
            words = ", ".join(f"{policy} {errors[-1]:.4f}" for policy, errors in ends.items())
            print(f"{name:15} seed {seed}: at the start {start:.4f}; {words}", flush=True)


if __name__ == "__main__":
    main()
