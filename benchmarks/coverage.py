"""Do 90 % intervals hold 90 %? `python -m benchmarks.coverage [DIR]`, with the data of `real_data.py` in DIR.

    share of v inside = |[P(< v), P(≤ v)] ∩ [0.05, 0.95]| / P(= v)

For a density this is 0 or 1. A count, or an exact zero, has a probability of its own, and an interval that must take
all of it or nothing would hold too much by construction: of such a value as much is counted as lies within the 5 %
and 95 % points. The plain share of values within `interval(0.9)` is printed beside it.
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
from psgld.datasets import synthetic

from . import real_data
from .harness import Row

_MOST = 20_000
"""Entries that are looked at: the standard error is below 0.3 %."""


def share_inside(p: psgld.Prediction, values: Any, level: float = 0.9) -> Any:
    """Return the share of each value that lies between the ends of its interval."""
    low, high = (1 - level) / 2, (1 + level) / 2
    below, upto = 1 - p.exceeds(np.nextafter(values, -np.inf)), 1 - p.exceeds(values)
    inside = np.minimum(upto, high) - np.maximum(below, low)
    wide = upto - below > 1e-9
    return np.where(wide, np.clip(inside, 0, None) / np.where(wide, upto - below, 1), inside >= 0)


def rows(name: str, post: psgld.Posterior, test: tuple[Any, Any, Any], seconds: float) -> Iterator[Row]:
    some = np.random.default_rng(0).permutation(len(test[2]))[:_MOST]
    i, j, values = (np.asarray(a)[some] for a in test)
    p = post.predict(i, j)
    low, high = p.interval(0.9)
    plain = 100 * float(np.mean((low <= values) & (values <= high)))
    covered = 100 * float(np.mean(share_inside(p, values)))
    note = f"plain {plain:.1f} %, {len(values):,} entries, {seconds:.0f} s"
    yield Row(f"{name}: % in the 90 % intervals", covered, 88.0, least=True, note=note)
    yield Row(f"{name}: the same", covered, 92.0)


def fitted(name: str, train: Any, model: psgld.FactorModel, test: Any) -> Iterator[Row]:
    start = time.perf_counter()
    post = psgld.sample(train, model, progress=False)
    yield from rows(name, post, test, time.perf_counter() - start)


def made_up(member: str) -> Iterator[Row]:
    train, test = synthetic(300, 200, 4, member, seed=1).V.split(0.2, seed=0)
    test = tuple(np.asarray(a)[:4000] for a in test)
    yield from fitted(f"synthetic {member}", train, psgld.FactorModel(4, member), test)


def kos(folder: Path) -> Iterator[Row]:
    """All cells of KOS are counts, most of them zero: a random tenth of the cells is held out, zeros among them."""
    X = real_data.kos(folder).tocsr()[:1000].toarray().astype(np.float32)
    X = X[:, X.sum(axis=0) >= 5]
    held_out = np.random.default_rng(0).random(X.shape) < 0.1
    i, j = np.nonzero(held_out)
    train = np.where(held_out, np.nan, X)
    yield from fitted("KOS, 1,000 posts", train, psgld.FactorModel(20, "poisson"), (i, j, X[i, j]))


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.coverage", description=__doc__.splitlines()[0]
    )
    parser.add_argument("folder", type=Path, metavar="DIR", nargs="?")
    folder = parser.parse_args().folder
    warnings.simplefilter("ignore")
    tables = [made_up("gamma"), made_up("compound-poisson")]
    if folder is not None and (folder / "ml-100k" / "u.data").exists():
        train, test = real_data.movielens_100k(folder).split(0.1, seed=0)
        tables.append(fitted("MovieLens-100K", train, psgld.FactorModel(32, "gaussian", bias=True), test))
    if folder is not None and (folder / "docword.kos.txt.gz").exists():
        tables.append(kos(folder))
    for table in tables:
        for row in table:
            print(row, flush=True)


if __name__ == "__main__":
    main()
