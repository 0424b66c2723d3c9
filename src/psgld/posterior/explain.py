"""Explanation of a prediction: the components, and the row's own entries.

    η_ij = Σ_k w_ik h_kj + a_i + c_j + offset

is the sum of the contributions of the components, aligned across draws, and of the biases. An entry v_ij' of the row
counts by the change of E[μ_ij] if it were left out, to first order

    E[μ_ij | V] - E[μ_ij | V without v_ij'] ≈ Cov(μ_ij, log p(v_ij' | η_ij', θ)),

a covariance over the draws, which holds for every likelihood. If the values of the entries are not available, by the
change of E[μ_ij] per unit of v_ij', Cov(μ_ij, μ_ij') / E[Var(v_ij' | η, θ)].
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from ..checks import is_integer
from ..data.labels import find_labels, frame, named
from ..data.seen import aligned
from ..data.source import Source
from ..errors import DataError
from ..runs.result import Result
from ..system.table import table
from .align import align
from .components import check_level, shown
from .mixing import ess_mean
from .predict import Prediction

Floats = NDArray[np.float64]

_CHUNK = 2_000_000


@final
@dataclass(frozen=True, eq=False)
class Explanation:
    """A prediction and its explanation.

    Attributes
    ----------
    row, col : the labels.
    mean, sd, low, high : posterior mean and sd of μ, and the interval of a new observation.
    terms : contributions to η by name, largest first: mean, low, high. They add up to η.
    entries : the row's own entries that count most: column, value (None if not available), effect, standard error.
    kind : "removal" (the change of the mean if the entry were left out) or "per unit" (of the value).
    level : of the intervals.
    """

    row: Any
    col: Any
    mean: float
    sd: float
    low: float
    high: float
    terms: dict[str, list[Any]]
    entries: dict[str, list[Any]]
    kind: str
    level: float

    def to_dict(self) -> dict[str, Any]:
        """Return all of it, serialisable as JSON."""
        return dict(vars(self))

    def to_frame(self) -> Any:
        """Return a pandas DataFrame of the terms and the entries: kind, name, value, contribution."""
        terms, entries = self.terms, self.entries
        count = len(terms["name"]), len(entries["column"])
        return frame(
            {
                "kind": ["term"] * count[0] + ["entry"] * count[1],
                "name": [*terms["name"], *map(str, entries["column"])],
                "value": [np.nan] * count[0] + [np.nan if v is None else v for v in entries["value"]],
                "contribution": [*terms["mean"], *entries["effect"]],
            }
        )

    def __repr__(self) -> str:
        words = {
            "removal": "its entries, and what the mean would lose without them",
            "per unit": "its entries, and what the mean gains per unit of their value",
        }
        head = (
            f"row {self.row}, column {self.col}: {self.mean:.4g} ± {self.sd:.2g}, a new value between "
            f"{self.low:.4g} and {self.high:.4g} ({self.level:.0%})"
        )
        parts = [head, "terms of η", _listed(self.terms), words[self.kind], _listed(self.entries)]
        return "\n".join(part for part in parts if part)


def explain(
    posterior: Result, row: Any, col: Any, data: Any = None, n: int = 10, level: float = 0.9
) -> Explanation:
    """Return what explains the prediction at one row and column; `Posterior.explain` says what the arguments are."""
    if not is_integer(n) or n < 1:
        raise DataError(f"n must be an integer >= 1, got {n!r}")
    check_level(level)
    i, j = (_one(posterior, axis, label) for axis, label in enumerate((row, col)))
    p = posterior
    prediction = Prediction(p.draws, p.model.likelihood, np.array([i]), np.array([j]))
    low, high = prediction.interval(level)
    names = [named(at, np.array([k])).tolist()[0] for at, k in zip(p.labels, (i, j), strict=True)]
    kind, entries = _entries(p, i, j, data, int(n))
    return Explanation(
        names[0], names[1], float(prediction.mean[0]), float(prediction.sd[0]), float(low[0]), float(high[0]),
        _terms(p, i, j, level), entries, kind, level,
    )  # fmt: skip


def _one(p: Result, axis: int, label: Any) -> int:
    at = find_labels(p.labels[axis], label, p.shape[axis], ("row", "column")[axis])
    if len(at) != 1:
        raise DataError(f"one label is needed, got {len(at)}")
    return int(at[0])


def _terms(p: Result, i: int, j: int, level: float) -> dict[str, list[Any]]:
    """Return the contributions of components and biases to η, the largest first."""
    found, d = align(p), p.draws
    w, h = (found.factor(d, axis, np.array([at]))[:, :, 0] for axis, at in ((0, i), (1, j)))
    columns = {f"component {k + 1}": (w * h)[..., k] for k in range(p.model.rank)}
    for name, bias, at in (("row bias", d.row_bias, i), ("column bias", d.col_bias, j)):
        if bias is not None:
            columns[name] = bias[:, :, at].astype(np.float64)
    if np.ptp(d.offset) or d.offset.any():
        columns["offset"] = d.offset
    names = list(columns)
    x = np.stack([columns[name].reshape(-1) for name in names])
    low, high = np.quantile(x, [(1 - level) / 2, (1 + level) / 2], axis=1)
    order = np.argsort(-np.abs(x.mean(axis=1)), kind="stable")
    return {
        "name": [names[k] for k in order],
        "mean": x.mean(axis=1)[order].tolist(),
        "low": low[order].tolist(),
        "high": high[order].tolist(),
    }


def _entries(p: Result, i: int, j: int, data: Any, n: int) -> tuple[str, dict[str, list[Any]]]:
    """Return of what kind the effects are, and the row's own entries of the largest effects."""
    source = None if data is None else aligned(data, p.shape, p.row_labels, p.col_labels)
    cols, values, weights = own_entries(p, i, source)
    here = cols != j
    cols, values, weights = cols[here], None if values is None else values[here], weights[here]
    chains, draws = p.draws.phi.shape
    target = _mu(p, i, np.array([j]))[:, 0].reshape(chains, draws)
    effect, error = np.empty(len(cols)), np.empty(len(cols))
    step = max(1, _CHUNK // (chains * draws))
    for first in range(0, len(cols), step):
        at = slice(first, first + step)
        other = responses(p, np.full(len(cols[at]), i), cols[at], None if values is None else values[at])
        y = np.moveaxis(other.reshape(chains, draws, -1), -1, 0)
        product = (target - target.mean()) * (y - y.mean(axis=(1, 2), keepdims=True))
        effect[at] = weights[at] * product.mean(axis=(1, 2))
        size = ess_mean(product) if draws >= 8 else np.full(len(y), float(chains * draws))
        error[at] = (
            weights[at] * product.std(axis=(1, 2)) / np.sqrt(np.maximum(np.nan_to_num(size, nan=1.0), 1.0))
        )
    order = np.argsort(-np.abs(effect), kind="stable")[:n]
    kind = "per unit" if values is None else "removal"
    return kind, {
        "column": named(p.col_labels, cols[order]).tolist(),
        "value": [None] * len(order) if values is None else values[order].tolist(),
        "effect": effect[order].tolist(),
        "se": error[order].tolist(),
    }


def own_entries(p: Result, i: int, source: Source | None) -> tuple[NDArray[np.int64], Floats | None, Floats]:
    """Return the columns of the stored entries of a row, their values if the data is given, and their weights."""
    if source is not None:
        at = np.arange(source.indptr[i], source.indptr[i + 1])
        _, cols, values = source.entries(at)
        weights = source.entry_weights
        counted = np.ones(len(at)) if weights is None else weights[at].astype(np.float64)
        return cols.astype(np.int64), values.astype(np.float64), counted
    cols = np.arange(p.shape[1]) if p.seen is None else p.seen.rows(np.array([i]))[1].astype(np.int64)
    return cols, None, np.ones(len(cols))


def responses(p: Result, rows: NDArray[np.int64], cols: NDArray[np.int64], values: Floats | None) -> Floats:
    """Return what μ is compared with, (S, n): the log density of each entry, or μ there over the variance of v."""
    pairs = Prediction(p.draws, p.model.likelihood, rows, cols)
    if values is not None:
        return pairs.log_densities(values)
    return np.asarray(pairs.draws / np.maximum(pairs.new_sd**2 - pairs.sd**2, 1e-12))


def _mu(p: Result, i: int, cols: NDArray[np.int64]) -> Floats:
    return Prediction(p.draws, p.model.likelihood, np.full(len(cols), i), cols).draws


def _listed(columns: dict[str, list[Any]]) -> str:
    names = [shown(label) for label in next(iter(columns.values()))]
    return table({**columns, next(iter(columns)): names}) if names else ""
