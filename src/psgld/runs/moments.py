"""Running mean and variance of μ at given cells, so that draws of W and H need not be kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, final

import numpy as np
from numpy.typing import NDArray

from ..engines.base import Places
from ..samplers import Chain


class Welford(Protocol):
    """The number of draws, their mean, and the sum of squared deviations from it."""

    @property
    def count(self) -> int: ...  # noqa: D102
    @property
    def mean(self) -> NDArray[np.float64]: ...  # noqa: D102
    @property
    def squares(self) -> NDArray[np.float64]: ...  # noqa: D102


@final
class RunningMoments:
    """Welford's mean and sum of squares of μ_ij over the draws of a chain."""

    def __init__(self, chain: Chain, index: Places) -> None:
        self._chain = chain
        self._places = tuple(chain.factors.positions(which, i) for which, i in enumerate(index))
        self.count = 0
        self.mean = np.zeros(len(index[0]))
        self.squares = np.zeros(len(index[0]))

    def record(self) -> None:
        """Add the current state of the chain."""
        eta = self._chain.factors.mu(self._places).astype(np.float64) + self._chain.setup.shift
        likelihood = self._chain.setup.model.likelihood
        mu = likelihood.response(eta, *self._chain.hyper.parameters(likelihood))
        self.count += 1
        delta = mu - self.mean
        self.mean += delta / self.count
        self.squares += delta * (mu - self.mean)

    def state(self) -> dict[str, Any]:
        """Return the moments so far."""
        return {"count": self.count, "mean": self.mean.copy(), "squares": self.squares.copy()}

    def set_state(self, state: dict[str, Any], kept: int) -> None:
        """Set the moments to what `state` returned; raise ValueError unless they are of `kept` draws."""
        self.count = int(state["count"])
        self.mean[:], self.squares[:] = state["mean"], state["squares"]
        if self.count != kept or not (np.isfinite(self.mean) & (self.squares >= 0)).all():
            raise ValueError(f"moments of {self.count} draws, but {kept} draws were kept")

    @staticmethod
    def pooled(parts: Sequence[Welford]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return mean and standard deviation over the draws of all chains."""
        parts = [p for p in parts if p.count]
        n = sum(p.count for p in parts)
        mean = sum((p.count * p.mean for p in parts), np.zeros(len(parts[0].mean))) / n
        squares = sum((p.squares + p.count * (p.mean - mean) ** 2 for p in parts), np.zeros(len(mean)))
        return mean, np.sqrt(squares / max(n - 1, 1))
