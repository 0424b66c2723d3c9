"""Several processes, on one or more machines: the ring of the paper, on any communicator.

Strips of the longer factor stay on their rank; strips of the shorter one are passed on (`ring.py`). All ranks run the
same chain in lockstep. Hyperparameters and metric are computed from sums over strips, added in a fixed order. So the
chain is bit-identical on any number of ranks and on threads.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cache
from itertools import pairwise
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from ...data.labels import Csr
from ...data.observations import Observations
from ...data.partition import ModeStrips, Strips
from ...data.source import OnDisk, Share, Source
from ...errors import ModelError, SamplingError
from ...models import Likelihood
from ...system.limits import cores_of_quota
from ..base import Engine, H
from ..communicator import Communicator
from ..core_grid import CoreGrid, columns_are_outer, core_grid, part_sizes, whole_grid
from ..threads import check_threads
from . import ranks
from .hopping import HoppingFactors
from .ring import Ring
from .ring_factors import RingFactors


class DistributedEngine(Engine):
    """Runs every chain on all ranks of a communicator. All ranks make the same calls with the same arguments."""

    distributed = True

    threads: int | None

    @property
    @abstractmethod
    def communicator(self) -> Communicator:
        """The communicator that carries the messages."""

    @property
    def ranks(self) -> int:
        """The number of processes."""
        return self.communicator.size

    @property
    def rank(self) -> int:
        """The rank of this process, from 0."""
        return self.communicator.rank

    @property
    def workers(self) -> int:
        """The number of threads of this rank."""
        return int(self.threads or _cores_of_this_rank(self.communicator))

    def agree(self, value: float) -> float:
        """Return rank 0's value on all ranks."""
        return float(ranks.from_first(self.communicator, np.array([value]))[0])

    def any(self, flag: bool) -> bool:
        """Return whether any rank raised the flag."""
        return bool(ranks.total(self.communicator, np.array([int(flag)]))[0])

    def agree_on_keys(self, keys: list[int]) -> list[int]:
        """Return rank 0's random keys of the chains on all ranks."""
        return [int(key) for key in ranks.from_first(self.communicator, np.array(keys, np.uint64))]

    def collect(self, array: NDArray[Any], bounds: NDArray[np.int64]) -> None:
        """Gather an array on rank 0; rank r holds its rows bounds[r] … bounds[r + 1] - 1."""
        ranks.collect(self.communicator, array, bounds)

    def guard(self) -> AbstractContextManager[None]:
        """Return a context that ends all ranks if this one fails, after a one-line message with the reason."""
        return ranks.guard(self.communicator)

    def check_same(self, settings: Mapping[str, str]) -> None:
        """Raise SamplingError on all ranks if they were not started with the same settings."""
        first, *others = ranks.everyones(self.communicator, dict(settings))
        for rank, other in enumerate(others, start=1):
            for name in first:
                if other.get(name) != first[name]:
                    raise SamplingError(
                        f"the ranks disagree on {name}: {first[name]} on rank 0, {other.get(name)} on rank {rank}; "
                        "start all of them with the same settings"
                    )

    def grid(
        self,
        data: Source,
        strips: ModeStrips,
        shift: float,
        dtype: np.dtype[Any],
        hopping: bool = False,
    ) -> CoreGrid:
        """Cut V - shift into blocks, and keep those of the outer strips of this rank.

        With `hopping`, a rank owns complete parts instead, and chains move between ranks.
        """
        blocks, swapped, zeros = strips[0].number, columns_are_outer(data), data.absent == "zero"
        if blocks < self.ranks:
            what, name = ("workers", "workers") if hopping else ("strips", "blocks")
            raise ModelError(
                f"{self.ranks} ranks need at least as many {what}, got {name} = {blocks}; choose {name} = {self.ranks} "
                "or more, or start fewer ranks"
            )
        if hopping:
            return self._one_by_one(lambda: whole_grid(data, strips, shift, dtype, hopping))
        own = self._own(blocks, self.rank)
        if data.on_disk is not None:
            data = self._own_entries(data.on_disk, strips[H] if swapped else None)
        core = core_grid(data, strips, shift, dtype, own)
        if not zeros and not data.weighted:
            core.set_inner_counts(ranks.total(self.communicator, core.inner_counts()))
        entries = np.zeros((blocks, blocks), np.int64)
        entries[slice(*own)] = core.entries()
        entries = ranks.total(self.communicator, entries)
        sizes = part_sizes(entries.T if swapped else entries, strips, zeros)
        return CoreGrid(core, data.shape, blocks, swapped, zeros, sizes, data.zero_weight)

    def factors(
        self, grid: CoreGrid, components: int, likelihood: Likelihood, floor: float
    ) -> RingFactors | HoppingFactors:
        """Create factors of zeros, distributed over the ranks."""
        make = HoppingFactors if grid.hopping else RingFactors
        return make(grid, components, likelihood, floor, self.communicator, self.workers)

    def hop(self, factors: Sequence[Any], parts: Sequence[int]) -> None:
        """Move the factors of each chain to the rank that owns its part, all of them at once."""
        self.communicator.wait(
            [request for of, part in zip(factors, parts, strict=True) for request in of.leave(part)]
        )

    def own_share(self, data: Source) -> Source:
        """Return the data; from shards, each rank reads only its own strips."""
        if data.strips is None:
            return data
        self.check_same({"the shards": data.fingerprint()})
        strips = [range(*self._own(data.strips, rank)) for rank in range(self.ranks)]
        return data.shared(Share(strips, self.rank, self._total, self._exchange))

    def _own(self, strips: int, rank: int) -> tuple[int, int]:
        """Return the range (first, end) of the strips that a rank owns."""
        return Ring(strips, self.ranks, swapped=False).own(rank)

    def _total(self, table: NDArray[Any]) -> NDArray[Any]:
        return ranks.total(self.communicator, table)

    def _exchange(self, parts: list[NDArray[Any]]) -> list[NDArray[Any]]:
        return ranks.exchange(self.communicator, parts)

    def _own_entries(self, shards: OnDisk, cols: Strips | None) -> Source:
        """Read the row strips of this rank; if ranks own columns, send each entry to the rank that owns its column."""
        own = range(*self._own(shards.blocks, self.rank))
        mine = shards.load(own)
        shards.check_totals(own, self._total)
        if cols is None:
            return mine
        ends = [self._own(shards.blocks, rank)[1] for rank in range(self.ranks)]
        keeper = np.empty(shards.shape[1], np.int64)
        keeper[cols.order] = np.searchsorted(cols.bounds[ends], np.arange(shards.shape[1]), side="right")
        to = keeper[mine.indices]
        order = np.argsort(to, kind="stable")
        bounds = np.searchsorted(to[order], np.arange(self.ranks + 1))
        rows = np.repeat(np.arange(shards.shape[0], dtype=np.int32), np.diff(mine.indptr))
        found = [
            np.concatenate(self._exchange([sent[a:b] for a, b in pairwise(bounds)]))
            for sent in (rows[order], mine.indices[order], mine.values[order])
        ]
        order = np.argsort(found[0], kind="stable")  # the entries of a row come from one rank, already sorted
        counts = np.bincount(found[0], minlength=shards.shape[0])
        csr = Csr(
            np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)]), found[1][order], found[2][order]
        )
        return Observations(mine.shape, None, csr, len(order), mine.absent, mine.absent_chosen, *mine.labels)

    def _one_by_one(self, make: Callable[[], CoreGrid]) -> CoreGrid:
        """Call `make` on one rank after another, so that only the first writes the block file; return the result."""
        made = None
        for rank in range(self.ranks):
            made = make() if rank == self.rank else made
            self.any(False)
        assert made is not None
        return made


@final
class Ranks(DistributedEngine):
    """Run on all ranks of a communicator, `threads` threads each; by default, as many as the cores allow."""

    def __init__(self, communicator: Communicator, threads: int | None = None) -> None:
        check_threads(threads)
        self._communicator, self.threads = communicator, threads

    def __repr__(self) -> str:
        return f"Ranks({self._communicator!r}, threads={self.threads})"

    @property
    def communicator(self) -> Communicator:
        """The communicator that carries the messages."""
        return self._communicator


@cache
def _cores_of_this_rank(comm: Communicator) -> int:
    """Return the number of cores per rank of this machine, of those that its ranks may use."""
    try:
        allowed = os.sched_getaffinity(0)
    except AttributeError:
        allowed = set(range(os.cpu_count() or 1))
    mine = {"machine": comm.machine, "cores": " ".join(map(str, sorted(allowed)))}
    here = [other for other in ranks.everyones(comm, mine) if other["machine"] == mine["machine"]]
    together = {core for other in here for core in other["cores"].split()}
    return max(1, min(len(together), cores_of_quota()) // len(here))
