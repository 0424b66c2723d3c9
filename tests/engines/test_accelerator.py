"""The programs of `JAX()` compiled for an H100 that need not be there: kernels, scatters, temporary memory."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import psgld
from psgld.cli import main
from psgld.tools.device_memory import device_memory
from psgld.tools.forecast import Size

has_jax = pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="JAX is not installed")
has_cuda = pytest.mark.skipif(
    importlib.util.find_spec("jax_plugins") is None
    or importlib.util.find_spec("jax_plugins.xla_cuda13") is None,
    reason="JAX's plug-in for CUDA is not installed",
)

COUNTED = """
import json, sys
from dataclasses import asdict
from benchmarks import accelerator as a
data, rank = (a.dense(), 32) if sys.argv[1] == "dense" else (a.movielens(), 50)
print(json.dumps(asdict(a.static_counts(data, rank))))
"""


# Kernels: the aims are 14 and 20. Sparse iterations miss theirs; what they have may not grow.
@has_cuda
@pytest.mark.parametrize(("form", "kernels"), [("dense", 14), ("sparse", 36)])
def test_an_iteration_on_an_h100(form, kernels):
    root = Path(__file__).parents[2]
    env = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(root), *filter(None, sys.path)]),
        "JAX_PLATFORMS": "cpu",
    }
    command = [sys.executable, "-c", COUNTED, form]
    done = subprocess.run(command, env=env, cwd=root, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["kernels"] <= kernels
    assert found["scatters"] == 0
    assert found["temporary_bytes"] <= 250e6


@has_jax
def test_kernels_are_counted_in_the_body_of_the_loop():
    from benchmarks.accelerator import opcodes_of_loop

    text = """HloModule m

%fused (p: f32[3]) -> f32[3] {
  %p = f32[3]{0} parameter(0)
  ROOT %a = f32[3]{0} add(%p, %p)
}

%graph (p: f32[3]) -> f32[3] {
  %p = f32[3]{0} parameter(0)
  ROOT %f = f32[3]{0} fusion(%p), kind=kLoop, calls=%fused
}

%body (p: (f32[3], s32[])) -> (f32[3], s32[]) {
  %p = (f32[3]{0}, s32[]) parameter(0)
  %x = f32[3]{0} get-tuple-element(%p), index=0
  %c = f32[3]{0} call(%x), to_apply=%graph
  %d = (f32[3]{0}, s8[9]{0}) custom-call(%c), custom_call_target="gemm"
  ROOT %t = (f32[3]{0}, s32[]) tuple(%d, %c)
}

ENTRY %main (a: f32[3]) -> f32[3] {
  %a = f32[3]{0} parameter(0)
  %w = (f32[3]{0}, s32[]) while(%a), condition=%never, body=%body
}
"""
    assert list(opcodes_of_loop(text)) == ["fusion", "custom-call"]


# -- memory per device -------------------------------------------------------------------------------------


@has_jax
@pytest.mark.parametrize("form", ["dense", "sparse"])
def test_the_forecast_is_near_the_arrays(form):
    from benchmarks.accelerator import dense, movielens, setup_of

    data = dense(256) if form == "dense" else movielens(8000, 2000, 200_000)
    grid = setup_of(data, 16, psgld.JAX()).grid
    cut = grid.cut()
    arrays = [x for x in _leaves(cut) if x is not None]
    forecast = device_memory(Size(*data.shape, data.stored, 16), grid.blocks, 1)
    assert sum(x.nbytes for x in arrays) == pytest.approx(forecast.data_bytes, rel=0.25)


def _leaves(tree):
    if isinstance(tree, tuple):
        return [leaf for part in tree for leaf in _leaves(part)]
    return [tree]


def test_plan_tells_the_memory_per_device(capsys):
    args = ["plan", "--rows", "71567", "--cols", "10681", "--entries", "1e7", "--rank", "50", "--blocks", "8"]
    found = []
    for devices in ("1", "4"):
        assert main([*args, "--devices", devices, "--json"]) == 0
        found.append(json.loads(capsys.readouterr().out))
    assert found[0]["memory_bytes"] == pytest.approx(4 * found[1]["memory_bytes"])
    parts = ("data_bytes", "factor_bytes", "work_bytes")
    assert found[0]["memory_bytes"] == pytest.approx(sum(found[0][name] for name in parts))
    assert main([*args, "--devices", "4"]) == 0
    assert "8 strips on 4 device(s)" in capsys.readouterr().out
    assert main([*args, "--devices", "3"]) == 2
    assert "B must be a multiple of the number of devices, 3, got 8" in capsys.readouterr().err


# -- psgld doctor --jax ------------------------------------------------------------------------------------


@has_jax
def test_doctor_measures_the_devices(capsys, monkeypatch):
    from psgld.tools import accelerator

    small = {"_dense": np.ones((20, 30)), "_sparse": np.where(np.eye(30) > 0, 2.0, np.nan)}
    for name, V in small.items():
        monkeypatch.setattr(accelerator, name, lambda V=V: psgld.observations(V))
    monkeypatch.setattr(accelerator, "_SECONDS", 0.01)
    assert main(["doctor", "--jax", "--json", "--rank", "3"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["check"]["ok"] and 0 < report["check"]["difference"] < 1e-4
    assert report["devices"][0]["platform"] == "cpu"
    assert all(t > 0 for times in report["seconds"].values() for t in times.values())
    text = accelerator.text(report)
    assert "self-check    ok" in text and "× faster" in text
    slow = {name: {"jax": 2.0, "core": 1.0} for name in report["seconds"]}
    assert accelerator.text(report | {"seconds": slow}).endswith("Threads()")
    fast = {name: {"jax": 1.0, "core": 2.0} for name in report["seconds"]}
    assert accelerator.text(report | {"seconds": fast}).endswith("JAX()")
