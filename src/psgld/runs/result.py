"""The result of a run: draws, traces and settings. `storage` writes and reads it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, final

import numpy as np
from numpy.typing import NDArray

from ..data.cells import Cells
from ..data.labels import LabelArray
from ..data.seen import Seen
from ..data.source import Source
from ..dynamics.probes import Probes
from ..models import FactorModel
from ..samplers import Setup
from ..system import version
from ..system.record import lasting
from .draws import Draws
from .loop import Plan
from .moments import RunningMoments
from .recorder import Recorder

Table = dict[str, NDArray[Any]]

CELLS = ("held_out", "observed")
"""The entries that a result may keep."""

OBSERVED = 1000
"""Entries of the data that a result keeps."""


@final
@dataclass(frozen=True, eq=False)
class Tracked:
    """Mean and standard deviation of μ at the tracked cells."""

    rows: NDArray[np.int64]
    cols: NDArray[np.int64]
    mean: NDArray[np.float64]
    sd: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Result:
    """Draws, traces and settings of a run. `Posterior` adds predictions and diagnostics."""

    draws: Draws
    model: FactorModel
    shape: tuple[int, int]
    sample_stats: Table
    warmup: Table
    settings: dict[str, Any]
    row_labels: LabelArray | None = None
    col_labels: LabelArray | None = None
    tracked: Tracked | None = None
    seen: Seen | None = None
    held_out: Cells | None = None
    """The entries that `split` held out of the data."""
    observed: Cells | None = None
    """A random sample of the entries of the data, for diagnostics that need values."""

    @property
    def labels(self) -> tuple[LabelArray | None, LabelArray | None]:
        """The labels of each mode: rows, columns."""
        return self.row_labels, self.col_labels

    @property
    def chains(self) -> int:
        """The number of chains."""
        return int(self.draws.phi.shape[0])

    @property
    def parameters(self) -> dict[str, NDArray[Any]]:
        """Draws of the parameters of the likelihood by name, each (chain, draw): "phi", the dispersion, or others."""
        return self.draws.parameters(self.model.likelihood)

    @property
    def divergences(self) -> int:
        """Number of divergences, burn-in included: each resets a chain and halves its step size."""
        return int(self.settings["divergences"])

    @property
    def interrupted(self) -> bool:
        """Whether sampling was stopped before all draws were made."""
        return bool(self.settings["interrupted"])


Sampled = TypeVar("Sampled", bound=Result)
"""`Result`, or `Posterior`: what is made from one is of the same kind."""


def assemble(
    setup: Setup,
    plan: Plan,
    draws: Draws,
    recorders: list[Recorder],
    pairs: tuple[NDArray[np.int64], NDArray[np.int64]] | None,
    keys: list[int],
    interrupted: bool,
) -> Result:
    """Return the result of the recorded chains; of interrupted chains, as many draws as possible."""
    n, chosen = usable([r.kept for r in recorders])
    if n == 0:
        raise KeyboardInterrupt("stopped during burn-in: there are no draws yet")
    kept = [recorders[c] for c in chosen]
    if len(kept) < len(keys) or n < plan.draws:
        draws = draws.part([r.number for r in kept], n)
    tracked = None
    if pairs is not None:
        tracked = Tracked(*pairs, *RunningMoments.pooled([r.moments for r in kept if r.moments is not None]))
    settings = describe(setup, plan, keys, len(kept[0].chain.probes.values))
    settings |= {
        **cost_of(setup.cost_per_iteration, sum(r.chain.iteration for r in kept)),
        "divergences": sum(len(r.chain.divergences) for r in kept),
        "interrupted": interrupted,
    }
    data = setup.data
    return Result(
        draws,
        setup.model,
        data.shape,
        _stacked([r.trace.table(r.full is not None) for r in kept], n),
        _stacked([r.warmup.table(r.full is not None) for r in kept], None),
        settings,
        data.row_labels,
        data.col_labels,
        tracked,
        Seen.of(data),
    )


def cost_of(per_iteration: Mapping[str, float], iterations: int) -> dict[str, int]:
    """Return what iterations cost: numbers of entries read, coefficients updated, and bytes sent."""
    return {name: round(number * iterations) for name, number in per_iteration.items()}


def kept_cells(data: Source, probes: Probes) -> dict[str, Cells]:
    """Return the entries that the result of a run keeps, by name."""
    rows, cols = probes.index
    found = {"observed": Cells(rows, cols, probes.values, probes.weights).some(OBSERVED)}
    if data.held_out is not None:
        found["held_out"] = Cells.of(data.held_out)
    return found


def usable(kept: list[int]) -> tuple[int, list[int]]:
    """Return how many draws of which chains to keep, so that interrupted chains give the most draws in total.

    Examples
    --------
    >>> usable([200, 30, 190])
    (190, [0, 2])
    """
    order = sorted((c for c in range(len(kept)) if kept[c]), key=lambda c: -kept[c])
    if not order:
        return 0, []
    most = max(range(len(order)), key=lambda m: (m + 1) * kept[order[m]])
    return kept[order[most]], sorted(order[: most + 1])


def describe(setup: Setup, plan: Plan, keys: list[int], lp_entries: int) -> dict[str, Any]:
    """Return the settings of a run, serialisable as JSON."""
    return {
        "version": version.__version__,
        "sampler": setup.settings.to_dict(),
        **{n: lasting(x) if isinstance(x, str) else x for n, x in setup.describe().items()},
        "tune": plan.tune,
        "draws": plan.draws,
        "thin": plan.thin,
        "keys": [str(key) for key in keys],
        "entries": setup.data.size,
        "lp_entries": lp_entries,
        **({"weighted": True, "total_weight": setup.data.total_weight} if setup.data.weighted else {}),
    }


def _stacked(tables: list[Table], n: int | None) -> Table:
    return {name: np.stack([t[name][:n] for t in tables]) for name in tables[0]}
