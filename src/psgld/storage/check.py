"""Checks of a posterior from a file: arrays of consistent shapes, and the settings that are used later."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..models import NormalWishart
from ..models.modes import NAMES, NORMALS
from ..runs.result import Result
from ..runs.traces import FULL
from .records import check_records

TRACE = {"iteration": "i", "lp": "f", "step_size": "f", "diverging": "b"}
"""The columns that every trace has, and their dtype kinds."""

MORE = {"seconds": "f", **dict.fromkeys(FULL, "f")}
"""The columns that it may have."""

_NUMBERS = ("entries", "lp_entries", "tune", "thin", "divergences")


def check(posterior: Result) -> Result:
    """Return the posterior; raise ValueError at the first inconsistency."""
    _check_draws(posterior)
    _check_traces(posterior)
    _check_labels(posterior)
    _check_tracked(posterior)
    _check_settings(posterior.settings)
    return posterior


def _check_draws(p: Result) -> None:
    d, n = p.draws, np.shape(p.draws.phi)
    if len(n) != 2 or min(*n, *p.shape) < 1:
        raise ValueError(f"{n} draws of a {p.shape[0]} × {p.shape[1]} matrix")
    kept = (n[0], d.W.shape[1] if np.ndim(d.W) == 4 and d.W.shape[1] == 0 else n[1])
    shapes: dict[str, tuple[int, ...]] = {"offset": n, "phi": n}
    if others := len(p.model.likelihood.other_parameters):
        shapes["theta"] = (*n, others)
    for size, mode, own in zip(p.shape, p.model.modes, d.modes, strict=True):
        names, components = mode.names, mode.components
        shapes |= {names.factor: (*kept, size, mode.rank), names.rate: (*n, components)}
        if mode.prior.learns_shape:
            shapes[names.shape] = n
        if mode.biases:
            shapes[names.bias] = (*kept, size)
        if isinstance(mode.prior, NormalWishart) and own.mean is not None:
            shapes |= {names.mean: (*n, components), names.precision: (*n, components, components)}
    arrays = d.arrays()
    for name, shape in shapes.items():
        _expect(name, arrays.get(name), shape, "f")
        _check_numbers(name, arrays[name], p)
    if d.theta is not None and not p.model.likelihood.allowed(d.theta):
        raise ValueError(f"theta holds parameters that {p.model.likelihood.name} cannot have")
    if none := [name for name in arrays if name not in shapes]:
        raise ValueError(f"{none[0]} is not part of the model")


def _check_numbers(name: str, array: Any, p: Result) -> None:
    """Raise ValueError if draws hold impossible numbers, from which predictions would be invalid, or hang."""
    if name in NORMALS:
        return  # NaN if an older version wrote the file
    positive = {mode.names.rate for mode in p.model.modes}
    positive |= {mode.names.factor for mode in p.model.modes if mode.prior.nonnegative}
    shapes = {mode.names.shape for mode in p.model.modes}
    least = (
        np.nextafter(0.0, 1.0) if name == "phi" or name in shapes else 0.0 if name in positive else -np.inf
    )
    for chain in array:  # one chain at a time, to save memory
        if chain.size and not (
            np.isfinite(chain.min()) and np.isfinite(chain.max()) and chain.min() >= least
        ):
            raise ValueError(f"{name} holds numbers that are not finite, or are below {least:g}")


def _check_traces(p: Result) -> None:
    marks = (p.chains, *np.shape(p.warmup["lp"])[1:2])
    for table, shape in ((p.sample_stats, p.draws.phi.shape), (p.warmup, marks)):
        if not set(TRACE) <= set(table) <= {*TRACE, *MORE}:
            raise ValueError(f"a trace of {sorted(table)}, expected {sorted(TRACE)}")
        for name, column in table.items():
            _expect(name, column, shape, (TRACE | MORE)[name])


def _check_labels(p: Result) -> None:
    for names, labels, size in zip(NAMES, p.labels, p.shape, strict=True):
        if labels is not None:
            _expect(f"{names.dim} labels", labels, (size,), "iU")


def _check_tracked(p: Result) -> None:
    if p.tracked is None:
        return
    for name, array in vars(p.tracked).items():
        _expect(f"tracked {name}", array, (len(p.tracked.rows),), "i" if name in ("rows", "cols") else "f")
    for at, size in zip((p.tracked.rows, p.tracked.cols), p.shape, strict=True):
        if len(at) and not 0 <= at.min() <= at.max() < size:
            raise ValueError(f"tracked cells outside of the {p.shape[0]} × {p.shape[1]} matrix")


def _check_settings(settings: Any) -> None:
    if not isinstance(settings, dict):
        raise ValueError(f"settings are {settings!r}, expected a dictionary")
    for name in _NUMBERS:
        if not isinstance(settings[name], int):
            raise ValueError(f"settings: {name} is {settings[name]!r}, expected an integer")
    if not isinstance(settings["sampler"], dict) or not isinstance(settings["sampler"]["name"], str):
        raise ValueError(f"settings: sampler is {settings['sampler']!r}")
    if not isinstance(settings["interrupted"], bool) or not isinstance(settings["version"], str):
        raise ValueError("settings: interrupted must be a boolean and version a string")
    check_records(settings)


def _expect(name: str, array: Any, shape: tuple[int, ...], kinds: str) -> None:
    # An empty table may have another dtype.
    if np.shape(array) != shape or (np.size(array) and array.dtype.kind not in kinds):
        found = getattr(array, "dtype", type(array).__name__)
        raise ValueError(f"{name} is {found} of shape {np.shape(array)}, expected shape {shape}")
