"""Warm start from a posterior, an estimate or a pair (W, H): the start of each chain.

After a posterior, a chain starts at the last draw of a chain before: rows and columns that were there keep their
factors, new ones are folded in, first the rows (given the old columns), then the columns (given all rows).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..checks import as_numbers
from ..data.labels import align_labels
from ..data.observations import observations
from ..data.source import Source
from ..errors import DataError, ModelError, SamplingError
from ..models import FactorModel
from ..models.modes import NAMES
from ..runs.draws import Draws, ModeDraws, check_factors
from ..runs.result import Result
from ..runs.warm_start import Start
from ..samplers import Setup, as_sampler, sampler_from_dict
from .estimate import Estimate
from .fold_in import draw, seed_of
from .new_rows import Entries, Other, check_kept

_SWEEPS = 20
_TUNE_CYCLES, _LEAST_TUNE = 50, 200

_Sample = TypeVar("_Sample", bound=Callable[..., Any])
_sampling: list[Callable[..., Any]] = []


def updates_by(sample: _Sample) -> _Sample:
    """Have `Posterior.update` sample by this function, which is built on this room and so cannot be imported here."""
    _sampling[:] = [sample]
    return sample


def update(
    posterior: Result, V: Any, draws: int | None, tune: int | None, seed: int, more: dict[str, Any]
) -> Any:
    """Return a new posterior, with a warm start from this one; `Posterior.update` documents the arguments."""
    if taken := [name for name in ("model", "rank", "start") if name in more]:
        raise ModelError(
            f"update continues the posterior and its model, got {taken[0]}=…; leave it out, or call sample(V, …)"
        )
    data = observations(V).meaning(posterior.seen and posterior.seen.absent)
    _check_grown(posterior, data)
    if more.get("sampler") is None:
        more = {**more, "sampler": sampler_from_dict(posterior.settings["sampler"])}
    if tune is None:
        tune = max(_LEAST_TUNE, _TUNE_CYCLES * as_sampler(more["sampler"]).cycle(data))
    draws = int(posterior.draws.phi.shape[1]) if draws is None else draws
    more = {"chains": posterior.chains, **more}
    return _sampling[0](data, posterior.model, draws=draws, tune=tune, seed=seed, start=posterior, **more)


def _check_grown(posterior: Result, data: Source) -> None:
    """Raise if rows, columns or entries are fewer than before: someone gives the new ones alone."""
    remedy = "update takes the whole matrix, old entries and new; sample(V, model, start=posterior) takes any"
    sides = zip(NAMES, posterior.labels, data.labels, posterior.shape, data.shape, strict=True)
    for names, before, now, old, size in sides:
        gone = old - np.count_nonzero(align_labels(before, old, now, size, names.dim) >= 0)
        if gone:
            raise DataError(f"{gone} of the {old} {names.dim}s of the posterior are not in V; {remedy}")
    if posterior.seen is not None and data.stored < len(posterior.seen.indices):
        raise DataError(f"V has {data.stored} entries, there were {len(posterior.seen.indices)}; {remedy}")


def check_start(start: Any) -> None:
    """Raise SamplingError unless `start` is None or of a kind that chains can start at."""
    pair = isinstance(start, tuple | list) and len(start) == 2
    if not (start is None or pair or isinstance(start, Result | Estimate)):
        raise SamplingError(
            f"start must be a Posterior, an Estimate of psgld.optimize, or a pair (W, H), got a {type(start).__name__}"
        )


def start_at(start: Any, setup: Setup) -> Start:
    """Return the start of the chains: the last draws of a posterior, an estimate, or a pair (W, H).

    Rows and columns that the posterior or the estimate does not have are folded in.
    """
    data, model = setup.data, setup.model
    if isinstance(start, tuple | list):
        W, H = (_checked(x, axis, setup) for axis, x in enumerate(start))
        return Start(_draws_at(W, H, (None, None), setup), model)
    if model != start.model:
        made = "sampled" if isinstance(start, Result) else "optimised"
        raise ModelError(f"start was {made} with {start.model!r}, not with {model!r}; give the same model")
    if isinstance(start, Estimate):
        last = _at_estimate(start, setup)
    else:
        check_kept(start.draws, model)
        check_factors(start.draws)
        last = start.draws.each(lambda array: array[:, -1:])
    return Start(_aligned(last, start, data, model), model)


def _aligned(last: Draws, start: Any, data: Source, model: FactorModel) -> Draws:
    """Return draws with the rows and columns of the data, matched by label; new ones are folded in."""
    before = (start.row_labels, start.col_labels)
    rows, cols = (
        align_labels(labels, old, now, size, names.dim)
        for names, labels, old, now, size in zip(
            NAMES, before, start.shape, data.labels, data.shape, strict=True
        )
    )
    i, j, v = data.entries(np.arange(data.stored))
    grown = _grow(last, model, 0, rows, (i, cols[j], v), data)
    return _grow(grown, model, 1, cols, (j, i, v), data)


def _checked(x: Any, axis: int, setup: Setup) -> NDArray[Any]:
    """Return W, or H transposed, as stored; raise DataError unless shape, values and signs suit data and model."""
    name, (rows, cols), rank = "WH"[axis], setup.data.shape, setup.model.rank
    array = as_numbers(x, f"start: {name}")
    shape = (rows, rank) if axis == 0 else (rank, cols)
    if array.shape != shape:
        raise DataError(
            f"start: {name} must be {shape[0]} × {shape[1]}, got shape {array.shape}; V is {rows} × {cols}, rank {rank}"
        )
    if not np.isfinite(array).all():
        raise DataError(
            f"start: {name} must be finite, got {np.count_nonzero(~np.isfinite(array))} values that are not"
        )
    if setup.model.nonnegative and array.min(initial=0.0) < 0.0:
        raise DataError(
            f"start: {name} must be >= 0 under non-negative priors, got {array.min():.4g}; use np.abs or np.maximum"
        )
    return array if axis == 0 else array.T


def _at_estimate(estimate: Estimate, setup: Setup) -> Draws:
    """Return an estimate as one draw. Hyperparameters that it does not have are those of a random start."""
    draws = _draws_at(estimate.W, estimate.H.T, (estimate.row_bias, estimate.col_bias), setup)
    likelihood = setup.model.likelihood
    phi, theta = likelihood.split(tuple(estimate.parameters.values()))
    others = None if draws.theta is None else np.array(theta, np.float64).reshape(1, 1, -1)
    return replace(
        draws, offset=np.full((1, 1), estimate.offset), phi=np.full((1, 1), float(phi)), theta=others
    )


def _draws_at(W: NDArray[Any], H: NDArray[Any], biases: tuple[Any, Any], setup: Setup) -> Draws:
    """Return factors as one draw, with the hyperparameters of a random start. Biases are 0 unless given."""
    hyper, dtype = setup.start, setup.settings.dtype
    modes = []
    for mode, x, bias, own in zip(setup.model.modes, (W, H), biases, hyper.modes, strict=True):
        if mode.biases and bias is None:
            bias = np.zeros(len(x))
        modes.append(
            ModeDraws(
                np.ascontiguousarray(x, dtype)[None, None],
                np.asarray(bias, dtype)[None, None] if mode.biases else None,
                own.rate[None, None],
                None if own.shape is None else np.full((1, 1), own.shape),
                None if own.normal is None else own.normal.mean[None, None],
                None if own.normal is None else own.normal.precision[None, None],
            )
        )
    theta = hyper.theta.reshape(1, 1, -1) if len(hyper.theta) else None
    return Draws(tuple(modes), np.full((1, 1), hyper.offset + setup.shift), np.full((1, 1), hyper.phi), theta)


def _grow(
    draws: Draws,
    model: FactorModel,
    axis: int,
    old: NDArray[np.int64],
    entries: tuple[Any, Any, Any],
    data: Source,
) -> Draws:
    """Return the draws with the rows (or columns) of the data: those that were there, and the new ones folded in."""
    own, other, v = entries
    new = np.flatnonzero(old < 0)
    place = np.cumsum(old < 0) - 1
    used = (old[own] < 0) & (other >= 0)
    weights = None if data.entry_weights is None else data.entry_weights[used]
    zeros = data.absent == "zero"
    found = Entries.of(place[own[used]], other[used], v[used], len(new), zeros, weights, data.zero_weight)
    before = draws.modes[axis]
    X, bias = before.factor[:, :, old], None if before.bias is None else before.bias[:, :, old]
    if len(new):
        drawn, drawn_bias = draw(Other.of(draws, model, axis), found, seed_of(0, axis), _SWEEPS)
        X[:, 0, new] = drawn
        if bias is not None:
            bias[:, 0, new] = drawn_bias
    return draws.with_mode(axis, factor=X, bias=bias)
