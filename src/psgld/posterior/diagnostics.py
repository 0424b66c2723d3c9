"""Convergence diagnostics: R-hat and effective sample sizes of quantities without symmetries, and the verdict.

W and H can be permuted, turned and rescaled without changing the fit, so their own R-hat means nothing. Looked at are
`lp` and μ at a fixed set of cells.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from ..data.labels import named
from ..errors import SamplingError
from ..runs.result import Result
from ..system.table import table
from . import mixing
from .predict import Floats, Prediction
from .verdict import Evidence, Kind, Verdict, Worst, verdict

_CELLS = 50
_LEAST_DRAWS = 10
_SHOWN = 10
_TELLING = 50
"""Draws per chain from which a run is said not to have converged; of fewer, only a bias can be told."""

SAID = "verdict"
"""The first word of the warning."""


@final
@dataclass(frozen=True, eq=False)
class Diagnostics:
    """R-hat, bulk and tail effective sample size of each quantity.

    Attributes
    ----------
    names : "lp", then "mu[i, j]" for the cells, in the labels of the data.
    rhat, ess_bulk, ess_tail : one number per quantity.
    within : the largest R-hat of the halves of one chain, per quantity.
    levels : mean and standard deviation of `lp` of each chain, (chain, 2).
    fit : the measured fit of the run, `posterior.settings["fit"]`, or empty.
    temperature : τ of the sampler.
    """

    names: list[str]
    rhat: Floats
    ess_bulk: Floats
    ess_tail: Floats
    within: Floats = field(default_factory=lambda: np.empty(0))
    levels: Floats = field(default_factory=lambda: np.zeros((2, 2)))
    fit: Mapping[str, Any] = field(default_factory=dict)
    temperature: float = 1.0

    @property
    def chains(self) -> int:
        """The number of chains; of a single one, R-hat compares the halves."""
        return len(self.levels)

    @property
    def verdict(self) -> str:
        """The verdict, in one sentence, with a remedy unless the chains have converged."""
        return self._verdict.text

    @property
    def kind(self) -> Kind:
        """ "fine", "slow", "modes", "biased", or "unknown" if the quantities do not vary."""
        return self._verdict.kind

    @property
    def converged(self) -> bool:
        """Whether every R-hat is at most 1.01, every effective sample size at least 400, and the draws are unbiased."""
        return self.kind == "fine"

    @cached_property
    def _verdict(self) -> Verdict:
        at, worst = self._worst(self.rhat, np.argmax), self._least()
        if at is None or worst is None:
            return Verdict("unknown", "cannot tell: the quantities do not vary")
        within = float(self.within[self.names.index(at.name)]) if len(self.within) else 1.0
        return verdict(Evidence(at, *worst, within, self.levels, self.fit, self.temperature))

    def __str__(self) -> str:
        columns = {"rhat": self.rhat, "ess_bulk": self.ess_bulk, "ess_tail": self.ess_tail}
        worst = np.argsort(-np.nan_to_num(self.rhat, nan=-np.inf), kind="stable")[:_SHOWN]
        shown = {
            name: [f"{x:.2f}" if name == "rhat" else f"{x:.0f}" for x in column[worst]]
            for name, column in columns.items()
        }
        rest = f"\n… {len(self.names) - len(worst)} more quantities, with smaller R-hat" * (
            len(self.names) > len(worst)
        )
        return f"{table({'quantity': [self.names[n] for n in worst], **shown})}{rest}\n{self.verdict}"

    __repr__ = __str__

    def record(self) -> dict[str, Any]:
        """Return the verdict and the numbers behind it, serialisable as JSON."""
        worst, least = self._worst(self.rhat, np.argmax), self._least()
        bulk, tail = (None, None) if least is None else least
        return {
            "verdict": self.verdict,
            "kind": self.kind,
            "converged": self.converged,
            "rhat": None if worst is None else worst.value,
            "ess_bulk": None if bulk is None else bulk.value,
            "ess_tail": None if tail is None else tail.value,
            "levels": self.levels.tolist(),
            "fit": dict(self.fit),
        }

    def _least(self) -> tuple[Worst, Worst] | None:
        bulk, tail = self._worst(self.ess_bulk, np.argmin), self._worst(self.ess_tail, np.argmin)
        return None if bulk is None or tail is None else (bulk, tail)

    def _worst(self, x: Floats, which: Any) -> Worst | None:
        finite = np.flatnonzero(np.isfinite(x))
        if not len(finite):
            return None
        at = int(finite[which(x[finite])])
        return Worst(float(x[at]), self.names[at])


def monitored(posterior: Result) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the cells at which μ is monitored: the same for every matrix of the same shape."""
    rng = np.random.default_rng(0)
    rows, cols = posterior.shape
    return rng.integers(rows, size=_CELLS), rng.integers(cols, size=_CELLS)


def monitored_names(posterior: Result) -> list[str]:
    """Return those cells in the labels of the data."""
    return cell_names(posterior, *monitored(posterior))


def cell_names(posterior: Result, rows: NDArray[np.int64], cols: NDArray[np.int64]) -> list[str]:
    """Return "row, column" of each cell, in the labels of the data."""
    labels = named(posterior.row_labels, rows).tolist(), named(posterior.col_labels, cols).tolist()
    return [f"{i}, {j}" for i, j in zip(*labels, strict=True)]


def diagnose(posterior: Result) -> Diagnostics:
    """Return R-hat and effective sample sizes of `lp` and of μ at 50 cells (of `lp` alone if no draws were kept)."""
    lp = np.asarray(posterior.sample_stats["lp"], np.float64)
    if lp.shape[1] < _LEAST_DRAWS:
        raise SamplingError(f"R-hat and ESS need {_LEAST_DRAWS} draws per chain or more, got {lp.shape[1]}")
    if "stacking" in posterior.settings:
        raise SamplingError("R-hat and ESS are those of chains; these draws are a weighted sample of several")
    names, table = ["lp"], [lp]
    if "folded_in" in posterior.settings:  # lp is that of the run before
        names, table = [], []
    if posterior.draws.W.shape[1]:
        names += [f"mu[{cell}]" for cell in monitored_names(posterior)]
        table += list(np.moveaxis(monitored_draws(posterior), -1, 0))
    x = np.stack(table)
    with np.errstate(all="ignore"):
        return Diagnostics(
            names,
            mixing.rhat(x),
            mixing.ess_bulk(x),
            mixing.ess_tail(x),
            np.max([mixing.rhat(x[:, c : c + 1]) for c in range(len(lp))], axis=0),
            np.stack([lp.mean(axis=1), lp.std(axis=1)], axis=1),
            posterior.settings.get("fit", {}),
            float(posterior.settings.get("sampler", {}).get("temperature", 1.0)),
        )


def complaint(posterior: Result) -> str | None:
    """Return what is wrong with a run, with its remedy; None if nothing is, or if it is too short to tell.

    That a run is too short is no news to who interrupted it.
    """
    draws = posterior.sample_stats["lp"].shape[1]
    if draws < _LEAST_DRAWS:
        return None
    found = diagnose(posterior)
    kinds = {"biased"}
    if draws >= _TELLING:
        kinds |= {"modes"} if posterior.interrupted else {"modes", "slow"}
    return found.verdict.removeprefix("! ") if found.kind in kinds else None


def monitored_draws(p: Result) -> Floats:
    """Return the draws of μ at those cells, (chain, draw, cell)."""
    mu = Prediction(p.draws, p.model.likelihood, *monitored(p)).draws
    return mu.reshape(*p.draws.phi.shape, -1)
