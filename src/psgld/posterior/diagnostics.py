"""Convergence diagnostics: R-hat and effective sample sizes of quantities without symmetries.

W and H can be permuted, turned and rescaled without changing the fit, so their own R-hat means nothing. Looked at are
`lp` and μ at a fixed set of cells. The numbers are those of arviz-stats (Vehtari et al. 2021).
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from ..data.labels import named
from ..errors import SamplingError
from .predict import Floats, Prediction

_CELLS = 50
_LEAST_DRAWS = 10
_GOOD, _FAIR, _POOR = 1.01, 1.05, 1.2
_ENOUGH = 100.0
INSTALL = 'pip install "psgld[diagnostics]"'


@final
@dataclass(frozen=True, eq=False)
class Diagnostics:
    """R-hat, bulk and tail effective sample size of each quantity.

    Attributes
    ----------
    names : "lp", then "mu[i, j]" for the cells, in the labels of the data.
    rhat, ess_bulk, ess_tail : one number a quantity.
    chains : the number of chains; of a single one, R-hat compares the halves.
    """

    names: list[str]
    rhat: Floats
    ess_bulk: Floats
    ess_tail: Floats
    chains: int = 2

    @property
    def verdict(self) -> str:
        """The verdict, in one sentence."""
        worst, bulk, tail = (
            self._worst(self.rhat, np.argmax),
            self._worst(self.ess_bulk, np.argmin),
            self._worst(self.ess_tail, np.argmin),
        )
        if worst is None or bulk is None or tail is None:
            return "cannot tell: the quantities do not vary"
        rhat = (
            f"largest R-hat {worst[0]:.2f} ({worst[1]}{', of the halves of one chain' * (self.chains == 1)})"
        )
        ess = f"smallest ESS {bulk[0]:.0f} ({bulk[1]}), in the tails {tail[0]:.0f} ({tail[1]})"
        if worst[0] > _POOR:
            return f"! not converged: {rhat}, {ess}; give more tune iterations"
        if worst[0] > _FAIR or min(bulk[0], tail[0]) < _ENOUGH:
            return f"! few effective draws: {ess}, {rhat}; give more draws, or a larger thin"
        return f"{'converged' if worst[0] <= _GOOD else 'nearly converged'}: {rhat}, {ess}"

    @property
    def converged(self) -> bool:
        """Whether every R-hat is at most 1.05 and every effective sample size at least 100."""
        return self.verdict.startswith(("converged", "nearly converged"))

    def record(self) -> dict[str, Any]:
        """Return the verdict and the numbers behind it, serialisable as JSON."""
        worst = {
            "rhat": self._worst(self.rhat, np.argmax),
            "ess_bulk": self._worst(self.ess_bulk, np.argmin),
            "ess_tail": self._worst(self.ess_tail, np.argmin),
        }
        return {
            "verdict": self.verdict,
            "converged": self.converged,
            **{name: None if found is None else found[0] for name, found in worst.items()},
        }

    def _worst(self, x: Floats, which: Any) -> tuple[float, str] | None:
        finite = np.flatnonzero(np.isfinite(x))
        if not len(finite):
            return None
        at = int(finite[which(x[finite])])
        return float(x[at]), self.names[at]


def watched(posterior: Any) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the cells at which μ is monitored: the same for every matrix of the same shape."""
    rng = np.random.default_rng(0)
    rows, cols = posterior.shape
    return rng.integers(rows, size=_CELLS), rng.integers(cols, size=_CELLS)


def _cells(posterior: Any) -> list[str]:
    """Return those cells in the labels of the data."""
    rows, cols = watched(posterior)
    labels = named(posterior.row_labels, rows).tolist(), named(posterior.col_labels, cols).tolist()
    return [f"{i}, {j}" for i, j in zip(*labels, strict=True)]


def diagnose(posterior: Any) -> Diagnostics:
    """Return R-hat and effective sample sizes of `lp` and of μ at 50 cells (of `lp` alone if no draws were kept)."""
    try:
        from arviz_stats.base import array_stats
    except ImportError:
        raise SamplingError(f"R-hat and ESS need arviz-stats: {INSTALL}") from None
    lp = posterior.sample_stats["lp"]
    if lp.shape[1] < _LEAST_DRAWS:
        raise SamplingError(f"R-hat and ESS need {_LEAST_DRAWS} draws per chain or more, got {lp.shape[1]}")
    names, table = ["lp"], [np.asarray(lp, np.float64)]
    if "folded_in" in posterior.settings:  # lp is that of the run before
        names, table = [], []
    if posterior.draws.W.shape[1]:
        rows, cols = watched(posterior)
        mu = Prediction(posterior.draws, posterior.model.likelihood, rows, cols).draws
        names += [f"mu[{cell}]" for cell in _cells(posterior)]
        table += [column.reshape(lp.shape) for column in mu.T]
    x = np.stack(table)
    half = x.shape[2] // 2
    compared = x if len(lp) > 1 else x[:, 0, : 2 * half].reshape(len(x), 2, half)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # of quantities that do not vary: they come out as NaN
        return Diagnostics(
            names,
            np.asarray(array_stats.rhat(compared, chain_axis=1, draw_axis=2), np.float64),
            np.asarray(array_stats.ess(x, chain_axis=1, draw_axis=2, method="bulk"), np.float64),
            np.asarray(
                array_stats.ess(x, chain_axis=1, draw_axis=2, method="tail", prob=(0.05, 0.95)), np.float64
            ),
            len(lp),
        )


def to_arviz(posterior: Any) -> Any:
    """Return an `xarray.DataTree` for ArviZ, with the groups posterior and sample_stats."""
    try:
        from arviz_base import from_dict
    except ImportError:
        raise SamplingError(f"to_arviz needs arviz-base: {INSTALL}") from None
    d, p = posterior.draws, posterior
    rows, cols = p.shape
    variables: dict[str, Any] = {**p.parameters, "row_rate": d.row_rate, "col_rate": d.col_rate}
    stored = "component_and_bias" if p.model.bias else "component"  # the names that a store has
    dims = {"row_rate": [stored], "col_rate": [stored]}
    coords: dict[str, Any] = {
        "row": np.arange(rows) if p.row_labels is None else p.row_labels,
        "column": np.arange(cols) if p.col_labels is None else p.col_labels,
        "component": np.arange(p.model.rank),
        stored: np.arange(d.row_rate.shape[-1]),
    }
    if d.W.shape[1]:
        variables |= {"W": d.W, "H": d.H.swapaxes(-1, -2)}
        dims |= {"W": ["row", "component"], "H": ["component", "column"]}
        variables["mu"] = _watched_draws(p)
        dims["mu"] = ["cell"]
        coords["cell"] = _cells(p)
    if d.row_bias is not None and d.col_bias is not None:
        variables |= {"row_bias": d.row_bias, "col_bias": d.col_bias, "offset": d.offset}
        dims |= {"row_bias": ["row"], "col_bias": ["column"]}
    groups = {"posterior": variables, "sample_stats": dict(p.sample_stats)}
    attributes = {
        "posterior": {"inference_library": "psgld", "inference_library_version": p.settings["version"]}
    }
    return from_dict(groups, coords=coords, dims=dims, attrs=attributes)


def _watched_draws(p: Any) -> Floats:
    mu = Prediction(p.draws, p.model.likelihood, *watched(p)).draws
    return mu.reshape(*p.draws.phi.shape, -1)
