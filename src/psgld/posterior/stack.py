"""Stacking: weights of chains that have not mixed (Yao, Vehtari, Gelman 2022).

    w = argmax Σ_n ω_n log Σ_c w_c p_c(v_n),   w_c ≥ 0, Σ_c w_c = 1,

where p_c(v_n) is the predictive density of chain c at an entry that it has not seen, or, at an entry that it has seen,
that of leave-one-out; ω_n is the weight of the entry, 1 by default. The posterior that is returned has draws of all
chains in proportion to their weights: whatever is computed from its draws, and whatever is written to a file, has the
weights in it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import DataError, warn
from ..models import Likelihood
from ..runs.draws import Draws, check_factors
from ..runs.result import Result
from .held_out import entries, entry_weights, trained_on
from .predict import Prediction
from .psis import loo

Floats = NDArray[np.float64]

MOST = 50_000
"""Entries used: those of more are chosen at random."""

_CELLS = 4_000_000
"""Log densities held at a time."""


def stack(posterior: Any, test: Any, seed: int = 0) -> Any:
    """Return the posterior in which each chain has the weight that predicts `test` best."""
    check_factors(posterior.draws)
    (i, j, values), counted = entries(posterior, test), entry_weights(posterior, test)
    if len(values) == 0:
        raise DataError("stacking needs entries to score the chains with, got none")
    if len(values) > MOST:
        at = np.sort(np.random.default_rng(seed).choice(len(values), MOST, replace=False))
        i, j, values = i[at], j[at], values[at]
        counted = None if counted is None else counted[at]
    trained = trained_on(posterior, i, j)
    if posterior.settings.get("weighted") and trained.any():
        raise DataError(
            f"{int(trained.sum()):,} of {len(values):,} entries were sampled, with weights that the posterior does not "
            "keep, so that they cannot be left out; stack with held-out entries"
        )
    logs, unsure = chain_densities(posterior, i, j, values, trained)
    if unsure > 0.1 * max(1, trained.sum()):
        warn(
            f"leave-one-out densities of {unsure:,} of {trained.sum():,} entries are unreliable (Pareto k > 0.7): "
            "stack with held-out entries"
        )
    weights = stacking_weights(logs, counted)
    chosen = in_proportion(weights, posterior.draws.phi.shape[1])
    record = {
        "weights": [float(w) for w in weights],
        "draws": [len(at) for at in chosen],
        "entries": len(values),
        "left_out": int(trained.sum()),
        "density": [float(x) for x in logs.mean(axis=0)],
    }
    return _resampled(posterior, chosen, record)


def chain_densities(
    posterior: Result,
    rows: NDArray[np.int64],
    cols: NDArray[np.int64],
    values: Floats,
    trained: NDArray[np.bool_],
) -> tuple[Floats, int]:
    """Return log p_c(v_n), (entries, chains), and how many of leave-one-out have k̂ > 0.7 in some chain."""
    logs = np.empty((len(values), posterior.chains))
    unsure = np.zeros(len(values), bool)
    for c in range(posterior.chains):
        draws = posterior.draws.each(lambda array, c=c: array[c : c + 1])  # type: ignore[misc]
        step = max(1, _CELLS // draws.phi.size)
        for first in range(0, len(values), step):
            at = slice(first, first + step)
            each = _log_densities(draws, posterior.model.likelihood, rows[at], cols[at], values[at])
            seen = trained[at]
            out = np.logaddexp.reduce(each, axis=0) - np.log(len(each))
            if seen.any():
                out[seen], k = loo(each[:, seen])
                unsure[at][seen] |= k > 0.7
            logs[at, c] = out
    return logs, int(unsure.sum())


def _log_densities(
    draws: Draws, likelihood: Likelihood, rows: NDArray[np.int64], cols: NDArray[np.int64], values: Floats
) -> Floats:
    """Return log p(v_n | η, θ) in each draw, (S, N)."""
    return Prediction(draws, likelihood, rows, cols).log_densities(values)


def stacking_weights(logs: Floats, counted: Floats | None = None) -> Floats:
    """Return the weights that maximise Σ_n ω_n log Σ_c w_c exp(logs_nc), by expectation maximisation.

    The function is concave. `counted` is ω, 1 by default.
    """
    top = logs.max(axis=1)
    finite = np.isfinite(top)
    p = np.exp(logs[finite] - top[finite, None])
    omega = None if counted is None else counted[finite]
    w = np.full(logs.shape[1], 1 / logs.shape[1])
    if len(p) == 0:
        return w
    for _ in range(20_000):
        new = w * np.average(p / (p @ w)[:, None], axis=0, weights=omega)
        done = np.abs(new - w).max() < 1e-7
        w = new
        if done:
            break
    return np.asarray(w / w.sum())


def in_proportion(weights: Floats, draws: int) -> list[NDArray[np.int64]]:
    """Return which draws of each chain to keep: all of the heaviest chain, evenly spaced ones of the others."""
    counts = np.rint(draws * weights / weights.max()).astype(int)
    return [
        ((np.arange(n) + 0.5) * draws / n).astype(np.int64) if n else np.empty(0, np.int64) for n in counts
    ]


def _resampled(posterior: Any, chosen: list[NDArray[np.int64]], record: dict[str, Any]) -> Any:
    """Return a posterior of one chain: the chosen draws, one chain after the other."""

    def pick(array: NDArray[Any]) -> NDArray[Any]:
        if array.shape[1] == 0:
            return array[:1]
        return np.concatenate([array[c, at] for c, at in enumerate(chosen)])[None]

    best = int(np.argmax(record["weights"]))
    return replace(
        posterior,
        draws=posterior.draws.each(pick),
        sample_stats={name: pick(array) for name, array in posterior.sample_stats.items()},
        warmup={name: array[best : best + 1] for name, array in posterior.warmup.items()},
        settings={**posterior.settings, "stacking": record},
        tracked=None,
    )
