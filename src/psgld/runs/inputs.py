"""What `sample` and `optimize` are given, checked; and what they choose where nothing was said."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..checks import is_integer
from ..data.observations import MOST_CELLS
from ..data.source import Source
from ..engines import Engine
from ..errors import DataError, ModelError, SamplingError, in_bytes, warn
from ..models import FactorModel, Likelihood, guess
from ..samplers import Planned, Sampler
from ..system import cost
from ..system.limits import available_memory

Seed = int | np.random.SeedSequence | np.random.Generator | None

_TUNE_CYCLES, _THIN_CYCLES = 200, 2
_LEAST_TUNE, _LEAST_THIN = 1000, 10

_BYTES_PER_CELL = 16
"""Of a matrix with its zeros written out: the values in double precision, and once more in blocks."""

_MANY_CELLS = 10_000_000
"""Cells from which on a warning says that zeros are written out."""


def usual_plan(sampler: Sampler, data: Source, components: int) -> tuple[int, int]:
    """Return tune and thin where they are left out: as the sampler says, else counted in passes over the data.

    Small data can have more of them: up to ten times as many between two draws, if that is brief all the same.
    """
    if isinstance(sampler, Planned):
        return sampler.default_plan(data)
    cycle = sampler.cycle(data)
    tune, thin = max(_LEAST_TUNE, _TUNE_CYCLES * cycle), max(_LEAST_THIN, _THIN_CYCLES * cycle)
    work = cost.multiplications(thin, components, data.stored / cycle, sum(data.shape))
    more = min(max(cost.BRIEF / work, 1.0), 10.0)
    return int(tune * math.sqrt(more)), int(thin * more)


def check_counts(draws: int, tune: int | None, thin: int | None, chains: int) -> None:
    """Refuse numbers of draws, iterations and chains that are none."""
    check_count("draws", draws, least=1)
    check_count("chains", chains, least=1)
    if tune is not None:
        check_count("tune", tune, least=0)
    if thin is not None:
        check_count("thin", thin, least=1)


def check_model(model: FactorModel | None, rank: int | None, call: str) -> None:
    """Raise, before data are read, if there is nothing to make a model of."""
    if model is None:
        if rank is None:
            raise ModelError(
                f"a model or a rank is needed: psgld.{call}(V, FactorModel(…)) or psgld.{call}(V, rank=16)"
            )
        FactorModel(rank, "poisson")  # says what is wrong with a rank
    elif not isinstance(model, FactorModel):
        raise ModelError(f"model must be FactorModel(rank=…, likelihood=…), got a {type(model).__name__}")
    elif rank is not None and rank != model.rank:
        raise ModelError(f"rank = {rank!r} contradicts the model's {model.rank}; give one of them")


def chosen_model(model: FactorModel | None, rank: int | None, data: Source) -> FactorModel:
    """Return the model, or one that suits the values."""
    if model is not None:
        return model
    assert rank is not None
    likelihood, reason = guess(data.sample_entries(100_000)[2])
    chosen = FactorModel(rank, likelihood, bias=not likelihood.nonnegative_mean)
    warn(f"no model given: {likelihood.name} likelihood, because {reason}")
    return chosen


def ready(data: Source, model: FactorModel, dtype: str) -> Source:
    """Check the values, and settle what absent entries mean."""
    likelihood = model.likelihood
    ends = data.min(), data.max()
    if likelihood.lattice or not likelihood.can_occur(np.array(ends)).all():
        for values in data.value_parts():  # of shards the ends are known without reading them
            model.check_values(values)  # says how many
    _check_range(ends, dtype)
    if likelihood.splits:
        some = data.sample_entries(10_000)[2]
        if not np.array_equal(some, np.rint(some)):
            warn(
                "values that are no counts under Poisson(): its variance is the mean, whatever their scale, and so "
                "are its intervals; Poisson(phi=None) learns the variance, Gamma() and CompoundPoisson() suit "
                "positive values better"
            )
    if (
        data.is_sparse
        and not data.absent_chosen
        and likelihood.counts
        and data.stored < data.shape[0] * data.shape[1]
    ):
        warn(
            "sparse data under a count likelihood: absent entries are taken as unobserved; say absent='zero' in "
            "psgld.observations if they are zeros, or absent='unobserved' if not"
        )
    if data.absent == "zero" and likelihood.zeros is None:
        return _filled(data, likelihood)
    return data


def _check_range(ends: tuple[float, float], dtype: str) -> None:
    """Refuse values whose squares leave the range of the numbers that the factors are kept in."""
    largest = max(map(abs, ends))
    limit = 1e15 if dtype == "float32" else 1e120
    if largest > limit or 0 < largest < 1 / limit:
        raise DataError(
            f"the largest value is {largest:.3g}; {dtype} factors need it between {1 / limit:g} and {limit:g}; "
            + ("rescale V, or give the sampler dtype='float64'" if dtype == "float32" else "rescale V")
        )


def check_kinds(engine: Any, progress: Any, keep: Any = True) -> None:
    """Refuse an engine, a progress or a `keep` of another kind."""
    if not isinstance(engine, Engine):
        raise SamplingError(f"engine must be Threads(…), MPI(…) or Reference(), got {engine!r}")
    if not (progress is None or isinstance(progress, bool) or callable(progress)):
        raise SamplingError(f"progress must be True, False, None or a function, got {progress!r}")
    if not isinstance(keep, bool | np.bool_):
        raise SamplingError(f"keep must be True or False, got {keep!r}")


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
    """Return the data with the implicit zeros written out: few likelihoods can add them up without."""
    if not likelihood.can_occur(np.zeros(1)).all():
        raise ModelError(
            f'absent="zero" contradicts {likelihood!r}, which needs {likelihood.support}; use absent="unobserved"'
        )
    cells = data.shape[0] * data.shape[1]
    needed, free = cells * _BYTES_PER_CELL, available_memory()
    if cells > MOST_CELLS or (free is not None and needed > 0.9 * free):
        raise ModelError(
            f'absent="zero" with {likelihood!r} needs all {cells:,} cells in memory, {in_bytes(needed)}; at most '
            f"{MOST_CELLS:,} are; use Poisson() or Gaussian(), which handle the zeros implicitly"
        )
    if cells > max(_MANY_CELLS, 10 * data.stored):
        warn(
            f"{type(likelihood).__name__}() has the zeros written out: {cells:,} cells, {in_bytes(needed)}, instead of "
            f"{data.stored:,} entries, and a pass takes as much longer; Poisson() adds them up unvisited"
        )
    return data.filled()


def check_count(name: str, value: Any, least: int) -> None:
    """Refuse what is no integer from `least` on."""
    if not is_integer(value) or value < least:
        raise SamplingError(f"{name} must be an integer >= {least}, got {value!r}")


def chain_keys(seed: Seed, chains: int) -> list[int]:
    """Return the 64-bit noise key of each chain."""
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
