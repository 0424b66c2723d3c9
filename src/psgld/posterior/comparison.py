"""Which of several models predicts best: log predictive densities, and the standard errors of their differences.

    elpd = Σ_n log p(v_n | V),   dse² = N Var_n(log p_best(v_n | V) - log p(v_n | V))

over held-out entries. An entry that a posterior was trained on is scored by its leave-one-out density (PSIS). The
differences are paired, so their standard errors are much smaller than those of the densities.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from ..data.cells import Cells
from ..errors import DataError, warn
from ..models import FactorModel
from ..system.table import table
from .held_out import densities, entries, trained_on
from .posterior import Posterior
from .predict import Floats
from .psis import UNRELIABLE
from .stack import refuse_weighted, stacking_weights

SMALL = 4.0
"""Differences of elpd that are too small to decide."""

_UNSOUND = 0.1
"""Share of unreliable leave-one-out densities above which those of a model do not count."""


@final
@dataclass(frozen=True, eq=False)
class Comparison:
    """Models by their predictive densities, the best first; `print` shows them as a table with a recommendation.

    Models with more than a tenth of unreliable leave-one-out densities come last: theirs are too high.

    Attributes
    ----------
    names : names of the models.
    elpd, se : sum of log predictive densities over the entries, and its standard error.
    elpd_diff, dse : how much lower than that of the first, and the standard error of the difference.
    weight : stacking weights: the mixture of the models that predicts the entries best.
    entries, left_out : number of entries, and of those among them that were trained on and scored by leave-one-out.
    unreliable : number of leave-one-out densities with Pareto k̂ > 0.7.
    posteriors : the posteriors by name.
    """

    names: tuple[str, ...]
    elpd: Floats
    se: Floats
    elpd_diff: Floats
    dse: Floats
    weight: Floats
    entries: int
    left_out: int
    unreliable: tuple[int, ...]
    posteriors: Mapping[str, Posterior]

    @property
    def choice(self) -> str:
        """The simplest model whose density is within one standard error, or 4 nats, of the best.

        Standard errors of differences of less than 4 are not reliable (Sivula, Magnusson, Vehtari 2020). Simpler
        is a lower rank; of equal ranks, fewer learnt parameters of the likelihood; of these, no biases. A model with
        unreliable leave-one-out densities is not chosen, unless all have them.
        """
        sound = _sound(self.unreliable, self.left_out)
        near = [n for n in sound if not self.elpd_diff[n] > max(self.dse[n], SMALL)]
        return self.names[min(near, key=lambda n: (*_size(self.posteriors[self.names[n]].model), n))]

    @property
    def posterior(self) -> Posterior:
        """The posterior of that model."""
        return self.posteriors[self.choice]

    @property
    def recommendation(self) -> str:
        """One sentence that says which model to choose, and why."""
        best, chosen = self.names[0], self.choice
        if chosen != best:
            n = self.names.index(chosen)
            return (
                f"choose {chosen}: the simplest model within one standard error, or {SMALL:g}, of the best, {best} "
                f"(difference {self.elpd_diff[n]:.4g} ± {self.dse[n]:.2g})"
            )
        if len(self.names) == 1:
            return f"choose {best}: there is no other"
        return (
            f"choose {best}: its density is the highest; next is {self.names[1]} "
            f"(difference {self.elpd_diff[1]:.4g} ± {self.dse[1]:.2g})"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the table, serialisable as JSON."""
        columns = {
            name: getattr(self, name).tolist() for name in ("elpd", "se", "elpd_diff", "dse", "weight")
        }
        return {
            "names": list(self.names),
            **columns,
            "entries": self.entries,
            "left_out": self.left_out,
            "unreliable": list(self.unreliable),
            "choice": self.choice,
            "recommendation": self.recommendation,
        }

    def plot(self, ax: Any = None) -> Any:
        """Plot the differences and their standard errors (needs matplotlib); return the axes."""
        from .plots import comparison

        return comparison(self, ax)

    def __str__(self) -> str:
        columns: dict[str, Any] = {"model": self.names, "per entry": (self.elpd / self.entries).tolist()}
        for name in ("elpd", "se", "elpd_diff", "dse"):
            columns[name] = [f"{x:.1f}" for x in getattr(self, name)]
        columns["weight"] = [f"{x:.2f}" for x in self.weight]
        if self.left_out:
            columns["k > 0.7"] = self.unreliable
        how = "held-out" if not self.left_out else "observed, left out one at a time"
        if 0 < self.left_out < self.entries:
            how = f"{self.left_out:,} of them observed, left out one at a time"
        return f"{table(columns)}\nlog predictive density of {self.entries:,} entries ({how})\n{self.recommendation}"

    __repr__ = __str__


def compare_posteriors(posteriors: Mapping[str, Posterior], test: Any = None) -> Comparison:
    """Return the comparison of posteriors at the same entries; `psgld.compare` says what the arguments are."""
    if not posteriors or not all(isinstance(p, Posterior) for p in posteriors.values()):
        raise DataError("compare needs posteriors by name, such as {'rank 8': post8, 'rank 16': post16}")
    names, several = list(map(str, posteriors)), list(posteriors.values())
    cells = [_cells(p, test) for p in several]
    _check_same(names, cells)
    trained = [trained_on(p, c) for p, c in zip(several, cells, strict=True)]
    for name, own in zip(names, trained, strict=True):
        if not np.array_equal(own, trained[0]):
            raise DataError(
                f"{name} was trained on {own.sum():,} of the entries, {names[0]} on {trained[0].sum():,}; compare "
                "posteriors of the same data"
            )
    _check_kinds(names, several)
    refuse_weighted(several[0], trained[0])
    found = [densities(p, p.draws, c, t) for p, c, t in zip(several, cells, trained, strict=True)]
    logs, tails = (np.stack(each) for each in zip(*found, strict=True))
    unreliable = (tails > UNRELIABLE).sum(axis=1)
    if unreliable.max() > _UNSOUND * trained[0].sum():
        warn(
            f"leave-one-out densities of {unreliable.max():,} of {trained[0].sum():,} entries are unreliable (Pareto "
            "k > 0.7): compare by held-out entries, psgld.split(V, 0.1)"
        )
    return _table(names, several, logs, cells[0], int(trained[0].sum()), unreliable.tolist())


def _cells(posterior: Posterior, test: Any) -> Cells:
    """Return the entries to compare at: those of `test`, those held out, or a sample of those observed."""
    if test is None and posterior.held_out is None and posterior.observed is not None:
        return posterior.observed
    cells = entries(posterior, test)
    if len(cells) < 2:
        raise DataError(f"compare needs 2 entries or more, got {len(cells)}")
    return cells


def _check_same(names: list[str], cells: list[Cells]) -> None:
    for name, own in zip(names, cells, strict=True):
        same = len(own) == len(cells[0]) and np.allclose(own.values, cells[0].values)
        if not (same and np.array_equal(own.rows, cells[0].rows) and np.array_equal(own.cols, cells[0].cols)):
            raise DataError(
                f"{name} and {names[0]} kept other entries, or have rows and columns in another order; give test, and "
                "posteriors of the same data"
            )


def _check_kinds(names: list[str], several: list[Posterior]) -> None:
    kinds = [p.model.likelihood.lattice or p.model.likelihood.counts for p in several]
    if any(kinds) and not all(kinds):
        one, other = names[kinds.index(True)], names[kinds.index(False)]
        warn(
            f"{one} has probabilities, {other} densities: they are comparable only if the values are integers, or else "
            "one unit apart"
        )


def _table(
    names: list[str],
    several: list[Posterior],
    logs: Floats,
    cells: Cells,
    left_out: int,
    unreliable: list[int],
) -> Comparison:
    """Return the comparison from log densities, (models, entries)."""
    w = np.ones(len(cells)) if cells.weights is None else cells.weights
    elpd = (w * logs).sum(axis=1)
    unsound = np.ones(len(names), bool)
    unsound[_sound(unreliable, left_out)] = False
    order = np.lexsort((-elpd, unsound))
    logs, elpd = logs[order], elpd[order]
    root = math.sqrt(len(cells))
    with np.errstate(invalid="ignore"):  # -inf: impossible under a model
        away = logs[0] - logs
        dse = root * np.std(w * away, axis=1, ddof=1)
        se = root * np.std(w * logs, axis=1, ddof=1)
        diff = elpd[0] - elpd
    labels = tuple(names[n] for n in order)
    return Comparison(
        labels,
        elpd,
        se,
        diff,
        dse,
        stacking_weights(logs.T, cells.weights),
        len(cells),
        left_out,
        tuple(int(unreliable[n]) for n in order),
        {names[n]: several[n] for n in order},
    )


def _sound(unreliable: Sequence[int], left_out: int) -> list[int]:
    """Return the models whose leave-one-out densities are reliable; all, if none are."""
    found = [n for n, number in enumerate(unreliable) if number <= _UNSOUND * left_out]
    return found or list(range(len(unreliable)))


def _size(model: FactorModel) -> tuple[int, int, bool]:
    return model.rank, len(model.likelihood.learnt), model.bias
