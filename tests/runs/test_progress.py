"""Long runs are announced once, with their time and memory; short ones and silent ones are not."""

from __future__ import annotations

import warnings

import pytest

from psgld.errors import PsgldWarning
from psgld.runs import progress
from psgld.runs.progress import Meter, in_time


@pytest.fixture
def clock(monkeypatch):
    """A clock that the test sets."""
    time = [100.0]
    monkeypatch.setattr(progress.time, "perf_counter", lambda: time[0])
    return time


def pass_time(meter: Meter, clock: list[float], seconds: float, iterations: int) -> None:
    clock[0] += seconds
    meter.update(iterations, 0.0, 0)


def test_a_long_run_is_announced_once(clock):
    meter = Meter(None, 100_000, memory=2.5e9)
    pass_time(meter, clock, 0.0, 500)  # those of a run that is resumed
    pass_time(meter, clock, 0.5, 100)
    with pytest.warns(
        PsgldWarning, match=r"100,000 iterations will take about 8\.3 minutes, and 2\.5 GB"
    ) as said:
        pass_time(meter, clock, 0.5, 100)
        pass_time(meter, clock, 5.0, 100)
    assert len(said) == 1


@pytest.mark.parametrize(("option", "iterations"), [(None, 10_000), (False, 10), (lambda _: None, 10)])
def test_short_and_silent_runs_are_not(option, iterations, clock):
    meter = Meter(option, 100_000)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(4):
            pass_time(meter, clock, 1.0, iterations)


def test_times():
    assert [in_time(x) for x in (31.0, 100.0, 6000.0, 200_000.0)] == [
        "31 s",
        "1.7 minutes",
        "1.7 hours",
        "2.3 days",
    ]
