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

from ..data.cells import Cells
from ..errors import DataError, warn
from ..runs.draws import check_factors
from ..runs.result import Result, Sampled
from .held_out import densities, entries, trained_on
from .psis import UNRELIABLE

Floats = NDArray[np.float64]

MOST = 50_000
"""Entries used: those of more are chosen at random."""


def stack(posterior: Sampled, test: Any, seed: int = 0) -> Sampled:
    """Return the posterior in which each chain has the weight that predicts `test` best."""
    check_factors(posterior.draws)
    cells = entries(posterior, test).some(MOST, seed)
    if len(cells) == 0:
        raise DataError("stacking needs entries to score the chains with, got none")
    trained = trained_on(posterior, cells)
    refuse_weighted(posterior, trained)
    logs, unsure = chain_densities(posterior, cells, trained)
    if unsure > 0.1 * max(1, trained.sum()):
        warn(
            f"leave-one-out densities of {unsure:,} of {trained.sum():,} entries are unreliable (Pareto k > 0.7): "
            "stack with held-out entries"
        )
    weights = stacking_weights(logs, cells.weights)
    chosen = in_proportion(weights, posterior.draws.phi.shape[1])
    record = {
        "weights": [float(w) for w in weights],
        "draws": [len(at) for at in chosen],
        "entries": len(cells),
        "left_out": int(trained.sum()),
        "density": [float(x) for x in logs.mean(axis=0)],
    }
    return _resampled(posterior, chosen, record)


def refuse_weighted(posterior: Result, trained: NDArray[np.bool_]) -> None:
    """Raise DataError if entries of weighted data must be left out."""
    if posterior.settings.get("weighted") and trained.any():
        raise DataError(
            f"{int(trained.sum()):,} of {len(trained):,} entries were sampled, with weights that the posterior does "
            "not keep, so that they cannot be left out; give held-out entries"
        )


def chain_densities(posterior: Result, cells: Cells, trained: NDArray[np.bool_]) -> tuple[Floats, int]:
    """Return log p_c(v_n), (entries, chains), and how many of leave-one-out have k̂ > 0.7 in some chain."""
    found = [
        densities(posterior, posterior.draws.each(lambda array, c=c: array[c : c + 1]), cells, trained)  # type: ignore[misc]
        for c in range(posterior.chains)
    ]
    unsure = np.any([k > UNRELIABLE for _, k in found], axis=0)
    return np.stack([logs for logs, _ in found], axis=1), int(unsure.sum())


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


def _resampled(posterior: Sampled, chosen: list[NDArray[np.int64]], record: dict[str, Any]) -> Sampled:
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
