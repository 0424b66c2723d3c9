"""The verdict of a report: which tone and which words for which run."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from psgld.posterior.report import words
from psgld.posterior.report.svg import Chart, ends, short, ticks


def said(kind="fine", rhat=1.0, text="converged", *, held_out=True, trained=0, rmse=0.5, held=0.9, draws=100):
    found = SimpleNamespace(kind=kind, rhat=np.array([rhat]), verdict=text)
    scores = SimpleNamespace(
        held_out=held_out, trained=trained, values=np.zeros(1000), rmse=rmse, rmse_constant=1.0,
        promised=0.9, held=held, held_error=0.0095,
    )  # fmt: skip
    posterior = SimpleNamespace(sample_stats={"lp": np.zeros((2, draws))}, divergences=0, interrupted=False)
    return words.verdict(posterior, found if draws >= 20 else None, scores)


@pytest.mark.parametrize(
    ("tone", "word", "run"),
    [
        ("good", "has converged", {}),
        ("good", "nearly converged", {"kind": "slow", "text": "nearly converged: …"}),
        ("care", "not fully converged", {"kind": "slow", "rhat": 1.06, "text": "! slow: …"}),
        ("bad", "has not converged", {"kind": "slow", "rhat": 1.5, "text": "! slow: …"}),
        ("bad", "smaller one", {"kind": "biased"}),
        ("care", "different explanations", {"kind": "modes", "rhat": 2.0}),
        ("care", "Nothing varies", {"kind": "unknown"}),
        ("bad", "too few draws", {"draws": 10}),
        ("bad", "no better than the mean", {"rmse": 0.99}),
        ("care", "too narrow", {"held": 0.8}),
        ("good", "wider than they need to be", {"held": 0.97}),
        ("care", "errors are understated", {"trained": 10}),
        ("care", "No held-out entries", {"held_out": False}),
    ],
)
def test_tone_and_words(tone, word, run):
    found = said(**run)
    assert found.tone == tone and any(word in line for line in found.sentences)
    assert found.headline == words._HEADLINES[tone]


@pytest.mark.parametrize("size", [1e-7, 0.03, 1.0, 7.0, 1e5, 3e9])
def test_ticks_are_round_and_inside(size):
    for low, high in ((0.0, size), (-size, size), (0.3 * size, 0.35 * size)):
        found = ticks(low, high, 5)
        assert 3 <= len(found) <= 11
        assert all(low - 1e-9 * size <= x <= high + 1e-9 * size for x in found)
        assert len({short(x) for x in found}) == len(found)


def test_charts_keep_marks_inside():
    chart = Chart((0.5, 3.5), ends([1.0, np.nan, 5.0]), "<x>", "y", whole=True)
    chart.line([0, 9], [-100, 100], "curve")
    text = chart.svg('a "chart"')
    assert "&lt;x&gt;" in text and "&quot;chart&quot;" in text and ">1</text>" in text and ">0.5" not in text
    assert chart.at(9, 100) == chart.at(3.5, chart.y[1])
    assert Chart((2.0, 2.0), (0.0, 0.0), "", "").x == (1.0, 3.0)
