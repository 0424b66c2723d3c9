"""Rows and columns that the data did not have, drawn from their prior: what is known of them before any entry.

w ~ p(w | rates_s)   for each draw s,   a ~ p(a | rates_s) if there are biases
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..checks import unmasked
from ..data.labels import LabelArray, encode, match_labels
from ..errors import DataError
from ..models import FactorModel
from ..models.modes import NAMES
from ..runs.draws import Draws, check_factors
from ..runs.result import Sampled
from ..system.archive import check_memory
from .fold_in import draw, seed_of
from .new_rows import Entries, Other

COLD_START = 'fold_in(V) adds some from their entries, predict(…, fallback="prior") takes the prior'
"""What to do about unknown labels."""

_SWEEPS = 20


def check_fallback(fallback: object) -> None:
    """Raise DataError unless `fallback` is None or "prior"."""
    if fallback not in (None, "prior"):
        raise DataError(f'fallback must be None or "prior", got {fallback!r}')


def with_unknown(posterior: Sampled, axis: int, wanted: Any, seed: int) -> tuple[Sampled, NDArray[np.int64]]:
    """Return the posterior with a row (or column) from the prior for each unknown label, and the wanted indices."""
    dim = NAMES[axis].dim
    codes, names = encode(np.atleast_1d(unmasked(wanted, f"{dim} labels")), f"{dim} label")
    labels, size = posterior.labels[axis], posterior.shape[axis]
    at = match_labels(labels, size, names)
    unknown = names[at < 0]
    if not len(unknown):
        return posterior, at[codes]
    at[at < 0] = size + np.arange(len(unknown))
    shape = (*posterior.shape[:axis], size + len(unknown), *posterior.shape[axis + 1 :])
    every = _appended(np.arange(size) if labels is None else labels, unknown)
    changed: dict[str, Any] = {NAMES[axis].labels: every, "shape": shape}
    draws = _grown(posterior.draws, posterior.model, axis, len(unknown), seed)
    return replace(posterior, draws=draws, tracked=None, seen=None, **changed), at[codes]


def _grown(draws: Draws, model: FactorModel, axis: int, new: int, seed: int) -> Draws:
    """Return the draws with some more rows of a factor, from the prior."""
    check_factors(draws)
    none = np.empty(0, np.int64)
    own = draws.modes[axis]
    size = own.factor.nbytes // max(1, own.factor.shape[2])
    check_memory(own.factor.nbytes + 2 * new * size, f"predicting {new:,} unknown {NAMES[axis].dim}s at once")
    nothing = Entries.of(none, none, none, new, False)
    X, bias = draw(Other.of(draws, model, axis), nothing, seed_of(seed, axis), _SWEEPS)
    kept = draws.phi.shape
    factor = np.concatenate([own.factor, X.reshape(*kept, *X.shape[1:])], axis=2)
    if own.bias is None or bias is None:
        return draws.with_mode(axis, factor=factor)
    return draws.with_mode(
        axis, factor=factor, bias=np.concatenate([own.bias, bias.reshape(*kept, -1)], axis=2)
    )


def _appended(labels: LabelArray, unknown: LabelArray) -> LabelArray:
    """Return the labels with others behind them; as text if only some are integers."""
    if labels.dtype.kind != unknown.dtype.kind:
        labels, unknown = labels.astype(str), unknown.astype(str)
    return np.concatenate([labels, unknown])
