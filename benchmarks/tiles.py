"""Time per entry where strips are longer than a cache, beside MovieLens-1M's shape, which stays in one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
from numpy.typing import NDArray

import psgld

from .harness import Row, Settings, in_turns
from .problems import bare_chain, fixed, popular_cells

_RANK = 50
_CACHED, _LARGE = ((6040, 3706), 900_000, 0.7), ((71_000, 71_000), 9_300_000, 0.7)
"""Shape, entries, and the exponent of the popularity of rows and columns."""


def run(settings: Settings) -> Iterator[Row]:
    """Compare the two shapes at their default blocks, on one and two threads: processor time, then wall time."""
    chosen = {"cached": _CACHED, "large": _LARGE}
    if settings.quick:
        chosen = {"cached": ((60, 40), 900, 0.7), "large": ((400, 400), 9000, 0.7)}
    data = {name: _counts(*problem) for name, problem in chosen.items()}
    model, rounds = fixed(_RANK, psgld.Poisson()), settings.choose(12, 2)
    cases: dict[str, Callable[[], float]] = {}
    for name, V in data.items():
        for threads in (1, 2):
            chain = bare_chain(V, model, psgld.PSGLD(), threads)
            passes = max(1, 2_000_000 // V.stored)
            n = passes * chain.setup.cycle
            chain.advance(n)
            for clock in (time.process_time, time.perf_counter):
                case = partial(_nanoseconds, clock, partial(chain.advance, n), passes * V.stored)
                cases[f"{name} {threads} {clock.__name__}"] = case
    least = in_turns(cases, rounds)
    for threads in (1, 2):
        cpu = {name: least[f"{name} {threads} process_time"] for name in data}
        yield Row(
            f"tiles, {threads} thread(s): entry of 71,000² / of 1M's shape", cpu["large"] / cpu["cached"],
            1.5, note=f"{cpu['large']:.1f}, {cpu['cached']:.1f} ns of processor time",
        )  # fmt: skip
    one, two = (least[f"large {threads} perf_counter"] for threads in (1, 2))
    yield Row(
        "tiles, 71,000²: one thread / two threads",
        one / two,
        1.8,
        least=True,
        note=f"{one:.1f}, {two:.1f} ns an entry",
    )


def _nanoseconds(clock: Callable[[], float], work: Callable[[], object], entries: int) -> float:
    start = clock()
    work()
    return 1e9 * (clock() - start) / entries


def _counts(shape: tuple[int, int], entries: int, exponent: float) -> psgld.Observations:
    cells: NDArray[np.int64] = popular_cells(shape, entries, exponent)
    values = np.random.default_rng(0).integers(1, 6, entries).astype(np.float32)
    return psgld.Observations.from_coo(cells // shape[1], cells % shape[1], values, shape, "unobserved")
