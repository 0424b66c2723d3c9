"""The criterion "prediction" of active learning: how much observing an entry takes from the variance of the others.

    reduction(c) = Σ_t Cov(μ_c, μ_t)² / (Var μ_c + E[Var(v_c | μ_c, θ)]),   t the candidates in the row or column of c

This is the expected reduction of Σ_t Var μ_t for normal v and μ (Cohn, Ghahramani, Jordan 1996). The least known entry
is often one of a row and a column that hardly matter; what it would teach about others is little. Entries that share
neither row nor column are nearly independent given the data, while the error of a covariance of S draws, 1/√S, summed
over all of them, would exceed the rest. The error expected of the others, Var μ_c Var μ_t / S, is subtracted.

Entries are chosen greedily. Conditioning on v_c shrinks the draws of μ_t along those of μ_c; gains only fall, so that a
gain is computed again only when its entry comes first (lazy evaluation, Minoux 1978).
"""

from __future__ import annotations

import heapq
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from .predict import Floats, Prediction

_DRAWS = 200
"""Draws that covariances are computed from."""

_CHUNK = 4_000_000
"""Draws of μ held at a time, before they are thinned."""

Index = NDArray[np.int64]


@final
class Reduction:
    """Gains of candidates, given the entries chosen so far."""

    def __init__(self, posterior: Any, rows: Index, cols: Index, noise: Floats) -> None:
        self._deviations = _deviations(posterior, rows, cols)
        self._noise = noise
        self._groups = tuple(_groups(index) for index in (rows, cols))
        self._places = rows, cols

    def choose(self, n: int) -> tuple[Index, Floats]:
        """Return the n candidates with the highest gains, one after the other, and these."""
        gains = self._gains()
        queue = [(-float(gain), c, 0) for c, gain in enumerate(gains)]
        heapq.heapify(queue)
        chosen: list[int] = []
        scores: list[float] = []
        while queue and len(chosen) < n:
            gain, c, at = heapq.heappop(queue)
            if at < len(chosen):  # of a time before some were chosen
                gain = -self._gain(c)
                if queue and gain > queue[0][0]:
                    heapq.heappush(queue, (gain, c, len(chosen)))
                    continue
            chosen.append(c)
            scores.append(-gain)
            self._observe(c)
        return np.array(chosen, np.int64), np.array(scores)

    def _related(self, c: int) -> Index:
        """Return the candidates in the row or in the column of one, itself once."""
        row, col = (group[int(place[c])] for group, place in zip(self._groups, self._places, strict=True))
        return np.concatenate([row, col[col != c]])

    def _gains(self) -> Floats:
        """Return the gains of all candidates."""
        x = self._deviations
        own = np.square(x).sum(axis=1, dtype=np.float64)
        total = np.zeros(len(x))
        for group in self._groups:
            for at in group.values():
                total[at] += _squares(x[at]) - own[at] * own[at].sum() / x.shape[1]
        once = own**2 * (1.0 - 1.0 / x.shape[1])  # in its row and in its column
        return np.asarray((total - once) / (own + self._noise))

    def _gain(self, c: int) -> float:
        x, at = self._deviations, self._related(c)
        own = np.square(x[at]).sum(axis=1, dtype=np.float64)
        variance = float(np.square(x[c]).sum(dtype=np.float64))
        total = (
            float(np.square(x[at] @ x[c]).sum(dtype=np.float64)) - variance * float(own.sum()) / x.shape[1]
        )
        return float(total / (variance + float(self._noise[c])))

    def _observe(self, c: int) -> None:
        """Condition on an observation of a candidate."""
        x, at = self._deviations, self._related(c)
        variance = float(np.square(x[c]).sum(dtype=np.float64))
        if variance > 0.0:
            direction = x[c] / np.float32(np.sqrt(variance))
            shrink = 1.0 - np.sqrt(self._noise[c] / (variance + self._noise[c]))
            x[at] -= np.float32(shrink) * np.outer(x[at] @ direction, direction)


def _deviations(posterior: Any, rows: Index, cols: Index) -> NDArray[np.float32]:
    """Return deviations of the draws of μ from their means, over sqrt(S - 1): (candidates, S)."""
    every = -(-posterior.draws.phi.size // _DRAWS)
    kept = -(-posterior.draws.phi.size // every)
    out = np.empty((len(rows), kept), np.float32)
    step = max(1, _CHUNK // posterior.draws.phi.size)
    for first in range(0, len(rows), step):
        at = slice(first, first + step)
        draws = Prediction(posterior.draws, posterior.model.likelihood, rows[at], cols[at]).draws[::every]
        out[at] = ((draws - draws.mean(axis=0)) / np.sqrt(max(kept - 1, 1))).T
    return out


def _groups(index: Index) -> dict[int, Index]:
    """Return the positions of each value."""
    order = np.argsort(index, kind="stable")
    values, first = np.unique(index[order], return_index=True)
    return dict(zip(values.tolist(), np.split(order, first[1:]), strict=True))


def _squares(x: NDArray[np.float32]) -> Floats:
    """Return Σ_t (x_c · x_t)² for each row c of x."""
    if len(x) <= x.shape[1]:
        return np.asarray(np.square(x @ x.T).sum(axis=1), np.float64)
    return np.asarray(((x @ (x.T @ x)) * x).sum(axis=1), np.float64)
