"""Accuracy of the defaults on real data: `python -m benchmarks.real_data DIR`.

DIR holds `ml-1m.zip` (GroupLens), `docword.kos.txt.gz` (UCI bag of words), and perhaps `ml-100k/u.data`. None of them
is part of this project.
"""

from __future__ import annotations

import argparse
import gzip
import time
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import gammaln

import psgld

from .harness import Row

_HELD_OUT = 0.1
_PLAIN, _SMOOTHED = "", ", smoothed"
_FLOORS = {_PLAIN: (1e-6, 1e-8, 1e-10), _SMOOTHED: (1e-2, 3e-3, 1e-3, 1e-4)}
"""A maximum-likelihood mean of 0 would lose everything at one word: least values of μ, tiny ones and generous ones."""
_LIMIT = 40.0


def movielens_1m(folder: Path) -> psgld.Observations:
    """Read the ratings of MovieLens-1M."""
    return psgld.datasets.movielens("1m", folder)


def movielens_100k(folder: Path) -> psgld.Observations:
    """Read the ratings of MovieLens-100K."""
    return psgld.datasets.movielens("100k", folder)


def kos(folder: Path) -> sparse.csr_array:
    """Read the counts of words in posts."""
    with gzip.open(folder / "docword.kos.txt.gz", "rt") as lines:
        docs, words, _ = (int(next(lines)) for _ in range(3))
        table = np.loadtxt(lines, dtype=np.int64)
    return sparse.csr_array((table[:, 2], (table[:, 0] - 1, table[:, 1] - 1)), shape=(docs, words))


def ratings(name: str, data: psgld.Observations, barred: bool) -> Iterator[Row]:
    """Fit nine tenths of the ratings with the defaults, and predict the rest; once more with fewer draws."""
    train, (rows, cols, values) = data.split(_HELD_OUT, seed=0)
    model = psgld.FactorModel(32, "gaussian", bias=True)

    def fit(**options: Any) -> tuple[psgld.Posterior, psgld.Prediction, float, float]:
        start = time.perf_counter()
        post = psgld.sample(train, model, progress=False, **options)
        prediction = post.predict(rows, cols)
        error = np.clip(prediction.mean, 1, 5) - values
        return post, prediction, float(np.sqrt(np.mean(error**2))), time.perf_counter() - start

    _, _, rmse, seconds = fit(draws=50)
    yield Row(f"{name}, 50 draws: test RMSE", rmse, 0.834 if barred else None)
    yield Row(f"{name}, 50 draws: seconds", seconds, 10.0 if barred else None)
    post, prediction, rmse, seconds = fit()
    low, high = prediction.interval(0.9)
    covered = 100 * float(np.mean((low <= values) & (values <= high)))
    settings = post.settings
    about = (
        f"B={settings['blocks']}, tune={settings['tune']}, thin={settings['thin']}, halved={post.divergences}"
    )
    yield Row(f"{name}: test RMSE", rmse, 0.833 if barred else None, note=about)
    yield Row(f"{name}: % in the 90 % intervals", covered, 88.0 if barred else None, least=True)
    yield Row(f"{name}: the same", covered, 93.0 if barred else None)
    yield Row(f"{name}: seconds", seconds, _LIMIT if barred else None)


def bpmf(name: str, data: psgld.Observations) -> Iterator[Row]:
    """Fit BPMF (normal–Wishart priors, no biases) by both samplers with their defaults: one model, one answer."""
    train, (rows, cols, values) = data.split(_HELD_OUT, seed=0)
    model = psgld.FactorModel(32, "gaussian", psgld.NormalWishart())
    found: dict[str, float] = {}
    for kind, sampler in {"Gibbs": psgld.BPMFGibbs(), "PSGLD": psgld.PSGLD()}.items():
        start = time.perf_counter()
        post = psgld.sample(train, model, sampler=sampler, progress=False)
        seconds = time.perf_counter() - start
        error = np.clip(post.predict(rows, cols).mean, 1, 5) - values
        found[kind] = float(np.sqrt(np.mean(error**2)))
        about = f"tune={post.settings['tune']}, thin={post.settings['thin']}, halved={post.divergences}"
        yield Row(f"{name}: BPMF by {kind}, test RMSE", found[kind], note=about)
        yield Row(f"{name}: BPMF by {kind}, seconds", seconds)
    yield Row(f"{name}: BPMF, RMSE of PSGLD - Gibbs, either way", abs(found["PSGLD"] - found["Gibbs"]), 0.003)


def counts(X: sparse.csr_array) -> Iterator[Row]:
    """Thin the counts: a tenth of them is held out, so train ~ Poisson(0.9 μ) and test ~ Poisson(0.1 μ)."""
    kept = np.random.default_rng(0).binomial(X.data, 1 - _HELD_OUT)
    train, test = X.copy(), X.copy()
    train.data, test.data = kept, X.data - kept
    train.eliminate_zeros()
    test.eliminate_zeros()
    data = psgld.Observations.from_sparse(train, absent="zero")
    test = test.tocoo()
    words = float(test.sum())
    nmf = _best_nmf(train, test)
    for name, prior, barred in (
        ("", psgld.GammaPrior(), _SMOOTHED),
        (", exponential", psgld.Exponential(), _PLAIN),
    ):
        start = time.perf_counter()
        post = psgld.sample(data, psgld.FactorModel(20, "poisson", prior, prior), progress=False)
        seconds = time.perf_counter() - start
        total = float(
            (post.draws.W.sum(axis=2, dtype=float) * post.draws.H.sum(axis=2, dtype=float)).sum(-1).mean()
        )
        ours = _score(test, post.predict(test.row, test.col).mean, total)
        for kind, (theirs, about) in nmf.items():
            yield Row(
                f"KOS{name}: log-likelihood a word, psgld - NMF{kind}",
                (ours - theirs) / words,
                0.0 if kind == barred else None,
                least=True,
                note=f"{ours / words:.4f}, {theirs / words:.4f} ({about})",
            )
        yield Row(
            f"KOS{name}: seconds", seconds, note=f"B={post.settings['blocks']}, halved={post.divergences}"
        )


def _score(test: sparse.coo_array, mean: NDArray[np.float64], total: float) -> float:
    """Return Σ log Poisson(v | r μ) over all cells, from μ at the test counts and Σμ; r = 0.1 / 0.9."""
    ratio = _HELD_OUT / (1 - _HELD_OUT)
    return float(np.sum(test.data * np.log(ratio * mean) - gammaln(test.data + 1.0)) - ratio * total)


def _best_nmf(train: sparse.csr_array, test: sparse.coo_array) -> dict[str, tuple[float, str]]:
    """Return the best scores of scikit-learn's KL-NMF over starts and floors of μ: chosen on the test data."""
    from sklearn.decomposition import NMF

    best = dict.fromkeys(_FLOORS, (-np.inf, ""))
    for init in ("nndsvda", "random"):
        nmf = NMF(
            20, init=init, solver="mu", beta_loss="kullback-leibler", max_iter=1000, tol=1e-5, random_state=0
        )
        W, H = nmf.fit_transform(train.astype(np.float64)), nmf.components_
        mean = np.einsum("nk,kn->n", W[test.row], H[:, test.col])
        for kind, floors in _FLOORS.items():
            for floor in floors:
                # The floor lifts every cell: those that are not in the test data pay for it.
                total = sum(float(np.maximum(W[i : i + 500] @ H, floor).sum()) for i in range(0, len(W), 500))
                score = _score(test, np.maximum(mean, floor), total)
                best[kind] = max(best[kind], (score, f"{init}, {nmf.n_iter_} iterations, floor {floor:g}"))
    return best


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.real_data", description=__doc__)
    parser.add_argument("folder", type=Path, metavar="DIR")
    folder = parser.parse_args().folder
    large = movielens_1m(folder)
    tables = [ratings("MovieLens-1M", large, True), counts(kos(folder)), bpmf("MovieLens-1M", large)]
    if (folder / "ml-100k" / "u.data").exists():
        small = movielens_100k(folder)
        tables += [ratings("MovieLens-100K", small, False), bpmf("MovieLens-100K", small)]
    for row in chain.from_iterable(tables):
        print(row, flush=True)


if __name__ == "__main__":
    main()
