"""Which prior of non-negative factors? `python -m benchmarks.shapes DIR [--sets …] [--shapes …]`: held-out log density.

Gamma priors of several given shapes (shape 1 is `Exponential()`) and of learnt shape, the same for both factors, rates
learnt, defaults otherwise. Of a matrix, a tenth of the entries is held out; of the words of KOS, a tenth of the words.
Printed is the mean log density per held-out entry (or word), the difference to the first shape with its standard error
over entries (of words, over documents), and the learnt shapes. DIR holds what
`real_data.py` and `real_sets.py` read; without it, only the sets that scikit-learn ships.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import gammaln

import psgld

from . import real_data
from .real_sets import SETS, Split

Floats = NDArray[np.float64]

PRIORS = {
    "learnt": psgld.GammaPrior(),
    "1": psgld.Exponential(),
    **{f"{a:g}": psgld.GammaPrior(a) for a in (0.2, 0.1, 0.3, 0.5, 0.7)},
}

CASES: dict[str, tuple[str, str, int]] = {
    "KOS, words": ("", "poisson", 20),
    "digits": ("digits", "poisson", 10),
    "piano, power": ("piano, power", "gamma", 8),
    "piano, magnitude": ("piano, magnitude", "gamma", 8),
    "MovieLens-100K": ("MovieLens-100K", "poisson", 16),
    "breast cancer": ("breast cancer", "compound-poisson", 5),
    "wine": ("wine", "gamma", 5),
}
"""The set, the likelihood and the rank."""

Scores = Callable[[psgld.Posterior], Floats]
"""The log density of each of some independent held-out pieces, by a posterior."""


def of_entries(split: Split) -> Scores:
    """Return the function that scores held-out entries, one by one."""
    return lambda post: post.predict(*split.test[:2]).log_density(split.test[2])


def thinned(X: sparse.csr_array) -> tuple[psgld.Observations, sparse.csr_array]:
    """Hold out a tenth of the words, as in `real_data.counts`."""
    kept = np.random.default_rng(0).binomial(X.data, 0.9)
    train, test = X.copy(), X.copy()
    train.data, test.data = kept, X.data - kept
    train.eliminate_zeros()
    test.eliminate_zeros()
    return psgld.Observations.from_sparse(train, absent="zero"), test


def of_words(test: sparse.csr_array) -> Scores:
    """Return the function that scores the held-out words of each document, by the posterior mean of μ."""
    at, ratio = test.tocoo(), 1 / 9

    def scores(post: psgld.Posterior) -> Floats:
        mean = post.predict(at.row, at.col).mean
        W, H = post.draws.W.astype(float), post.draws.H.sum(axis=2, dtype=float)
        total = np.einsum("csik,csk->i", W, H) / post.draws.phi.size
        terms = at.data * np.log(ratio * mean) - gammaln(at.data + 1.0)
        return np.asarray(np.bincount(at.row, terms, minlength=test.shape[0]) - ratio * total)

    return scores


def compare(name: str, folder: Path, labels: list[str], **options: Any) -> Iterator[str]:
    """Yield one line per prior."""
    source, likelihood, rank = CASES[name]
    if source:
        split = SETS[source](folder)
        data, scores, units = split.train, of_entries(split), float(len(split.test[2]))
    else:
        data, test = thinned(real_data.kos(folder))
        scores, units = of_words(test), float(test.sum())
    first: Floats | None = None
    for label in labels:
        prior = PRIORS[label]
        start = time.perf_counter()
        post = psgld.sample(
            data, psgld.FactorModel(rank, likelihood, prior, prior), progress=False, **options
        )
        seconds, found = time.perf_counter() - start, scores(post)
        first = found if first is None else first
        away, n = found - first, len(found)
        error = float(away.std() * np.sqrt(n) / units)
        shapes = [x.mean() for x in (post.draws.row_shape, post.draws.col_shape) if x is not None]
        yield (
            f"| {name} | {label} | {found.sum() / units:.4f} | {away.sum() / units:+.4f} ± {error:.4f} | "
            f"{', '.join(f'{x:.2f}' for x in shapes)} | {seconds:.0f} s |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.shapes", description=__doc__)
    parser.add_argument("folder", type=Path, metavar="DIR", nargs="?")
    parser.add_argument("--sets", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--shapes", nargs="+", choices=PRIORS, default=list(PRIORS))
    parser.add_argument("--chains", type=int, default=2)
    given = parser.parse_args()
    shipped = ("digits", "breast cancer", "wine")
    print(
        "| data | shape | log density | minus the first | learnt shapes of W, H | time |\n|---|---|---|---|---|---|"
    )
    for name in given.sets:
        if given.folder is not None or name in shipped:
            for line in compare(name, given.folder or Path(), given.shapes, chains=given.chains):
                print(line, flush=True)


if __name__ == "__main__":
    main()
