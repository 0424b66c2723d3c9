"""The result of `recommend`: a table of labels, scores, means and intervals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np

from ..data.labels import LabelArray, frame
from ..system.table import table
from .predict import Floats, Prediction

_SHOWN = 5
"""Rows that `print` shows."""


@final
@dataclass(frozen=True, eq=False)
class Recommendations:
    """The n best columns of each row, best first. If a row has fewer candidates, its last scores are NaN.

    Attributes
    ----------
    rows : labels of the rows, shape (m,).
    cols : labels of the columns, shape (m, n); "" or -1 if there is no candidate.
    score : score of the policy, shape (m, n).
    mean, sd : posterior mean and standard deviation of μ, shape (m, n).
    pairs : the predictions at all of them, row after row.
    """

    rows: LabelArray
    cols: LabelArray
    score: Floats
    mean: Floats
    sd: Floats
    pairs: Prediction

    def interval(self, level: float = 0.9) -> tuple[Floats, Floats]:
        """Return (low, high), (m, n) each, between which a new observation lies with the given probability."""
        there = ~np.isnan(self.score)
        low, high = np.full((2, *there.shape), np.nan)
        low[there], high[there] = self.pairs.interval(level)
        return low, high

    def records(self, level: float = 0.9) -> dict[str, list[Any]]:
        """Return columns of a long table: row, rank (from 1), column, score, mean, sd, low, high."""
        there = ~np.isnan(self.score)
        m, at = np.nonzero(there)
        low, high = self.pairs.interval(level)
        return {
            "row": self.rows[m].tolist(),
            "rank": (at + 1).tolist(),
            "column": self.cols[there].tolist(),
            "score": self.score[there].tolist(),
            "mean": self.mean[there].tolist(),
            "sd": self.sd[there].tolist(),
            "low": low.tolist(),
            "high": high.tolist(),
        }

    def to_frame(self, level: float = 0.9) -> Any:
        """Return the same as a pandas DataFrame, one line per recommendation."""
        return frame(self.records(level))

    def __len__(self) -> int:
        return len(self.rows)

    def __str__(self) -> str:
        last = int((~np.isnan(self.score[:_SHOWN])).sum())
        few = {name: column[:last] for name, column in self.records().items()}
        more = f"\n… {len(self) - _SHOWN:,} more rows" if len(self) > _SHOWN else ""
        return table(few) + more

    __repr__ = __str__
