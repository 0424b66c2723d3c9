"""The spread of the draws relative to that of the posterior, from the gradient at the draws (Stein's identity).

    E[f'(x) + f(x) ∂ log p(W, H | V) / ∂x] = 0

holds under the posterior for every coefficient x and every smooth f with f(x) p(x) = 0 at the boundary. It holds given
all other coefficients, so it holds in each mode, whatever has not mixed. Here f(x) = x - c for real-valued factors and
f(x) = 2x (x - c) / (x + c) for non-negative ones, where c is the mean of the draws of x: it is 0 at the boundary, and
its slope at c is 1. Then

    spread² = -Σ f(x) ∂ log p / ∂x  /  Σ f'(x)

is 1 for draws from the posterior. If each coefficient deviates from c by a times too much, it is about a².
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..data.source import Source
from ..models import FactorModel
from ..models.modes import Mode
from ..models.priors.normal_wishart import RowNormal
from ..runs.draws import Draws
from .mixing import ess_mean

Floats = NDArray[np.float64]

_WORK = 3e7
"""Multiplications for each mode: rows are chosen at random for no more."""

_DRAWS = 100
"""Draws that are used, of all chains together."""

FEWEST = 10
"""Draws per chain that are needed."""


class Spread(NamedTuple):
    """spread² of a mode, and its Monte Carlo standard error."""

    square: float
    error: float


class _Rows(NamedTuple):
    """Some rows of V (or columns) and their entries, in the order of the rows."""

    chosen: NDArray[np.int64]
    indptr: NDArray[np.int64]
    others: NDArray[np.int64]
    """The column of each entry (or its row)."""
    values: Floats
    weights: Floats | None = None
    """None if each entry counts once."""


def spread(draws: Draws, model: FactorModel, data: Source, mode: Mode) -> Spread:
    """Return spread² of the factor of a mode; the entries must be in memory."""
    rows = _some_rows(data, mode.axis, int(_WORK / (_DRAWS * mode.components)))
    chains, kept = draws.phi.shape
    at = np.unique(np.linspace(0, kept - 1, max(_DRAWS // chains, FEWEST)).astype(int))
    centre = [
        draws.modes[mode.axis].factor[c][:, rows.chosen].mean(axis=0, dtype=np.float64) for c in range(chains)
    ]
    sums = np.array([[_sums(draws, model, mode, rows, (c, s), centre[c]) for s in at] for c in range(chains)])
    return _ratio(sums[..., 0], sums[..., 1])


def _sums(
    draws: Draws, model: FactorModel, mode: Mode, rows: _Rows, at: tuple[int, int], centre: Floats
) -> tuple[float, float]:
    """Return -Σ f(x) ∂ log p / ∂x and Σ f'(x) over the coefficients of some rows in one draw."""
    x = _stored(draws, mode, at)[rows.chosen]
    score = (_likelihood_score(draws, model, mode, rows, at, x) + _prior_score(draws, mode, at, x))[
        :, : mode.rank
    ]
    x = x[:, : mode.rank]
    if not model.nonnegative:
        return -float(np.sum((x - centre) * score)), float(x.size)
    x, c = np.maximum(x, 1e-30), np.maximum(centre, 1e-30)
    f, slope = 2.0 * x * (x - c) / (x + c), 2.0 * (x * x + 2.0 * c * x - c * c) / (x + c) ** 2
    return -float(np.sum(f * score)), float(np.sum(slope))


def _stored(draws: Draws, mode: Mode, at: tuple[int, int]) -> Floats:
    """Return a draw of a factor with its biases as components."""
    own = draws.modes[mode.axis]
    bias = None if own.bias is None else own.bias[at].astype(np.float64)
    return mode.pack(own.factor[at].astype(np.float64), bias, float(draws.offset[at]))


def _likelihood_score(
    draws: Draws, model: FactorModel, mode: Mode, rows: _Rows, at: tuple[int, int], x: Floats
) -> Floats:
    """Return ∂ log p(V | W, H) / ∂x."""
    from scipy.sparse import csr_array

    likelihood, y = model.likelihood, _stored(draws, model.modes[1 - mode.axis], at)
    counts = np.diff(rows.indptr)
    eta = np.einsum("nk,nk->n", np.repeat(x, counts, axis=0), y[rows.others])
    eta += 0.0 if model.bias else float(draws.offset[at])
    if likelihood.nonnegative_mean:
        eta = np.maximum(eta, 1e-30)
    others = () if draws.theta is None else tuple(draws.theta[at].tolist())
    e = likelihood.score(rows.values, eta, *likelihood.joined(float(draws.phi[at]), others))
    if rows.weights is not None:
        e = e * rows.weights
    return np.asarray(csr_array((e, rows.others, rows.indptr), shape=(len(x), len(y))) @ y)


def _prior_score(draws: Draws, mode: Mode, at: tuple[int, int], x: Floats) -> Floats:
    """Return ∂ log p(W, H) / ∂x."""
    own, mean = draws.modes[mode.axis], mode.prior_mean(float(draws.offset[at]))
    if own.mean is not None and own.precision is not None:
        middle = own.mean[at].copy()
        if mode.centred:
            middle[mode.bias] = draws.offset[at]  # the recorded mean is that of centred data
        normal = RowNormal(middle, own.precision[at])
        return np.asarray(normal.linear - x @ normal.precision)
    prior = mode.prior.at_shape(None if own.shape is None else float(own.shape[at]))
    inverse, linear, quadratic = prior.coefficients(own.rate[at], mean)
    score = linear - quadratic * x
    return np.asarray(score + inverse / np.maximum(x, 1e-30) if inverse else score)


def _some_rows(data: Source, axis: int, most: int) -> _Rows:
    """Return rows (or columns), all or a random sample, with at most that many entries in total, or one row."""
    counts = data.counts(axis)
    order = np.random.default_rng(0).permutation(len(counts))
    number = max(1, int(np.searchsorted(np.cumsum(counts[order]), most, side="right")))
    chosen = np.sort(order[:number])
    if data.absent == "zero":
        return _with_zeros(data, axis, chosen)
    own, others, values, weights = _entries_of(data, axis, chosen)
    by_row = np.argsort(own, kind="stable")
    return _Rows(
        chosen,
        _starts(counts[chosen]),
        others[by_row],
        values[by_row].astype(np.float64),
        None if weights is None else weights[by_row],
    )


def _entries_of(data: Source, axis: int, chosen: NDArray[np.int64]) -> tuple[Any, Any, Any, Any]:
    """Return the stored entries of rows (or columns): their own indices, those of the other mode, values, weights."""
    if axis == 0:
        first, size = data.indptr[chosen], np.diff(data.indptr)[chosen]
        at = np.repeat(first - _starts(size)[:-1], size) + np.arange(size.sum())
    else:
        at = np.flatnonzero(np.isin(np.arange(data.shape[1]), chosen)[data.indices])
    *index, values = data.entries(at)
    weights = data.entry_weights
    return index[axis], index[1 - axis], values, None if weights is None else weights[at].astype(np.float64)


def _with_zeros(data: Source, axis: int, chosen: NDArray[np.int64]) -> _Rows:
    """Return rows of data whose absent entries are zeros."""
    width = data.shape[1 - axis]
    dense = np.zeros((len(chosen), width))
    own, others, values, given = _entries_of(data, axis, chosen)
    at = np.searchsorted(chosen, own), others
    dense[at] = values
    weights = None
    if given is not None:
        weights = np.full(dense.shape, data.zero_weight)
        weights[at] = given
    indptr = np.arange(len(chosen) + 1, dtype=np.int64) * width
    columns = np.tile(np.arange(width), len(chosen))
    return _Rows(chosen, indptr, columns, dense.ravel(), None if weights is None else weights.ravel())


def _starts(counts: NDArray[Any]) -> NDArray[np.int64]:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)])


def _ratio(above: Floats, below: Floats) -> Spread:
    """Return Σ above / Σ below, (chain, draw) each, and its Monte Carlo standard error."""
    square = float(above.sum() / below.sum())
    residual = (above - square * below) / below.mean()
    number = max(float(ess_mean(residual)), 1.0)
    return Spread(square, float(residual.std() / np.sqrt(number)))
