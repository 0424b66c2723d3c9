"""What `psgld plan` predicts for runs on this machine, and what they take."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from psgld.tools import forecast as plan
from psgld.tools.forecast import Size

from .harness import Row, Settings

_CASES = (
    (Size(20_000, 3000, 1_500_000, 50), 6, 1),
    (Size(60_000, 8000, 1_000_000, 50), 15, 1),
    (Size(3000, 30_000, 2_000_000, 32), 4, 1),
    (Size(20_000, 3000, 1_500_000, 50), 6, 2),
)


def run(settings: Settings) -> Iterator[Row]:
    seconds = 0.02 if settings.quick else 0.5
    for size, blocks, threads in _CASES:
        if settings.quick:
            size = replace(size, entries=size.entries // 50)
        machine = plan.measured(size.rank, seconds, threads)
        predicted = plan.forecast(size, machine, blocks).iteration
        took = plan.iteration_seconds(size, blocks, threads, seconds)
        yield Row(
            f"plan, {size.rows} × {size.cols}, K={size.rank}, {threads} thread(s): predicted / took",
            predicted / took,
            note=f"{1e3 * predicted:.2f} ms, {1e3 * took:.2f} ms an iteration",
        )
