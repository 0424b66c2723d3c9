"""Checks and defaults of the arguments of `sample` and `optimize`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..checks import is_integer
from ..data.observations import MOST_CELLS
from ..data.source import Source
from ..engines import Engine
from ..errors import DataError, ModelError, SamplingError, in_bytes, warn
from ..models import FactorModel, Likelihood, guess
from ..samplers import Planned, Sampler
from ..system import cost
from ..system.limits import available_memory
from .loop import Plan

Seed = int | np.random.SeedSequence | np.random.Generator | None

_TUNE_CYCLES, _THIN_CYCLES = 200, 2
_LEAST_TUNE, _LEAST_THIN = 1000, 10
"""Iterations of the default plan, unless ten of them take long."""
_LEAST_TUNE_OF_LARGE, _LEAST_BRIEFS = 400, 4
DRAWS, _MORE_DRAWS = 200, 3
"""The default number of draws per chain, and how many times as many small data get at most."""

Counts = tuple[int | None, int | None, int | None]
"""Draws, burn-in and thinning as given; None for the default."""

DEFAULT_PLAN: Counts = (None, None, None)

_BYTES_PER_CELL = 16
"""Memory for a matrix with explicit zeros: the values in double precision, and a copy in blocks."""

_MANY_CELLS = 10_000_000
"""Number of cells from which a warning is given that zeros are stored explicitly."""


def usual_plan(
    sampler: Sampler, data: Source, components: int, draws: int | None, tune: int | None, thin: int | None
) -> Plan:
    """Return the plan: as given, or the default of the sampler, or a number of passes over the data.

    Small data get more iterations, as long as they take little time: up to ten times as many per draw, and then up to
    three times as many draws, so that effective sample sizes of 400 are usual.
    """
    cycle = sampler.cycle(data)

    def spare(iterations: int) -> float:
        """Return how many times that many iterations take little time."""
        return cost.BRIEF / cost.multiplications(iterations, components, data.stored / cycle, sum(data.shape))

    if isinstance(sampler, Planned):
        usual_tune, usual_thin = sampler.default_plan(data)
    else:
        share = min(_LEAST_BRIEFS * spare(_LEAST_THIN), 1.0)
        usual_tune = max(int(_LEAST_TUNE * share), _LEAST_TUNE_OF_LARGE, _TUNE_CYCLES * cycle)
        usual_thin = max(int(_LEAST_THIN * share), _THIN_CYCLES * cycle)
        more = min(max(spare(usual_thin), 1.0), 10.0)
        usual_tune, usual_thin = int(usual_tune * math.sqrt(more)), int(usual_thin * more)
    usual_draws = int(DRAWS * min(max(spare(usual_thin), 1.0), _MORE_DRAWS))
    return Plan(
        int(usual_tune if tune is None else tune),
        int(usual_draws if draws is None else draws),
        int(usual_thin if thin is None else thin),
    )


def check_counts(draws: int | None, tune: int | None, thin: int | None, chains: int) -> None:
    """Raise SamplingError unless the numbers of draws, iterations and chains are valid."""
    if draws is not None:
        check_count("draws", draws, least=1)
    check_count("chains", chains, least=1)
    if tune is not None:
        check_count("tune", tune, least=0)
    if thin is not None:
        check_count("thin", thin, least=1)


def check_model(model: FactorModel | None, rank: int | None, call: str) -> None:
    """Raise ModelError, before data are read, if neither a model nor a rank is given, or if they disagree."""
    if model is None:
        if rank is None:
            raise ModelError(
                f"a model or a rank is needed: psgld.{call}(V, FactorModel(…)) or psgld.{call}(V, rank=16)"
            )
        FactorModel(rank, "poisson")  # raises if the rank is not valid
    elif not isinstance(model, FactorModel):
        raise ModelError(f"model must be FactorModel(rank=…, likelihood=…), got a {type(model).__name__}")
    elif rank is not None and rank != model.rank:
        raise ModelError(f"rank = {rank!r} contradicts the model's {model.rank}; give one of them")


def chosen_model(model: FactorModel | None, rank: int | None, data: Source) -> FactorModel:
    """Return the model, or one chosen from the values; its likelihood has what it takes from them, such as levels."""
    if model is None:
        assert rank is not None
        likelihood, reason = guess(data.sample_entries(100_000)[2])
        model = FactorModel(rank, likelihood, bias=not likelihood.nonnegative_mean)
        warn(f"no model given: {likelihood.name} likelihood, because {reason}")
    likelihood = model.likelihood.resolved(lambda: _distinct(data))
    return model if likelihood is model.likelihood else model.with_likelihood(likelihood)


def _distinct(data: Source) -> NDArray[Any]:
    """Return the distinct values; of data on disk, those of 100,000 entries and the extremes, on any rank the same."""
    if data.on_disk is None:
        parts = [np.unique(part) for part in data.value_parts()]
    else:
        parts = [data.sample_entries(100_000)[2]]
    return np.unique(np.concatenate([*parts, [data.min(), data.max()]]))


def ready(data: Source, model: FactorModel, dtype: str) -> Source:
    """Check the values against the model; return the data, with explicit zeros if the likelihood needs them."""
    likelihood = model.likelihood
    ends = data.min(), data.max()
    if likelihood.lattice or not likelihood.can_occur(np.array(ends)).all():
        for values in data.value_parts():  # the minimum and maximum of shards are known without reading them
            model.check_values(values)  # its message has the number of invalid values
    _check_range(ends, dtype)
    if likelihood.splits:
        some = data.sample_entries(10_000)[2]
        if not np.array_equal(some, np.rint(some)):
            warn(
                "values are not counts, but the likelihood is Poisson(): its variance is the mean at any scale, so "
                "its intervals may be wrong; Poisson(phi=None) learns the variance, Gamma() and CompoundPoisson() "
                "are for positive values"
            )
    if (
        data.is_sparse
        and not data.absent_chosen
        and likelihood.counts
        and data.stored < data.shape[0] * data.shape[1]
    ):
        warn(
            "sparse data under a count likelihood: absent entries are taken as unobserved; set absent='zero' in "
            "psgld.observations if they are zeros, or absent='unobserved' if not"
        )
    if data.absent == "zero" and likelihood.zeros is None:
        return _filled(data, likelihood)
    return data


def _check_range(ends: tuple[float, float], dtype: str) -> None:
    """Raise DataError if the squares of the values exceed the range of the floating-point type of the factors."""
    largest = max(map(abs, ends))
    limit = 1e15 if dtype == "float32" else 1e120
    if largest > limit or 0 < largest < 1 / limit:
        raise DataError(
            f"the largest value is {largest:.3g}; {dtype} factors need it between {1 / limit:g} and {limit:g}; "
            + ("rescale V, or give the sampler dtype='float64'" if dtype == "float32" else "rescale V")
        )


def check_kinds(engine: Any, progress: Any, flags: Mapping[str, Any] | None = None) -> None:
    """Raise SamplingError if engine, progress or one of the named flags has a wrong type."""
    if not isinstance(engine, Engine):
        raise SamplingError(f"engine must be Threads(…), MPI(…), JAX(…) or Reference(), got {engine!r}")
    if not (progress is None or isinstance(progress, bool) or callable(progress)):
        raise SamplingError(f"progress must be True, False, None or a function, got {progress!r}")
    for name, flag in (flags or {}).items():
        if not isinstance(flag, bool | np.bool_):
            raise SamplingError(f"{name} must be True or False, got {flag!r}")


def check_full(log_likelihood: bool, data: Source, engine: Engine) -> None:
    """Raise SamplingError if the log likelihood of all entries is asked for, and no process has all of them."""
    if log_likelihood and engine.ranks > 1 and data.on_disk is not None:
        raise SamplingError(
            f"log_likelihood=True needs all entries on each of the {engine.ranks} ranks, but shards are read strip by "
            "strip; leave it out (lp is estimated from some entries), or give data in memory"
        )


def tracked_pairs(data: Source, track: Any) -> tuple[Any, Any]:
    """Return the rows and columns that `track` names, as indices."""
    try:
        rows, cols = track
    except (TypeError, ValueError):
        raise DataError(f"track must be a pair (rows, cols), got {track!r}") from None
    i, j = data.row_index(rows), data.col_index(cols)
    if len(i) != len(j):
        raise DataError(f"track needs as many rows as columns, got {len(i)} and {len(j)}")
    return i, j


def _filled(data: Source, likelihood: Likelihood) -> Source:
    """Return the data with explicit zeros, as most likelihoods need them."""
    if not likelihood.can_occur(np.zeros(1)).all():
        raise ModelError(
            f'absent="zero" contradicts {likelihood!r}, which needs {likelihood.requirement}; use absent="unobserved"'
        )
    cells = data.shape[0] * data.shape[1]
    needed, free = cells * _BYTES_PER_CELL, available_memory()
    if cells > MOST_CELLS or (free is not None and needed > 0.9 * free):
        raise ModelError(
            f'absent="zero" with {likelihood!r} needs all {cells:,} cells in memory, {in_bytes(needed)}; at most '
            f"{MOST_CELLS:,} are allowed; use Poisson() or Gaussian(), which handle the zeros implicitly"
        )
    if cells > max(_MANY_CELLS, 10 * data.stored):
        warn(
            f"{type(likelihood).__name__}() stores zeros explicitly: {cells:,} cells, {in_bytes(needed)}, instead of "
            f"{data.stored:,} entries, and an iteration takes longer in proportion; Poisson() handles zeros implicitly"
        )
    return data.filled()


def check_count(name: str, value: Any, least: int) -> None:
    """Raise SamplingError unless a value is an integer >= `least`."""
    if not is_integer(value) or value < least:
        raise SamplingError(f"{name} must be an integer >= {least}, got {value!r}")


def chain_keys(seed: Seed, chains: int) -> list[int]:
    """Return the 64-bit random key of each chain."""
    if isinstance(seed, np.random.Generator):
        seed = int(seed.integers(2**63))
    if isinstance(seed, np.random.SeedSequence):
        root = seed
    else:
        if seed is not None and (not is_integer(seed) or seed < 0):
            raise SamplingError(f"seed must be an integer >= 0, a SeedSequence or a Generator, got {seed!r}")
        root = np.random.SeedSequence(None if seed is None else int(seed))
    spawned = (np.random.SeedSequence(root.entropy, spawn_key=(*root.spawn_key, c)) for c in range(chains))
    return [int(s.generate_state(1, np.uint64)[0]) for s in spawned]
