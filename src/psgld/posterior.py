"""The posterior: draws, traces, predictions, a summary; kept in a single file without pickles."""

from __future__ import annotations

import re
from dataclasses import dataclass
from os import PathLike
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .errors import DataError
from .labels import LabelArray, find_labels
from .models import FactorModel
from .predict import Prediction
from .record import Draws, Recorder, RunningMoments
from .run import Plan

Table = dict[str, NDArray[Any]]


@final
@dataclass(frozen=True, eq=False)
class Tracked:
    """Mean and sd of μ at the pairs that were followed while sampling."""

    rows: NDArray[np.int64]
    cols: NDArray[np.int64]
    mean: NDArray[np.float64]
    sd: NDArray[np.float64]


@final
@dataclass(frozen=True, eq=False)
class Posterior:
    """Draws from the posterior of a factor model.

    Attributes
    ----------
    draws : the kept draws, dims (chain, draw, …).
    model : the model that was sampled.
    sample_stats : `lp` (log posterior), `step_size`, `diverging`, `iteration`, each (chain, draw).
    warmup : the same along the burn-in, (chain, mark).
    settings : how it was sampled, fit for JSON.
    row_labels, col_labels : the labels of the data, or None.
    tracked : mean and sd at the pairs given as `track`, or None.
    """

    draws: Draws
    model: FactorModel
    shape: tuple[int, int]
    sample_stats: Table
    warmup: Table
    settings: dict[str, Any]
    row_labels: LabelArray | None = None
    col_labels: LabelArray | None = None
    tracked: Tracked | None = None

    @property
    def W(self) -> NDArray[Any]:
        """Draws of W, (chain, draw, I, K)."""
        return self.draws.W

    @property
    def H(self) -> NDArray[Any]:
        """Draws of H, (chain, draw, K, J)."""
        return self.draws.H.swapaxes(-1, -2)

    @property
    def chains(self) -> int:
        """The number of chains."""
        return int(self.draws.phi.shape[0])

    @property
    def divergences(self) -> int:
        """How often a chain ran away, was set back, and had its step size halved; burn-in included."""
        return int(self.settings["divergences"])

    @property
    def interrupted(self) -> bool:
        """Whether sampling was stopped before all draws were made."""
        return bool(self.settings["interrupted"])

    def predict(self, rows: ArrayLike, cols: ArrayLike, seed: int = 0) -> Prediction:
        """Return the posterior of μ and of a new observation at the pairs (rows[q], cols[q]).

        Rows and columns are given in the labels of the data if they had any, else as indices; a single row or
        column is paired with all of the other.

        Examples
        --------
        >>> import numpy as np, psgld
        >>> V = np.random.default_rng(0).poisson(4.0, size=(30, 20))
        >>> post = psgld.sample(V, psgld.FactorModel(2, "poisson"), draws=50)
        >>> low, high = post.predict([0, 1], [3, 4]).interval(0.9)
        >>> bool((low <= high).all())
        True
        """
        i = find_labels(self.row_labels, rows, self.shape[0], "row")
        j = find_labels(self.col_labels, cols, self.shape[1], "column")
        if len(i) != len(j):
            if 1 not in (len(i), len(j)):
                raise DataError(
                    f"as many rows as columns are needed, or one of either; got {len(i)} and {len(j)}"
                )
            i, j = (np.ascontiguousarray(a) for a in np.broadcast_arrays(i, j))
        return Prediction(self.draws, self.model.likelihood, i, j, seed)

    def summary(self) -> str:
        """Return a readable account of the run."""
        from .summary import summary

        return summary(self)

    def save(self, path: str | PathLike[str]) -> None:
        """Write everything to one file (`.npz`) or to a Zarr store (`.zarr`); `psgld.load` reads it. No pickles."""
        from .storage import save

        save(self, path)

    def __repr__(self) -> str:
        kept = self.draws.phi.shape[1]
        rows, cols = self.shape
        model = f"rank {self.model.rank}, {self.model.likelihood.name}"
        return f"Posterior({self.chains} chains × {kept} draws, {rows} × {cols}, {model})"


def assemble(
    setup: Any,
    plan: Plan,
    draws: Draws,
    recorders: list[Recorder],
    pairs: tuple[NDArray[np.int64], NDArray[np.int64]] | None,
    keys: list[int],
    interrupted: bool,
) -> Posterior:
    """Put together what the chains have recorded; of chains that were stopped early, as much as possible."""
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
        "bytes_moved": round(setup.bytes_an_iteration * sum(r.chain.iteration for r in kept)),
        "divergences": sum(len(r.chain.divergences) for r in kept),
        "interrupted": interrupted,
    }
    data = setup.data
    return Posterior(
        draws,
        setup.model,
        data.shape,
        _stacked([r.trace.table() for r in kept], n),
        _stacked([r.warmup.table() for r in kept], None),
        settings,
        data.row_labels,
        data.col_labels,
        tracked,
    )


def usable(kept: list[int]) -> tuple[int, list[int]]:
    """Return how many draws of which chains make the most of chains that were stopped at different places.

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


def describe(setup: Any, plan: Plan, keys: list[int], lp_entries: int) -> dict[str, Any]:
    """Return how a run is made, fit for JSON."""
    from . import __version__

    return {
        "version": __version__,
        "sampler": _describe(setup.settings),
        **{name: _lasting(value) for name, value in setup.describe().items()},
        "tune": plan.tune,
        "draws": plan.draws,
        "thin": plan.thin,
        "keys": [str(key) for key in keys],
        "entries": setup.data.size,
        "lp_entries": lp_entries,
    }


def _stacked(tables: list[Table], n: int | None) -> Table:
    return {name: np.stack([t[name][:n] for t in tables]) for name in tables[0]}


def _describe(settings: Any) -> dict[str, str]:
    values = {name: _lasting(repr(value)) for name, value in vars(settings).items()}
    return {"name": type(settings).__name__} | values


def _lasting(value: Any) -> Any:
    """Return a description without the address of a function, which is another in the next process."""
    return re.sub(r" at 0x[0-9a-f]+", "", value) if isinstance(value, str) else value
