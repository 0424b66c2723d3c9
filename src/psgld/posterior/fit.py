"""The measured fit of a run: μ against v, the log likelihood against simple baselines, and the spread of the draws.

It is recorded at the end of a run, when the data are available, and kept with the settings of the result.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..data.source import Source
from ..dynamics.probes import Probes
from ..models import Likelihood
from ..models.modes import NAMES
from ..runs.draws import Draws
from ..runs.result import Result
from .predict import Floats, Prediction
from .spread import FEWEST, spread

_GROUPS = 8
"""Groups of rows, and of columns, in which the means of v and of μ are compared."""

_SCORED = 40
"""Draws in which log densities are evaluated: some have no closed form."""


def measured_fit(result: Result, data: Source, monitored: Probes) -> dict[str, Any]:
    """Return the record of the fit, serialisable as JSON; empty if no draws of W and H were kept.

    entries, size                number of monitored entries, and of all
    v, mu                        mean and standard deviation over these entries; of μ, over entries and draws
    rows, cols                   pairs (mean of v, mean of μ) of groups of rows, and of columns, by the mean of μ
    log_likelihood, baselines    per monitored entry: of the draws; if μ is the mean of V, or that of its row and column
    spread                       of each mode, spread² and its standard error (`spread.py`); needs the data in memory
    """
    if result.draws.W.shape[1] == 0 or not len(monitored.values):
        return {}
    likelihood, v = result.model.likelihood, monitored.values
    i, j = monitored.index
    mu = Prediction(result.draws, likelihood, i, j)
    mean, variance = mu.mean, float(np.mean(mu.sd**2) + mu.mean.var())
    in_memory = data.dense is not None or data.csr is not None
    record: dict[str, Any] = {
        "entries": len(v),
        "size": monitored.size,
        "v": [float(v.mean()), float(v.std())],
        "mu": [float(mean.mean()), variance**0.5],
        **{names.side: _groups(at, v, mean) for names, at in zip(NAMES, monitored.index, strict=True)},
        "log_likelihood": _log_likelihood(result.draws, likelihood, monitored),
    }
    if in_memory:
        record["baselines"] = _baselines(result, data, monitored)
    if in_memory and result.draws.W.shape[1] >= FEWEST:
        found = {
            mode.names.side: spread(result.draws, result.model, data, mode) for mode in result.model.modes
        }
        record["spread"] = {side: list(one) for side, one in found.items() if np.isfinite(one).all()}
    return record


def _groups(index: NDArray[np.int64], v: Floats, mu: Floats) -> list[list[float]]:
    """Return the mean of v and the mean of μ in groups of rows (or columns) of similar μ."""
    each, at, count = np.unique(index, return_inverse=True, return_counts=True)
    rank = np.argsort(np.argsort(np.bincount(at, mu) / count, kind="stable"), kind="stable")
    group = (rank * min(_GROUPS, len(each)) // len(each))[at]
    size = np.bincount(group)
    return np.stack([np.bincount(group, v) / size, np.bincount(group, mu) / size], axis=1).tolist()  # type: ignore[no-any-return]


def _log_likelihood(draws: Draws, likelihood: Likelihood, monitored: Probes) -> float:
    """Return the mean log likelihood of a monitored entry, over some of the draws."""
    step = -(-draws.phi.size // _SCORED)
    some = draws.each(lambda a: a.reshape(1, -1, *a.shape[2:])[:, ::step])
    i, j = monitored.index
    logs = Prediction(some, likelihood, i, j).log_densities(monitored.values)
    return float(np.average(logs.mean(axis=0), weights=monitored.weights))


def _baselines(result: Result, data: Source, monitored: Probes) -> dict[str, float]:
    """Return the mean log likelihood of a monitored entry if μ is the mean of V, or follows from its row and column.

    The parameters of the likelihood are the means of the draws.
    """
    likelihood, v = result.model.likelihood, monitored.values
    theta = tuple(float(x.mean()) for x in result.draws.parameters(likelihood).values())
    centre = data.mean()
    by_row, by_col = (_means(data, axis, centre)[i] for axis, i in enumerate(monitored.index))
    both = by_row + by_col - centre
    if likelihood.nonnegative_mean:
        both = by_row * by_col / (centre or 1.0)
    elif not likelihood.identity:  # within the range of the response
        low, high = data.min(), data.max()
        both = np.clip(both, low + 0.01 * (high - low), high - 0.01 * (high - low))
    guesses = {"mean": np.full(len(v), centre), "rows_and_columns": both}
    with np.errstate(all="ignore"):
        logs = {
            name: likelihood.logpdf(v, likelihood.link(guess, *theta), *theta)
            for name, guess in guesses.items()
        }
    return {name: float(np.average(each, weights=monitored.weights)) for name, each in logs.items()}


def _means(data: Source, axis: int, centre: float) -> Floats:
    """Return the mean of each row (or column), shrunk as if it had one more entry of the mean of V."""
    rows = np.repeat(np.arange(data.shape[0]), np.diff(data.indptr)) if axis == 0 else data.indices
    total = np.bincount(rows, data.values, minlength=data.shape[axis])
    return np.asarray((total + centre) / (data.counts(axis) + 1.0))
