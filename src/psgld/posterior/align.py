"""Alignment of components across draws and chains.

    W H = Σ_k w_k h_kᵀ = Σ_k (c_k w_π(k)) (h_π(k) / c_k)ᵀ

The order π and the scale c of the components are not identified; nor is, of real-valued factors, any invertible map
W A, A⁻¹ H. So each draw is first put into a canonical form that leaves W H as it is: w_k and h_k get the same root mean
square; real-valued factors are first turned to the principal axes of W H (its singular vectors). Then π maximises

    Σ_k cos(w_π(k), w̄_k) cos(h_π(k), h̄_k),

the cosines between components of a draw and of the reference w̄, h̄ (Hungarian algorithm); real-valued pairs get the
sign of the reference. The reference is a draw, then the mean of the draws that were aligned with it. Non-negative
loadings all have large cosines, so these are compared by how they differ from the average component: cosines of
w_k / |w_k| minus its mean over k, and 0 if they are negative.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, final
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from ..runs.draws import Draws, check_factors
from ..runs.result import Result

Floats = NDArray[np.float64]
Pair = tuple[Floats, Floats]

_TINY = 1e-300

_FOUND: WeakKeyDictionary[Result, Alignment] = WeakKeyDictionary()
"""Alignments of posteriors that are in use: `components` and `explain` need the same one."""


@final
@dataclass(frozen=True, eq=False)
class Alignment:
    """Aligned components, the largest first. Where there are two arrays, they are of the rows and of the columns.

    Attributes
    ----------
    maps : matrices A, (chain, draw, K, K): the aligned factor of a draw is its factor times A.
    mean : means of the aligned factors over all draws, (n, K).
    share : share of each component in each draw, (chain, draw, K): of Σ_ij μ_ij if the factors are non-negative, else
        of the sum of squares of W H.
    sparsity : Hoyer's measure of w_k and h_k, means over the draws, (K,): 1 if one number is not 0, 0 if all are equal.
    similarity : product of the cosines of w_k and h_k with their means, mean over the draws, (K,).
    stability : the same between the means of halves of chains, the smallest of all pairs of halves, (K,).
    """

    maps: Pair
    mean: Pair
    share: Floats
    sparsity: Pair
    similarity: Floats
    stability: Floats

    def factor(self, draws: Draws, axis: int, index: NDArray[np.int64]) -> Floats:
        """Return the aligned draws of some rows (axis 0) or columns of V, (chain, draw, len(index), K)."""
        x = draws.modes[axis].factor[:, :, index].astype(np.float64)
        return np.asarray(x @ self.maps[axis])


def align(posterior: Result) -> Alignment:
    """Return the alignment of all draws."""
    if posterior not in _FOUND:
        _FOUND[posterior] = _aligned(posterior)
    return _FOUND[posterior]


def _aligned(posterior: Result) -> Alignment:
    draws, nonnegative = posterior.draws, posterior.model.nonnegative
    check_factors(draws)
    forms = _canonical_forms(draws, nonnegative)
    best = int(np.argmax(posterior.sample_stats["lp"].mean(axis=1)))
    reference = _mapped(draws, forms, (best, -1))
    maps, means, _ = _pass(draws, forms, reference, nonnegative)
    maps, means, similarity = _pass(draws, forms, _pooled(means), nonnegative)
    share, sparsity = _measures(draws, maps, nonnegative)
    order = np.argsort(-share.mean(axis=(0, 1)), kind="stable")
    sign = np.ones(len(order))
    if not nonnegative:  # the larger end of the columns is the positive one
        h = _pooled(means)[1]
        sign = np.where(h.max(axis=0) < -h.min(axis=0), -1.0, 1.0)
    turn = np.zeros((len(order), len(order)))
    turn[order, np.arange(len(order))] = sign[order]
    mean = _pooled(means)
    return Alignment(
        (maps[0] @ turn, maps[1] @ turn),
        (mean[0] @ turn, mean[1] @ turn),
        share[..., order],
        (sparsity[0][order], sparsity[1][order]),
        similarity[order],
        _stability(means, nonnegative)[order],
    )


def _canonical_forms(draws: Draws, nonnegative: bool) -> Pair:
    """Return the maps of each draw to its canonical form, (chain, draw, K, K) for W and for H."""
    W, H = (mode.factor for mode in draws.modes)
    forms = np.empty((2, *W.shape[:2], W.shape[3], W.shape[3]))
    for at in np.ndindex(W.shape[:2]):
        gram = [_gram(x[at]) for x in (W, H)]
        pair = [np.eye(W.shape[3])] * 2 if nonnegative else _principal(*gram)
        size = [
            np.sqrt(np.maximum(np.einsum("ka,kl,la->a", A, G, A) / len(x[at]), _TINY))
            for A, G, x in zip(pair, gram, (W, H), strict=True)
        ]
        level = np.sqrt(size[0] * size[1])
        forms[0][at], forms[1][at] = (A * (level / s) for A, s in zip(pair, size, strict=True))
    return forms[0], forms[1]


def _gram(x: NDArray[Any]) -> Floats:
    x = x.astype(np.float64)
    return np.asarray(x.T @ x)


def _principal(gram_w: Floats, gram_h: Floats) -> list[Floats]:
    """Return A and B with A Bᵀ = 1 such that W A and H B are along the singular vectors of W Hᵀ (H as (J, K))."""
    roots, inverse = [], []
    for gram in (gram_w, gram_h):
        values, vectors = np.linalg.eigh(gram)
        values = np.sqrt(np.maximum(values, 1e-14 * max(float(values[-1]), _TINY)))
        roots.append(vectors * values)
        inverse.append(vectors / values)
    left, size, right = np.linalg.svd(roots[0].T @ roots[1])
    half = np.sqrt(np.maximum(size, _TINY))
    return [inverse[0] @ left * half, inverse[1] @ right.T * half]


def _mapped(draws: Draws, maps: Pair, at: tuple[int, int]) -> Pair:
    """Return the factors of a draw times its maps."""
    w, h = (mode.factor[at].astype(np.float64) @ A[at] for mode, A in zip(draws.modes, maps, strict=True))
    return w, h


def _pass(draws: Draws, forms: Pair, reference: Pair, nonnegative: bool) -> tuple[Pair, list[Pair], Floats]:
    """Return the maps that align all draws with a reference, the means of halves of chains, and the mean cosines."""
    from scipy.optimize import linear_sum_assignment

    centres = [_centre(x, nonnegative) for x in reference]
    units = [_directions(x, centre) for x, centre in zip(reference, centres, strict=True)]
    maps = (np.empty_like(forms[0]), np.empty_like(forms[1]))
    similarity = np.zeros(units[0].shape[1])
    means = []
    for half in _halves(draws):
        total = [np.zeros_like(x) for x in reference]
        for at in half:
            own = _mapped(draws, forms, at)
            cosine = [u.T @ _directions(x, c) for u, x, c in zip(units, own, centres, strict=True)]
            product = _product(cosine[0], cosine[1], nonnegative)
            k, chosen = linear_sum_assignment(-product)
            similarity += product[k, chosen]
            sign = np.where((cosine[0] + cosine[1])[k, chosen] < 0, -1.0, 1.0)
            sign = np.ones(len(k)) if nonnegative else sign
            for which in range(2):
                maps[which][at] = forms[which][at][:, chosen] * sign
                total[which] += own[which][:, chosen] * sign
        means.append((total[0] / len(half), total[1] / len(half)))
    return maps, means, similarity / draws.W[..., 0, 0].size


def _centre(x: Floats, nonnegative: bool) -> Floats:
    """Return what the components of non-negative factors have in common, (n, 1); else 0."""
    if not nonnegative or x.shape[1] == 1:
        return np.zeros((len(x), 1))
    return np.asarray((x / np.maximum(np.linalg.norm(x, axis=0), _TINY)).mean(axis=1, keepdims=True))


def _directions(x: Floats, centre: Floats) -> Floats:
    """Return the directions of columns, minus what they have in common, as unit vectors."""
    x = x / np.maximum(np.linalg.norm(x, axis=0), _TINY) - centre
    return np.asarray(x / np.maximum(np.linalg.norm(x, axis=0), _TINY))


def _product(w: Floats, h: Floats, nonnegative: bool) -> Floats:
    return np.asarray(np.maximum(w, 0.0) * np.maximum(h, 0.0) if nonnegative else w * h)


def _halves(draws: Draws) -> Iterator[list[tuple[int, int]]]:
    """Yield the draws of each half of each chain; a single draw is a half of its own."""
    chains, count = draws.W.shape[:2]
    middle = count // 2
    for c in range(chains):
        for part in (range(middle), range(middle, count)):
            if len(part):
                yield [(c, s) for s in part]


def _pooled(means: list[Pair]) -> Pair:
    """Return the means over the halves of all chains."""
    return np.mean([m[0] for m in means], axis=0), np.mean([m[1] for m in means], axis=0)


def _stability(means: list[Pair], nonnegative: bool) -> Floats:
    """Return the smallest similarity between the components of two halves; 1 if there is only one."""
    cosines = []
    for side, pooled in enumerate(_pooled(means)):
        centre = _centre(pooled, nonnegative)
        x = np.stack([_directions(m[side], centre) for m in means])
        cosines.append(np.einsum("ank,bnk->abk", x, x))
    return np.asarray(np.clip(_product(cosines[0], cosines[1], nonnegative).min(axis=(0, 1)), 0.0, 1.0))


def _measures(draws: Draws, maps: Pair, nonnegative: bool) -> tuple[Floats, Pair]:
    """Return the share of each component in each draw, and the sparsities."""
    shape = draws.W.shape
    share = np.empty((*shape[:2], shape[3]))
    sparsity = np.zeros((2, shape[3]))
    for at in np.ndindex(shape[:2]):
        part = np.ones(shape[3])
        for side, x in enumerate(_mapped(draws, maps, at)):
            part *= x.sum(axis=0) if nonnegative else (x**2).sum(axis=0)
            sparsity[side] += _hoyer(x)
        share[at] = part / max(float(part.sum()), _TINY)
    sparsity /= shape[0] * shape[1]
    return share, (sparsity[0], sparsity[1])


def _hoyer(x: Floats) -> Floats:
    """Return (√n - |x|₁ / |x|₂) / (√n - 1) of each column."""
    root = np.sqrt(len(x))
    ratio = np.abs(x).sum(axis=0) / np.maximum(np.linalg.norm(x, axis=0), _TINY)
    return np.asarray((root - ratio) / max(root - 1.0, _TINY))
