"""How well a posterior predicts entries: errors, densities, coverage, calibration, rankings, and their standard errors.

    RMSE² = mean (v - E[μ])²         log density = mean log E[p(v | μ, θ)]
    MAE = mean |v - E[μ]|            CRPS = mean (E|x - v| - ½ E|x - x'|),  x, x' new observations

Means are over the entries, weighted ones if these have weights; the standard error of a mean treats entries as
independent, and that of a root mean square follows by the delta method. Entries are processed in chunks, of which only
sums are kept.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from ..checks import is_number
from ..data.cells import Cells
from ..errors import DataError, warn
from ..runs.draws import check_factors
from ..runs.result import Result
from ..system.table import table
from .held_out import entries, stored_in
from .predict import Floats, Prediction
from .ranking import Ranking, ranking

LEVELS = (0.5, 0.8, 0.9, 0.95)
"""Levels of the intervals whose coverage is measured."""

QUANTILES = np.arange(1, 20) / 20
"""Predictive quantiles, below which that share of the values should lie."""

_DRAWN = 2_000_000
"""New observations held at a time."""


class Score(NamedTuple):
    """A score and its standard error."""

    value: float
    se: float

    def __str__(self) -> str:
        return f"{self.value:.4g} ± {self.se:.2g}"


@final
@dataclass(frozen=True, eq=False)
class Evaluation:
    """Scores over entries; `print` shows them as a table.

    Attributes
    ----------
    entries : number of entries.
    seen : how many of them were in the data that the posterior was sampled from.
    rmse, mae : of the posterior mean of μ.
    log_density : log predictive density of an entry (of discrete likelihoods, log probability).
    crps : continuous ranked probability score, in the unit of the values; the lower, the better.
    coverage : share of the entries in their interval, by level.
    calibration : share of the entries below their predictive quantile, by probability: that of the calibrated.
    baseline : mean of the values; `baseline_rmse` and `baseline_mae` are those of predicting it everywhere.
    ranking : NDCG, recall and hit rate of recommendations, or None.
    """

    entries: int
    seen: int
    rmse: Score
    mae: Score
    log_density: Score
    crps: Score
    coverage: dict[float, Score]
    calibration: dict[float, Score]
    baseline: float
    baseline_rmse: float
    baseline_mae: float
    ranking: Ranking | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the scores, serialisable as JSON: numbers, and lists of records for coverage and calibration."""
        record: dict[str, Any] = {"entries": self.entries, "seen": self.seen}
        for name in ("rmse", "mae", "log_density", "crps"):
            score = getattr(self, name)
            record |= {name: score.value, f"{name}_se": score.se}
        record["coverage"] = [
            {"level": level, "share": s.value, "se": s.se} for level, s in self.coverage.items()
        ]
        record["calibration"] = [
            {"probability": q, "share": s.value, "se": s.se} for q, s in self.calibration.items()
        ]
        record |= {name: getattr(self, name) for name in ("baseline", "baseline_rmse", "baseline_mae")}
        return record if self.ranking is None else record | self.ranking.to_dict()

    def __str__(self) -> str:
        always = f"always {self.baseline:.4g}"
        lines = [
            f"entries        {self.entries:,}" + (f", {self.seen:,} of them trained on" if self.seen else ""),
            f"RMSE           {self.rmse}   ({always}: {self.baseline_rmse:.4g})",
            f"MAE            {self.mae}   ({always}: {self.baseline_mae:.4g})",
            f"log density    {self.log_density}   per entry",
            f"CRPS           {self.crps}",
            *(
                f"coverage       {100 * s.value:.1f} ± {100 * s.se:.1f} % of them lie in their {level:.0%} intervals"
                for level, s in self.coverage.items()
            ),
        ]
        shown = [q for q in self.calibration if round(20 * q) in (1, 2, 5, 10, 15, 18, 19)]
        below = {f"{q:.0%}": [f"{100 * self.calibration[q].value:.1f} %"] for q in shown}
        lines += ["calibration    share of the entries below their predictive quantiles"]
        lines += [table({"quantile": ["below it"], **below}, "  ")]
        if self.ranking is not None:
            lines.append(str(self.ranking))
        return "\n".join(lines)

    __repr__ = __str__


def evaluate(
    posterior: Result,
    test: Any = None,
    levels: Any = LEVELS,
    k: int | None = None,
    relevant: float | None = None,
) -> Evaluation:
    """Score the predictions of entries; `Posterior.evaluate` says what the arguments are."""
    check_factors(posterior.draws)
    cells, levels = entries(posterior, test), _checked_levels(levels)
    if not len(cells):
        raise DataError("there are no entries to evaluate")
    posterior.model.check_values(cells.values)
    seen = int(np.count_nonzero(stored_in(posterior, cells)))
    if seen:
        warn(
            f"{seen:,} of the {len(cells):,} entries were in the data that the posterior was sampled from: it predicts "
            "these better than new ones; hold entries out with psgld.split"
        )
    sums = Means()
    for part, p in _parts(posterior, cells):
        sums.add(_scores(p, part.values, levels), part.weights)
    square, mae, density, ranked, *shares = sums.scores()
    baseline = float(np.average(cells.values, weights=cells.weights))
    away = cells.values - baseline
    rmse = math.sqrt(square.value)
    return Evaluation(
        entries=len(cells),
        seen=seen,
        rmse=Score(rmse, square.se / (2.0 * rmse) if rmse else 0.0),
        mae=mae,
        log_density=density,
        crps=ranked,
        coverage=dict(zip(levels, shares[: len(levels)], strict=True)),
        calibration=dict(zip(QUANTILES.tolist(), shares[len(levels) :], strict=True)),
        baseline=baseline,
        baseline_rmse=math.sqrt(np.average(away**2, weights=cells.weights)),
        baseline_mae=float(np.average(np.abs(away), weights=cells.weights)),
        ranking=None
        if k is None and relevant is None
        else ranking(posterior, cells, 10 if k is None else k, relevant),
    )


def _checked_levels(levels: Any) -> tuple[float, ...]:
    given = (levels,) if is_number(levels) else tuple(levels)
    for level in given:
        if not is_number(level) or not 0.0 < level < 1.0:
            raise DataError(f"levels must lie between 0 and 1, got {level!r}")
    return tuple(sorted({float(level) for level in given}))


def _parts(posterior: Result, cells: Cells) -> Iterator[tuple[Cells, Prediction]]:
    step = max(1, _DRAWN // posterior.draws.phi.size)
    for first in range(0, len(cells), step):
        part = cells.part(slice(first, first + step))
        yield part, Prediction(posterior.draws, posterior.model.likelihood, part.rows, part.cols)


def _scores(p: Prediction, v: Floats, levels: tuple[float, ...]) -> Floats:
    """Return (error², |error|, log density, CRPS, inside each interval, below each quantile) of each entry."""
    error = v - p.mean
    draws = np.sort(p.new_draws(), axis=0)
    inside = [(low <= v) & (v <= high) for low, high in (p.interval(level) for level in levels)]
    return np.stack(
        [error**2, np.abs(error), p.log_density(v), crps(draws, v), *inside, *_below(draws, v, QUANTILES)]
    )


def crps(draws: Floats, v: Floats) -> Floats:
    """Return E|x - v| - ½ E|x - x'| from sorted draws, (S, n): without the bias of few draws."""
    size = len(draws)
    rank = 2.0 * np.arange(1, size + 1) - size - 1.0
    apart = np.einsum("s,sn->n", rank, draws) / max(size * (size - 1), 1)
    return np.asarray(np.abs(draws - v).mean(axis=0) - apart)


def _below(draws: Floats, v: Floats, probabilities: Floats) -> Floats:
    """Return the share of each value below its predictive quantiles, (quantiles, n).

    A value has one of S + 1 ranks among the draws, or several if some are equal to it: its mass is spread over these
    (the non-randomised PIT of Czado, Gneiting, Held 2009).
    """
    ranks = len(draws) + 1.0
    low, high = (draws < v).sum(axis=0) / ranks, ((draws <= v).sum(axis=0) + 1) / ranks
    return np.asarray(np.clip((probabilities[:, None] - low) / (high - low), 0.0, 1.0))


@final
class Means:
    """Weighted means of several quantities and their standard errors, added up in chunks."""

    def __init__(self) -> None:
        self._count = self._total = self._squared = 0.0
        self._shift = self._sum = self._spread_sum = self._spread = np.zeros(0)

    def add(self, x: Floats, weights: NDArray[np.float64] | None = None) -> None:
        """Add (quantities, n) values."""
        w = np.ones(x.shape[1]) if weights is None else weights
        if not self._count:
            first = np.average(x, axis=1, weights=w)
            self._shift = np.where(np.isfinite(first), first, 0.0)
            self._sum, self._spread_sum, self._spread = np.zeros((3, len(x)))
        away = x - self._shift[:, None]
        self._count += x.shape[1]
        self._total += float(w.sum())
        self._squared += float((w**2).sum())
        with np.errstate(invalid="ignore"):
            self._sum = self._sum + away @ w
            self._spread_sum = self._spread_sum + away @ w**2
            self._spread = self._spread + away**2 @ w**2

    def scores(self) -> list[Score]:
        """Return the mean of each quantity, and its standard error: sqrt(Σ w² (x - mean)²) / Σ w."""
        with np.errstate(invalid="ignore"):
            mean = self._sum / self._total
            spread = self._spread - 2.0 * mean * self._spread_sum + mean**2 * self._squared
            few = self._count / max(self._count - 1.0, 1.0)
            se = np.sqrt(np.maximum(few * spread, 0.0)) / self._total
        return [Score(float(m), float(s)) for m, s in zip(self._shift + mean, se, strict=True)]
