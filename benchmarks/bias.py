"""What a finite step costs each Langevin sampler: its error of E[log posterior] at steps ε, ε/2, ε/4, equal horizon.

A small Poisson factorisation, whose expectation a Gibbs sampler tells. Errors are in nats; the log posterior itself
has a standard deviation of 13.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

import psgld

from .harness import Row, Settings

ROWS, COLS, RANK, BLOCKS = 48, 40, 4, 8
METRICS = {"identity": (4e-3, 150.0), "non-negative": (0.2, 15_000.0)}
"""The largest step, and the horizon: the sum of all steps."""

SAMPLERS: dict[str, Callable[..., Any]] = {
    "LD": psgld.LD,
    "PSGLD cyclic": lambda **s: psgld.PSGLD(blocks=BLOCKS, momentum=0.0, **s),
    "PSGLD reshuffled": lambda **s: psgld.PSGLD(
        blocks=BLOCKS, momentum=0.0, schedule=psgld.Reshuffled(), **s
    ),
    "PSGLD independent": lambda **s: psgld.PSGLD(
        blocks=BLOCKS, momentum=0.0, schedule=psgld.Proportional(), **s
    ),
    "SGLD": lambda **s: psgld.SGLD(size=1 / BLOCKS, **s),
    "DSGLD hop every 4": lambda **s: psgld.DSGLD(workers=BLOCKS, exchange=4, **s),
}
"""All of them read N/8 entries an iteration, but LD, which reads all."""


def problem() -> tuple[NDArray[np.int64], psgld.FactorModel]:
    """Return counts and a model without anything to learn but W and H."""
    rng = np.random.default_rng(1)
    V = rng.poisson(rng.exponential(size=(ROWS, RANK)) @ rng.exponential(2.0, size=(RANK, COLS)))
    prior = psgld.Exponential(1.0)
    return V, psgld.FactorModel(RANK, psgld.Poisson(), prior, prior)


def mean_log_posterior(
    V: NDArray[np.int64], model: psgld.FactorModel, sampler: Any, iterations: int, most: int = 3000
) -> tuple[float, float]:
    """Return the mean over two chains, and half the gap between them: its Monte Carlo error."""
    thin = max(1, iterations // most)
    post = psgld.sample(
        V, model, sampler=sampler, chains=2, tune=iterations // 5, draws=iterations // thin, thin=thin,
        keep=False, progress=False,
    )  # fmt: skip
    means = post.sample_stats["lp"].mean(axis=1)
    return float(means.mean()), float(abs(means[1] - means[0]) / 2)


def run(settings: Settings) -> Iterator[Row]:
    V, model = problem()
    truth, gap = mean_log_posterior(V, model, psgld.Gibbs(), settings.choose(60_000, 100), most=20_000)
    yield Row("Gibbs: Monte Carlo error of E[lp]", gap, note=f"{truth:.2f}")
    for metric, (first, horizon) in METRICS.items():
        for name, make in SAMPLERS.items():
            errors, notes = [], []
            for step in (first, first / 2, first / 4):
                iterations = round(horizon / step / settings.choose(1, 1000))
                sampler = make(step_size=step, metric=metric)
                mean, gap = mean_log_posterior(V, model, sampler, iterations)
                errors.append(mean - truth)
                notes.append(f"{step:g}: {mean - truth:+.2f} ± {gap:.2f}")
            yield Row(
                f"error of E[lp], {metric}, {name}, {first / 4:g}", abs(errors[-1]), note=", ".join(notes)
            )
