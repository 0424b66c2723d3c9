"""Tests side by side (`pytest -n 2`): which stay on one worker, and on how many cores a worker counts."""

from __future__ import annotations

import os
import signal

import pytest

# Shells start what is in the background without SIGINT, which psgld respects: tests of Ctrl-C send it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# JAX reads this when it is first used. It shows a CPU as four devices, for the ring of test_jax.py; and it does not
# contract products and sums into one instruction, as where it does so depends on the shapes, and with them last bits.
os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=4 --xla_cpu_max_isa=AVX")

TOGETHER = {  # files whose tests run one after the other
    # More ranks than cores.
    "ranks": (
        "test_benchmarks.py",
        "test_cluster.py",
        "test_experiments.py",
        "test_mpi.py",
        "test_network.py",
    ),
    # A long run that all are held against.
    "Gibbs": ("test_against_gibbs.py",),
    "bias": ("test_bias.py",),
}
GROUPS = {file: name for name, files in TOGETHER.items() for file in files}

if "PYTEST_XDIST_WORKER" in os.environ and hasattr(os, "sched_getaffinity"):
    # A worker has one core: threads of several would wait for each other.
    os.sched_getaffinity = lambda _: {0}


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    from xdist.scheduler import LoadScopeScheduling

    class Scheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            return GROUPS.get(nodeid.partition("::")[0].rpartition("/")[2], nodeid)

    return Scheduling(config, log)
