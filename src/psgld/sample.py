"""`psgld.sample`: data and a model in, a posterior out."""

from __future__ import annotations

from dataclasses import replace
from os import PathLike
from typing import Any

from numpy.typing import ArrayLike

from .data.observations import observations
from .dynamics.probes import Probes
from .engines import Engine, Threads
from .errors import warn
from .models import FactorModel
from .posterior.diagnostics import SAID, complaint
from .posterior.estimate import Estimate
from .posterior.fit import measured_fit
from .posterior.posterior import Posterior
from .posterior.warm_start import check_start, start_at, updates_by
from .runs.agreement import abort_on_error, checked_keys, for_ranks
from .runs.chains import Work, run_all, started
from .runs.draws import Draws
from .runs.inputs import (
    Seed,
    chain_keys,
    check_counts,
    check_full,
    check_kinds,
    check_model,
    chosen_model,
    ready,
    tracked_pairs,
    usual_plan,
)
from .runs.progress import ProgressOption
from .runs.recorder import Recorder
from .runs.result import assemble, kept_cells
from .runs.starts import best_start, check_starts
from .samplers import Sampler, as_sampler
from .storage.resume import check_options, is_there, keys_in, open_saver, ownership, starts_in, strips_in


@updates_by
@abort_on_error
def sample(
    V: Any,
    model: FactorModel | None = None,
    *,
    rank: int | None = None,
    sampler: Sampler | str | None = None,
    engine: Engine | None = None,
    draws: int | None = None,
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
    start: Posterior | Estimate | tuple[ArrayLike, ArrayLike] | None = None,
    starts: int | None = None,
    log_likelihood: bool = False,
) -> Posterior:
    """Draw from the posterior p(W, H | V) of the factor model v_ij ~ p(· | Σ_k w_ik h_kj).

    Parameters
    ----------
    V
        An array (NaN = unobserved), a `scipy.sparse` matrix, a DataFrame of (row, column, value), a path, or
        `Observations`.
    model
        A `FactorModel`. If it is None, give `rank`; the likelihood is then chosen from the values, with a warning.
    sampler
        `PSGLD(…)` by default, or another member of `psgld.samplers.SAMPLERS`, or its name.
    engine
        `Threads(n)`, all cores by default; or `MPI(n)`, n threads on each rank of an MPI job. All ranks make the same
        call, and rank 0 returns the draws of W and H. `Reference()` runs the update in NumPy.
    draws
        Number of draws per chain: by default 200, up to 600 for small data.
    tune
        Iterations of burn-in before the first draw. The default is set by the sampler: for PSGLD 200 passes over the
        data, more for small data.
    thin
        Iterations per draw. The default is set by the sampler: for PSGLD 2 passes over the data, more for small data.
    chains
        Number of independent chains. They run concurrently or one after the other, whichever uses more cores.
    seed
        An int, a `SeedSequence` or a `Generator`. The same seed gives the same draws on any number of threads and
        ranks.
    progress
        True, False, None (a progress bar on a terminal only) or a function that is called with a `Progress`.
    track
        Pairs (rows, cols), as labels if the data has them. The mean and sd of μ at these cells are computed while
        sampling (`posterior.tracked`).
    keep
        Whether to keep the draws of W and H. If False, only `track` and the traces are returned.
    store
        A folder `….zarr` that the run is written to while sampling, in addition to being returned; needs
        `psgld[store]`. `psgld.load` and xarray can read it at any time.
    resume
        Resume the run of the store, bit for bit as if it had not stopped, also with more `draws` than before. Start
        a new run if the store does not exist. Data, model and settings must be the same.
    checkpoint_every
        Seconds between two checkpoints.
    store_dtype
        "float16" halves the store; the returned draws are rounded in the same way.
    start
        Warm start: a posterior of the same model, from whose last draws the chains start; an `Estimate` of
        `psgld.optimize`; or a pair (W, H), of shapes (I, K) and (K, J). Rows and columns of the first two are matched
        by label, new ones are folded in. (`Posterior.update` does this with a short burn-in.)
    starts
        Number of short chains from random starts, each half as long as the burn-in. If factors are non-negative,
        as many are then started at crossovers of the best, four times over. All chains of the run start at the last
        state of the one with the highest log likelihood. The draws then describe the posterior around the best mode
        found, which need not be the only one. Not on `MPI()`.
    log_likelihood
        Whether to compute log p(V | W, H, θ) of all entries at every recorded iteration, for
        `sample_stats["log_likelihood"]` and, with the priors, `["log_posterior"]`. (`lp` is an estimate from some
        entries if V is large.) Each takes a pass over the data, which `sample_stats["seconds"]` does not count.

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
    check_kinds(engine, progress, {"keep": keep, "log_likelihood": log_likelihood})
    check_counts(draws, tune, thin, chains)
    check_start(start)
    check_starts(starts, start, engine)
    model = getattr(start, "model", None) if model is None else model
    check_model(model, rank, "sample")
    chosen = as_sampler(sampler)
    data = engine.own_share(observations(V))
    model = chosen_model(model, rank, data)
    data = ready(data, model, chosen.dtype)
    with ownership(store, engine):
        sampler = for_ranks(chosen, data, engine, strips_in(store) if resume else None)
        plan = usual_plan(sampler, data, model.components, draws, tune, thin)
        kept = Draws.empty(chains, plan.draws, data.shape, model, sampler.dtype, keep)
        pairs = None if track is None else tracked_pairs(data, track)

        setup = sampler.prepare(data, model, engine, plan.tune)
        keys = chain_keys(seed, chains)
        if store is not None and seed is None and resume and is_there(store):
            keys = keys_in(store)
        if engine.distributed:
            keys = checked_keys(engine, setup, plan, keys, pairs, seed is None)
        probes = Probes.of(data, plan.thin * data.stored // setup.cycle)
        precision = None if store_dtype == sampler.dtype else store_dtype
        begin = None if start is None else start_at(start, setup)
        check_full(log_likelihood, data, engine)
        work = Work(setup, plan, kept, pairs, probes, begin, precision=precision, full=bool(log_likelihood))
        if starts is not None:
            work = _with_starts(work, keys, int(starts), engine, progress, store if resume else None)
        if store is None:
            return _posterior(work, keys, engine, progress)
        saver = open_saver(store, work, keys, resume, checkpoint_every, engine)
        return _posterior(replace(work, saver=saver), keys, engine, progress)


def _with_starts(
    work: Work, keys: list[int], starts: int, engine: Engine, progress: ProgressOption, resumed: Any
) -> Work:
    """Return the work with the best of several starts; a run whose chains all have checkpoints needs none."""
    record = starts_in(resumed)
    if record is not None and record["number"] == starts:
        return replace(work, starts=record)
    begin, record = best_start(work, keys, starts, engine, progress)
    return replace(work, begin=begin, starts=record)


def _posterior(work: Work, keys: list[int], engine: Engine, progress: ProgressOption) -> Posterior:
    """Run the chains and put together what they recorded."""
    recorders: list[Recorder] = []
    try:
        recorders, interrupted = run_all(work, keys, engine, progress)
    finally:
        if work.saver is not None:
            work.saver.finish(recorders)
    kept = work.draws if engine.rank == 0 else work.draws.without_factors()
    result = assemble(work.setup, work.plan, kept, recorders, work.pairs, keys, interrupted)
    posterior = Posterior(**vars(result) | kept_cells(work.setup.data, work.probes))
    posterior.settings.update(started(work))
    if engine.rank > 0:
        posterior.settings["mpi_rank"] = engine.rank
    else:
        posterior.settings["fit"] = measured_fit(result, work.setup.data, work.probes)
        if work.saver is not None:
            work.saver.describe({"fit": posterior.settings["fit"]})
        _warn(posterior)
    if work.saver is not None and work.saver.failure is not None:
        posterior.settings["unsaved"] = f"cannot write {work.saver.path}: {work.saver.failure}"
        warn(
            f"{posterior.settings['unsaved']}; it has the draws up to its last checkpoint, if any; the draws "
            "returned here are complete: save() them elsewhere"
        )
    return posterior


def _warn(posterior: Posterior) -> None:
    """Issue one warning if the chains diverged or the verdict is not that they converged, with the remedy."""
    fault = complaint(posterior)
    if posterior.divergences:
        after = f"; after that: {fault}" if fault else ""
        warn(
            f"chains diverged {posterior.divergences} time(s), were reset and continued with half the step size"
            f"{after}; if they do not converge, use a smaller step size and a longer burn-in"
        )
    elif fault:
        warn(f"{SAID}: {fault}")
