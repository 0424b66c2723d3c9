"""The verdict on a run: biased, different modes, slow or fine, with the remedy in one line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

Kind = Literal["fine", "slow", "modes", "biased", "unknown"]

RHAT, ESS = 1.01, 400.0
"""Converged: R-hat of at most 1.01, to two decimals, since it is the largest of some fifty, and effective sample sizes
of at least 400 (Vehtari et al. 2021)."""

_FAIR_RHAT, _FAIR_ESS = 1.05, 100.0
"""Enough for predictions: the Monte Carlo error of a mean is then a tenth of the standard deviation."""

_APART = 1.1
"""Chains that are stationary, with a larger R-hat, are in different modes."""

_POOR_RHAT = 1.2
"""Chains disagree, or drift: their means cannot be trusted."""

_WIDE, _SURELY_WIDE, _NARROW = 1.4, 1.2, 0.7
"""spread² of biased chains: more than the first, and more than the second by two standard errors. Less than the third
is a chain that has not seen enough of the posterior."""

_INFLATED = 2.0
"""Root mean square of μ over that of v, from which a chain is biased."""

_CONTRADICTION = 10.0
"""Log likelihood of all entries that a constant μ must gain, for a larger μ to contradict the data."""


class Worst(NamedTuple):
    """The worst value of a diagnostic, and the quantity that has it."""

    value: float
    name: str

    def __str__(self) -> str:
        return f"{self.value:.0f} ({self.name})"


class Verdict(NamedTuple):
    """What is the matter, and one sentence that says so."""

    kind: Kind
    text: str


@final
@dataclass(frozen=True, eq=False)
class Evidence:
    """What a verdict rests on."""

    rhat: Worst
    bulk: Worst
    tail: Worst
    within: float
    """R-hat of the halves of a chain, of the quantity whose R-hat is largest: the largest of all chains."""
    levels: Floats
    """Mean and standard deviation of the log posterior of each chain, (chain, 2)."""
    fit: Mapping[str, Any]
    """The measured fit (`fit.py`); empty if there is none."""
    temperature: float = 1.0

    @property
    def ess(self) -> float:
        """The smallest effective sample size."""
        return min(self.bulk.value, self.tail.value)

    @property
    def numbers(self) -> str:
        """R-hat and effective sample sizes in words."""
        halves = ", of the halves of one chain" * (len(self.levels) == 1)
        rhat = f"largest R-hat {self.rhat.value:.2f} ({self.rhat.name}{halves})"
        return f"{rhat}, smallest ESS {self.bulk}, in the tails {self.tail}"


def verdict(e: Evidence) -> Verdict:
    """Return the verdict; the first of bias, modes, slowness that applies."""
    text = _bias(e)
    if text is not None:
        return Verdict("biased", f"! biased: {text}; give a smaller step size")
    if e.rhat.value > _APART and len(e.levels) > 1 and e.within - 1.0 < (e.rhat.value - 1.0) / 3.0:
        return Verdict("modes", f"! different modes: {_modes(e)}")
    if e.rhat.value > _POOR_RHAT:
        return Verdict("slow", f"! slow: {e.numbers}; give more tune iterations and draws")
    if e.rhat.value > _FAIR_RHAT or e.ess < _FAIR_ESS or not _wide_enough(e):
        return Verdict("slow", f"! slow: {e.numbers}; give more draws, or a larger thin")
    if round(e.rhat.value, 2) > RHAT or e.ess < ESS:
        return Verdict(
            "slow",
            f"nearly converged: {e.numbers}: enough for predictions, not for tails and components; give more draws",
        )
    if len(e.levels) == 1:
        return Verdict(
            "fine", f"converged, as far as one chain can tell: {e.numbers}; more chains may find other modes"
        )
    return Verdict("fine", f"converged: {e.numbers}")


def _bias(e: Evidence) -> str | None:
    """Return how the draws differ from the posterior; None if they do not, or if the chains still drift."""
    if (ratio := _inflation(e.fit)) > _INFLATED:
        return f"μ is {ratio:.3g} times as large as the data at the {e.fit['entries']:,} monitored entries"
    if e.within > _POOR_RHAT or e.temperature == 0.0:
        return None
    for side, (square, error) in e.fit.get("spread", {}).items():
        square, error = square / e.temperature, error / e.temperature
        if square > _WIDE and square - 2.0 * error > _SURELY_WIDE:
            return f"the factor of the {side} deviates {square**0.5:.2f} times as much as under the posterior"
    return None


def _inflation(fit: Mapping[str, Any]) -> float:
    """Return the root mean square of μ over that of v; 0 if they were not compared, or if too few data can tell."""
    if "mu" not in fit:
        return 0.0
    if "baselines" in fit:
        gain = (fit["baselines"]["mean"] - fit["log_likelihood"]) * fit.get("size", fit["entries"])
        if not gain > _CONTRADICTION:
            return 0.0
    mu, v = (float(np.hypot(*fit[name])) for name in ("mu", "v"))
    return mu / v if v > 0.0 else 0.0


def _wide_enough(e: Evidence) -> bool:
    """Return whether the draws spread as widely as the posterior, neither more nor less, as far as is known."""
    squares = [square / (e.temperature or 1.0) for square, _ in e.fit.get("spread", {}).values()]
    return e.temperature == 0.0 or all(_NARROW <= square <= _WIDE for square in squares)


def _modes(e: Evidence) -> str:
    """Return the levels of the chains, and what to do."""
    levels = ", ".join(f"{mean:,.6g} ± {sd:.2g}" for mean, sd in e.levels)
    remedy = "starts=8 starts all chains at the best mode found, post.stack(test) weighs the chains"
    return f"chains at log posteriors {levels}, R-hat {e.rhat.value:.2f} ({e.rhat.name}); {remedy}"
