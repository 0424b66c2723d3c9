"""Fold-in: sample rows (or columns) that were not in the data, given their entries and the draws of the other factor.

    w_s ~ p(w | v, H_s, φ_s, rates_s)    for each kept draw s of the other factor

Real-valued rows of a Gaussian model have a normal posterior, which is drawn exactly. Others are drawn by slice sampling
in the core (`fold_in.hpp`), for every likelihood. The posterior of everything else is taken as it was: the new entries
tell about the new rows only.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _core
from ..checks import is_integer
from ..data.labels import Csr, align_labels, require_known
from ..data.observations import Observations, observations
from ..data.seen import Seen
from ..data.source import Source
from ..errors import DataError, ModelError, warn
from ..models.modes import NAMES
from ..runs.draws import check_factors
from ..runs.result import Result, Sampled
from .map_rows import nonnegative_mode, real_mode
from .new_rows import Entries, Other
from .predict import Floats, check_seed, new_pool

_SIDES = tuple(names.side for names in NAMES)
_TINY = 1e-30
_ODD = 0x9E3779B97F4A7C15  # 2^64 over the golden ratio: far from the seeds that people give
_GATHERED = 4_000_000
"""Numbers of the other factor that are gathered at a time."""


def fold_in(posterior: Sampled, V: Any, side: str = "rows", seed: int = 0, sweeps: int = 20) -> Sampled:
    """Return a posterior whose rows (or columns) are the new ones; `Posterior.fold_in` says what the arguments are."""
    _check(side, sweeps)
    d, seed = posterior.draws, check_seed(seed)
    check_factors(d)
    data, entries = new_entries(posterior, V, side)
    axis = _SIDES.index(side)
    X, bias = draw(Other.of(d, posterior.model, axis), entries, seed_of(seed, axis), sweeps)
    X = X.reshape(*d.phi.shape, *X.shape[1:])
    if bias is not None:
        bias = bias.reshape(*d.phi.shape, -1)
    shape = (*posterior.shape[:axis], data.shape[axis], *posterior.shape[axis + 1 :])
    changed: dict[str, Any] = {"shape": shape, NAMES[axis].labels: data.labels[axis]}
    seen = entries
    if axis == 1:
        i = np.repeat(np.arange(entries.rows), np.diff(entries.start))
        seen = Entries.of(entries.index, i, entries.value, posterior.shape[0], False)
    settings = posterior.settings | {"entries": data.size, "folded_in": side}
    return replace(
        posterior,
        draws=d.with_mode(axis, factor=X, bias=bias),
        tracked=None,
        seen=Seen(seen.start, seen.index, data.absent),
        settings=settings,
        held_out=None,
        observed=None,
        **changed,
    )


def transform(posterior: Result, V: Any, side: str = "rows") -> NDArray[Any]:
    """Return one vector for each new row (or column): no randomness; `Posterior.transform` says which."""
    _check(side, 1)
    check_factors(posterior.draws)
    _, entries = new_entries(posterior, V, side)
    return point(reference(posterior, side), entries)[0]


def reference(posterior: Result, side: str = "rows") -> Other:
    """Return the one draw that `transform` rests on: the last of the chain whose `lp` is largest on average."""
    best = int(np.argmax(posterior.sample_stats["lp"].mean(axis=1)))
    kept = posterior.draws.phi.shape[1]
    return Other.of(posterior.draws, posterior.model, _SIDES.index(side)).one((best + 1) * kept - 1)


def point(other: Other, entries: Entries) -> tuple[NDArray[Any], Floats | None]:
    """Return w given v and a single draw of H, and its bias: the mean if it is normal, else the mode."""
    if other.prior.nonnegative:
        return nonnegative_mode(other, entries), None
    if not other.likelihood.normal:
        return real_mode(other, entries)
    X, bias = gaussian(other, entries, seed=None)
    return X[0], None if bias is None else bias[0]


def new_entries(posterior: Result, V: Any, side: str) -> tuple[Source, Entries]:
    """Read the new entries; the other side is matched by label, or must have the size that it had.

    Sparse data without labels may end before the last column: what is not stored was not observed.
    """
    data = _without_entries(V) or observations(V).meaning(posterior.seen and posterior.seen.absent)
    posterior.model.check_values(data.values)
    new = _SIDES.index(side)
    old = 1 - new
    labels, given, size, axis = posterior.labels[old], data.labels[old], posterior.shape[old], NAMES[old].dim
    i, j, v = data.entries(np.arange(data.stored))
    at, own = (j, i) if new == 0 else (i, j)
    now = data.shape[old]
    if given is None and (now > size or (now < size and not data.is_sparse)):
        raise DataError(f"the new data has {now} {axis}s, the posterior {size}; give labels, or as many")
    place = require_known(align_labels(labels, size, given, now, axis), labels, size, given, axis)
    if posterior.settings.get("weighted") and not data.weighted:
        warn(
            "the posterior was sampled with weights, the new entries have none and count once each; give them weights="
        )
    entries = Entries.of(
        own, place[at], v, data.shape[new], data.absent == "zero", data.entry_weights, data.zero_weight
    )
    return data, entries


def _without_entries(V: Any) -> Observations | None:
    """Return a matrix of which nothing was observed, all NaN or sparse without entries; None if V is another one."""
    if hasattr(V, "tocoo"):
        none = V.nnz == 0
    else:
        none = isinstance(V, np.ndarray) and V.dtype.kind == "f" and V.ndim == 2 and bool(np.isnan(V).all())
    if not none or min(V.shape) < 1:
        return None
    csr = Csr(np.zeros(V.shape[0] + 1, np.int64), np.empty(0, np.int32), np.empty(0))
    return Observations((int(V.shape[0]), int(V.shape[1])), None, csr, 0)


def seed_of(seed: int, axis: int) -> int:
    """Return the seed of new rows or columns: with one seed, row n and column n would have the same noise."""
    return (seed + axis * _ODD) % 2**64


def draw(other: Other, entries: Entries, seed: int, sweeps: int) -> tuple[NDArray[Any], Floats | None]:
    """Return draws of the new rows, (S, rows, K), and of their biases, if there are any."""
    if not other.prior.nonnegative and other.likelihood.normal:
        return gaussian(other, entries, seed)
    if entries.zeros and other.likelihood.zeros != "sum":
        entries = entries.filled(other.H.shape[1])
    real = not other.prior.nonnegative
    H = other.design() if real else other.H
    inverse, linear, quadratic, coupling = other.coefficients()
    out = np.empty((len(H), entries.rows, H.shape[2]), H.dtype)
    _core.fold_in(
        new_pool(), H, other.phi, linear, quadratic, coupling, inverse, real,
        np.empty((0, 0)) if other.bias is None else np.ascontiguousarray(other.bias),
        other.likelihood.functor, other.parameters, _TINY,
        entries.start, entries.index, entries.value, np.empty(0) if entries.weight is None else entries.weight,
        entries.zeros, entries.zero_weight, sweeps, seed, out,
    )  # fmt: skip
    return other.parted(out)


# -- Gaussian rows ---------------------------------------------------------------------------------------


def gaussian(other: Other, entries: Entries, seed: int | None) -> tuple[NDArray[Any], Floats | None]:
    """Return w ~ Normal(P⁻¹ b, P⁻¹), P = HᵀCH / φ + Λ, b = HᵀC(v - bias) / φ + Λm; without a seed, the mean.

    C has the weights of the entries, 1 by default. Λ is diag(rate) and m = 0, but under a normal–Wishart prior.
    """
    S, J, K = other.H.shape
    width = K if other.bias_rate is None else K + 1
    out = np.empty((S, entries.rows, width))
    if entries.weight is not None and entries.zeros:
        entries = entries.filled(J)
    if entries.weight is None and (entries.zeros or len(entries.value) == entries.rows * J):
        _whole_rows(other, entries, seed, out)
    else:
        _rows_one_by_one(other, entries, seed, out)
    X = np.ascontiguousarray(out[..., :K], dtype=other.H.dtype)
    return X, None if other.bias_rate is None else out[..., K].astype(other.H.dtype)


def _rows_one_by_one(other: Other, entries: Entries, seed: int | None, out: Floats) -> None:
    """Fill in rows that were observed here and there: a P for each row and draw, many draws at a time."""
    S, _, width = out.shape
    for r in range(entries.rows):
        at = slice(entries.start[r], entries.start[r + 1])
        z = None if seed is None else _noise(seed, r, S, width)
        step = max(1, _GATHERED // max(1, int(at.stop - at.start) * width))
        for first in range(0, S, step):
            part = slice(first, first + step)
            H, left = _design(other, part, entries.index[at], entries.value[at])
            Ht = H.transpose(0, 2, 1)
            if entries.weight is not None:
                Ht = Ht * entries.weight[at]
            b = (Ht @ left[..., None]) / other.phi[part][:, None, None] + _linear(other, part)
            noise = None if z is None else z[part][..., None]
            out[part, r] = _solve(_precision(other, part, Ht @ H), b, noise)[..., 0]


def _whole_rows(other: Other, entries: Entries, seed: int | None, out: Floats) -> None:
    """Fill in rows that were observed everywhere: they share the P of a draw."""
    S, rows, width = out.shape
    table = entries.filled(other.H.shape[1]).value.reshape(rows, -1)
    z = None if seed is None else np.stack([_noise(seed, r, S, width) for r in range(rows)], axis=2)
    for s in range(S):
        part = slice(s, s + 1)
        H, _ = _design(other, part, slice(None), 0.0)
        left = table if other.bias is None else table - other.bias[s]
        b = (left @ H[0]).T / other.phi[s] + _linear(other, part)[0]
        P = _precision(other, part, H.transpose(0, 2, 1) @ H)
        out[s] = _solve(P, b[None], None if z is None else z[part])[0].T


def _design(other: Other, part: slice, index: Any, value: Any) -> tuple[Floats, Floats]:
    """Return H at some columns with a component of ones for the bias, and what is left to explain."""
    H = other.H[part][:, index].astype(np.float64)
    left = np.broadcast_to(value, H.shape[:2]) if other.bias is None else value - other.bias[part][:, index]
    if other.bias_rate is None:
        return H, left
    return np.concatenate([H, np.ones((*H.shape[:2], 1))], axis=2), left


def _linear(other: Other, part: slice) -> Floats:
    """Return Λm of some draws, as columns."""
    if other.mean is None or other.precision is None:
        return np.zeros((1, 1, 1))
    return np.asarray(other.precision[part] @ other.mean[part][..., None])


def _precision(other: Other, part: slice, gram: Floats) -> Floats:
    if other.precision is not None:
        return np.asarray(gram / other.phi[part][:, None, None] + other.precision[part])
    rate = other.rate[part]
    if other.bias_rate is not None:
        rate = np.concatenate([rate, other.bias_rate[part][:, None]], axis=1)
    P = gram / other.phi[part][:, None, None]
    P[:, np.arange(P.shape[1]), np.arange(P.shape[1])] += rate
    return np.asarray(P)


def _solve(P: Floats, b: Floats, z: Floats | None) -> Floats:
    """Return P⁻¹ b + L⁻ᵀ z, P = L Lᵀ: a draw if z is standard normal; columns are independent."""
    try:
        if z is None:
            return np.asarray(np.linalg.solve(P, b))
        L = np.linalg.cholesky(P)
        return np.asarray(np.linalg.solve(L.transpose(0, 2, 1), np.linalg.solve(L, b) + z))
    except np.linalg.LinAlgError:
        raise ModelError(
            f"the precision of a new row is singular: its numbers go up to {np.abs(P).max():.3g}, beyond what doubles "
            "resolve; the draws of the posterior are damaged, or its chains diverged"
        ) from None


def _noise(seed: int, row: int, S: int, width: int) -> Floats:
    """Return the standard normals of a new row: a function of the seed and the row."""
    return np.random.Generator(np.random.Philox(key=np.array([seed, row], np.uint64))).standard_normal(
        (S, width)
    )


def _check(side: str, sweeps: int) -> None:
    if side not in _SIDES:
        raise DataError(f'side must be "rows" or "cols", got {side!r}')
    if not is_integer(sweeps) or sweeps < 1:
        raise ModelError(f"sweeps must be an integer >= 1, got {sweeps!r}")
