"""The cost model: seconds of work on one core. All such figures are here.

An iteration of a Langevin chain reads N / B entries and updates K coefficients of each of the I + J rows:

    t = K (N / B · entry + (I + J) · coefficient)

The figures are constants, the same on every machine: blocks, upkeeps and the default plan follow from them, and the
bits of a chain follow from those. `psgld plan` measures the two rates on the present machine; its defaults are
`PLANNED`. Some figures for the same quantity differ: they were fitted for different purposes, and chains depend on
them. The core has its own figures for the chunks that threads share (`cut_chunks` in `core/data/grid.hpp`): a row
costs as much as 8 entries of a sparse block, an entry of a dense block 1/8 of one of a sparse block.
"""

from __future__ import annotations

from typing import NamedTuple, final


@final
class Rates(NamedTuple):
    """Seconds per entry and component, and per coefficient (its noise and its step)."""

    entry: float
    coefficient: float

    def seconds(self, components: int, entries: float, rows: int) -> float:
        """Return the seconds for reading entries and updating rows, of that many components."""
        return components * (entries * self.entry + rows * self.coefficient)


DENSE, SPARSE = Rates(6e-11, 9e-10), Rates(1.3e-10, 9e-10)
"""Rates of an iteration, for the decision whether chains run concurrently."""

UPKEEP = Rates(1e-10, 1e-9)
"""Rates of a cycle, dense or sparse, for the number of cycles between two upkeeps; the bits of a chain depend on it."""

PLANNED = Rates(9.3e-9 / 64, 1.14e-9)
"""Rates of an iteration, measured on MovieLens-10M at rank 64: the defaults of `psgld plan`."""

UPKEEP_SECONDS = 3e-4
"""Seconds of the Python interpreter per upkeep; if a cycle takes less, there is one upkeep per several cycles."""

SIDE_BY_SIDE = 3e-4
"""Seconds per iteration below which one chain cannot keep several cores busy, but several concurrent chains can."""

DISPERSION_CLOSED, DISPERSION_SERIES = 2e-7, 4e-6
"""Seconds per entry of a Metropolis move of φ, if the density has a closed form, and if it is a series."""

BRIEF = 5e6
"""Multiplications between two draws that take a few milliseconds."""

BALANCED = 16
"""Entries per row of a part at which the gradient takes about as long as noise and step; a compromise between dense and
sparse data."""

CACHED_ROWS = 4096
"""Rows of a strip of the shorter side that fit into a cache."""

_ROW = 10
"""Multiplications per coefficient, for noise and step."""


def multiplications(iterations: int, components: int, entries: float, rows: int) -> float:
    """Return the multiplications of iterations that read `entries` and update `rows` each."""
    return iterations * components * (entries + _ROW * rows)


_COPIES = {True: 5, False: 3}
"""Arrays of the size of the factors: factors, a copy to restore after a divergence, momentum; of non-negative factors
also the bound of the metric and its sums."""


def chain_bytes(components: int, rows: int, itemsize: int, nonnegative: bool) -> float:
    """Return the bytes of a chain: its factors, whose rows are padded to full SIMD vectors, and copies of them."""
    stride = -(-components // 16) * 16
    return float(itemsize * stride * _COPIES[nonnegative] * rows + 24 * rows)


def gibbs_sweep(total: float, entries: int, components: int, rows: int) -> float:
    """Return the seconds per sweep of `Gibbs`: allocating counts, computing probabilities, drawing gamma variates."""
    return 1.5e-9 * total + 1e-9 * (10 + components) * entries + 5e-9 * components * rows


def normal_sweep(entries: int, components: int, rows: int, complete: bool) -> float:
    """Return the seconds per sweep of `BPMFGibbs`: Gram matrices (one for all rows if complete), Cholesky factors."""
    entry = 2e-10 * components if complete else 2e-11 * components**2
    return 2 * entries * entry + rows * (3e-11 * components**3 + 2e-8 * components)
