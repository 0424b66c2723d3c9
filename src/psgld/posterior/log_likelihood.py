"""The log likelihood of data under draws, or under an estimate: comparable between samplers, runs and settings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..data.seen import aligned
from ..dynamics.log_likelihood import FullLogLikelihood
from ..errors import DataError
from ..models import Likelihood
from ..runs.draws import Draws, check_factors
from ..samplers.plain import PlainFactors
from .estimate import Estimate
from .posterior import Posterior


class _State(NamedTuple):
    """W (I, K), H (J, K), biases or None, offset, and the parameters of the likelihood."""

    W: NDArray[Any]
    H: NDArray[Any]
    row_bias: NDArray[Any] | None
    col_bias: NDArray[Any] | None
    offset: float
    theta: tuple[float, ...]

    def factors(self, likelihood: Likelihood) -> PlainFactors:
        """Return factors with the biases and the offset as two more components: [W, a, 1] and [H, 1, c + offset]."""
        W, H = self.W, self.H
        if self.row_bias is not None or self.offset:
            a = np.zeros(len(W)) if self.row_bias is None else self.row_bias
            c = self.offset + (np.zeros(len(H)) if self.col_bias is None else self.col_bias)
            W, H = np.column_stack([W, a, np.ones(len(W))]), np.column_stack([H, np.ones(len(H)), c])
        dtype = np.float64 if self.W.dtype == np.float64 else np.float32
        floor = float(np.finfo(dtype).tiny) if likelihood.nonnegative_mean else -np.inf
        arrays = [np.ascontiguousarray(x, dtype) for x in (W, H)]
        counts = [np.zeros(len(x)) for x in arrays]
        return PlainFactors(arrays, likelihood, counts, floor, likelihood.split(self.theta)[1])


def log_likelihood(
    result: Posterior | Estimate, V: Any, draw: tuple[int, int] | None = None
) -> NDArray[np.float64]:
    """Return Σ log p(v_ij | η_ij, θ) over all entries of V, for each draw.

    It is not an estimate from some entries, as `lp` is, so that it can be compared between samplers and runs.
    `sample(…, log_likelihood=True)` records the same along a run.

    Parameters
    ----------
    result
        A posterior, or an estimate of `psgld.optimize`.
    V
        Data in any form that `sample` takes, with the rows and columns of the result, matched by label. Absent entries
        have the same meaning as in the data of a posterior, unless `V` says otherwise.
    draw
        (chain, draw) of a single draw; by default, all.

    Returns
    -------
    ndarray
        Shape (chain, draw); of a single draw, or of an estimate, shape ().

    Examples
    --------
    >>> import numpy as np, psgld
    >>> V = np.random.default_rng(0).poisson(4.0, size=(30, 20))
    >>> post = psgld.sample(V, psgld.FactorModel(2, "poisson"), draws=50, log_likelihood=True)
    >>> found = psgld.log_likelihood(post, V)
    >>> bool(np.allclose(found, post.sample_stats["log_likelihood"]))
    True
    """
    if not isinstance(result, Posterior | Estimate):
        raise DataError(
            f"the result must be a Posterior or an Estimate, got a {type(result).__name__}; psgld.sample and "
            "psgld.optimize return them"
        )
    likelihood = result.model.likelihood
    data = aligned(V, result.shape, result.row_labels, result.col_labels)
    if isinstance(result, Posterior) and result.seen is not None:
        data = data.meaning(result.seen.absent)
    if data.absent == "zero" and likelihood.zeros is None:
        data = data.filled()
    for values in data.value_parts():
        result.model.check_values(values)
    full = FullLogLikelihood(data, likelihood)
    if isinstance(result, Estimate):
        states, shape = iter([_of_estimate(result)]), ()
    else:
        check_factors(result.draws)
        shape = result.draws.phi.shape if draw is None else ()
        states = _states(result.draws, likelihood, draw)
    found = [full.at(state.factors(likelihood), state.theta) for state in states]
    return np.array(found, np.float64).reshape(shape)


def _of_estimate(found: Estimate) -> _State:
    theta = tuple(found.parameters.values())
    return _State(found.W, found.H.T, found.row_bias, found.col_bias, found.offset, theta)


def _states(draws: Draws, likelihood: Likelihood, draw: tuple[int, int] | None) -> Iterator[_State]:
    """Yield the states of all draws, chain after chain; or of a single one."""
    shape = draws.phi.shape
    if draw is None:
        chosen = [(chain, number) for chain in range(shape[0]) for number in range(shape[1])]
    else:
        chosen = [_checked(draw, shape)]
    for at in chosen:
        row, col = (None if x is None else x[at] for x in (draws.row_bias, draws.col_bias))
        theta = tuple(draws.theta_at(likelihood, at))
        yield _State(draws.W[at], draws.H[at], row, col, float(draws.offset[at]), theta)


def _checked(draw: Any, shape: tuple[int, ...]) -> tuple[int, int]:
    try:
        chain, number = (range(n)[int(i)] for n, i in zip(shape, draw, strict=True))
    except (TypeError, ValueError, IndexError):
        raise DataError(
            f"draw must be (chain, draw), one of {shape[0]} chains × {shape[1]} draws, got {draw!r}"
        ) from None
    return chain, number
