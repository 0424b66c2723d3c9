"""How well predictions meet values that were held out."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from ..posterior.predict import Prediction


@final
@dataclass(frozen=True)
class Scores:
    """Scores over the held-out entries; `baseline_*` are those of a constant prediction."""

    entries: int
    rmse: float
    mae: float
    log_density: float
    level: float
    coverage: float
    baseline: float
    baseline_rmse: float
    baseline_mae: float


def score(
    prediction: Prediction,
    values: NDArray[np.float64],
    level: float,
    baseline: float,
    weights: NDArray[np.float64] | None = None,
) -> Scores:
    """Compare posterior means and predictive intervals with held-out values, by means over the entries (weighted ones).

    `log_density` is the mean of log E[p(v | μ, φ)]; `coverage` the share of values within their intervals.
    """
    low, high = prediction.interval(level)
    error, plain = values - prediction.mean, values - baseline

    def mean(x: NDArray[Any]) -> float:
        return float(np.average(x, weights=weights))

    return Scores(
        entries=len(values),
        rmse=math.sqrt(mean(error**2)),
        mae=mean(np.abs(error)),
        log_density=mean(prediction.log_density(values)),
        level=level,
        coverage=mean((low <= values) & (values <= high)),
        baseline=baseline,
        baseline_rmse=math.sqrt(mean(plain**2)),
        baseline_mae=mean(np.abs(plain)),
    )
