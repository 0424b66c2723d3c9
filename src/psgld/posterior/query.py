"""Active learning: the unobserved entries whose values would teach most.

    prediction  = Σ_t Cov(μ, μ_t)² / (Var[μ] + E[Var(v | μ, θ)]),   t the other candidates: see `reduction.py`
    information = ½ log(1 + Var[μ] / E[Var(v | μ, θ)])

is what observing v is expected to take from the variance of the predictions, and to tell about its own μ, in nats, for
normal v and μ; for other likelihoods it is that of the normal distributions with the same moments. "variance" is
Var[μ], whatever the noise. Entries are chosen one after the other: each is expected to reduce the variance of the
others by Cov² / (Var + noise), so that a batch does not ask the same question twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from ..checks import is_integer
from ..data.labels import LabelArray, find_labels, frame, named
from ..errors import DataError
from ..runs.draws import check_factors
from ..runs.result import Result
from ..system.table import table
from .predict import Floats, Prediction, check_seed
from .reduction import Reduction

CRITERIA = ("prediction", "information", "variance")

_MOST = 200_000
"""Unobserved cells that are considered: of more, a random sample."""

_SHORTLIST = 4
"""Candidates per entry to choose: those of the highest score."""

_DRAWS = 400
"""Draws that covariances are computed from."""

_SHOWN = 10


@final
@dataclass(frozen=True, eq=False)
class Query:
    """Entries to observe next, in the order in which they were chosen.

    Attributes
    ----------
    rows, cols : their labels.
    score : the criterion, given the entries before.
    mean, sd : posterior mean and standard deviation of μ.
    """

    rows: LabelArray
    cols: LabelArray
    score: Floats
    mean: Floats
    sd: Floats

    def to_frame(self) -> Any:
        """Return a pandas DataFrame, one line per entry."""
        return frame(self._columns(len(self)))

    def _columns(self, n: int) -> dict[str, list[Any]]:
        columns = {
            "row": self.rows,
            "column": self.cols,
            "score": self.score,
            "mean": self.mean,
            "sd": self.sd,
        }
        return {name: column[:n].tolist() for name, column in columns.items()}

    def __len__(self) -> int:
        return len(self.score)

    def __str__(self) -> str:
        more = f"\n… {len(self) - _SHOWN:,} more" if len(self) > _SHOWN else ""
        return table(self._columns(_SHOWN)) + more

    __repr__ = __str__


def query(posterior: Result, n: int, candidates: Any, by: str, seed: int) -> Query:
    """Return n entries to observe next; `Posterior.query` says what the arguments are."""
    check_factors(posterior.draws)
    if not is_integer(n) or n < 1:
        raise DataError(f"n must be an integer >= 1, got {n!r}")
    if by not in CRITERIA:
        raise DataError(f"by must be one of {', '.join(CRITERIA)}, got {by!r}")
    rows, cols = _candidates(posterior, candidates, check_seed(seed))
    p = Prediction(posterior.draws, posterior.model.likelihood, rows, cols)
    at, scores = _chosen(posterior, p, int(n), by)
    return Query(
        named(posterior.row_labels, rows[at]),
        named(posterior.col_labels, cols[at]),
        scores,
        p.mean[at],
        p.sd[at],
    )


def _chosen(posterior: Result, p: Prediction, n: int, by: str) -> tuple[NDArray[np.int64], Floats]:
    """Return the positions of n candidates, one after the other, and their scores."""
    rows, cols = p.rows, p.cols
    if by == "prediction":
        return Reduction(posterior, rows, cols, _noise(p)).choose(n)
    score = _score(p, by)
    short = np.argsort(-score, kind="stable")[: _SHORTLIST * n]
    nearby = Prediction(posterior.draws, posterior.model.likelihood, rows[short], cols[short])
    chosen, scores = _greedy(nearby, n, by)
    return short[chosen], scores


def _candidates(p: Result, given: Any, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the cells to choose from: those given, or all that were not observed."""
    if given is not None:
        if not (isinstance(given, tuple | list) and len(given) == 2):
            raise DataError(f"candidates must be a pair (rows, cols), got {given!r}")
        i = find_labels(p.row_labels, given[0], p.shape[0], "row")
        j = find_labels(p.col_labels, given[1], p.shape[1], "column")
        if len(i) != len(j) or not len(i):
            raise DataError(
                f"candidates need as many rows as columns, at least one; got {len(i)} and {len(j)}"
            )
        return i, j
    if p.seen is None or p.seen.absent == "zero":
        raise DataError(
            "all entries were observed, or which of them is not known; give candidates=(rows, cols)"
        )
    rng, (rows, width) = np.random.default_rng(seed), p.shape
    size = rows * width
    cells = np.arange(size) if size <= _MOST else np.unique(rng.integers(size, size=_MOST))
    i, j = np.divmod(cells, width)
    free = ~p.seen.holds(i, j, width)
    if not free.any():
        raise DataError("all entries were observed; give candidates=(rows, cols)")
    return i[free], j[free]


def _score(p: Prediction, by: str) -> Floats:
    """Return the criterion of each pair by itself."""
    return p.sd**2 if by == "variance" else 0.5 * np.log1p(p.sd**2 / _noise(p))


def _noise(p: Prediction) -> Floats:
    """Return E[Var(v | μ, θ)], above 0."""
    return np.asarray(np.maximum(p.new_sd**2 - p.sd**2, 1e-9 * p.new_sd**2 + 1e-300))


def _greedy(p: Prediction, n: int, by: str) -> tuple[NDArray[np.int64], Floats]:
    """Choose pairs one after the other, by the variance that is left given those before.

    A pair c explains Cov(μ_c, μ)² / (Var μ_c + noise_c) of the variances: the pivoted Cholesky decomposition of the
    covariance, with the noise on its diagonal.
    """
    draws = p.draws[:: -(-len(p.draws) // _DRAWS)]
    draws = (draws - draws.mean(axis=0)).astype(np.float32) / np.float32(np.sqrt(max(len(draws) - 1, 1)))
    noise, left = _noise(p), np.asarray(np.square(draws).sum(axis=0), np.float64)
    n = min(n, len(noise))
    explained = np.empty((n, len(noise)), np.float32)
    chosen, scores, free = np.empty(n, np.int64), np.empty(n), np.ones(len(noise), bool)
    for k in range(n):
        score = left if by == "variance" else 0.5 * np.log1p(left / noise)
        c = int(np.argmax(np.where(free, score, -np.inf)))
        chosen[k], scores[k], free[c] = c, score[c], False
        covariance = draws[:, c] @ draws - explained[:k, c] @ explained[:k]
        explained[k] = covariance / np.sqrt(left[c] + noise[c])
        left = np.maximum(left - np.square(explained[k], dtype=np.float64), 0.0)
    return chosen, scores
