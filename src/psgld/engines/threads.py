"""All cores of one machine: threads that share the factors and take blocks as they become free.

An engine places the data (`grid`) and the factors (`chain`). What it returns moves blocks, adds up and gathers;
likelihood, prior and metric reach it as numbers. The chain does not depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from .. import _core
from ..checks import is_integer
from ..data.observations import Observations
from ..data.partition import Strips
from ..data.shards import Shards
from ..errors import ModelError
from ..models import Likelihood
from ..system.limits import available_cores
from .mapped import mapped_grid

W, H = 0, 1
"""How the two factors are addressed."""

KEPT = {"W": (W, "x"), "H": (H, "x"), "saved_W": (W, "saved"), "saved_H": (H, "saved")}
MOMENTA = {"momentum_W": (W, "momentum"), "momentum_H": (H, "momentum")}
"""The arrays of a chain that cannot be worked out again: factor, and name in the core."""

SCORE, WEIGHT = 1, 2
"""Passes over the data that add up without moving anything (`Pass` in the core)."""


_FEW = 3
"""Entries a row of a block that the core takes one by one (`few` in sparse_block.hpp)."""

_NO_DRAWS = np.empty((0, 0), np.int32)


@final
@dataclass(frozen=True, eq=False)
class Grid:
    """V cut into blocks, in the core's own form; shared by all chains."""

    core: Any  # of all outer strips, or of those that are kept here
    shape: tuple[int, int]
    blocks: int
    swapped: bool  # the columns of V are the outer side
    zeros: bool
    part_sizes: NDArray[np.int64]
    """Entries of each part."""
    hopping: bool = False
    """Parts belong to ranks, and whole chains go from one to the next; else strips do."""

    def cut_for_draws(self, share: float) -> NDArray[np.int64]:
        """Cut the work for iterations that draw a share of the entries; return what each chunk of each part holds."""
        self.core.cut_chunks(share)
        return np.asarray(self.core.chunk_entries(self.zeros))

    @property
    def thin(self) -> bool:
        """Whether a row of the outer factor has few entries a block: its rows then lie close in memory."""
        return bool(self.part_sizes.sum() < _FEW * self.blocks * max(self.shape))

    @property
    def outer(self) -> int:
        """The factor whose strips stay: the longer one."""
        return H if self.swapped else W

    @property
    def inner(self) -> int:
        """The factor whose strips meet all strips of the other in turn: the shorter one."""
        return W if self.swapped else H


def core_grid(
    data: Observations,
    rows: Strips,
    cols: Strips,
    shift: float,
    dtype: np.dtype[Any],
    own: tuple[int, int] | None = None,
) -> Any:
    """Cut V - shift into blocks, in the core's own form; with `own`, those of a run of the outer strips."""
    # The inner side is hit in any order, so the shorter one: it stays in cache.
    swapped = columns_are_outer(data)
    outer, inner = (cols, rows) if swapped else (rows, cols)
    first, last = own or (0, outer.number)
    bounds = outer.bounds[first : last + 1]
    order = np.ascontiguousarray(outer.order[bounds[0] : bounds[-1]])
    sides = (first, len(outer.order), order, bounds - bounds[0], inner.order, inner.bounds)
    make = _core.Grid32 if dtype == np.float32 else _core.Grid64
    if isinstance(data, Shards):
        return mapped_grid(data, rows, cols, shift, dtype, swapped)
    if data.csr is None:
        return make(np.ascontiguousarray(data.dense), swapped, shift, *sides)
    indptr, indices, values = data.csr
    return make(indptr, indices, values, swapped, data.absent == "zero", shift, *sides)


def whole_grid(
    data: Observations, rows: Strips, cols: Strips, shift: float, dtype: np.dtype[Any], hopping: bool = False
) -> Grid:
    """Cut V - shift into blocks, all of them here."""
    core, swapped, zeros = (
        core_grid(data, rows, cols, shift, dtype),
        columns_are_outer(data),
        data.absent == "zero",
    )
    entries = core.entries().T if swapped else core.entries()
    sizes = part_sizes(entries, rows, cols, zeros)
    return Grid(core, data.shape, rows.number, swapped, zeros, sizes, hopping)


def columns_are_outer(data: Observations) -> bool:
    """Return whether the columns of V are the outer side."""
    return data.shape[1] > data.shape[0]


def part_sizes(entries: NDArray[np.int64], rows: Strips, cols: Strips, zeros: bool) -> NDArray[np.int64]:
    """Return the entries of each part from those of the blocks, row strips × column strips."""
    if zeros:
        entries = np.outer(np.diff(rows.bounds), np.diff(cols.bounds))
    strip = np.arange(rows.number)
    return np.array([entries[strip, (strip + p) % rows.number].sum() for p in strip], dtype=np.int64)


Entries = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[Any]]
"""Places in W and in H, and values."""


def check_threads(n: object) -> None:
    """Refuse a number of threads that is neither None nor from 1 to 1024."""
    if n is None:
        return
    if not is_integer(n) or not 1 <= n <= 1024:
        raise ModelError(f"threads must be an integer from 1 to 1024, got {n!r}")


@final
@dataclass(frozen=True)
class Threads:
    """Run on `threads` threads of this machine; by default, on all cores that the process may use."""

    threads: int | None = None

    def __post_init__(self) -> None:
        check_threads(self.threads)

    @property
    def workers(self) -> int:
        """The number of threads."""
        return int(self.threads or available_cores())

    def share(self, chains: int) -> Threads:
        """Return the engine for one of several chains that run side by side."""
        return replace(self, threads=max(1, self.workers // chains))

    @property
    def ranks(self) -> int:
        """The number of processes: one."""
        return 1

    @property
    def rank(self) -> int:
        """The number of this process among them."""
        return 0

    def agree(self, value: float) -> float:
        """Return the value: there is nobody to agree with."""
        return value

    def any(self, flag: bool) -> bool:
        """Return the flag: there is nobody else who could raise it."""
        return flag

    def collect(self, array: NDArray[Any], bounds: NDArray[np.int64]) -> None:
        """Do nothing: all rows are here."""

    def grid(
        self,
        data: Observations,
        rows: Strips,
        cols: Strips,
        shift: float,
        dtype: np.dtype[Any],
        hopping: bool = False,
    ) -> Grid:
        """Cut V - shift into blocks; on one machine chains need not hop."""
        return whole_grid(data, rows, cols, shift, dtype)

    def chain(self, grid: Grid, components: int, likelihood: Likelihood, floor: float) -> ThreadedChain:
        """Place two factors of zeros on a grid."""
        return ThreadedChain(grid, components, likelihood, floor, self.workers)


def core_chain(
    grid: Grid, components: int, likelihood: Likelihood, floor: float
) -> _core.Chain32 | _core.Chain64:
    """Return a chain of the core, of the precision of the grid."""
    make = _core.Chain32 if isinstance(grid.core, _core.Grid32) else _core.Chain64
    chain = make(grid.core, components, grid.swapped, likelihood.functor, floor, grid.zeros, grid.thin)
    chain.set_parameters(np.array(likelihood.constants, np.float64))
    return chain


@final
class ThreadedChain:
    """The factors of one chain on one machine. W is factor 0, H factor 1; both have one row an index of V."""

    def __init__(
        self, grid: Grid, components: int, likelihood: Likelihood, floor: float, threads: int
    ) -> None:
        self.core = core_chain(grid, components, likelihood, floor)
        self.grid = grid
        self.components = components
        self.second_order = False
        """Whether the momenta are part of the state."""
        self.dtype = np.dtype(np.float32 if isinstance(self.core, _core.Chain32) else np.float64)
        self._pool = _core.Pool(threads)

    def advance(
        self,
        t: int,
        parts: NDArray[np.int32],
        steps: NDArray[np.float64],
        scales: NDArray[np.float64],
        draws: NDArray[np.int32] | None = None,
    ) -> None:
        """Run iterations t, t + 1, …, one for each part; the interpreter is free meanwhile.

        With `draws`, an iteration reads that many entries of each chunk of the part, drawn with replacement.
        """
        self.core.advance(
            self._pool, t, parts, steps, scales, _NO_DRAWS if draws is None else draws, 0, self.grid.blocks
        )

    def advance_marking(
        self,
        t: int,
        parts: NDArray[np.int32],
        steps: NDArray[np.float64],
        scales: NDArray[np.float64],
        draws: NDArray[np.int32] | None,
        marks: NDArray[np.int64],
        entries: Entries,
        room: tuple[NDArray[Any], NDArray[Any]],
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Run iterations as `advance` does, and look at the factors after as many of them as `marks` says.

        Return Σx and Σx² as of `sums`, (marks, 2, 2, K), and what `log_kernel` at the given entries would have been.
        The factors are copied to `room`, as `factor` does, if it has any: (marks, rows, width).
        """
        given = _NO_DRAWS if draws is None else draws
        return self.core.advance_marking(self._pool, t, parts, steps, scales, given, marks, *entries, *room)

    def reserve(self, room: NDArray[Any]) -> None:
        """Have the system provide the memory of draws, (draws, rows, width), by all threads: they are written soon."""
        _core.make_pages(self._pool, room)

    def accumulate(self, kind: int, part: int = -1) -> None:
        """Add up scores or weights over a part (or over all of V) for every row of both factors."""
        self.core.accumulate(self._pool, kind, part)

    def set_bound(self, which: int, rate: NDArray[np.float64]) -> None:
        """Take the bound b of the non-negative metric from the accumulated weights, φ and the prior's rates."""
        self.core.set_bound(self._pool, which, rate)

    def accumulated(self, which: int) -> NDArray[Any]:
        """Return what `accumulate` added up for a factor."""
        return self._read(which, "sum")

    def sums(self) -> NDArray[np.float64]:
        """Return Σx, Σx² and Σ count x² of each component of W and H, (2, 3, K), in a fixed order of the strips."""
        return self.core.sums(self._pool)

    def gram(self, which: int) -> NDArray[np.float64]:
        """Return Σxxᵀ over the rows of a factor, (K, K), in a fixed order of the strips."""
        table = self.core.strip_grams(which, np.arange(self.grid.blocks))
        return _core.add_rows(table).reshape(self.components, self.components)

    def squared_residuals(self) -> float:
        """Return Σ(v - μ)² as found at the last visit to each block."""
        return float(_core.add_rows(self.core.strip_squares())[0])

    def save(self) -> None:
        """Remember the present state."""
        self.core.save()

    def restore(self) -> None:
        """Go back to the state that `save` remembered, at rest."""
        self.core.restore()

    def fresh_squared_residuals(self) -> float:
        """Return Σ(v - μ)² at the present state: a pass over the data."""
        return self.core.fresh_squares(self._pool)

    def factor(self, which: int, width: int | None = None, out: NDArray[Any] | None = None) -> NDArray[Any]:
        """Return a copy of the first `width` components of a factor, rows in their original order."""
        return self._read(which, "x", width, out)

    def set_factor(self, which: int, x: NDArray[Any]) -> None:
        """Replace a factor."""
        self._write(which, "x", x)

    def state(self) -> dict[str, NDArray[Any]]:
        """Return the factors and the squared residuals, and those to which the chain would go back."""
        return {
            **{name: self._read(which, kind) for name, (which, kind) in self._kept().items()},
            "residuals": self.core.residuals(False),
            "saved_residuals": self.core.residuals(True),
        }

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Take in what `state` returned."""
        for name, (which, kind) in self._kept().items():
            self._write(which, kind, state[name])
        for saved, name in ((False, "residuals"), (True, "saved_residuals")):
            self.core.set_residuals(saved, np.ascontiguousarray(state[name], np.float64))

    def _kept(self) -> dict[str, tuple[int, str]]:
        return KEPT | (MOMENTA if self.second_order else {})

    def weights(self) -> dict[str, NDArray[Any]]:
        """Return what was accumulated last, to be taken in again by `set_weights`."""
        return {"weights_W": self.accumulated(W), "weights_H": self.accumulated(H)}

    def set_weights(self, state: Mapping[str, Any]) -> None:
        """Take in what `weights` returned."""
        self._write(W, "sum", state["weights_W"])
        self._write(H, "sum", state["weights_H"])

    def _read(
        self, which: int, name: str, width: int | None = None, out: NDArray[Any] | None = None
    ) -> NDArray[Any]:
        if out is None:
            out = np.empty((self.grid.shape[which], width or self.components), self.dtype)
        self.core.gather(self._pool, which, name, out)
        return out

    def _write(self, which: int, name: str, x: Any) -> None:
        self.core.scatter(which, name, np.ascontiguousarray(x, self.dtype))

    def noise(self, which: int, iteration: int) -> NDArray[np.float32]:
        """Return the standard normals that iteration uses for a factor."""
        return self.core.noise(which, iteration, np.arange(self.grid.shape[which]))

    def positions(self, which: int, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the places of rows of a factor in the strips."""
        return self.core.positions(which, rows)

    def order(self, rows: NDArray[np.int64], cols: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the order of entries of V by their places on the outer side: a thread has its strips at hand."""
        outer = self.grid.outer
        return np.argsort(self.positions(outer, cols if outer == H else rows), kind="stable")

    def mu(self, rows: NDArray[np.int64], cols: NDArray[np.int64]) -> NDArray[Any]:
        """Return Σ_k w_ik h_kj at pairs of places."""
        return self.core.mu(rows, cols)

    def log_kernel(self, rows: NDArray[np.int64], cols: NDArray[np.int64], values: NDArray[Any]) -> float:
        """Return Σ (log p(v | μ) - its normaliser) φ at pairs of places."""
        return self.core.log_kernel_at(self._pool, rows, cols, values)
