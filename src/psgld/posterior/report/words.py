"""The verdict of a page, in words for readers who know no statistics."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...errors import SamplingError
from ...runs.result import Result
from ..diagnostics import Diagnostics, diagnose
from .accuracy import Accuracy
from .text import number, percent

_FEWEST = 20


class Said(NamedTuple):
    """A tone ("good", "care" or "bad"), a headline, and the sentences below it."""

    tone: str
    headline: str
    sentences: list[str]


_HEADLINES = {
    "good": "The predictions and their intervals can be used.",
    "care": "The predictions can be used, with the reservations below.",
    "bad": "Do not rely on these results yet.",
}


def diagnosis(posterior: Result) -> Diagnostics | None:
    """Return the diagnostics, None if there are too few draws or no chains to compare."""
    if posterior.sample_stats["lp"].shape[1] < _FEWEST:
        return None
    try:
        return diagnose(posterior)
    except SamplingError:
        return None


def verdict(posterior: Result, found: Diagnostics | None, scores: Accuracy | None) -> Said:
    """Return what a reader should know first."""
    points = [
        _convergence(posterior, found),
        *([] if scores is None else [_error(scores), _intervals(scores)]),
    ]
    if scores is None or not scores.held_out:
        points.append(
            ("care", "No held-out entries were given: how well new entries are predicted was not tested.")
        )
    elif scores.trained:
        points.append(
            (
                "care",
                f"{scores.trained:,} of the {len(scores.values):,} test entries were used to train the model, "
                "so its errors are understated.",
            )
        )
    if posterior.divergences:
        points.append(("care", "The sampler diverged at times and was restarted with smaller steps."))
    if posterior.interrupted:
        points.append(("care", "Sampling was interrupted before all draws were made."))
    tones = [tone for tone, _ in points]
    tone = "bad" if "bad" in tones else "care" if "care" in tones else "good"
    return Said(tone, _HEADLINES[tone], [text for _, text in points])


def _convergence(posterior: Result, found: Diagnostics | None) -> tuple[str, str]:
    if found is None and posterior.sample_stats["lp"].shape[1] < _FEWEST:
        return "bad", "There are too few draws to tell whether the computation has converged."
    if found is None:
        return (
            "care",
            "These draws are a weighted sample of several chains, whose convergence cannot be judged here.",
        )
    if found.kind == "fine":
        return "good", "The computation has converged: longer runs would give the same results."
    if found.kind == "biased":
        return "bad", "The computation is biased by too large a step size. Repeat it with a smaller one."
    if found.kind == "modes":
        return (
            "care",
            "The chains found different explanations of the data: predictions average over them, "
            "components differ.",
        )
    if found.kind == "slow" and found.verdict.startswith("nearly"):
        return (
            "good",
            "The computation has nearly converged: enough for predictions; more draws would settle the components.",
        )
    if found.kind == "slow" and np.nanmax(found.rhat) < 1.1:
        return (
            "care",
            "The computation has not fully converged: small differences may change in a longer run.",
        )
    if found.kind == "slow":
        return "bad", "The computation has not converged. Repeat it with more iterations."
    return "care", "Nothing varies along the chains, so convergence cannot be judged."


def _error(s: Accuracy) -> tuple[str, str]:
    gain = 1 - s.rmse / s.rmse_constant if s.rmse_constant > 0 else 0.0
    where = "held-out entries" if s.held_out else "entries that the model was trained on"
    typical = f"On {len(s.values):,} {where} the typical error is {number(s.rmse)}"
    if gain <= 0.02:
        return "bad", f"{typical}, no better than the mean of all values ({number(s.rmse_constant)})."
    return "good", f"{typical}, {percent(gain)} less than if the mean were always predicted."


def _intervals(s: Accuracy) -> tuple[str, str]:
    allowed = max(2.5 * s.held_error, 0.02)
    text = f"Intervals that should hold {percent(s.promised)} of the values hold {percent(s.held)}"
    if s.held < s.promised - allowed:
        return "care", f"{text}: they are too narrow. Allow for larger errors."
    if s.held > s.promised + allowed:
        return ("good" if s.held_out else "care"), f"{text}: they are wider than they need to be."
    return "good", f"{text}: they can be taken at face value."
