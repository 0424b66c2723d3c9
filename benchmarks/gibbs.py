"""The Gibbs sampler against one in vectorised NumPy, and its time against the number of counts."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
from numpy.typing import NDArray

import psgld
from psgld.dynamics.probes import Probes
from psgld.samplers.gibbs import GibbsChain

from . import problems
from .harness import Row, Settings, in_turns, timed


class NumPyGibbs:
    """s ~ Multinomial(v, w h / μ) for all entries in one call, then W and H by gamma draws."""

    def __init__(self, V: NDArray[np.int64], rank: int) -> None:
        self.V, self.rng = V, np.random.default_rng(0)
        size = np.sqrt(V.mean() / rank)
        self.W = self.rng.exponential(size, (V.shape[0], rank))
        self.H = self.rng.exponential(size, (V.shape[1], rank))

    def advance(self, sweeps: int) -> None:
        """Run that many sweeps."""
        for _ in range(sweeps):
            share = self.W[:, None, :] * self.H
            share /= share.sum(axis=2, keepdims=True)
            s = self.rng.multinomial(self.V, share)
            self.W = self.rng.gamma(1 + s.sum(axis=1), 1 / (1 + self.H.sum(axis=0)))
            self.H = self.rng.gamma(1 + s.sum(axis=0), 1 / (1 + self.W.sum(axis=0)))


def _chain(data: psgld.Observations, threads: int) -> GibbsChain:
    engine = psgld.Threads(threads)
    model = problems.fixed(problems.RANK, psgld.Poisson())
    chain = psgld.Gibbs().prepare(data, model, engine, 0).chain(0, Probes.of(data, 0), engine)
    chain.advance(10)
    return chain


def _against_numpy(settings: Settings) -> Iterator[Row]:
    n = settings.choose(256, 32)
    data = problems.dense(n, psgld.Poisson())
    assert data.dense is not None
    numpy = NumPyGibbs(data.dense.astype(np.int64), problems.RANK)
    sweeps = settings.choose(20, 2)
    cases = {"numpy": timed(partial(numpy.advance, 2))}
    for threads in (1, 2):
        cases[str(threads)] = timed(partial(_chain(data, threads).advance, sweeps))
    best = in_turns(cases, settings.choose(7, 1))
    for threads in (1, 2):
        sweep, other = best[str(threads)] / sweeps, best["numpy"] / 2
        yield Row(
            f"Gibbs, {n}², K = {problems.RANK}, {threads} thread(s): NumPy / psgld",
            other / sweep,
            10.0,
            least=True,
            note=f"{1e3 * other:.0f} ms, {1e3 * sweep:.2f} ms a sweep",
        )


def _linear(settings: Settings) -> Iterator[Row]:
    """Sparse counts of the same kind, of three numbers: a count should cost the same."""
    rows, cols = settings.choose(20_000, 200), settings.choose(2_000, 50)
    totals, cases = {}, {}
    for share in (1, 2, 4):
        rng = np.random.default_rng(0)
        cells = np.unique(rng.integers(rows * cols, size=share * rows * cols // 160))
        values = 1.0 + rng.poisson(1.0, len(cells))
        data = psgld.Observations.from_coo(cells // cols, cells % cols, values, (rows, cols), "zero")
        totals[share] = values.sum()
        cases[str(share)] = timed(partial(_chain(data, 1).advance, 2))
    best = in_turns(cases, settings.choose(5, 1))
    a, b, c = (best[str(share)] for share in (1, 2, 4))
    slopes = (b - a) / (totals[2] - totals[1]), (c - b) / (totals[4] - totals[2])
    told = min(slopes) > 0  # in too short a run the clock decides
    yield Row(
        "Gibbs, sparse: a further count, from 2 to 4 / from 1 to 2",
        slopes[1] / slopes[0] if told else float("nan"),
        1.25 if told else None,
        note=("" if told else "not measured, too short: ")
        + ", ".join(f"{totals[s]:,.0f} counts {1e3 * best[str(s)] / 2:.1f} ms" for s in (1, 2, 4)),
    )


def run(settings: Settings) -> Iterator[Row]:
    yield from _against_numpy(settings)
    yield from _linear(settings)
