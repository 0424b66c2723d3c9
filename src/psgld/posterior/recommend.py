"""Recommendations: the n best columns of each row by a policy, with score, mean, sd and interval.

    mean: E[μ]      ucb: E[μ] + c sd(μ)      thompson: μ in one draw per row      probability: P(μ > t)

The core scores all columns for a block of rows at a time: one matrix product per draw, which is accumulated and not
stored. If the processor multiplies integers faster than floats, `mean` and `ucb` first screen all columns with factors
quantised to int16 and a bound on the error. Only the columns that can be among the best are scored in floats: the
result is the same. The chosen columns are then rescored in double precision. If μ is
not η itself (`Bernoulli`), `mean` and `ucb` add up μ draw by draw.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Set
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import _core
from ..checks import is_integer, is_number, unmasked
from ..data.labels import LabelArray, find_labels, named
from ..data.seen import Seen, aligned
from ..errors import DataError
from ..models import Likelihood
from ..runs.draws import Draws
from ..runs.result import Result
from .predict import Floats, Prediction, check_seed, held, new_pool
from .recommendations import Recommendations

_BLOCK = 12_000_000
"""Scores held at a time."""

_COLD_START = "fold_in(V), or psgld fold-in, returns a posterior of new rows, given their entries"

Score = Literal["mean", "sd", "above", "bound"]
"""What the core makes of the draws."""


@final
@dataclass(frozen=True, eq=False)
class Among:
    """The columns that may be chosen: not those seen, as compressed rows, and only those allowed."""

    start: NDArray[np.int64]
    seen: NDArray[np.int32]
    allowed: NDArray[np.bool_]


@final
@dataclass(frozen=True, eq=False)
class Context:
    """What a policy looks at."""

    draws: Draws
    likelihood: Likelihood
    core: Any
    seed: int

    @property
    def columns(self) -> int:
        """J."""
        return int(self.draws.H.shape[2])

    def scores(
        self, rows: NDArray[np.int64], kind: Score, threshold: float = 0.0
    ) -> tuple[NDArray[Any], NDArray[Any] | None]:
        """Return the mean of η at all columns, and by `kind` its sd or the share of draws above the threshold.

        Of kind "bound": the mean plus `threshold` times the sd, and nothing else. Of any kind but "above": of μ.
        """
        if kind != "above" and not self.likelihood.identity:
            return self._scores_of_response(rows, threshold if kind == "bound" else 0.0), None
        dtype = np.float64 if isinstance(self.core, _core.Draws64) else np.float32
        mean = np.empty((len(rows), self.columns), dtype)
        second = np.empty_like(mean) if kind in ("sd", "above") else None
        self.core.scores(new_pool(self._work(len(rows))), rows, kind, threshold, mean, second)
        return mean, second

    def above(self, rows: NDArray[np.int64], threshold: float) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the mean of η at all columns, up to a constant, and the share of draws with μ above the threshold.

        In draw s, μ is above it where η is above link(threshold, θ_s): a shift of the offset makes that 0.
        """
        links = np.broadcast_to(
            self.likelihood.link(threshold, *self.draws.parameters(self.likelihood).values()),
            self.draws.offset.shape,
        )
        if (links == links.flat[0]).all():
            mean, share = self.scores(rows, "above", float(links.flat[0]))
        else:
            draws = replace(self.draws, offset=self.draws.offset - links)
            mean, share = replace(self, draws=draws, core=held(draws, self.likelihood)).scores(rows, "above")
        assert share is not None
        return mean, share

    def _scores_of_response(self, rows: NDArray[np.int64], width: float) -> Floats:
        """Return E[μ] + width sd(μ) at all columns, where μ is not η: their means are not in the same order."""
        total, squares = np.zeros((2, len(rows), self.columns))
        for at in np.ndindex(self.draws.phi.shape):
            theta = self.draws.theta_at(self.likelihood, at)
            mu = self.likelihood.response(self.draws.eta(at, rows, np.float64), *theta)
            total += mu
            squares += mu**2
        n = self.draws.phi.size
        mean = total / n
        return np.asarray(
            mean + width * np.sqrt(np.maximum(squares / n - mean**2, 0.0) * (n / max(n - 1, 1)))
        )

    def choose_by_bound(
        self, rows: NDArray[np.int64], width: float, among: Among, out: NDArray[np.int64]
    ) -> int:
        """Write down the best columns by the mean plus `width` times the sd; return how many were scored."""
        pool = new_pool(self._work(len(rows)))
        return int(self.core.best_by_bound(pool, rows, width, among.start, among.seen, among.allowed, out))

    def _work(self, rows: int) -> float:
        return float(rows * self.columns * self.draws.phi.size * self.draws.W.shape[3])

    def predict(self, rows: NDArray[np.int64], cols: NDArray[np.int64]) -> Prediction:
        """Return the posterior at pairs."""
        return Prediction(self.draws, self.likelihood, rows, cols)


class Policy(ABC):
    """What makes a column good for a row."""

    name: ClassVar[str]

    @abstractmethod
    def rank(self, context: Context, rows: NDArray[np.int64]) -> tuple[NDArray[Any], NDArray[Any] | None]:
        """Return the scores of all columns, (rows, J), and perhaps what decides between equal ones."""

    @abstractmethod
    def score(self, context: Context, p: Prediction) -> Floats:
        """Return the score at pairs, exactly."""

    def choose(self, context: Context, rows: NDArray[np.int64], among: Among, out: NDArray[np.int64]) -> None:
        """Write down the best columns of each row, -1 where there are no more."""
        best, second = self.rank(context, rows)
        _core.best(new_pool(best.size), best, second, among.start, among.seen, among.allowed, out)


@final
@dataclass(frozen=True)
class Mean(Policy):
    """The posterior mean of μ."""

    name: ClassVar[str] = "mean"

    def rank(self, context: Context, rows: NDArray[np.int64]) -> tuple[NDArray[Any], NDArray[Any] | None]:
        """Return E[μ]."""
        return context.scores(rows, "mean")

    def score(self, context: Context, p: Prediction) -> Floats:
        """Return E[μ]."""
        return p.mean

    def choose(self, context: Context, rows: NDArray[np.int64], among: Among, out: NDArray[np.int64]) -> None:
        """Write down the columns with the highest E[μ]."""
        if not context.likelihood.identity:
            return super().choose(context, rows, among, out)
        context.choose_by_bound(rows, 0.0, among, out)


@final
@dataclass(frozen=True)
class UCB(Policy):
    """Upper confidence bound, E[μ] + width · sd(μ): explores uncertain columns; risk-averse if width is negative."""

    width: float = 1.0
    name: ClassVar[str] = "ucb"

    def __post_init__(self) -> None:
        _check_number("UCB: width", self.width)

    def rank(self, context: Context, rows: NDArray[np.int64]) -> tuple[NDArray[Any], NDArray[Any] | None]:
        """Return E[μ] + width sd(μ)."""
        return context.scores(rows, "bound", self.width)

    def score(self, context: Context, p: Prediction) -> Floats:
        """Return E[μ] + width sd(μ)."""
        return p.mean + self.width * p.sd

    def choose(self, context: Context, rows: NDArray[np.int64], among: Among, out: NDArray[np.int64]) -> None:
        """Write down the columns with the highest E[μ] + width sd(μ)."""
        if not context.likelihood.identity:
            return super().choose(context, rows, among, out)
        context.choose_by_bound(rows, self.width, among, out)


@final
@dataclass(frozen=True)
class Thompson(Policy):
    """Thompson sampling: μ in one random draw per row. A column is ranked first as often as it is best in a draw."""

    name: ClassVar[str] = "thompson"

    def rank(self, context: Context, rows: NDArray[np.int64]) -> tuple[NDArray[Any], NDArray[Any] | None]:
        """Return μ of each row's draw."""
        d, chosen = context.draws, self._chosen(context, rows)
        out = np.empty((len(rows), context.columns), np.float64 if d.W.dtype == np.float64 else np.float32)
        for s in np.unique(chosen).tolist():
            c, k = divmod(s, d.phi.shape[1])
            at = np.flatnonzero(chosen == s)
            out[at] = d.eta((c, k), rows[at], out.dtype)
        return out, None

    def score(self, context: Context, p: Prediction) -> Floats:
        """Return μ of the row's draw."""
        d, out = context.draws, np.empty(len(p))
        chosen = self._chosen(context, p.rows)
        for s in np.unique(chosen).tolist():
            c, k = divmod(s, d.phi.shape[1])
            i, j = p.rows[chosen == s], p.cols[chosen == s]
            w, h = d.W[c, k][i].astype(np.float64), d.H[c, k][j].astype(np.float64)
            mu = np.einsum("nk,nk->n", w, h) + d.offset[c, k]
            if d.row_bias is not None and d.col_bias is not None:
                mu += d.row_bias[c, k][i].astype(np.float64) + d.col_bias[c, k][j]
            out[chosen == s] = context.likelihood.response(mu, *d.theta_at(context.likelihood, (c, k)))
        return out

    def _chosen(self, context: Context, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the draw of each row: a function of the seed and the row."""
        size = int(context.draws.phi.size)
        highest = int(rows.max(initial=0)) + 1
        return np.random.default_rng([context.seed, 1]).integers(size, size=highest)[rows]


@final
@dataclass(frozen=True)
class Probability(Policy):
    """P(μ > threshold), the fraction of draws; ties are ordered by E[μ]. Observation noise is not included."""

    threshold: float = 0.0
    name: ClassVar[str] = "probability"

    def __post_init__(self) -> None:
        _check_number("Probability: threshold", self.threshold)

    def rank(self, context: Context, rows: NDArray[np.int64]) -> tuple[NDArray[Any], NDArray[Any] | None]:
        """Return P(μ > threshold), and E[μ]."""
        mean, share = context.above(rows, self.threshold)
        return share, mean

    def score(self, context: Context, p: Prediction) -> Floats:
        """Return P(μ > threshold)."""
        return p.mean_exceeds(self.threshold)


POLICIES: dict[str, type[Policy]] = {p.name: p for p in (Mean, UCB, Thompson, Probability)}
"""Policies by the names that `recommend(policy=…)` and the command line take."""


def as_policy(policy: Policy | str) -> Policy:
    """Return the policy of that name; a policy stays what it is."""
    if isinstance(policy, Policy):
        return policy
    if policy == Probability.name:
        raise DataError('policy "probability" needs a threshold: Probability(threshold=…)')
    if not isinstance(policy, str) or policy not in POLICIES:
        raise DataError(
            f"policy must be one of {', '.join(POLICIES)}, or an object such as UCB(2.0), got {policy!r}"
        )
    return POLICIES[policy]()


def recommend(
    posterior: Result,
    rows: ArrayLike | None = None,
    n: int = 10,
    policy: Policy | str = "mean",
    exclude_seen: Any = True,
    filter: ArrayLike | Callable[[LabelArray], Any] | None = None,
    seed: int = 0,
) -> Recommendations:
    """Return the n best columns of each row; `Posterior.recommend` says what the arguments are."""
    p, policy = posterior, as_policy(policy)
    if not is_integer(n) or n < 1:
        raise DataError(f"n must be an integer >= 1, got {n!r}")
    n_rows, n_cols = p.shape
    index = np.arange(n_rows) if rows is None else find_labels(p.row_labels, rows, n_rows, "row", _COLD_START)
    n = min(int(n), n_cols)
    allowed = _allowed(p, filter)
    seen = _seen(p, exclude_seen)
    context = Context(p.draws, p.model.likelihood, held(p.draws, p.model.likelihood), check_seed(seed))
    chosen = np.empty((len(index), n), np.int64)
    size = max(1, _BLOCK // n_cols)
    for first in range(0, len(index), size):
        part = index[first : first + size]
        start, skip = seen.rows(part) if seen else (np.zeros(len(part) + 1, np.int64), np.empty(0, np.int32))
        policy.choose(context, part, Among(start, skip, allowed), chosen[first : first + size])
    return _looked_at(p, context, policy, index, chosen)


def _looked_at(
    p: Result, context: Context, policy: Policy, index: NDArray[np.int64], chosen: NDArray[np.int64]
) -> Recommendations:
    """Score the chosen ones exactly, and put them in that order."""
    there = chosen >= 0
    pairs = context.predict(np.repeat(index, there.sum(axis=1)), chosen[there])
    columns = {"score": policy.score(context, pairs), "mean": pairs.mean, "sd": pairs.sd}
    tables = {name: np.full(chosen.shape, np.nan) for name in columns}
    for name, values in columns.items():
        tables[name][there] = values
    # Stable: where the score cannot tell, the order of the ranking stays.
    order = np.argsort(-tables["score"], axis=1, kind="stable")
    chosen = np.take_along_axis(chosen, order, axis=1)
    tables = {name: np.take_along_axis(a, order, axis=1) for name, a in tables.items()}
    there = chosen >= 0
    pairs = context.predict(np.repeat(index, there.sum(axis=1)), chosen[there])
    labels = named(p.col_labels, np.maximum(chosen, 0))
    labels[~there] = -1 if labels.dtype.kind == "i" else ""
    return Recommendations(named(p.row_labels, index), labels, **tables, pairs=pairs)


def _seen(p: Result, exclude: Any) -> Seen | None:
    if exclude is False or exclude is None:
        return None
    if exclude is True:
        if p.seen is None:
            raise DataError(
                "which entries were seen is not known, or all were; give exclude_seen=False to rank all columns, "
                "or exclude_seen=V with the entries to exclude"
            )
        return Seen(p.seen.indptr, p.seen.indices)
    data = aligned(exclude, p.shape, p.row_labels, p.col_labels)
    return Seen(data.indptr, data.indices)


def _allowed(p: Result, filter: Any) -> NDArray[np.bool_]:
    """Return which columns may be recommended."""
    size = p.shape[1]
    if filter is None:
        return np.ones(size, bool)
    if callable(filter):
        filter = np.asarray(filter(named(p.col_labels, np.arange(size))))
        if filter.dtype != bool or filter.shape != (size,):
            raise DataError(f"filter must return {size} booleans, got {filter.dtype} of shape {filter.shape}")
    given = unmasked(list(filter) if isinstance(filter, Set) else filter, "filter's elements")
    if given.dtype == bool:
        if given.shape != (size,):
            raise DataError(f"a filter of booleans needs one per column ({size}), got shape {given.shape}")
        return given
    allowed = np.zeros(size, bool)
    allowed[find_labels(p.col_labels, given, size, "column")] = True
    return allowed


def _check_number(name: str, value: Any) -> None:
    if not is_number(value) or not np.isfinite(value):
        raise DataError(f"{name} must be a finite number, got {value!r}")
