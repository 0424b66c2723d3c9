"""`psgld.sample`: data and a model in, a posterior out."""

from __future__ import annotations

import math
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .chains import Work, run_all
from .checks import is_integer
from .data import MOST_CELLS, Observations, observations
from .engines import MPI, Engine, Threads
from .errors import DataError, ModelError, SamplingError, warn
from .models import FactorModel, guess
from .posterior import Posterior, assemble
from .probes import Probes
from .progress import ProgressOption
from .record import Draws, Recorder
from .resume import check_options, keys_in, open_saver, ownership, strips_in
from .run import Plan
from .samplers import Planned, Sampler, as_sampler
from .start import Start
from .together import alike, for_ranks, own_strips, together

Seed = int | np.random.SeedSequence | np.random.Generator | None

_TUNE_CYCLES, _THIN_CYCLES = 200, 2
_LEAST_TUNE, _LEAST_THIN = 1000, 10
_BRIEF = 5e6
"""Multiplications from one draw to the next that take a few milliseconds."""


@together
def sample(
    V: Any,
    model: FactorModel | None = None,
    *,
    rank: int | None = None,
    sampler: Sampler | str | None = None,
    engine: Engine | None = None,
    draws: int = 200,
    tune: int | None = None,
    thin: int | None = None,
    chains: int = 2,
    seed: Seed = 0,
    progress: ProgressOption = None,
    track: tuple[ArrayLike, ArrayLike] | None = None,
    keep: bool = True,
    store: str | PathLike[str] | None = None,
    resume: bool = False,
    checkpoint_every: float = 30.0,
    store_dtype: str | None = None,
    start: Posterior | None = None,
) -> Posterior:
    """Draw from the posterior p(W, H | V) of the factor model v_ij ~ p(· | Σ_k w_ik h_kj).

    Parameters
    ----------
    V
        An array (NaN = unobserved), a `scipy.sparse` matrix, a DataFrame of (row, column, value), a path, or
        `Observations`.
    model
        A `FactorModel`; or leave it out, give `rank`, and the likelihood is guessed from the data (and said).
    sampler
        `PSGLD(…)` by default, or another of `psgld.samplers.SAMPLERS`, or its name.
    engine
        `Threads(n)`, all cores by default; or `MPI(n)`, n threads on each rank that `mpiexec` started. All ranks
        call with the same arguments, and rank 0 returns the draws of W and H.
    draws
        Kept draws per chain.
    tune
        Iterations of burn-in before the first draw; by default 200 passes over the data (more where they are small), or
        as the sampler says.
    thin
        Iterations from one draw to the next; by default 2 passes over the data (more where they are small), or as
        the sampler says.
    chains
        Independent chains, run side by side or one after the other, whichever fills the cores.
    seed
        An int, a `SeedSequence` or a `Generator`. The same seed gives the same draws on any number of threads and
        ranks.
    progress
        True, False, None (a bar on a terminal) or a function of `Progress`.
    track
        Pairs (rows, cols), in labels if the data have them, whose mean and sd are followed while sampling
        (`posterior.tracked`).
    keep
        Whether to keep the draws of W and H; without them only `track` and the traces are left.
    store
        A folder `….zarr` that the run is written to while it goes on, besides being returned; needs
        `psgld[store]`. It can be read at every moment, by `psgld.load` and by xarray.
    resume
        Go on with the store where it was left, bit for bit as if never stopped, also with more `draws` than
        before; start anew if there is no such store. Data, model and settings must be the same.
    checkpoint_every
        Seconds between two writes to the store.
    store_dtype
        "float16" halves the store; the draws that are returned are rounded alike.
    start
        A posterior of the same model whose last draws the chains start at; rows and columns are matched by label,
        new ones are folded in. (`Posterior.update` does this with a short `tune`.)

    Examples
    --------
    >>> import numpy as np, psgld
    >>> V = np.random.default_rng(0).poisson(4.0, size=(30, 20))
    >>> post = psgld.sample(V, psgld.FactorModel(rank=2, likelihood="poisson"), draws=50)
    >>> post.predict([0, 1], [3, 4]).mean.shape
    (2,)

    References
    ----------
    Şimşekli, Koptagel, Güldaş, Cemgil, Öztoprak, Birbil. Parallel Stochastic Gradient Markov Chain Monte Carlo for
    Matrix Factorisation Models. 2015.
    """
    check_options(store, resume, checkpoint_every, store_dtype)
    engine = Threads() if engine is None else engine
    _check_kinds(engine, progress, keep)
    _check_counts(draws, tune, thin, chains)
    if not (start is None or isinstance(start, Posterior)):
        raise SamplingError(f"start must be a Posterior, got {start!r}")
    if model is None and start is not None:
        model = start.model
    _check_model(model, rank, "sample")
    chosen = as_sampler(sampler)
    data = own_strips(observations(V), engine)
    model = _model(model, rank, data)
    data = _ready(data, model, chosen.dtype)
    with ownership(store, engine):
        sampler = for_ranks(chosen, data, engine, strips_in(store) if resume else None)
        usual_tune, usual_thin = _usual(sampler, data, model.components)
        plan = Plan(
            int(usual_tune if tune is None else tune), int(draws), int(usual_thin if thin is None else thin)
        )
        room = Draws.empty(chains, plan.draws, data.shape, model, sampler.dtype, keep)
        pairs = None if track is None else _pairs(data, track)

        place: Any = engine  # one that this sampler runs on: `for_ranks` has seen to it
        setup = sampler.prepare(data, model, place, plan.tune)
        keys = _keys(seed, chains)
        if store is not None and seed is None and resume and Path(store).exists():
            keys = keys_in(store)
        if isinstance(engine, MPI):
            keys = alike(engine, setup, plan, keys, pairs, seed is None)
        probes = Probes.of(data, plan.thin * data.stored // setup.cycle)
        precision = None if store_dtype == sampler.dtype else store_dtype
        begin = None if start is None else Start.of(start, data, model)
        work = Work(setup, plan, room, pairs, probes, begin, precision=precision)
        if store is None:
            return _posterior(work, keys, engine, progress)
        saver = open_saver(store, work, keys, resume, checkpoint_every, engine)
        return _posterior(replace(work, saver=saver), keys, engine, progress)


def _posterior(work: Work, keys: list[int], engine: Engine, progress: ProgressOption) -> Posterior:
    """Run the chains and put together what they recorded."""
    recorders: list[Recorder] = []
    try:
        recorders, interrupted = run_all(work, keys, engine, progress)
    finally:
        if work.saver is not None:
            work.saver.finish(recorders)
    room = work.room if engine.rank == 0 else work.room.without_factors()
    posterior = assemble(work.setup, work.plan, room, recorders, work.pairs, keys, interrupted)
    if engine.rank > 0:
        posterior.settings["mpi_rank"] = engine.rank
    elif posterior.divergences:
        warn(
            f"chains ran away {posterior.divergences} time(s), were set back and went on with half the step size; "
            "the summary tells whether they agree; if not, give a smaller step size and a longer burn-in"
        )
    if work.saver is not None and work.saver.failure is not None:
        posterior.settings["unsaved"] = f"cannot write {work.saver.store.path}: {work.saver.failure}"
        warn(
            f"{posterior.settings['unsaved']}; it holds the draws up to its last checkpoint, if any; the draws "
            "returned here are complete: save() them elsewhere"
        )
    return posterior


def _usual(sampler: Sampler, data: Observations, components: int) -> tuple[int, int]:
    """Return tune and thin where they are left out: as the sampler says, else counted in passes over the data.

    Small data can have more of them: up to ten times as many between two draws, if that is brief all the same.
    """
    if isinstance(sampler, Planned):
        return sampler.default_plan(data)
    cycle = sampler.cycle(data)
    tune, thin = max(_LEAST_TUNE, _TUNE_CYCLES * cycle), max(_LEAST_THIN, _THIN_CYCLES * cycle)
    work = thin * components * (data.stored / cycle + 10 * sum(data.shape))
    more = min(max(_BRIEF / work, 1.0), 10.0)
    return int(tune * math.sqrt(more)), int(thin * more)


def _check_counts(draws: int, tune: int | None, thin: int | None, chains: int) -> None:
    _check_count("draws", draws, least=1)
    _check_count("chains", chains, least=1)
    if tune is not None:
        _check_count("tune", tune, least=0)
    if thin is not None:
        _check_count("thin", thin, least=1)


def _check_model(model: FactorModel | None, rank: int | None, call: str) -> None:
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


def _model(model: FactorModel | None, rank: int | None, data: Observations) -> FactorModel:
    """Return the model, or one that suits the values."""
    if model is not None:
        return model
    assert rank is not None
    likelihood, reason = guess(data.sample_entries(100_000)[2])
    chosen = FactorModel(rank, likelihood, bias=likelihood.beta == 2.0)
    warn(f"no model given: {likelihood.name} likelihood, because {reason}")
    return chosen


def _ready(data: Observations, model: FactorModel, dtype: str) -> Observations:
    """Check the values, and settle what absent entries mean."""
    beta = model.likelihood.beta
    ends = data.min(), data.max()
    try:
        model.check_values(ends)  # of shards these are known without reading them
    except DataError:
        for values in data.value_parts():
            model.check_values(values)  # says how many
    _check_range(ends, dtype)
    if beta == 1.0 and model.likelihood.phi == 1.0:
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
        and beta == 1.0
        and data.stored < data.shape[0] * data.shape[1]
    ):
        warn(
            "sparse data under a count likelihood: absent entries are taken as unobserved; say absent='zero' in "
            "psgld.observations if they are zeros, or absent='unobserved' if not"
        )
    if data.absent == "zero" and beta not in (1.0, 2.0):
        return _filled(data, beta)
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


def _check_kinds(engine: Any, progress: Any, keep: Any = True) -> None:
    if not isinstance(engine, Threads | MPI):
        raise SamplingError(f"engine must be Threads(…) or MPI(…), got {engine!r}")
    if not (progress is None or isinstance(progress, bool) or callable(progress)):
        raise SamplingError(f"progress must be True, False, None or a function, got {progress!r}")
    if not isinstance(keep, bool | np.bool_):
        raise SamplingError(f"keep must be True or False, got {keep!r}")


def _pairs(data: Observations, track: Any) -> tuple[Any, Any]:
    try:
        rows, cols = track
    except (TypeError, ValueError):
        raise DataError(f"track must be a pair (rows, cols), got {track!r}") from None
    i, j = data.row_index(rows), data.col_index(cols)
    if len(i) != len(j):
        raise DataError(f"track needs as many rows as columns, got {len(i)} and {len(j)}")
    return i, j


def _filled(data: Observations, beta: float) -> Observations:
    """Return the data with the implicit zeros written out: only β = 1 and β = 2 can do without."""
    if beta <= 0.0:
        raise ModelError(
            f'absent="zero" contradicts beta = {beta}, which needs values > 0; use absent="unobserved"'
        )
    if data.shape[0] * data.shape[1] > MOST_CELLS:
        raise ModelError(
            f'absent="zero" with beta = {beta} needs all {data.shape[0] * data.shape[1]:,} cells in memory; at most '
            f"{MOST_CELLS:,} are; use Poisson() or Gaussian(), which handle the zeros implicitly"
        )
    return data.filled()


def _check_count(name: str, value: Any, least: int) -> None:
    if not is_integer(value) or value < least:
        raise SamplingError(f"{name} must be an integer >= {least}, got {value!r}")


def _keys(seed: Seed, chains: int) -> list[int]:
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
