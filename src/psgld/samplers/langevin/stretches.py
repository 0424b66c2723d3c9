"""Tables of parts, scales, step sizes and subsamples of the next iterations, for the engine."""

from __future__ import annotations

from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from ...dynamics.step_size import tabulate
from ...engines import Stretch
from .shared import Shared


@final
class Stretches:
    """Tabulates parts, scales and step sizes, which are functions of iteration and key, for many iterations at once."""

    def __init__(self, setup: Shared, key: int) -> None:
        self._setup, self._key = setup, key
        self._table: tuple[Any, ...] = (0, 1.0, (), (), ())

    def stretch(self, t: int, n: int, ahead: int, step_factor: float) -> Stretch:
        """Return iterations t … t + n - 1, step sizes times a factor. `ahead` iterations are tabulated at once."""
        parts, scales, steps = self._planned(t, n, ahead, step_factor)
        draws = None
        if self._setup.subsample is not None:
            draws = self._setup.subsample.draws(t, parts, self._key)
            scales = scales * self._setup.grid.part_sizes[parts] / self._setup.subsample.size
        return Stretch(t, parts, steps, scales, draws)

    def part(self, t: int) -> int:
        """Return the part that iteration t reads."""
        parts, _ = self._setup.schedule.parts(t, 1, self._setup.grid.part_sizes, self._key)
        return int(parts[0])

    def _planned(
        self, t: int, n: int, ahead: int, step_factor: float
    ) -> tuple[NDArray[np.int32], NDArray[np.float64], NDArray[np.float64]]:
        first, factor, parts, scales, steps = self._table
        if not (first <= t <= t + n <= first + len(parts) and factor == step_factor):
            first, factor, m = t, step_factor, max(n, ahead)
            try:
                with np.errstate(all="ignore"):
                    steps = tabulate(self._setup.step_size, t, m) * factor
            except Exception:  # the user's function may be defined only up to the end of the run
                m, steps = n, tabulate(self._setup.step_size, t, n) * factor
            parts, scales = self._setup.schedule.parts(t, m, self._setup.grid.part_sizes, self._key)
            self._table = first, factor, parts, scales, steps
        now = slice(t - first, t - first + n)
        return parts[now], scales[now], steps[now]
