"""Components that can be read: the rows and columns with the largest loadings of each, with intervals."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from ..checks import is_integer, is_number
from ..data.labels import LabelArray, frame, named
from ..errors import DataError
from ..models.modes import NAMES
from ..runs.result import Result
from ..system.table import table
from .align import Alignment, align

Floats = NDArray[np.float64]

STABLE, VARIES = 0.9, 0.7
"""Stabilities from which a component is the same in all halves of the chains, or varies somewhat."""

_WIDEST = 44
"""Characters of a label in a table."""

_CHUNK = 4_000_000
"""Aligned numbers held at a time."""


@final
@dataclass(frozen=True, eq=False)
class Band:
    """Mean and quantiles of aligned loadings over the draws, each (components, n)."""

    mean: Floats
    low: Floats
    high: Floats


@final
@dataclass(frozen=True, eq=False)
class Loadings:
    """The largest loadings of a component, in descending order; of real-valued factors those of both ends."""

    labels: LabelArray
    index: NDArray[np.int64]
    mean: Floats
    low: Floats
    high: Floats

    def to_dict(self) -> dict[str, list[Any]]:
        """Return the columns, serialisable as JSON."""
        numbers = {name: getattr(self, name).tolist() for name in ("mean", "low", "high")}
        return {"label": self.labels.tolist(), **numbers}

    def to_frame(self) -> Any:
        """Return a pandas DataFrame, one line per label."""
        return frame(self.to_dict())

    def __repr__(self) -> str:
        columns = self.to_dict()
        return table({**columns, "label": [shown(label) for label in columns["label"]]})


@final
@dataclass(frozen=True, eq=False)
class Component:
    """A component: its share of μ, how well it is determined, its largest loadings.

    Attributes
    ----------
    number : its number, from 1; the largest share first.
    share, share_low, share_high : its share, mean and interval. `Components` says of what.
    stability : how similar the means of halves of chains are, 1 if all are equal: the least of all pairs of halves.
    similarity : how similar a draw is to the mean over all draws, on average.
    sparsity : Hoyer's measure of its loadings of rows and of columns, 0 (all equal) to 1 (a single one).
    rows, cols : the largest loadings.
    """

    number: int
    share: float
    share_low: float
    share_high: float
    stability: float
    similarity: float
    sparsity: tuple[float, float]
    rows: Loadings
    cols: Loadings

    @property
    def verdict(self) -> str:
        """ "stable", "varies" or "unstable", by the stability."""
        return "stable" if self.stability >= STABLE else "varies" if self.stability >= VARIES else "unstable"

    def to_dict(self) -> dict[str, Any]:
        """Return all of it, serialisable as JSON."""
        record = {**vars(self), "sparsity": list(self.sparsity), "verdict": self.verdict}
        return {**record, "rows": self.rows.to_dict(), "cols": self.cols.to_dict()}

    def __repr__(self) -> str:
        head = (
            f"component {self.number}: share {self.share:.1%} ({self.share_low:.1%} to {self.share_high:.1%}), "
            f"{self.verdict} (stability {self.stability:.2f}), sparsity rows {self.sparsity[0]:.2f}, "
            f"columns {self.sparsity[1]:.2f}"
        )
        return f"{head}\nrows\n{self.rows!r}\ncolumns\n{self.cols!r}"


@final
class Components:
    """The aligned components of a posterior, the largest share first; `found[k]` is a `Component`.

    The share is that of Σ_ij μ_ij for non-negative factors; otherwise that of the sum of squares of W H, without
    biases. Loadings are scaled so that w_k and h_k have the same root mean square: the product of the loadings of a row
    and a column is what the component adds to η there. Real-valued components are the principal axes of W H.
    """

    def __init__(self, posterior: Result, n: int, level: float, alignment: Alignment) -> None:
        self._posterior, self.alignment, self._n, self.level = posterior, alignment, n, level
        self._all: list[Component] | None = None

    def __len__(self) -> int:
        return self._posterior.model.rank

    def __getitem__(self, k: int) -> Component:
        return self._components[k]

    def __iter__(self) -> Iterator[Component]:
        return iter(self._components)

    @property
    def share(self) -> Floats:
        """The mean share of each component, (K,)."""
        return np.asarray(self.alignment.share.mean(axis=(0, 1)))

    @property
    def stability(self) -> Floats:
        """The stability of each component, (K,)."""
        return self.alignment.stability

    def mean(self, side: str = "rows") -> Floats:
        """Return the mean loadings of all rows ("rows") or columns ("cols"), (K, n)."""
        return self.alignment.mean[_axis(side)].T

    def band(self, side: str = "rows", level: float | None = None) -> Band:
        """Return mean and interval of all loadings of the rows (`side` "rows") or columns ("cols"), each (K, n)."""
        axis, p = _axis(side), self._posterior
        level = self.level if level is None else check_level(level)
        size = p.shape[axis]
        step = max(1, _CHUNK // (p.draws.phi.size * len(self)))
        ends = np.empty((2, len(self), size))
        for first in range(0, size, step):
            at = np.arange(first, min(first + step, size))
            ends[:, :, at] = np.moveaxis(self._ends(axis, at, level), -1, 1)
        return Band(self.mean(side), ends[0], ends[1])

    def to_dict(self) -> dict[str, Any]:
        """Return all components, serialisable as JSON."""
        return {"level": self.level, "components": [one.to_dict() for one in self]}

    def to_frame(self) -> Any:
        """Return a pandas DataFrame, one line per loading, with component, share, stability and side."""
        lines: dict[str, list[Any]] = {}
        for one in self:
            for side, loadings in (("rows", one.rows), ("cols", one.cols)):
                columns = loadings.to_dict()
                fixed = {
                    "component": one.number,
                    "share": one.share,
                    "stability": one.stability,
                    "side": side,
                }
                columns = {name: [x] * len(columns["label"]) for name, x in fixed.items()} | columns
                for name, column in columns.items():
                    lines.setdefault(name, []).extend(column)
        return frame(lines)

    def __repr__(self) -> str:
        columns: dict[str, list[Any]] = {
            "": [one.number for one in self],
            "share": [f"{one.share:.1%}" for one in self],
            "stability": [f"{one.stability:.2f} {one.verdict}" for one in self],
            "top rows": [_named_few(one.rows) for one in self],
            "top columns": [_named_few(one.cols) for one in self],
        }
        return table(columns, left=("stability", "top rows", "top columns"))

    @property
    def _components(self) -> list[Component]:
        if self._all is None:
            share = self.alignment.share.reshape(-1, len(self))
            low, high = np.quantile(share, _tails(self.level), axis=0)
            tops = [self._tops(axis) for axis in range(len(NAMES))]
            a = self.alignment
            self._all = [
                Component(
                    k + 1, float(share[:, k].mean()), float(low[k]), float(high[k]), float(a.stability[k]),
                    float(a.similarity[k]), (float(a.sparsity[0][k]), float(a.sparsity[1][k])), tops[0][k], tops[1][k],
                )
                for k in range(len(self))
            ]  # fmt: skip
        return self._all

    def _tops(self, axis: int) -> list[Loadings]:
        """Return the largest loadings of each component."""
        mean, p = self.alignment.mean[axis], self._posterior
        chosen = [_largest(x, self._n, both=not p.model.nonnegative) for x in mean.T]
        every, where = np.unique(np.concatenate(chosen), return_inverse=True)
        low, high = self._ends(axis, every, self.level)
        places = np.split(where.reshape(-1), np.cumsum([len(at) for at in chosen])[:-1])
        return [
            Loadings(named(p.labels[axis], at), at, mean[at, k], low[here, k], high[here, k])
            for k, (at, here) in enumerate(zip(chosen, places, strict=True))
        ]

    def _ends(self, axis: int, at: NDArray[np.int64], level: float) -> Floats:
        """Return the ends of the intervals of some loadings, (2, len(at), K)."""
        x = self.alignment.factor(self._posterior.draws, axis, at)
        return np.asarray(np.quantile(x.reshape(-1, *x.shape[2:]), _tails(level), axis=0))


def components(posterior: Result, n: int = 10, level: float = 0.9) -> Components:
    """Return the aligned components with their n largest loadings of rows and of columns."""
    if not is_integer(n) or n < 1:
        raise DataError(f"n must be an integer >= 1, got {n!r}")
    return Components(posterior, int(n), check_level(level), align(posterior))


def check_level(level: Any) -> float:
    """Return the level; raise DataError unless it is a probability between 0 and 1."""
    if not is_number(level) or not 0 < level < 1:
        raise DataError(f"level must be between 0 and 1, got {level!r}")
    return float(level)


def _tails(level: float) -> tuple[float, float]:
    return (1 - level) / 2, (1 + level) / 2


def _axis(side: str) -> int:
    sides = [names.side for names in NAMES]
    if side not in sides:
        raise DataError(f"side must be one of {', '.join(sides)}, got {side!r}")
    return sides.index(side)


def _largest(x: Floats, n: int, both: bool) -> NDArray[np.int64]:
    """Return the n largest, in descending order; with `both`, then the n smallest as well."""
    order = np.argsort(-x, kind="stable")
    if not both or len(x) <= 2 * n:
        return order[: len(x) if both else n]
    return np.concatenate([order[:n], order[-n:]])


def shown(label: Any) -> str:
    """Return a label for a table: short, on one line."""
    text = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in str(label))
    return text if len(text) <= _WIDEST else text[: _WIDEST - 1] + "…"


def _named_few(loadings: Loadings) -> str:
    """Return the labels of a few of the largest loadings; of real-valued ones both ends."""
    labels, signs = loadings.labels.tolist(), loadings.mean
    up = [str(x) for x, s in zip(labels, signs, strict=True) if s >= 0][:3]
    down = [str(x) for x, s in zip(labels, signs, strict=True) if s < 0][::-1][:3]
    return shown(", ".join(up) + (" | against " + ", ".join(down) if down else ""))
