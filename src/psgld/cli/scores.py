"""How well predictions meet values that were held out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

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


def score(prediction: Prediction, values: NDArray[np.float64], level: float, baseline: float) -> Scores:
    """Compare posterior means and predictive intervals with held-out values.

    `log_density` is the mean of log E[p(v | μ, φ)]; `coverage` the share of values within their intervals.
    """
    low, high = prediction.interval(level)
    error, plain = values - prediction.mean, values - baseline
    return Scores(
        entries=len(values),
        rmse=float(np.sqrt(np.mean(error**2))),
        mae=float(np.mean(np.abs(error))),
        log_density=float(np.mean(prediction.log_density(values))),
        level=level,
        coverage=float(np.mean((low <= values) & (values <= high))),
        baseline=baseline,
        baseline_rmse=float(np.sqrt(np.mean(plain**2))),
        baseline_mae=float(np.mean(np.abs(plain))),
    )
