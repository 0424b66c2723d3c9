"""The interface of an engine, which stores the blocks of V and the factors of a chain, and updates the factors.

    engine.grid(data, strips, …) → Grid        engine.factors(grid, components, likelihood, floor) → Factors

A sampler calls only these methods. Prior, metric and hyperparameters reach the factors as numbers. A chain is
bit-identical on every engine that runs the compiled core, and equal up to rounding on `Reference`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, final

import numpy as np
from numpy.typing import NDArray

from ..data.partition import ModeStrips
from ..data.source import Source
from ..models import Likelihood
from ..models.modes import NAMES

W, H = 0, 1
"""The indices of the two factors of a matrix: the axes of their modes."""

WEIGHTS = tuple(f"weights_{names.factor}" for names in NAMES)
"""The names of the sums of `accumulate` in a checkpoint, one per mode."""

MetricName = Literal["identity", "non-negative", "real-valued"]
"""The metrics that engines implement."""

SumName = Literal["score", "weight"]
"""The summand of `accumulate`: φ ∂ log p(v | μ) / ∂μ, or its negative part."""

Places = tuple[NDArray[np.int64], ...]
"""Entries of V: one array of indices, or of positions in a factor, per mode."""


class Entries(NamedTuple):
    """Entries of V: their positions in the factor of each mode, their values, and their weights, if they have any."""

    places: Places
    values: NDArray[Any]
    weights: NDArray[Any] | None = None


@final
@dataclass(frozen=True, eq=False)
class Stretch:
    """Consecutive iterations t, t + 1, …: their parts, step sizes ε and scales s.

    `draws` has the number of entries to draw from each chunk, or is None if all entries are read.
    """

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
    """V in blocks, shared by all chains."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of V."""

    @property
    def blocks(self) -> int:
        """B: the number of strips of each mode, and of parts."""

    @property
    def zeros(self) -> bool:
        """Whether absent entries are zeros."""

    @property
    def hopping(self) -> bool:
        """Whether each rank owns parts, and chains move from rank to rank (DSGLD); otherwise each rank owns strips."""

    @property
    def part_sizes(self) -> NDArray[np.int64]:
        """The number of entries of each part."""

    def cut_for_draws(self, share: float) -> NDArray[np.int64]:
        """Cut the work for iterations that draw a share of the entries; return the entries per chunk of each part."""


class ReadableFactors(Protocol):
    """Read access to the factors of a chain. A position is the index of a row in storage (`positions`)."""

    dtype: np.dtype[Any]

    def factor(self, which: int, width: int | None = None, out: NDArray[Any] | None = None) -> NDArray[Any]:
        """Return a copy of the first `width` components of a factor, rows in the order of V.

        With `out`, only rank 0 writes to it.
        """

    def positions(self, which: int, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the positions in storage of rows of a factor; -1 for rows that another rank keeps."""

    def order(self, index: Places) -> NDArray[np.int64]:
        """Return a permutation that groups the entries of V at `index` whose rows are stored next to each other."""

    def mu(self, places: Places) -> NDArray[Any]:
        """Return Σ_k w_ik h_kj at the positions of entries."""

    def log_kernel(self, places: Places, values: NDArray[Any], weights: NDArray[Any] | None = None) -> float:
        """Return φ Σ w (log p(v | μ) - log normaliser) at the positions of entries of weight w (1 by default)."""

    def sums(self) -> NDArray[np.float64]:
        """Return Σx, Σx², Σ log x and Σ count x² of each component of each factor, (modes, 4, K).

        Σ log x is 0 unless a prior needs it.
        """

    def gram(self, which: int) -> NDArray[np.float64]:
        """Return Σxxᵀ over the rows of a factor, (K, K)."""


class Factors(ABC):
    """The factors of one chain, one per mode of V, with K components and a row per index: W is factor 0, H is factor 1.

    Where several ranks run a chain, every method is collective: all ranks call it, with the same arguments.
    """

    passes_marks: ClassVar[bool] = False
    """Whether `advance_marking` is implemented, so that a chain need not stop at each draw."""

    dtype: np.dtype[Any]
    components: int

    # -- the update rule: the numbers that define a step ---------------------------------------------------

    @abstractmethod
    def set_dynamics(
        self, key: int, metric: MetricName, mirror: bool, temperature: float, second_order: bool = False
    ) -> None:
        """Set the key of the noise, the metric D, reflection (x ← |x| after a step), τ, and the order of the step.

        `second_order` says whether ρ is ever > 0; if so, the momenta are part of the state.
        """

    @abstractmethod
    def set_log_sums(self, wanted: bool) -> None:
        """Set whether `sums` has Σ log x."""

    @abstractmethod
    def set_momentum(self, rho: float) -> None:
        """Set the momentum ρ; 0 gives first-order steps."""

    @abstractmethod
    def set_parameters(self, phi: float, others: Sequence[float]) -> None:
        """Set the dispersion φ of the likelihood and its other parameters."""

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

        `coupling`, (K, K) with a zero diagonal, couples the components of a row. Once given, it is kept.
        """

    @abstractmethod
    def set_move(self, which: int, move: NDArray[np.float64]) -> None:
        """Set which components of a factor are updated: 1, or 0 for fixed components."""

    @abstractmethod
    def set_bound(self, which: int, rate: NDArray[np.float64]) -> None:
        """Compute the bound b of the non-negative metric from the accumulated weights, φ and the prior's rates."""

    @abstractmethod
    def set_curvature(self, which: int, curvature: NDArray[np.float64], ridge: NDArray[np.float64]) -> None:
        """Set 1/D of the real-valued metric: count × curvature + ridge; count is the number of entries of a row."""

    @abstractmethod
    def curvature(self, which: int) -> NDArray[np.float64]:
        """Return the arguments of `set_curvature`, (2, K)."""

    # -- updates and sums ----------------------------------------------------------------------------------

    @abstractmethod
    def advance(self, stretch: Stretch) -> None:
        """Run iterations."""

    def advance_marking(
        self,
        stretch: Stretch,
        marks: NDArray[np.int64],
        entries: Entries,
        buffers: tuple[NDArray[Any], ...],
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Run iterations, and read the factors after the numbers of iterations in `marks`.

        Return, for each mark, Σx, Σx² and Σ log x of `sums`, (marks, modes, 3, K), and `log_kernel` at the given
        entries. If the arrays of `buffers`, (marks, rows, width) per mode, are not empty, the factors are copied to
        them.
        """
        raise NotImplementedError

    def reserve(self, buffers: NDArray[Any]) -> None:  # noqa: B027
        """Have the operating system allocate the pages of an array of draws, (draws, rows, width), ahead of use."""

    @abstractmethod
    def accumulate(self, kind: SumName, part: int = -1) -> None:
        """Sum scores or weights over a part (or over all of V) for every row of every factor."""

    @abstractmethod
    def accumulated(self, which: int) -> NDArray[Any]:
        """Return the sums of `accumulate` for a factor."""

    @abstractmethod
    def sums(self) -> NDArray[np.float64]:
        """Return Σx, Σx², Σ log x and Σ count x² of each component of each factor, (modes, 4, K).

        Strips are added in a fixed order. Σ log x is 0 unless `set_log_sums` asked for it; in it, x is at least the
        smallest normal number.
        """

    @abstractmethod
    def gram(self, which: int) -> NDArray[np.float64]:
        """Return Σxxᵀ over the rows of a factor, (K, K), in a fixed order of the strips."""

    @abstractmethod
    def squared_residuals(self) -> float:
        """Return Σ(v - μ)², each block as of its last update."""

    @abstractmethod
    def fresh_squared_residuals(self) -> float:
        """Return Σ(v - μ)² at the current state, by a pass over the data."""

    # -- reading and writing -------------------------------------------------------------------------------

    @abstractmethod
    def factor(self, which: int, width: int | None = None, out: NDArray[Any] | None = None) -> NDArray[Any]:
        """Return a copy of the first `width` components of a factor, rows in the order of V.

        With `out`, only rank 0 writes to it, since draws are kept there.
        """

    @abstractmethod
    def set_factor(self, which: int, x: NDArray[Any]) -> None:
        """Replace a factor, given all its rows, or only the rows that `noise` returns."""

    def deliver(self, which: int, columns: slice, out: NDArray[Any], bounds: NDArray[np.int64]) -> None:
        """Copy some components of a factor to `out`: on rank r, the rows bounds[r] … bounds[r + 1] - 1."""
        first, last = bounds[:2]
        out[first:last] = self.factor(which)[first:last, columns]

    @abstractmethod
    def noise(self, which: int, iteration: int) -> NDArray[Any]:
        """Return the standard normals of an iteration, for the rows of a factor that this process keeps."""

    @abstractmethod
    def positions(self, which: int, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the positions in storage of rows of a factor; -1 for rows that another rank keeps."""

    @abstractmethod
    def order(self, index: Places) -> NDArray[np.int64]:
        """Return a permutation that groups the entries of V at `index` whose rows are stored next to each other."""

    @abstractmethod
    def mu(self, places: Places) -> NDArray[Any]:
        """Return Σ_k w_ik h_kj at the positions of entries."""

    @abstractmethod
    def log_kernel(self, places: Places, values: NDArray[Any], weights: NDArray[Any] | None = None) -> float:
        """Return φ Σ w (log p(v | μ) - log normaliser) at the positions of entries of weight w (1 by default)."""

    # -- state ---------------------------------------------------------------------------------------------

    @abstractmethod
    def save(self) -> None:
        """Save the current factors and residuals in memory."""

    @abstractmethod
    def restore(self) -> None:
        """Return to the factors and residuals of the last `save`, with zero momentum."""

    @abstractmethod
    def state(self) -> dict[str, NDArray[Any]]:
        """Return the factors and squared residuals, and those of the last `save`. Only rank 0 has their values."""

    @abstractmethod
    def set_state(self, state: Mapping[str, Any]) -> None:
        """Set the state to what `state` returned on rank 0, of any number of ranks."""

    @abstractmethod
    def weights(self) -> dict[str, NDArray[Any]]:
        """Return the sums of the last `accumulate`, for `set_weights`. Only rank 0 has their values."""

    @abstractmethod
    def set_weights(self, state: Mapping[str, Any]) -> None:
        """Set the sums to what `weights` returned."""


def log_sums(x: NDArray[Any], wanted: bool) -> NDArray[np.float64]:
    """Return Σ log x over the rows of a factor, (K,), or zeros unless it is wanted."""
    if not wanted:
        return np.zeros(x.shape[1])
    return np.asarray(np.log(np.maximum(x, np.finfo(x.dtype).tiny, dtype=np.float64)).sum(axis=0))


class Engine(ABC):
    """Stores the data and the factors of chains, and updates the factors. Subclasses are frozen settings."""

    distributed: ClassVar[bool] = False
    """Whether several processes run each chain in lockstep, each with its own strips."""

    compiled: ClassVar[bool] = True
    """Whether the compiled core runs on `workers` threads, as samplers without blocks need (`Gibbs`, `BPMFGibbs`)."""

    @property
    @abstractmethod
    def workers(self) -> int:
        """The number of threads of this process."""

    @abstractmethod
    def grid(
        self,
        data: Source,
        strips: ModeStrips,
        shift: float,
        dtype: np.dtype[Any],
        hopping: bool = False,
    ) -> Any:
        """Cut V - shift into blocks and return a `Grid`; with `hopping`, chains may move from rank to rank."""

    @abstractmethod
    def factors(self, grid: Any, components: int, likelihood: Likelihood, floor: float) -> Factors:
        """Create the factors of zeros, one per mode, on a grid of this engine. `floor` is the lower limit of μ."""

    def share(self, chains: int) -> Engine:
        """Return the engine for one of several concurrent chains."""
        return self

    def hop(self, factors: Sequence[Any], parts: Sequence[int]) -> None:  # noqa: B027
        """Move the factors of each chain to the rank that owns its next part, on a grid with `hopping`."""

    # -- communication between processes: nothing to do for one process -------------------------------------

    @property
    def ranks(self) -> int:
        """The number of processes."""
        return 1

    @property
    def rank(self) -> int:
        """The rank of this process, from 0."""
        return 0

    def guard(self) -> AbstractContextManager[None]:
        """Return a context that ends all processes if this one fails, after a one-line message with the reason."""
        return nullcontext()

    def agree(self, value: float) -> float:
        """Return rank 0's value on all ranks."""
        return value

    def agree_on_keys(self, keys: list[int]) -> list[int]:
        """Return rank 0's random keys of the chains on all ranks."""
        return keys

    def any(self, flag: bool) -> bool:
        """Return whether the flag is True on any rank."""
        return flag

    def collect(self, array: NDArray[Any], bounds: NDArray[np.int64]) -> None:  # noqa: B027
        """Gather an array on rank 0; rank r holds its rows bounds[r] … bounds[r + 1] - 1."""

    def check_same(self, settings: Mapping[str, str]) -> None:  # noqa: B027
        """Raise SamplingError on all ranks if their settings differ."""

    def own_share(self, data: Source) -> Source:
        """Return the data; from shards, each rank reads only its own strips."""
        return data
