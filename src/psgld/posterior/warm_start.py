"""Warm start from a posterior when the data has grown: the start of each chain.

A chain starts at the last draw of a chain before: rows and columns that were there keep their factors, new ones are
folded in, first the rows (given the old columns), then the columns (given all rows).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..data.labels import align_labels
from ..data.observations import observations
from ..data.source import Source
from ..errors import DataError, ModelError
from ..models.modes import NAMES
from ..runs.draws import Draws, check_factors
from ..runs.result import Result
from ..runs.warm_start import Start
from ..samplers import as_sampler, sampler_from_dict
from .fold_in import draw
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
    posterior: Any, V: Any, draws: int | None, tune: int | None, seed: int, more: dict[str, Any]
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


def _check_grown(posterior: Any, data: Source) -> None:
    """Raise if rows, columns or entries are fewer than before: someone gives the new ones alone."""
    remedy = "update takes the whole matrix, old entries and new; sample(V, model, start=posterior) takes any"
    sides = zip(NAMES, posterior.labels, data.labels, posterior.shape, data.shape, strict=True)
    for names, before, now, old, size in sides:
        gone = old - np.count_nonzero(align_labels(before, old, now, size, names.dim) >= 0)
        if gone:
            raise DataError(f"{gone} of the {old} {names.dim}s of the posterior are not in V; {remedy}")
    if posterior.seen is not None and data.stored < len(posterior.seen.indices):
        raise DataError(f"V has {data.stored} entries, there were {len(posterior.seen.indices)}; {remedy}")


def start_at(posterior: Result, data: Source, model: Any) -> Start:
    """Take the last draws, and fold in what is new."""
    if model != posterior.model:
        raise ModelError(
            f"start was sampled with {posterior.model!r}, not with {model!r}; give the same model"
        )
    check_kept(posterior.draws, model)
    check_factors(posterior.draws)
    last = posterior.draws.each(lambda array: array[:, -1:])
    rows, cols = (
        align_labels(before, old, now, size, names.dim)
        for names, before, old, now, size in zip(
            NAMES, posterior.labels, posterior.shape, data.labels, data.shape, strict=True
        )
    )
    i, j, v = data.entries(np.arange(data.stored))
    zeros = data.absent == "zero"
    grown = _grow(last, model, 0, rows, (i, cols[j], v), zeros)
    grown = _grow(grown, model, 1, cols, (j, i, v), zeros)
    return Start(grown, model)


def _grow(
    draws: Draws, model: Any, axis: int, old: NDArray[np.int64], entries: tuple[Any, Any, Any], zeros: bool
) -> Draws:
    """Return the draws with the rows (or columns) of the data: those that were there, and the new ones folded in."""
    own, other, v = entries
    new = np.flatnonzero(old < 0)
    place = np.cumsum(old < 0) - 1
    used = (old[own] < 0) & (other >= 0)
    found = Entries.of(place[own[used]], other[used], v[used], len(new), zeros)
    before = draws.modes[axis]
    X, bias = before.factor[:, :, old], None if before.bias is None else before.bias[:, :, old]
    if len(new):
        drawn, drawn_bias = draw(Other.of(draws, model, axis), found, 0, _SWEEPS)
        X[:, 0, new] = drawn
        if bias is not None:
            bias[:, 0, new] = drawn_bias
    return draws.with_mode(axis, factor=X, bias=bias)
