"""The report of MovieLens-100K: size of the page, time to make it, stability of the components.

    python -m benchmarks.report DATA [PAGE.html]

`make test-page PAGES=PAGE.html` then opens it in a headless browser. DATA is a folder with ml-100k/u.data.
"""

from __future__ import annotations

import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

import psgld
from psgld.posterior import align

RANK, DRAWS = 16, 600


def ratings(folder: Path) -> tuple[psgld.Observations, tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Return nine tenths of the ratings, and the others, whose users and films all have ratings among the first."""
    table = np.loadtxt(folder / "ml-100k" / "u.data", dtype=np.int64)
    users, films = (np.char.add(word, table[:, k].astype(str)) for k, word in enumerate(("user ", "film ")))
    values = table[:, 2].astype(float)
    held = np.zeros(len(table), bool)
    held[np.random.default_rng(0).permutation(len(table))[: len(table) // 10]] = True
    train = psgld.Observations.from_chunks([(users[~held], films[~held], values[~held])], absent="unobserved")
    held &= np.isin(users, train.row_labels) & np.isin(films, train.col_labels)
    return train, (users[held], films[held], values[held])


def stable(post: psgld.Posterior, rotate: bool) -> tuple[int, float]:
    """Return how many components are stable, and the mean stability, with principal axes or without."""
    found = post.components()
    if not rotate:
        forms = align._canonical_forms(post.draws, nonnegative=True)
        reference = align._mapped(post.draws, forms, (0, -1))
        _, means, _ = align._pass(post.draws, forms, reference, nonnegative=False)
        _, means, _ = align._pass(post.draws, forms, align._pooled(means), nonnegative=False)
        stability = align._stability(means, nonnegative=False)
    else:
        stability = found.stability
    return int((stability >= 0.9).sum()), float(stability.mean())


def main() -> None:
    """Sample, write the page, print figures."""
    folder = Path(sys.argv[1])
    page = Path(sys.argv[2]) if len(sys.argv) > 2 else Path(tempfile.mkdtemp()) / "report.html"
    train, test = ratings(folder)
    warnings.simplefilter("ignore", psgld.PsgldWarning)
    post = psgld.sample(train, psgld.FactorModel(RANK, "ordinal", bias=True), draws=DRAWS)
    for rotate in (True, False):
        count, mean = stable(post, rotate)
        name = "principal axes" if rotate else "order and sign only"
        print(f"{name:22} {count} of {RANK} components stable, mean stability {mean:.2f}")
    start = time.process_time()
    record = post.report(page, test, train, "MovieLens-100K: which films will users like?")
    print(
        f"page                   {record['bytes'] / 1e6:.2f} MB, {time.process_time() - start:.0f} s of processor time"
    )
    print(f"rows to look up        {record['rows']}")
    print(*record["said"], sep="\n")
    print(page)


if __name__ == "__main__":
    main()
