"""`psgld.sample`: data and a model in, a posterior out."""

from __future__ import annotations

from dataclasses import replace
from os import PathLike
from typing import Any

from numpy.typing import ArrayLike

from .data.observations import observations
from .dynamics.probes import Probes
from .engines import Engine, Threads
from .errors import SamplingError, warn
from .models import FactorModel
from .posterior.posterior import Posterior
from .posterior.warm_start import start_at, updates_by
from .runs.agreement import alike, for_ranks, together
from .runs.chains import Work, run_all
from .runs.draws import Draws
from .runs.inputs import (
    Seed,
    chain_keys,
    check_counts,
    check_kinds,
    check_model,
    chosen_model,
    ready,
    tracked_pairs,
    usual_plan,
)
from .runs.loop import Plan
from .runs.progress import ProgressOption
from .runs.recorder import Recorder
from .runs.result import assemble
from .samplers import Sampler, as_sampler
from .storage.resume import check_options, is_there, keys_in, open_saver, ownership, strips_in


@updates_by
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
        call with the same arguments, and rank 0 returns the draws of W and H. `Reference()` is the update in NumPy.
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
    check_kinds(engine, progress, keep)
    check_counts(draws, tune, thin, chains)
    if not (start is None or isinstance(start, Posterior)):
        raise SamplingError(f"start must be a Posterior, got {start!r}")
    if model is None and start is not None:
        model = start.model
    check_model(model, rank, "sample")
    chosen = as_sampler(sampler)
    data = engine.own_share(observations(V))
    model = chosen_model(model, rank, data)
    data = ready(data, model, chosen.dtype)
    with ownership(store, engine):
        sampler = for_ranks(chosen, data, engine, strips_in(store) if resume else None)
        usual_tune, usual_thin = usual_plan(sampler, data, model.components)
        plan = Plan(
            int(usual_tune if tune is None else tune), int(draws), int(usual_thin if thin is None else thin)
        )
        room = Draws.empty(chains, plan.draws, data.shape, model, sampler.dtype, keep)
        pairs = None if track is None else tracked_pairs(data, track)

        setup = sampler.prepare(data, model, engine, plan.tune)
        keys = chain_keys(seed, chains)
        if store is not None and seed is None and resume and is_there(store):
            keys = keys_in(store)
        if engine.distributed:
            keys = alike(engine, setup, plan, keys, pairs, seed is None)
        probes = Probes.of(data, plan.thin * data.stored // setup.cycle)
        precision = None if store_dtype == sampler.dtype else store_dtype
        begin = None if start is None else start_at(start, data, model)
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
    result = assemble(work.setup, work.plan, room, recorders, work.pairs, keys, interrupted)
    posterior = Posterior(**vars(result))
    if engine.rank > 0:
        posterior.settings["mpi_rank"] = engine.rank
    elif posterior.divergences:
        warn(
            f"chains ran away {posterior.divergences} time(s), were set back and went on with half the step size; "
            "the summary tells whether they agree; if not, give a smaller step size and a longer burn-in"
        )
    if work.saver is not None and work.saver.failure is not None:
        posterior.settings["unsaved"] = f"cannot write {work.saver.path}: {work.saver.failure}"
        warn(
            f"{posterior.settings['unsaved']}; it holds the draws up to its last checkpoint, if any; the draws "
            "returned here are complete: save() them elsewhere"
        )
    return posterior
