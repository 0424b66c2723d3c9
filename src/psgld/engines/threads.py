"""All cores of one machine: threads share the factors, and a thread that is free takes the next block.

The chain does not depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from .. import _core
from ..checks import is_integer
from ..data.partition import ModeStrips
from ..data.source import Source
from ..errors import ModelError
from ..models import Likelihood
from ..system.limits import available_cores
from .base import WEIGHTS, Engine, Entries, Places, Stretch, SumName
from .core_factors import NO_DRAWS, CoreFactors, core_chain, given
from .core_grid import CoreGrid, whole_grid


def check_threads(n: object) -> None:
    """Raise ModelError unless the number of threads is None or from 1 to 1024."""
    if n is None:
        return
    if not is_integer(n) or not 1 <= n <= 1024:
        raise ModelError(f"threads must be an integer from 1 to 1024, got {n!r}")


_Numbers = tuple[int, NDArray[np.int32], NDArray[np.float64], NDArray[np.float64], NDArray[np.int32]]


@final
@dataclass(frozen=True)
class Threads(Engine):
    """Run on `threads` threads of this machine; by default, on all cores that the process may use."""

    threads: int | None = None

    def __post_init__(self) -> None:
        check_threads(self.threads)

    @property
    def workers(self) -> int:
        """The number of threads."""
        return int(self.threads or available_cores())

    def share(self, chains: int) -> Threads:
        """Return the engine for one of several concurrent chains."""
        return replace(self, threads=max(1, self.workers // chains))

    def grid(
        self,
        data: Source,
        strips: ModeStrips,
        shift: float,
        dtype: np.dtype[Any],
        hopping: bool = False,
    ) -> CoreGrid:
        """Cut V - shift into blocks. `hopping` is ignored: on one machine chains do not move."""
        return whole_grid(data, strips, shift, dtype)

    def factors(
        self, grid: CoreGrid, components: int, likelihood: Likelihood, floor: float
    ) -> ThreadedFactors:
        """Create factors of zeros on a grid."""
        return ThreadedFactors(grid, components, likelihood, floor, self.workers)


@final
class ThreadedFactors(CoreFactors):
    """The factors of one chain on one machine."""

    passes_marks = True

    def __init__(
        self, grid: CoreGrid, components: int, likelihood: Likelihood, floor: float, threads: int
    ) -> None:
        super().__init__(core_chain(grid, components, likelihood, floor), grid, components, likelihood)
        self._pool = _core.Pool(threads)

    def advance(self, stretch: Stretch) -> None:
        """Run iterations."""
        self.core.advance(self._pool, *_numbers(stretch), 0, self.grid.blocks)

    def advance_marking(
        self,
        stretch: Stretch,
        marks: NDArray[np.int64],
        entries: Entries,
        buffers: tuple[NDArray[Any], ...],
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Run iterations, and read the factors at `marks`, all in one call of the core."""
        (i, j), values, weights = entries
        weighing = given(weights, self.dtype)
        return self.core.advance_marking(
            self._pool, *_numbers(stretch), marks, i, j, values, weighing, *buffers
        )

    def reserve(self, buffers: NDArray[Any]) -> None:
        """Have the operating system allocate the pages of an array of draws ahead of use, on all threads."""
        _core.make_pages(self._pool, buffers)

    def accumulate(self, kind: SumName, part: int = -1) -> None:
        """Sum scores or weights over a part (or over all of V) for every row of every factor."""
        self.core.accumulate(self._pool, kind, part)

    def set_bound(self, which: int, rate: NDArray[np.float64]) -> None:
        """Compute the bound b of the non-negative metric from the accumulated weights, φ and the prior's rates."""
        self.core.set_bound(self._pool, which, rate)

    def accumulated(self, which: int) -> NDArray[Any]:
        """Return the sums of `accumulate` for a factor."""
        return self._read(which, "sum")

    def sums(self) -> NDArray[np.float64]:
        """Return Σx, Σx², Σ log x and Σ count x² of each component of each factor, (modes, 4, K)."""
        return self.core.sums(self._pool)

    def gram(self, which: int) -> NDArray[np.float64]:
        """Return Σxxᵀ over the rows of a factor, (K, K), in a fixed order of the strips."""
        table = self.core.strip_grams(which, np.arange(self.grid.blocks))
        return _core.add_rows(table).reshape(self.components, self.components)

    def squared_residuals(self) -> float:
        """Return Σ(v - μ)², each block as of its last update."""
        return float(_core.add_rows(self.core.strip_squares())[0])

    def save(self) -> None:
        """Save the current state in memory."""
        self.core.save()

    def restore(self) -> None:
        """Return to the state of the last `save`, with zero momentum."""
        self.core.restore()

    def fresh_squared_residuals(self) -> float:
        """Return Σ(v - μ)² at the current state, by a pass over the data."""
        return self.core.fresh_squares(self._pool)

    def factor(self, which: int, width: int | None = None, out: NDArray[Any] | None = None) -> NDArray[Any]:
        """Return a copy of the first `width` components of a factor, rows in the order of V."""
        return self._read(which, "x", width, out)

    def set_factor(self, which: int, x: NDArray[Any]) -> None:
        """Replace a factor."""
        self._write(which, "x", x)

    def state(self) -> dict[str, NDArray[Any]]:
        """Return the factors and squared residuals, and those of the last `save`."""
        return {
            **{name: self._read(which, kind) for name, (which, kind) in self._kept().items()},
            "residuals": self.core.residuals(False),
            "saved_residuals": self.core.residuals(True),
        }

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Set the state to what `state` returned."""
        for name, (which, kind) in self._kept().items():
            self._write(which, kind, state[name])
        for saved, name in ((False, "residuals"), (True, "saved_residuals")):
            self.core.set_residuals(saved, np.ascontiguousarray(state[name], np.float64))

    def weights(self) -> dict[str, NDArray[Any]]:
        """Return the sums of the last `accumulate`, for `set_weights`."""
        return {name: self.accumulated(which) for which, name in enumerate(WEIGHTS)}

    def _read(
        self, which: int, name: str, width: int | None = None, out: NDArray[Any] | None = None
    ) -> NDArray[Any]:
        if out is None:
            out = np.empty((self.grid.shape[which], width or self.components), self.dtype)
        self.core.gather(self._pool, which, name, out)
        return out

    def noise(self, which: int, iteration: int) -> NDArray[np.float32]:
        """Return the standard normals of an iteration for a factor."""
        return self.core.noise(which, iteration, np.arange(self.grid.shape[which]))

    def order(self, index: Places) -> NDArray[np.int64]:
        """Return a permutation that sorts entries of V by their position in the outer factor, for cache locality."""
        outer = self.grid.outer
        return np.argsort(self.positions(outer, index[outer]), kind="stable")

    def mu(self, places: Places) -> NDArray[Any]:
        """Return Σ_k w_ik h_kj at the positions of entries."""
        return self.core.mu(*places)

    def log_kernel(self, places: Places, values: NDArray[Any], weights: NDArray[Any] | None = None) -> float:
        """Return φ Σ w (log p(v | μ) - log normaliser) at the positions of entries of weight w (1 by default)."""
        i, j = places
        return self.core.log_kernel_at(self._pool, i, j, values, given(weights, self.dtype))


def _numbers(stretch: Stretch) -> _Numbers:
    """Return a stretch as the arguments of the core."""
    draws = NO_DRAWS if stretch.draws is None else stretch.draws
    return stretch.t, stretch.parts, stretch.steps, stretch.scales, draws
