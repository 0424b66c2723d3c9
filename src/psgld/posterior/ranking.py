"""How well recommendations find the entries that were held out.

    DCG@k = Σ_{r ≤ k} [the r-th is relevant] / log2(r + 1),   NDCG@k = DCG@k / (the largest DCG@k)

Recall is the share of a row's relevant columns among its first k, the hit rate the share of rows with one or more
among them. All columns are ranked by E[μ] but those that were in the data. Means are over the rows with a relevant
entry.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np

from ..checks import is_integer, is_number
from ..data.cells import Cells
from ..data.labels import find_labels, named
from ..errors import DataError
from ..runs.result import Result
from .predict import Floats

_ROWS = 10_000
"""Rows ranked at a time."""


@final
@dataclass(frozen=True)
class Ranking:
    """Scores of the k first recommendations over the rows, as pairs (value, standard error)."""

    k: int
    rows: int
    ndcg: tuple[float, float]
    recall: tuple[float, float]
    hit_rate: tuple[float, float]

    def to_dict(self) -> dict[str, Any]:
        """Return the scores, serialisable as JSON."""
        record: dict[str, Any] = {"k": self.k, "ranked_rows": self.rows}
        for name in ("ndcg", "recall", "hit_rate"):
            record[name], record[f"{name}_se"] = getattr(self, name)
        return record

    def __str__(self) -> str:
        names = {"NDCG": self.ndcg, "recall": self.recall, "hit rate": self.hit_rate}
        words = (f"{name}@{self.k}".ljust(15) + f"{x:.4g} ± {se:.2g}" for name, (x, se) in names.items())
        return "\n".join(words) + f"   over {self.rows:,} rows"


def ranking(posterior: Result, cells: Cells, k: int = 10, relevant: float | None = None) -> Ranking:
    """Rank the columns of each row with relevant entries: those of a value of at least `relevant`, or all."""
    if not is_integer(k) or k < 1:
        raise DataError(f"k must be an integer >= 1, got {k!r}")
    if relevant is not None and not is_number(relevant):
        raise DataError(f"relevant must be a number, got {relevant!r}")
    width, k = posterior.shape[1], min(int(k), posterior.shape[1])
    good = np.ones(len(cells), bool) if relevant is None else cells.values >= relevant
    wanted = np.unique(cells.rows[good] * width + cells.cols[good])
    rows, number = np.unique(wanted // width, return_counts=True)
    if not len(rows):
        raise DataError(f"no entry has a value >= {relevant}; give a lower relevant")
    gain = 1.0 / np.log2(np.arange(2, k + 2))
    best = np.concatenate([[0.0], np.cumsum(gain)])
    found = np.zeros((3, len(rows)))
    for first in range(0, len(rows), _ROWS):
        at = slice(first, first + _ROWS)
        hits = _hits(posterior, rows[at], k, wanted)
        found[:, at] = (
            hits @ gain / best[np.minimum(number[at], k)],
            hits.sum(axis=1) / number[at],
            hits.any(axis=1),
        )
    se = found.std(axis=1, ddof=min(1, len(rows) - 1)) / np.sqrt(len(rows))
    scores = ((float(x), float(e)) for x, e in zip(found.mean(axis=1), se, strict=True))
    return Ranking(k, len(rows), *scores)


def _hits(posterior: Result, rows: Any, k: int, wanted: Any) -> Floats:
    """Return whether each of the k best columns of each row is wanted, (rows, k)."""
    from .recommend import recommend

    found = recommend(posterior, named(posterior.row_labels, rows), k)
    there = ~np.isnan(found.score)
    cols = np.zeros(there.shape, np.int64)
    cols[there] = find_labels(posterior.col_labels, found.cols[there], posterior.shape[1], "column")
    return np.asarray(np.isin(rows[:, None] * posterior.shape[1] + cols, wanted) & there, np.float64)
