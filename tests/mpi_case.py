"""What the ranks of an MPI job do in the tests: `mpiexec -n R python tests/mpi_case.py CASE OUT [option=value …]`.

Rank 0 writes to OUT what `test_mpi.py` compares. Not a test by itself.
"""

from __future__ import annotations

import os
import re
import sys
from unittest import mock

import numpy as np
from chain_cases import counts

import psgld
from psgld import DSGLD, PSGLD, FactorModel, Observations
from psgld.dynamics.probes import Probes
from psgld.engines import H, Stretch, W
from psgld.engines.distributed import ranks
from psgld.samplers.langevin import upkeep
from psgld.storage import layout
from psgld.storage import zarr as store

BLOCKS = 4


def soon():
    """Have momentum set in after one cycle instead of thirty."""
    return mock.patch.object(upkeep, "EARLY_CYCLES", 1)


def coo(V, absent="unobserved"):
    i, j = np.nonzero(V)
    return Observations.from_coo(i, j, V[i, j], V.shape, absent=absent)


def weighted(data, zero_weight=1.0):
    w = np.random.default_rng(5).integers(1, 6, data.stored) * 0.7
    return psgld.observations(data, weights=w, zero_weight=zero_weight)


def ratings(rows, cols):
    rng = np.random.default_rng(1)
    i, j = np.nonzero(rng.random((rows, cols)) < 0.3)
    v = 3.5 + rng.normal(size=rows)[i] + rng.normal(size=cols)[j] + rng.normal(size=len(i))
    return Observations.from_coo(i, j, v, (rows, cols), absent="unobserved")


def positive():
    V = np.random.default_rng(3).gamma(2.0, size=(40, 90))
    V[::7, ::5] = np.nan
    return V


CASES = {  # data, model, settings of the sampler
    "dense": lambda: (counts(90, 60), FactorModel(3, "poisson"), {}),
    "large": lambda: (counts(1200, 1000), FactorModel(5, "poisson"), {"schedule": psgld.Reshuffled()}),
    "sparse": lambda: (coo(counts(80, 130, 0.3)), FactorModel(5, "poisson"), {"momentum": 0.0}),
    "ratings": lambda: (ratings(150, 100), FactorModel(4, "gaussian", bias=True), {}),
    "wide": lambda: (ratings(100, 170), FactorModel(4, "gaussian"), {"momentum": 0.0, "dtype": "float64"}),
    "zeros": lambda: (coo(counts(70, 120, 0.2), "zero"), FactorModel(3, "poisson"), {}),
    "weights": lambda: (weighted(coo(counts(70, 120, 0.2), "zero"), 0.5), FactorModel(3, "poisson"), {}),
    "weighted-ratings": lambda: (weighted(ratings(150, 100)), FactorModel(4, "gaussian", bias=True), {}),
    "negative-binomial": lambda: (counts(90, 60), FactorModel(3, "negative-binomial"), {}),
    "bernoulli": lambda: (np.minimum(counts(80, 70), 1.0), FactorModel(3, "bernoulli", bias=True), {}),
    "ordinal": lambda: (np.minimum(counts(80, 70), 4.0), FactorModel(3, "ordinal", bias=True), {}),
    "zero-gaussian": lambda: (coo(counts(120, 70, 0.2), "zero"), FactorModel(3, psgld.Gaussian()), {}),
    "identity": lambda: (
        counts(60, 50),
        FactorModel(3, "poisson"),
        {"metric": "identity", "step_size": 1e-4},
    ),
    "all-given": lambda: (
        counts(60, 50),
        FactorModel(3, "poisson", psgld.Exponential(1.0), psgld.Exponential(1.0)),
        {"metric": "identity", "step_size": 1e-4},
    ),
    "identity-momentum": lambda: (
        coo(counts(60, 70, 0.4)),
        FactorModel(20, "poisson"),
        {"metric": "identity", "step_size": 1e-5, "momentum": 0.8},
    ),
    "gamma": lambda: (
        positive(),
        FactorModel(2, "gamma", psgld.GammaPrior(0.8)),
        {"schedule": psgld.Proportional()},
    ),
    "diverging": lambda: (ratings(150, 100), FactorModel(4, "gaussian"), {"step_size": 3.0}),
    "dsgd": lambda: (ratings(150, 100), FactorModel(4, "gaussian", bias=True), {"sampler": psgld.DSGD}),
    "dsgd-counts": lambda: (
        coo(counts(70, 120, 0.2), "zero"),
        FactorModel(3, "poisson"),
        {"sampler": psgld.DSGD, "schedule": psgld.Reshuffled()},
    ),
    "hops": lambda: (counts(90, 60), FactorModel(3, "poisson"), {"sampler": DSGLD, "exchange": 2}),
    "hops-ratings": lambda: (
        ratings(150, 100),
        FactorModel(4, "gaussian", bias=True),
        {"sampler": DSGLD, "exchange": 3},
    ),
    "hops-wide": lambda: (
        coo(counts(70, 120, 0.4)),
        FactorModel(3, "poisson"),
        {"sampler": DSGLD, "exchange": 1, "size": 0.2, "dtype": "float64"},
    ),
    "hops-gamma": lambda: (
        positive(),
        FactorModel(2, "gamma", psgld.GammaPrior(0.8)),
        {"sampler": DSGLD, "exchange": 4, "metric": "identity", "step_size": 1e-5},
    ),
    "hops-diverging": lambda: (
        ratings(150, 100),
        FactorModel(4, "gaussian"),
        {"sampler": DSGLD, "step_size": 3.0},
    ),
}


def sampler_of(blocks, settings):
    """Return PSGLD, or the sampler that the settings of a case name, with that many strips or workers."""
    settings = dict(settings)
    make = settings.pop("sampler", PSGLD)
    return make(**{"workers" if make is DSGLD else "blocks": blocks}, **settings)


def draw(case, blocks, engine, **changes):
    V, model, settings = CASES[case]()
    plan = {"draws": 3, "tune": 9, "thin": 5, "chains": 2, "seed": 5, "progress": False, **changes}
    track = [0, 3, 7, 20], [1, 0, 9, 30]
    sampler = sampler_of(blocks, settings)
    return psgld.sample(V, model, sampler=sampler, engine=engine, track=track, **plan)


def record(post):
    """Return everything of a posterior as arrays."""
    tables = {"draws": post.draws.arrays(), "stats": post.sample_stats, "warmup": post.warmup}
    found = {
        f"{t}/{n}": a
        for t, table in tables.items()
        for n, a in table.items()
        if a is not None and n != "seconds"
    }
    return found | {"mean": post.tracked.mean, "sd": post.tracked.sd, "divergences": post.divergences}


def compare(out, cases, blocks, threads):
    """Draw by MPI, and write the posteriors for the test to compare with those of threads."""
    engine = psgld.MPI(threads)
    for case in cases.split(","):
        for b in map(int, blocks.split(",")):
            post = draw(case, b, engine)
            found = record(post)
            if engine.rank == 0:
                np.savez(f"{out}/{case}-{b}.npz", **found)
            else:
                assert post.draws.W.shape[1] == 0
                np.savez(f"{out}/{case}-{b}-rank{engine.rank}.npz", **found)
                try:
                    post.save(f"{out}/wrong.npz")
                except psgld.DataError as error:
                    assert "rank 0" in str(error)
                else:
                    raise AssertionError("saved by a rank that has no draws")


def chain_of(case, blocks, engine, key=7):
    V, model, settings = CASES[case]()
    data = psgld.observations(V)
    setup = sampler_of(blocks, settings).prepare(data, model, engine, tune=40)
    return setup.chain(key, Probes.of(data, 10_000), engine)


def count_bytes(out):
    """Write what each rank sent in each iteration, and the size of the strips."""
    engine = psgld.MPI(1)
    for case in ("dense", "sparse", "ratings", "identity"):
        chain = chain_of(case, 6, engine)
        chain.advance(12)  # with momentum by now
        sent = []
        for _ in range(17):
            before = chain.factors.sent["ring"]
            chain.factors.advance(_iteration(chain.setup, chain.iteration))
            chain.iteration += 1
            sent.append(chain.factors.sent["ring"] - before)
        strips = chain.setup.grid.core.inner_strips()[:, 1]
        np.savez(f"{out}/{case}-{engine.rank}.npz", sent=sent, rows=strips)


def count_hops(out):
    """Write what all ranks together sent in each iteration of a chain of DSGLD, and its parts."""
    engine = psgld.MPI(1)
    chain = chain_of("hops", 6, engine)
    chain.advance(12)
    sent, parts = [], [chain.next_part()]
    for _ in range(18):
        before = chain.factors.sent["hops"]
        chain.factors.advance(_iteration(chain.setup, chain.iteration, chain.key))
        chain.iteration += 1
        sent.append(chain.factors.sent["hops"] - before)
        parts.append(chain.next_part())
    sent = [sum(ranks.everyones_number(engine.communicator, int(n))) for n in sent]
    size = sum(chain.factors.core.array(which, "x").nbytes for which in (W, H))
    if engine.rank == 0:
        np.savez(f"{out}/hops.npz", sent=sent, parts=parts, size=size)


def _iteration(setup, done, key=0):
    parts, scales = setup.schedule.parts(done + 1, 1, setup.grid.part_sizes, key)
    return Stretch(done + 1, parts, np.full(1, 1e-9), scales)


def states(out, cases):
    """Write the states of chains, go on from states that are there, and write how far that leads."""
    engine = psgld.MPI(1)
    for case in cases.split(","):
        for name in sorted(n for n in os.listdir(out) if n.startswith(f"{case}-before")):
            chain = chain_of(case, BLOCKS, engine)
            chain.set_state(dict(np.load(f"{out}/{name}")))
            chain.advance(11)
            lp, state = chain.log_posterior(), chain.state()
            if engine.rank == 0:
                np.savez(f"{out}/{name.replace('before', 'after')}", lp=lp, **state)
        chain = chain_of(case, BLOCKS, engine)
        chain.advance(14)
        state = chain.state()
        if engine.rank == 0:
            np.savez(f"{out}/{case}-state.npz", **state)
        for which in (W, H):
            assert np.array_equal(chain.factors.factor(which), chain.factors.factor(which, out=None))


def fail(out, how, rank):
    """Run for ever, but for one rank that fails."""
    engine, rank = psgld.MPI(1), int(rank)
    clock = [0]

    def progress(_):
        raise AssertionError("only rank 0 reports progress")

    def step(t):
        clock[0] += 1
        if clock[0] > 30 and engine.rank == rank:
            with open(f"{out}/failed", "w"):
                pass
            if how == "throw":
                raise ValueError("no more steps")
            os.kill(os.getpid(), 9)
        return 0 * t + 1e-6

    V, model, _ = CASES["dense"]()
    if how == "leave":
        if engine.rank == rank:
            return  # before its first call of psgld
        psgld.sample(V, model, engine=engine, progress=False, draws=5, tune=5)
    elif how == "disagree":
        psgld.sample(V, model, engine=engine, seed=engine.rank // 2, progress=False, draws=5, tune=5)
    elif how == "user":
        psgld.sample(V - 5, model, engine=engine, progress=False)
    elif how == "shard":
        psgld.sample(f"{out}/shards", model, engine=engine, progress=False)
    elif how == "few-workers":
        psgld.sample(V, model, sampler=DSGLD(2), engine=engine, progress=False)
    elif how == "few-blocks":
        psgld.sample(V, model, sampler=PSGLD(1), engine=engine, progress=False)
    else:
        sampler = PSGLD(4, step_size=step)
        seen = progress if engine.rank > 0 else (lambda p: None)
        psgld.sample(
            V, model, sampler=sampler, engine=engine, draws=10**6, chains=1, keep=False, progress=seen
        )
    print("came to an end", file=sys.stderr)


def small_chunks():
    """Have the draws of small factors cut into chunks of rows, as those of large ones are."""
    return mock.patch.object(layout, "_CHUNK", 256)


def stores(out, cases):
    """Draw into stores, and write which chunks of the factors this rank wrote, and which rows of W came to it."""
    engine, written = psgld.MPI(1), []

    def write(files, file, chunk, dtype):
        written.append(str(file))
        return original(files, file, chunk, dtype)

    original = store._write_chunk
    with small_chunks(), mock.patch.object(store, "_write_chunk", write):
        for case in cases.split(","):
            post = draw(case, BLOCKS, engine, store=f"{out}/{case}.zarr", checkpoint_every=0, **STORED[case])
            if engine.rank == 0:
                np.savez(f"{out}/{case}.npz", **record(post))
    np.savez(f"{out}/written-{engine.rank}.npz", written=[n for n in written if "/posterior/" in n])


STORED = {"dense": {}, "ratings": {"store_dtype": "float16"}, "wide": {}, "hops": {}}
"""Cases that are drawn into stores, and what is asked for besides."""


SHARDED = {  # data, model; the columns of "wide" are the outer side, so that entries go from rank to rank
    "tall": lambda: (ratings(150, 100), FactorModel(4, "gaussian", bias=True)),
    "wide": lambda: (ratings(100, 170), FactorModel(4, "gaussian")),
    "zeros": lambda: (coo(counts(70, 120, 0.2), "zero"), FactorModel(3, "poisson")),
    "gamma": lambda: (coo(counts(90, 60, 0.5)), FactorModel(3, "gamma")),
    "negative-binomial": lambda: (coo(counts(90, 60, 0.5)), FactorModel(3, "negative-binomial")),
}


def draw_sharded(case, folder, engine):
    plan = {"draws": 3, "tune": 9, "thin": 5, "chains": 2, "seed": 5, "progress": False}
    data = psgld.Shards.open(f"{folder}/{case}.shards")
    return psgld.sample(data, SHARDED[case]()[1], engine=engine, track=([0, 3, 7], [1, 0, 9]), **plan)


def sharded(out):
    """Draw from shards, and write which strips this rank opened."""
    engine, opened = psgld.MPI(1), set()

    def see(event, details):
        if event == "open":
            found = re.search(r"/(?:indices|values)/c/(\d+)/", str(details[0]))
            opened.update([int(found[1])] if found else [])

    sys.addaudithook(see)
    for case in SHARDED:
        opened.clear()
        post = draw_sharded(case, out, engine)
        np.savez(f"{out}/{case}-{engine.rank}.npz", opened=sorted(opened), **record(post))


def interrupted(out):
    """Be interrupted on one rank: all stop, and keep the same draws."""
    import signal

    engine = psgld.MPI(1)

    def seen(progress):
        if progress.done > 500:
            os.kill(os.getpid(), signal.SIGINT)

    V, model, _ = CASES["dense"]()
    post = psgld.sample(V, model, engine=engine, draws=10**5, thin=20, tune=50, chains=2, progress=seen)
    np.savez(f"{out}/{engine.rank}.npz", draws=post.draws.phi.shape[1], interrupted=post.interrupted)


COMMANDS = {
    "compare": compare,
    "bytes": count_bytes,
    "hops": count_hops,
    "states": states,
    "fail": fail,
    "interrupted": interrupted,
    "stores": stores,
    "sharded": sharded,
}

if __name__ == "__main__":
    name, folder, *options = sys.argv[1:]
    known = dict(option.split("=") for option in options)
    if "threads" in known:
        known["threads"] = int(known["threads"])
    with soon():
        COMMANDS[name](folder, **known)
