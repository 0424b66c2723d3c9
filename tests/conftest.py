"""Tests side by side (`pytest -n 2`): each worker counts on one core, or their threads would wait for each other's."""

from __future__ import annotations

import os

if "PYTEST_XDIST_WORKER" in os.environ and hasattr(os, "sched_getaffinity"):
    os.sched_getaffinity = lambda _: {0}
