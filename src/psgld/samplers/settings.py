"""Checks of the settings of samplers, and the setup of the Langevin samplers that follows from them and the data."""

from __future__ import annotations

import math
from typing import Any, Protocol

import numpy as np

from ..checks import is_integer, is_number
from ..data.labels import Csr
from ..data.observations import Observations
from ..data.partition import PARTITIONS, Assigned, Partition
from ..data.source import Source
from ..dynamics.metrics import METRICS, Metric, NonNegative, Problem, RealValued, momentum_of
from ..dynamics.schedule import SCHEDULES, Cyclic, Hopping, Schedule
from ..dynamics.step_size import Decay, StepSize, as_step_size
from ..dynamics.subsample import Subsample
from ..engines import Engine
from ..errors import ModelError, SamplingError
from ..models import FactorModel, Hyper, Moments
from ..models.hyperparameters import start_sizes
from .base import Sampler, scale_of
from .langevin import LangevinSetup

_CHOICES: dict[str, tuple[type, ...]] = {
    "schedule": tuple(schedule for schedule in SCHEDULES.values() if schedule is not Hopping),
    "partition": tuple(PARTITIONS.values()),
}
"""Hopping is for DSGLD, which sets it."""


class Common(Sampler, Protocol):
    """The settings that all Langevin samplers have."""

    @property
    def step_size(self) -> float | StepSize | None:
        """ε, or None for the default."""

    @property
    def metric(self) -> Metric | str | None:
        """D, or None for the default."""


def check_dtype(settings: Sampler) -> None:
    """Replace `dtype` by its name (np.float64 by "float64"); raise ModelError unless it is float32 or float64."""
    given = settings.dtype
    try:
        name = None if given is None else np.dtype(given).name
    except TypeError:
        name = None
    if name not in ("float32", "float64"):
        raise ModelError(f'dtype must be "float32" or "float64", got {given!r}')
    object.__setattr__(settings, "dtype", name)  # settings are frozen


def check_compiled(settings: Sampler, engine: Engine) -> None:
    """Raise SamplingError if a sampler needs the compiled core and the engine does not run it."""
    if not engine.compiled:
        raise SamplingError(
            f"{type(settings).__name__} does not run on {engine!r}; PSGLD, LD, SGLD and DSGD do; use Threads()"
        )


def check(settings: Common) -> None:
    """Raise ModelError unless step size, metric and dtype are valid."""
    check_dtype(settings)
    if settings.step_size is not None:
        as_step_size(settings.step_size)
    metric = settings.metric
    if isinstance(metric, str) and metric not in METRICS:
        raise ModelError(f"metric must be one of {', '.join(METRICS)}, got {metric!r}")
    if not (metric is None or isinstance(metric, str | Metric)):
        raise ModelError(f"metric must be a metric such as NonNegative(), or its name, got {metric!r}")


def check_temperature(temperature: Any) -> None:
    """Raise ModelError unless the temperature is a finite number >= 0."""
    if not isinstance(temperature, int | float | np.number) or not 0.0 <= temperature < np.inf:
        raise ModelError(f"temperature must be >= 0 and finite, got {temperature!r}")


def check_count(name: str, value: Any, least: int = 1, remedy: str = "") -> None:
    """Raise ModelError unless a value is an integer >= `least`."""
    if not is_integer(value) or value < least:
        raise ModelError(f"{name} must be an integer >= {least}, got {value!r}{remedy}")


def check_choice(name: str, value: Any) -> None:
    """Raise ModelError unless a value is a schedule, or a partition, of psgld."""
    if not isinstance(value, _CHOICES[name]):
        choices = ", ".join(f"{choice.__name__}(…)" for choice in _CHOICES[name])
        raise ModelError(f"{name} must be one of {choices}, got {value!r}")


def check_blocks(blocks: Any) -> None:
    """Raise ModelError unless the number of blocks is None or an integer >= 1."""
    if blocks is not None:
        check_count("blocks", blocks, remedy="; omit it for the default")


_MOST_DRAWS = 100
"""The most draws per entry and iteration, on average."""

_COUNTED = 2**31 - 1
"""The most draws per iteration that the core can count."""


def check_size(size: Any) -> None:
    """Raise ModelError unless the size of a subsample is an integer >= 1 or a fraction below 1."""
    number = is_number(size)
    count = number and (isinstance(size, int | np.integer) and size >= 1)
    if not (count or (number and 0 < size < 1)):
        raise ModelError(
            f"size must be a number of entries >= 1, or a fraction of them below 1, got {size!r}"
        )


def entries_of(size: float, data: Source) -> int:
    """Return the number of draws |Ω|, given as a number or as a fraction.

    More draws than entries are of little use, and many more need too much memory.
    """
    draws = int(size) if size >= 1 else max(1, round(size * data.size))
    if draws > min(_MOST_DRAWS * data.size, _COUNTED):
        raise ModelError(
            f"size = {size:,} means {draws:,} draws per iteration; at most {_MOST_DRAWS} times the {data.size:,} "
            f"entries, and {_COUNTED:,}, are allowed; use a smaller size, or LD(), which reads each entry once"
        )
    return draws


def setup_of(
    settings: Common,
    data: Source,
    model: FactorModel,
    engine: Engine,
    tune: int,
    *,
    blocks: int,
    partition: Partition,
    schedule: Schedule,
    temperature: float = 1.0,
    momentum: float | None = 0.0,
    draws: int | None = None,
    noise: float | None = None,
    bytes_per_iteration: float = 0.0,
) -> LangevinSetup:
    """Cut the data into blocks and fix all that the chains share.

    `draws` entries of a part are read per iteration (all of them by default). `noise` replaces B in the default step
    size, if a gradient is noisier than that of an even part. If `momentum` is None, the default of the metric is used.
    """
    if data.cut is not None:
        if blocks == data.strips:
            partition = Assigned(*data.cut)
        else:
            data = data.load()
    shift, moments, start = scale_of(data, model)
    kept = data if draws is None else _without_gaps(data)
    hopping = isinstance(schedule, Hopping)
    grid = engine.grid(kept, partition.cut(kept, blocks), shift, np.dtype(settings.dtype), hopping)
    subsample = None
    if draws is not None:
        share = draws / max(1.0, data.size / blocks)
        subsample = Subsample(draws, grid.cut_for_draws(share))
    metric = _metric(settings.metric, model)
    uneven = noise is not None or (data.is_sparse and not grid.zeros)
    problem = Problem(
        model.components, math.ceil(noise or blocks), uneven, tune,
        metric.momentum if momentum is None else momentum, model.likelihood.steep, model.likelihood.counts,
        blocks == 1 or isinstance(schedule, Cyclic), _curvature(data, model, moments, start),
        min(data.shape),
    )  # fmt: skip
    step = metric.step_size(problem)
    settling = tune * 3 // 4 if momentum is None else 0
    if momentum is None:
        momentum = momentum_of(metric, step, problem)
    if settings.step_size is not None:
        step = as_step_size(settings.step_size)
    elif temperature == 0.0 and isinstance(step, Decay):
        step = Decay(step.first, 0.1 * step.last, tune)  # smaller steps at the end, to converge to the mode
    return LangevinSetup(
        settings, model, data, engine, shift, moments, start, grid, metric, as_step_size(step), schedule,
        temperature, momentum, settings.cycle(data), subsample, bytes_per_iteration, settling,
    )  # fmt: skip


def _without_gaps(data: Source) -> Source:
    """Return the data; dense data with missing entries as compressed rows, so that every entry can be drawn."""
    if data.dense is None or data.stored == data.dense.size:
        return data
    csr = Csr(data.indptr, data.indices, data.values)
    return Observations(data.shape, None, csr, data.stored, weights=data.entry_weights)


def _metric(metric: Metric | str | None, model: FactorModel) -> Metric:
    """Return the given metric, or the default for the model."""
    if metric is None:
        metric = NonNegative() if model.nonnegative else RealValued()
    if isinstance(metric, str):
        metric = METRICS[metric]()
    if isinstance(metric, NonNegative) and not model.nonnegative:
        raise ModelError("the non-negative metric needs non-negative factors; use RealValued() or Identity()")
    if isinstance(metric, RealValued) and model.likelihood.curvature_bound is None:
        raise ModelError(
            "the real-valued metric is for Gaussian models and others of bounded curvature, got "
            f"{model.likelihood!r}; omit it for the default"
        )
    return metric


def _curvature(data: Source, model: FactorModel, moments: Moments, start: Hyper) -> float:
    """Return a bound, at the start, on the curvature of the log posterior along a coefficient of the longest row."""
    w, h = (float(sizes[0]) for sizes in start_sizes(model, moments, start))
    most = [data.weight_sums(axis).max().item() for axis in range(2)]
    fullest = max(most[0] * h**2, most[1] * w**2)
    mean = moments.mean if moments.mean > 0 else 1.0
    likelihood, (_, others) = model.likelihood, model.likelihood.split(start.parameters(model.likelihood))
    bound = likelihood.curvature_bound or 1.0
    weight = likelihood.information(mean, *others) if model.nonnegative else bound
    rates = np.concatenate([h.rate[mode.free] for mode, h in zip(model.modes, start.modes, strict=True)])
    return float(fullest * weight / start.phi + rates.max())
