"""Samplers and their parts as records: there and back through JSON, by the registries."""

from __future__ import annotations

import json

import numpy as np
import pytest

import psgld
from psgld.data.partition import PARTITIONS, partition_from_dict
from psgld.dynamics.metrics import METRICS, metric_from_dict
from psgld.dynamics.schedule import SCHEDULES, Hopping, schedule_from_dict
from psgld.dynamics.step_size import STEP_SIZES, Constant, Cyclical, Decay, Power, step_size_from_dict
from psgld.samplers import SAMPLERS, sampler_from_dict
from psgld.samplers.record import as_text, is_text

PARTS = [
    (
        STEP_SIZES,
        step_size_from_dict,
        [Constant(0.1), Power(0.01, 0.51), Decay(0.2, 0.1, 5), Cyclical(0.1, 7)],
    ),
    (SCHEDULES, schedule_from_dict, [psgld.Cyclic(), psgld.Reshuffled(), psgld.Proportional(), Hopping(3)]),
    (METRICS, metric_from_dict, [psgld.Identity(), psgld.NonNegative(), psgld.RealValued()]),
    (PARTITIONS, partition_from_dict, [psgld.Shuffled(4), psgld.InOrder()]),
]
ASSIGNED = psgld.Assigned([0, 1, 0], [1, 0])

OTHERS = {
    "psgld": psgld.PSGLD(
        np.int64(4),
        Power(0.01),
        psgld.Identity(),
        psgld.Reshuffled(),
        psgld.InOrder(),
        0.5,
        np.float64(0.3),
        "float64",
    ),
    "ld": psgld.LD(Decay(0.2, 0.1, 5), "identity", 0.5, np.float64),
    "sgld": psgld.SGLD(0.25, 1e-4, "identity"),
    "dsgd": psgld.DSGD(3, np.float32(0.5), psgld.NonNegative(), psgld.Proportional(), psgld.Shuffled(2)),
    "dsgld": psgld.DSGLD(2, 5, 100, Cyclical(0.1, 7)),
    "gibbs": psgld.Gibbs("float64"),
    "bpmf-gibbs": psgld.BPMFGibbs("float64"),
}


def through_json(record):
    return json.loads(json.dumps(record))


def test_every_sampler_is_tried():
    assert set(OTHERS) == set(SAMPLERS)


@pytest.mark.parametrize("name", SAMPLERS)
def test_samplers_there_and_back(name):
    for sampler in (SAMPLERS[name](), OTHERS[name]):
        record = through_json(sampler.to_dict())
        assert record["name"] == type(sampler).__name__ and not is_text(record)
        assert sampler_from_dict(record) == sampler
        assert sampler_from_dict(record).to_dict() == sampler.to_dict()


@pytest.mark.parametrize(
    ("registry", "made", "cases"), PARTS, ids=["step", "schedule", "metric", "partition"]
)
def test_parts_there_and_back(registry, made, cases):
    assert {type(case) for case in cases} | {psgld.Assigned} >= set(registry.values())
    for case in cases:
        assert made(through_json(case.to_dict())) == case
        psgld.PSGLD(1)


@pytest.mark.parametrize(
    ("sampler", "words"),
    [
        (psgld.PSGLD(step_size=lambda t: 0.1 / t), r"step_size=<function <lambda>>"),
        (psgld.PSGLD(partition=ASSIGNED), r"partition=Assigned\(2 strips"),
    ],
)
def test_what_a_record_cannot_hold_is_said(sampler, words):
    record = through_json(sampler.to_dict())
    assert " at 0x" not in json.dumps(record)
    with pytest.raises(psgld.SamplingError, match=f"{words}.*pass sampler=… again"):
        sampler_from_dict(record)


@pytest.mark.parametrize(
    "record",
    [
        {},
        {"name": "exit"},
        {"name": "PSGLD", "size": 3},
        {"name": "PSGLD", "blocks": -1},
        {"name": "PSGLD", "step_size": {"name": "PSGLD"}},
        {"name": "PSGLD", "step_size": {"name": "Power"}},
        {"name": "PSGLD", "metric": {"name": "os.system"}},
        {"name": ["PSGLD"]},
    ],
)
def test_nonsense_is_refused(record):
    with pytest.raises(psgld.SamplingError, match="cannot be recreated from its record"):
        sampler_from_dict(record)


@pytest.mark.parametrize("name", SAMPLERS)
def test_records_of_before(name):
    """Older versions wrote every setting as text: a sampler of defaults is known again, others are asked for."""
    text = as_text(SAMPLERS[name]())
    assert is_text(text) and sampler_from_dict(through_json(text)) == SAMPLERS[name]()
    with pytest.raises(
        psgld.SamplingError, match="an older psgld wrote its settings as text; pass sampler=… again"
    ):
        sampler_from_dict(as_text(OTHERS[name]))
