"""How many components the data support, of those that the model has.

    in use = #{k : s_k(E[W H])² > ½ E[s_k(W H)²]}

where s_k is the k-th singular value. What the data determine is the same in all draws; a component that they do not
support is another one in each draw, and vanishes in the mean. Neither permutations nor rotations of the components
change the number.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..runs.draws import check_factors
from ..runs.result import Result
from .predict import Floats

_DRAWS = 12
"""Draws per chain that are averaged."""


def components_in_use(posterior: Result) -> int:
    """Return the number of components in use: the median over the chains."""
    check_factors(posterior.draws)
    return int(
        np.median(
            [_in_use(*(mode.factor[c] for mode in posterior.draws.modes)) for c in range(posterior.chains)]
        )
    )


def _in_use(W: Any, H: Any) -> int:
    """Return the number of a chain, from draws of W and H transposed, (draw, rows, K)."""
    at = np.unique(np.linspace(0, len(W) - 1, _DRAWS).astype(int))
    K = W.shape[2]
    grams = [x[at].transpose(1, 0, 2).reshape(x.shape[1], -1).astype(np.float64) for x in (W, H)]
    A, B = (x.T @ x for x in grams)
    blocks = [slice(n * K, (n + 1) * K) for n in range(len(at))]
    each = np.mean([_squares(A[b, b], B[b, b]) for b in blocks], axis=0)
    mean = _squares(A, B)[:K] / len(at) ** 2
    return int(np.count_nonzero(mean > 0.5 * each))


def _squares(A: Floats, B: Floats) -> Floats:
    """Return the squared singular values of X Yᵀ, the largest first, from A = Xᵀ X and B = Yᵀ Y."""
    values, vectors = np.linalg.eigh(A)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    return np.asarray(np.maximum(np.linalg.eigvalsh(root.T @ B @ root)[::-1], 0.0))
