"""A Metropolis move for the dispersion φ, for the members where it has no conjugate draw."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from psgld.models.common import Array
from psgld.models.likelihoods.tweedie import Tweedie

# Weak, but proper: φ within a factor e^5 ≈ 150 of the start is one sd.
_PRIOR_SD = 5.0

# No value is taken to be known to better than 1e-4 of the spread of all. Without it a perfect fit sends φ to 0, and the
# factors, whose steps are scaled by 1/φ, nowhere.
_RESOLUTION = 1e-8


@dataclass(frozen=True, eq=False)
class DispersionMove:
    """Random-walk Metropolis on log φ, given some observed values and their means.

        log π(φ) = Σ_i ((kernel(v_i, μ_i) - 1e-8 start)/φ + log a(v_i, φ)) - ½ (log(φ/start) / 5)²
        log φ' = log φ + s N(0, 1),   s = 2.4 sqrt(2/n) 10^u,   u uniform on {0, 1, 2}

    The posterior sd of log φ is near sqrt(2/n), which sets the small step. The start may be off by orders of
    magnitude, thousands of small steps away: the large ones cross that in a few proposals. The mixture is
    symmetric, so nothing else changes.

    Parameters
    ----------
    likelihood
        The member whose φ is learnt.
    values
        The values of a fixed subsample of the observed entries.
    start
        The centre of the weak prior.
    proposals
        The number of proposals in a move.

    Examples
    --------
    >>> from psgld.models import Gamma
    >>> rng = np.random.default_rng(0)
    >>> mu = np.full(1000, 3.0)
    >>> move = DispersionMove(Gamma(), Gamma().sample(mu, 0.1, rng), start=1.0, proposals=50)
    >>> round(move(1.0, mu, rng), 1)
    0.1
    """

    likelihood: Tweedie
    values: Array
    start: float
    proposals: int = 5

    def __call__(self, phi: float, mu: ArrayLike, rng: np.random.Generator) -> float:
        """Return φ after `proposals` Metropolis steps from `phi`, given the means of the subsample."""
        if self.values.size == 0:
            return phi
        kernel = float(np.sum(self.likelihood.kernel(self.values, mu)))
        scale = 2.4 * np.sqrt(2.0 / self.values.size)
        current = self._log_posterior(phi, kernel)
        for _ in range(self.proposals):
            step = scale * 10.0 ** rng.integers(3) * rng.standard_normal()
            # A hundred e-folds from the start the prior alone refuses; there, powers of φ might overflow.
            log_ratio = np.log(phi / self.start) + step
            if abs(log_ratio) > 100.0:
                continue
            proposal = float(self.start * np.exp(log_ratio))
            proposed = self._log_posterior(proposal, kernel)
            if -rng.standard_exponential() < proposed - current:
                phi, current = proposal, proposed
        return phi

    def _log_posterior(self, phi: float, kernel: float) -> float:
        normaliser = float(np.sum(self.likelihood.log_normaliser(self.values, phi)))
        kernel -= _RESOLUTION * self.values.size * self.start
        return kernel / phi + normaliser - 0.5 * float(np.log(phi / self.start) / _PRIOR_SD) ** 2
