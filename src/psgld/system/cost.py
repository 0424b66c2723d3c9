"""What work costs, in seconds on one core: the one home of such figures.

An iteration of a Langevin chain reads N / B entries and moves the coefficients of all I + J rows, K of each:

    t = K (N / B · entry + (I + J) · coefficient)

The figures are the same on every machine, for what follows from them (blocks, upkeeps, the default plan) decides the
bits of a chain. `psgld plan` measures the two rates of the machine at hand and starts from `PLANNED`. Where two figures
for the same thing differ, both are kept: they were fitted to different questions, and chains depend on them. The chunks
that threads share have figures of their own in the core (`cut_chunks` in `core/data/grid.hpp`): a row costs as much as
8 entries of a sparse block, an entry of a dense block an eighth of that of a sparse one.
"""

from __future__ import annotations

from typing import NamedTuple, final


@final
class Rates(NamedTuple):
    """Seconds per entry and component, and per coefficient (its noise and its step)."""

    entry: float
    coefficient: float

    def seconds(self, components: int, entries: float, rows: int) -> float:
        """Return the time of reading entries and moving rows of that many components."""
        return components * (entries * self.entry + rows * self.coefficient)


DENSE, SPARSE = Rates(6e-11, 9e-10), Rates(1.3e-10, 9e-10)
"""Of an iteration, where the question is whether chains run side by side."""

UPKEEP = Rates(1e-10, 1e-9)
"""Of a cycle, dense or sparse, where the question is how many cycles lie between two upkeeps: bits depend on it."""

PLANNED = Rates(9.3e-9 / 64, 1.14e-9)
"""Of an iteration, as measured on MovieLens-10M at rank 64, where `psgld plan` has nothing better."""

UPKEEP_SECONDS = 3e-4
"""Of the interpreter, at an upkeep: cycles that take less have one upkeep for several of them."""

SIDE_BY_SIDE = 3e-4
"""Seconds per iteration below which a chain cannot keep several cores busy, but several chains can."""

DISPERSION_CLOSED, DISPERSION_SERIES = 2e-7, 4e-6
"""Seconds per entry of a Metropolis move of φ: where the density has a closed form, and where it is a series."""

BRIEF = 5e6
"""Multiplications from one draw to the next that take a few milliseconds."""

BALANCED = 16
"""Entries per row of a part at which the gradient takes about as long as noise and step; between those of dense and of
sparse data."""

CACHED_ROWS = 4096
"""Rows of a strip of the shorter side that stay in a cache."""

_ROW = 10
"""Multiplications of a coefficient: noise and step."""


def multiplications(iterations: int, components: int, entries: float, rows: int) -> float:
    """Return the work of iterations that read so many entries each, in units of one component of an entry."""
    return iterations * components * (entries + _ROW * rows)


def gibbs_sweep(total: float, entries: int, components: int, rows: int) -> float:
    """Return the seconds of a sweep of `Gibbs`: counts allocated, shares of entries computed, gamma variates drawn."""
    return 1.5e-9 * total + 1e-9 * (10 + components) * entries + 5e-9 * components * rows


def normal_sweep(entries: int, components: int, rows: int, complete: bool) -> float:
    """Return the seconds of a sweep of `BPMFGibbs`: Gram matrices (one for all rows if complete), Cholesky factors."""
    entry = 2e-10 * components if complete else 2e-11 * components**2
    return 2 * entries * entry + rows * (3e-11 * components**3 + 2e-8 * components)
