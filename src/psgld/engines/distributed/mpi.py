"""Many processes, on one machine or on many: the ring of the paper on MPI.

Strips of the longer factor stay on their rank; strips of the shorter one travel (`ring.py`). Every rank runs the same
chain in lock step: hyperparameters and metric follow from sums of strips, which are added in a fixed order, whoever has
them. So the chain has the same bits on any number of ranks as on threads.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from ...data.labels import Csr
from ...data.observations import Observations
from ...data.partition import Strips
from ...data.shards import Shards
from ...errors import ModelError, SamplingError
from ...models import Likelihood
from ...system.limits import cores_of_quota
from ..threads import Grid, check_threads, columns_are_outer, core_grid, part_sizes, whole_grid
from . import ranks
from .hopping import HoppingChain
from .mpi_chain import MpiChain
from .ring import Ring


@final
@dataclass(frozen=True)
class MPI:
    """Run on all ranks that `mpiexec` started, `threads` threads each; by default, as many as the cores allow.

    Every rank calls `psgld.sample` with the same arguments. Rank 0 shows the progress and returns the full posterior;
    the others return one without draws of W and H.

    Examples
    --------
    >>> import psgld
    >>> engine = psgld.MPI(threads=1)
    """

    threads: int | None = None

    def __post_init__(self) -> None:
        check_threads(self.threads)

    @property
    def ranks(self) -> int:
        """The number of processes."""
        return int(ranks.world().Get_size())

    @property
    def rank(self) -> int:
        """The number of this process among them."""
        return int(ranks.world().Get_rank())

    @property
    def workers(self) -> int:
        """The number of threads of this rank."""
        return int(self.threads or _cores_of_this_rank())

    def share(self, chains: int) -> MPI:
        """Return the engine itself: chains run one after the other, each on all ranks."""
        return self

    def agree(self, value: float) -> float:
        """Return rank 0's value on all ranks."""
        return float(ranks.from_first(np.array([value]))[0])

    def any(self, flag: bool) -> bool:
        """Return whether any rank raised the flag."""
        return bool(ranks.total(np.array([int(flag)]))[0])

    def same_keys(self, keys: list[int]) -> list[int]:
        """Return rank 0's keys on all ranks."""
        return [int(key) for key in ranks.from_first(np.array(keys, np.uint64))]

    def collect(self, array: NDArray[Any], bounds: NDArray[np.int64]) -> None:
        """Have on rank 0 all rows of an array of which rank r has those from bounds[r] to bounds[r + 1]."""
        ranks.collect(array, bounds)

    @contextmanager
    def guard(self) -> Iterator[None]:
        """End all ranks if this one fails, after one line that says which and why."""
        with ranks.guard():
            yield

    def check_same(self, settings: Mapping[str, str]) -> None:
        """Raise SamplingError on all ranks if they were not started with the same settings."""
        first, *others = ranks.everyones(dict(settings))
        for rank, other in enumerate(others, start=1):
            for name in first:
                if other.get(name) != first[name]:
                    raise SamplingError(
                        f"the ranks disagree on {name}: {first[name]} on rank 0, {other.get(name)} on rank {rank}; "
                        "start all of them alike"
                    )

    def grid(
        self,
        data: Observations,
        rows: Strips,
        cols: Strips,
        shift: float,
        dtype: np.dtype[Any],
        hopping: bool = False,
    ) -> Grid:
        """Cut V - shift into blocks, and keep those of the outer strips of this rank.

        With `hopping` a rank works on whole parts, and whole chains hop between ranks.
        """
        blocks, swapped, zeros = rows.number, columns_are_outer(data), data.absent == "zero"
        if blocks < self.ranks:
            what, name = ("workers", "workers") if hopping else ("strips", "blocks")
            raise ModelError(
                f"{self.ranks} ranks need at least as many {what}, got {name} = {blocks}; choose {name} = {self.ranks} "
                "or more, or start fewer ranks"
            )
        if hopping:
            return self._one_by_one(lambda: whole_grid(data, rows, cols, shift, dtype, hopping))
        own = self.own(blocks, self.rank)
        if isinstance(data, Shards):
            data = self._own_entries(data, cols if swapped else None)
        core = core_grid(data, rows, cols, shift, dtype, own)
        if not zeros:
            core.set_inner_counts(ranks.total(core.inner_counts()))
        entries = np.zeros((blocks, blocks), np.int64)
        entries[slice(*own)] = core.entries()
        entries = ranks.total(entries)
        sizes = part_sizes(entries.T if swapped else entries, rows, cols, zeros)
        return Grid(core, data.shape, blocks, swapped, zeros, sizes)

    def chain(
        self, grid: Grid, components: int, likelihood: Likelihood, floor: float
    ) -> MpiChain | HoppingChain:
        """Place two factors of zeros on the ranks."""
        make = HoppingChain if grid.hopping else MpiChain
        return make(grid, components, likelihood, floor, self)

    def own(self, strips: int, rank: int) -> tuple[int, int]:
        """Return the first of the strips that a rank keeps, and reads, and the one behind its last."""
        return Ring(strips, self.ranks, swapped=False).own(rank)

    def total(self, table: NDArray[Any]) -> NDArray[Any]:
        """Return the sum of a table over the ranks."""
        return ranks.total(table)

    def exchange(self, parts: list[NDArray[Any]]) -> list[NDArray[Any]]:
        """Give every rank its part, and return what each has for this one."""
        return ranks.exchange(parts)

    def _own_entries(self, shards: Shards, cols: Strips | None) -> Observations:
        """Read the row strips of this rank; if it keeps columns, send their entries to whom they belong."""
        own = range(*self.own(shards.blocks, self.rank))
        mine = shards.load(own)
        shards.check_totals(own, ranks.total)
        if cols is None:
            return mine
        ends = [self.own(shards.blocks, rank)[1] for rank in range(self.ranks)]
        keeper = np.empty(shards.shape[1], np.int64)
        keeper[cols.order] = np.searchsorted(cols.bounds[ends], np.arange(shards.shape[1]), side="right")
        to = keeper[mine.indices]
        order = np.argsort(to, kind="stable")
        bounds = np.searchsorted(to[order], np.arange(self.ranks + 1))
        rows = np.repeat(np.arange(shards.shape[0], dtype=np.int32), np.diff(mine.indptr))
        found = [
            np.concatenate(ranks.exchange([sent[a:b] for a, b in pairwise(bounds)]))
            for sent in (rows[order], mine.indices[order], mine.values[order])
        ]
        order = np.argsort(found[0], kind="stable")  # the entries of a row come from one rank, in order
        counts = np.bincount(found[0], minlength=shards.shape[0])
        csr = Csr(
            np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)]), found[1][order], found[2][order]
        )
        return replace(mine, csr=csr, stored=len(order))

    def _one_by_one(self, make: Callable[[], Grid]) -> Grid:
        """Return what every rank makes in its turn: blocks in a file are written by the first that wants them."""
        made = None
        for rank in range(self.ranks):
            made = make() if rank == self.rank else made
            self.any(False)
        assert made is not None
        return made


@cache
def _cores_of_this_rank() -> int:
    """Return the cores of this machine that the ranks on it may use together, shared out among them."""
    allowed = np.zeros(os.cpu_count() or 1, np.int64)
    try:
        allowed[list(os.sched_getaffinity(0))] = 1
    except AttributeError:
        allowed[:] = 1
    together, here = ranks.on_this_machine(allowed)
    return max(1, min(int(np.count_nonzero(together)), cores_of_quota()) // here)
