"""The contract of an engine: where the blocks of V and the factors of a chain live, and who moves them.

    engine.grid(data, rows, cols, …) → Grid        engine.factors(grid, components, likelihood, floor) → Factors

A sampler asks an engine and its factors for nothing else. Prior, metric and hyperparameters reach the factors as
numbers. A chain has the same bits on every engine that runs the core, and nearly the same numbers on `Reference`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol, final

import numpy as np
from numpy.typing import NDArray

from ..data.partition import Strips
from ..data.source import Source
from ..models import Likelihood

W, H = 0, 1
"""How the two factors are addressed."""

MetricName = Literal["identity", "non-negative", "real-valued"]
"""The metrics that engines know."""

SumName = Literal["score", "weight"]
"""What `accumulate` adds up: φ ∂ log p(v | μ) / ∂μ, or the negative part of it."""

Entries = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[Any]]
"""Places in W and in H, and values."""


@final
@dataclass(frozen=True, eq=False)
class Stretch:
    """Iterations t, t + 1, …: their parts, steps ε, scales s, and the draws from each chunk if not all is read."""

    t: int
    parts: NDArray[np.int32]
    steps: NDArray[np.float64]
    scales: NDArray[np.float64]
    draws: NDArray[np.int32] | None = None

    def __len__(self) -> int:
        """Return the number of iterations."""
        return len(self.parts)

    def piece(self, first: int, last: int) -> Stretch:
        """Return the iterations from t + first to t + last - 1."""
        now = slice(first, last)
        draws = None if self.draws is None else self.draws[now]
        return Stretch(self.t + first, self.parts[now], self.steps[now], self.scales[now], draws)


class Grid(Protocol):
    """V cut into blocks; shared by all chains."""

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of V."""

    @property
    def blocks(self) -> int:
        """B, the number of strips of either side, and of parts."""

    @property
    def zeros(self) -> bool:
        """Whether entries that are not stored are zeros."""

    @property
    def hopping(self) -> bool:
        """Whether parts belong to ranks, and whole chains go from one to the next; else strips do."""

    @property
    def part_sizes(self) -> NDArray[np.int64]:
        """Entries of each part."""

    def cut_for_draws(self, share: float) -> NDArray[np.int64]:
        """Cut the work for iterations that draw a share of the entries; return what each chunk of each part holds."""


class ReadableFactors(Protocol):
    """The factors of a chain, as they are read. Places are where a row is kept; `positions` tells them."""

    dtype: np.dtype[Any]

    def factor(self, which: int, width: int | None = None, out: NDArray[Any] | None = None) -> NDArray[Any]:
        """Return a copy of the first `width` components of a factor, rows in their original order.

        With `out`, rank 0 alone fills it.
        """

    def positions(self, which: int, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the places of rows of a factor; -1 where another rank keeps them."""

    def order(self, rows: NDArray[np.int64], cols: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the order of entries of V in which those whose rows are kept together follow each other."""

    def mu(self, rows: NDArray[np.int64], cols: NDArray[np.int64]) -> NDArray[Any]:
        """Return Σ_k w_ik h_kj at pairs of places."""

    def log_kernel(self, rows: NDArray[np.int64], cols: NDArray[np.int64], values: NDArray[Any]) -> float:
        """Return Σ (log p(v | μ) - its normaliser) φ at pairs of places."""

    def sums(self) -> NDArray[np.float64]:
        """Return Σx, Σx² and Σ count x² of each component of W and H, (2, 3, K)."""

    def gram(self, which: int) -> NDArray[np.float64]:
        """Return Σxxᵀ over the rows of a factor, (K, K)."""


class Factors(ABC):
    """The factors of one chain: W is factor 0, H factor 1, each with a row per index of V and K components.

    Where several ranks run a chain, all of them call every method, with the same arguments and at the same time.
    """

    passes_marks: ClassVar[bool] = False
    """Whether `advance_marking` is there: a chain then need not stop at each draw."""

    dtype: np.dtype[Any]
    components: int

    # -- the rule: numbers that decide how the factors move ------------------------------------------------

    @abstractmethod
    def set_dynamics(
        self, key: int, metric: MetricName, mirror: bool, temperature: float, second_order: bool = False
    ) -> None:
        """Set the key of the noise, the metric D, whether x ← |x| after each step, τ, and whether ρ is ever > 0.

        If so, the momenta are part of the state.
        """

    @abstractmethod
    def set_momentum(self, rho: float) -> None:
        """Set ρ; 0 for steps of first order."""

    @abstractmethod
    def set_parameters(self, phi: float, others: Sequence[float]) -> None:
        """Set the dispersion φ of the likelihood, and its other parameters."""

    @abstractmethod
    def set_prior(
        self,
        which: int,
        inverse: float,
        linear: NDArray[np.float64],
        quadratic: NDArray[np.float64],
        coupling: NDArray[np.float64] | None = None,
    ) -> None:
        """Set the score of a factor's prior: inverse / x + linear - quadratic x - coupling x.

        `coupling`, (K, K) with a diagonal of zeros, joins the components of a row; once given, it stays.
        """

    @abstractmethod
    def set_move(self, which: int, move: NDArray[np.float64]) -> None:
        """Set which components of a factor move: 1, or 0 for those that stay."""

    @abstractmethod
    def set_bound(self, which: int, rate: NDArray[np.float64]) -> None:
        """Take the bound b of the non-negative metric from the accumulated weights, φ and the prior's rates."""

    @abstractmethod
    def set_curvature(self, which: int, curvature: NDArray[np.float64], ridge: NDArray[np.float64]) -> None:
        """Set 1/D of the real-valued metric: count × curvature + ridge, with the entries of each row as count."""

    @abstractmethod
    def curvature(self, which: int) -> NDArray[np.float64]:
        """Return what `set_curvature` was given, (2, K)."""

    # -- moving and adding up ------------------------------------------------------------------------------

    @abstractmethod
    def advance(self, stretch: Stretch) -> None:
        """Run iterations."""

    def advance_marking(
        self,
        stretch: Stretch,
        marks: NDArray[np.int64],
        entries: Entries,
        room: tuple[NDArray[Any], NDArray[Any]],
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Run iterations, and look at the factors after as many of them as `marks` says.

        Return Σx and Σx² as of `sums`, (marks, 2, 2, K), and what `log_kernel` at the given entries would have been.
        The factors are copied to `room`, as `factor` does, if it has any: (marks, rows, width).
        """
        raise NotImplementedError

    def reserve(self, room: NDArray[Any]) -> None:  # noqa: B027
        """Have the system provide the memory of draws, (draws, rows, width), which are written soon."""

    @abstractmethod
    def accumulate(self, kind: SumName, part: int = -1) -> None:
        """Add up scores or weights over a part (or over all of V) for every row of both factors."""

    @abstractmethod
    def accumulated(self, which: int) -> NDArray[Any]:
        """Return what `accumulate` added up for a factor."""

    @abstractmethod
    def sums(self) -> NDArray[np.float64]:
        """Return Σx, Σx² and Σ count x² of each component of W and H, (2, 3, K), in a fixed order of the strips."""

    @abstractmethod
    def gram(self, which: int) -> NDArray[np.float64]:
        """Return Σxxᵀ over the rows of a factor, (K, K), in a fixed order of the strips."""

    @abstractmethod
    def squared_residuals(self) -> float:
        """Return Σ(v - μ)² as found at the last visit to each block."""

    @abstractmethod
    def fresh_squared_residuals(self) -> float:
        """Return Σ(v - μ)² at the present state: a pass over the data."""

    # -- reading and writing -------------------------------------------------------------------------------

    @abstractmethod
    def factor(self, which: int, width: int | None = None, out: NDArray[Any] | None = None) -> NDArray[Any]:
        """Return a copy of the first `width` components of a factor, rows in their original order.

        With `out`, rank 0 alone fills it: draws are kept there.
        """

    @abstractmethod
    def set_factor(self, which: int, x: NDArray[Any]) -> None:
        """Replace a factor, given all its rows, or those of which `noise` tells."""

    def deliver(self, which: int, columns: slice, out: NDArray[Any], bounds: NDArray[np.int64]) -> None:
        """Fill in rows of `out`, of some components of a factor: on rank r those from bounds[r] to bounds[r + 1]."""
        first, last = bounds[:2]
        out[first:last] = self.factor(which)[first:last, columns]

    @abstractmethod
    def noise(self, which: int, iteration: int) -> NDArray[Any]:
        """Return the standard normals that iteration uses for the rows of a factor that are here."""

    @abstractmethod
    def positions(self, which: int, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the places of rows of a factor; -1 where another rank keeps them."""

    @abstractmethod
    def order(self, rows: NDArray[np.int64], cols: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the order of entries of V in which those whose rows are kept together follow each other."""

    @abstractmethod
    def mu(self, rows: NDArray[np.int64], cols: NDArray[np.int64]) -> NDArray[Any]:
        """Return Σ_k w_ik h_kj at pairs of places."""

    @abstractmethod
    def log_kernel(self, rows: NDArray[np.int64], cols: NDArray[np.int64], values: NDArray[Any]) -> float:
        """Return Σ (log p(v | μ) - its normaliser) φ at pairs of places."""

    # -- state ---------------------------------------------------------------------------------------------

    @abstractmethod
    def save(self) -> None:
        """Remember the present factors and residuals."""

    @abstractmethod
    def restore(self) -> None:
        """Return to what `save` remembered, at rest."""

    @abstractmethod
    def state(self) -> dict[str, NDArray[Any]]:
        """Return the factors and the squared residuals, and those of `save`; rank 0 alone has their values."""

    @abstractmethod
    def set_state(self, state: Mapping[str, Any]) -> None:
        """Take in what `state` returned, on rank 0 of any number of ranks."""

    @abstractmethod
    def weights(self) -> dict[str, NDArray[Any]]:
        """Return what was accumulated last, to be taken in again by `set_weights`; rank 0 alone has the values."""

    @abstractmethod
    def set_weights(self, state: Mapping[str, Any]) -> None:
        """Take in what `weights` returned."""


class Engine(ABC):
    """Places the data and the factors of chains, and says who works on them. Subclasses are frozen settings."""

    distributed: ClassVar[bool] = False
    """Whether several processes run each chain together, in lock step, each with strips of its own."""

    compiled: ClassVar[bool] = True
    """Whether `workers` threads of the core are at hand, for samplers that have no blocks (`Gibbs`, `BPMFGibbs`)."""

    @property
    @abstractmethod
    def workers(self) -> int:
        """The number of threads of this process."""

    @abstractmethod
    def grid(
        self,
        data: Source,
        rows: Strips,
        cols: Strips,
        shift: float,
        dtype: np.dtype[Any],
        hopping: bool = False,
    ) -> Any:
        """Cut V - shift into blocks, a `Grid`; with `hopping`, whole chains may go from rank to rank."""

    @abstractmethod
    def factors(self, grid: Any, components: int, likelihood: Likelihood, floor: float) -> Factors:
        """Place two factors of zeros on a grid of this engine; μ is not taken below the floor."""

    def share(self, chains: int) -> Engine:
        """Return the engine for one of several chains that run side by side."""
        return self

    def hop(self, factors: Sequence[Any], parts: Sequence[int]) -> None:  # noqa: B027
        """Have the factors of each chain where the part is that it reads next, on a grid that is `hopping`."""

    # -- what processes tell each other: nothing, where there is one ---------------------------------------

    @property
    def ranks(self) -> int:
        """The number of processes."""
        return 1

    @property
    def rank(self) -> int:
        """The number of this process among them."""
        return 0

    def guard(self) -> AbstractContextManager[None]:
        """End all processes if this one fails, after one line that says which and why."""
        return nullcontext()

    def agree(self, value: float) -> float:
        """Return rank 0's value on all ranks."""
        return value

    def agree_on_keys(self, keys: list[int]) -> list[int]:
        """Return rank 0's keys of chains on all ranks."""
        return keys

    def any(self, flag: bool) -> bool:
        """Return whether any rank raised the flag."""
        return flag

    def collect(self, array: NDArray[Any], bounds: NDArray[np.int64]) -> None:  # noqa: B027
        """Have on rank 0 all rows of an array of which rank r has those from bounds[r] to bounds[r + 1]."""

    def check_same(self, settings: Mapping[str, str]) -> None:  # noqa: B027
        """Raise SamplingError on all ranks if they were not started with the same settings."""

    def own_share(self, data: Source) -> Source:
        """Return data of which each rank reads no more than its own strips, where they are kept in strips."""
        return data
