"""How good predictions are, and how far to trust their intervals: at held-out entries, or at those of the data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from ...data.cells import Cells
from ...errors import DataError
from ...runs.result import Result
from ..calibration import least_level, promised, share_within
from ..held_out import entries, trained_on
from ..predict import Prediction
from ..psis import loo

Floats = NDArray[np.float64]

MOST, LEVEL = 5000, 0.9
_BINS, _EXAMPLES, _LOO = 10, 14, 1000


@final
@dataclass(frozen=True, eq=False)
class Accuracy:
    """Scores of predictions at n entries.

    Attributes
    ----------
    held_out : whether the entries were given as held out.
    trained : how many of them the posterior was sampled with.
    total : how many there were; of more than 5,000 a random sample is scored.
    rmse, mae, log_density : with `rmse_constant`, `mae_constant`: of the mean (median) of the values everywhere.
    promised, held : the probability of the 90 % intervals under the model, and the share of values in them.
    levels, inside : the calibration curve.
    bins : mean predicted, mean observed, standard error of its difference, count, in groups by the prediction.
    examples : indices into `rows`, `cols`, `values`, `mean`, `low`, `high`.
    loo : mean leave-one-out log density of some entries, if they were sampled; else None.
    """

    held_out: bool
    trained: int
    total: int
    rows: NDArray[np.int64]
    cols: NDArray[np.int64]
    values: Floats
    mean: Floats
    low: Floats
    high: Floats
    rmse: float
    mae: float
    rmse_constant: float
    mae_constant: float
    log_density: float
    promised: float
    held: float
    levels: Floats
    inside: Floats
    bins: Floats
    examples: NDArray[np.int64]
    loo: float | None

    @property
    def held_error(self) -> float:
        """Standard error of `held`."""
        p = min(max(self.promised, 0.01), 0.99)
        return float(np.sqrt(p * (1 - p) / len(self.values)))


def accuracy(posterior: Result, test: Any, data: Any) -> Accuracy | None:
    """Return the scores at held-out entries; without them at entries of the data; None without either."""
    held_out = test is not None or posterior.held_out is not None
    if not held_out and data is None:
        return None
    cells = entries(posterior, test if held_out else data)
    if not len(cells):
        raise DataError("the report needs at least one held-out entry, got none; leave test out")
    posterior.model.check_values(cells.values)
    total, rng = len(cells), np.random.default_rng(0)
    at = np.sort(rng.choice(total, min(MOST, total), replace=False))
    some = Cells(cells.rows[at], cells.cols[at], cells.values[at])
    return _scores(posterior, some, held_out, total, rng)


def _scores(
    posterior: Result, cells: Cells, held_out: bool, total: int, rng: np.random.Generator
) -> Accuracy:
    rows, cols, values = cells.rows, cells.cols, cells.values
    trained = trained_on(posterior, cells)
    p = Prediction(posterior.draws, posterior.model.likelihood, rows, cols)
    low, high = p.interval(LEVEL)
    levels = np.linspace(0.0, 1.0, 51)
    inside = share_within(levels, least_level(p, values))
    error = values - p.mean
    centre, middle = values.mean(), np.median(values)
    return Accuracy(
        held_out, int(trained.sum()), total, rows, cols, values, p.mean, low, high,
        float(np.sqrt(np.mean(error**2))), float(np.mean(np.abs(error))),
        float(np.sqrt(np.mean((values - centre) ** 2))), float(np.mean(np.abs(values - middle))),
        float(np.mean(p.log_density(values))),
        float(np.mean(promised(p, low, high))),
        float(np.mean((low <= values) & (values <= high))),
        levels, inside, _bins(p.mean, values),
        np.sort(rng.choice(len(values), min(_EXAMPLES, len(values)), replace=False)),
        _left_out(posterior, rows[trained], cols[trained], values[trained]),
    )  # fmt: skip


def _bins(mean: Floats, values: Floats) -> Floats:
    """Return mean predicted, mean observed, standard error, count of groups by the prediction, (4, groups)."""
    order = np.argsort(mean, kind="stable")
    groups = [at for at in np.array_split(order, min(_BINS, max(1, len(order) // 5))) if len(at)]
    table = [
        (mean[at].mean(), values[at].mean(), (values[at] - mean[at]).std() / np.sqrt(len(at)), len(at))
        for at in groups
    ]
    return np.array(table, np.float64).T


def _left_out(
    posterior: Result, rows: NDArray[np.int64], cols: NDArray[np.int64], values: Floats
) -> float | None:
    if not len(values) or posterior.draws.phi.size < 20 or posterior.settings.get("weighted"):
        return None
    some = slice(0, _LOO)
    logs = Prediction(posterior.draws, posterior.model.likelihood, rows[some], cols[some])
    return float(loo(logs.log_densities(values[some]))[0].mean())
