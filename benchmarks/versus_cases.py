"""One case of `benchmarks.versus` in this process: a round per line read, its processor time per line printed.

Started by the Python of any checkout, so it uses public names alone.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

import psgld

try:
    from psgld.dynamics.probes import Probes
except ImportError:  # before psgld had folders
    from psgld.probes import Probes  # type: ignore[no-redef]

Work = Callable[[], object]

_RANK = 32
_SIZE, _BLOCKS = 1024, 32
_SHAPE, _ENTRIES = (71_567, 10_681), 2_000_000
_KEPT = 100


@cache
def _means(n: int) -> NDArray[np.float64]:
    rng = np.random.default_rng(1)
    return np.asarray(rng.exponential(size=(n, _RANK)) @ rng.exponential(size=(_RANK, n)))


@cache
def _cells(shape: tuple[int, int], entries: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return distinct cells whose rows and columns are as popular as U^1.8 and U^3."""
    rng = np.random.default_rng(1)
    rows, cols = (
        rng.permutation(n)[(n * rng.random(2 * entries) ** power).astype(np.int64)]
        for n, power in zip(shape, (1.8, 3.0), strict=True)
    )
    cells = rng.permutation(np.unique(rows * shape[1] + cols))[:entries]
    return cells // shape[1], cells % shape[1]


def _dense(likelihood: Any, n: int = _SIZE) -> psgld.Observations:
    values = likelihood.sample(_means(n), likelihood.phi or 1.0, np.random.default_rng(2))
    return psgld.Observations.from_dense(np.maximum(values, 1e-3 if values.dtype.kind == "f" else 0))


def _sparse(
    absent: Any = "unobserved", shape: tuple[int, int] = _SHAPE, entries: int = _ENTRIES
) -> psgld.Observations:
    rows, cols = _cells(shape, entries)
    values = np.random.default_rng(2).integers(1, 6, len(rows)).astype(np.float32)
    return psgld.Observations.from_coo(rows, cols, values, shape, absent)


def _model(likelihood: Any, rank: int, prior: Any, **settings: Any) -> psgld.FactorModel:
    return psgld.FactorModel(rank, likelihood, prior, prior, **settings)


def _advance(data: psgld.Observations, model: Any, sampler: Any, n: int) -> Work:
    engine = psgld.Threads(1)
    chain = sampler.prepare(data, model, engine, 0).chain(0, Probes.of(data, 0), engine)
    chain.advance(n)
    return partial(chain.advance, n)


def _paper(blocks: int, dtype: str = "float32") -> psgld.PSGLD:
    return psgld.PSGLD(blocks, psgld.Power(1e-6, 0.51), psgld.Identity(), dtype=dtype)


def _counts(rank: int, sampler: Any, n: int, likelihood: Any = None, **sparse: Any) -> Work:
    """Iterations on ratings as counts."""
    model = _model(likelihood or psgld.Poisson(), rank, psgld.Exponential(4.5))
    return _advance(_sparse(**sparse), model, sampler, n)


def _member(likelihood: Any, n: int = 200, metric: Any = None, momentum: float | None = 0.0) -> Work:
    """Iterations of a member of the Tweedie family on the dense problem."""
    sampler = psgld.PSGLD(_BLOCKS, metric=metric or psgld.NonNegative(), momentum=momentum)
    return _advance(_dense(likelihood), _model(likelihood, _RANK, psgld.Exponential(1.0)), sampler, n)


def _real(
    data: psgld.Observations, blocks: int, n: int, momentum: float | None = None, rank: int = 32
) -> Work:
    sampler = psgld.PSGLD(blocks, metric=psgld.RealValued(), momentum=momentum)
    return _advance(data, _model(psgld.Gaussian(phi=1.0), rank, psgld.Normal(3.3)), sampler, n)


@cache
def _posterior(likelihood: str) -> psgld.Posterior:
    """Return a posterior that has not converged: its values do not matter to the time."""
    return psgld.sample(
        _sparse(shape=(4000, 4000), entries=100_000), psgld.FactorModel(50, likelihood),
        tune=50, draws=_KEPT, thin=1, chains=1, engine=psgld.Threads(1), progress=False,
    )  # fmt: skip


def _predict(likelihood: str, n: int, interval: bool) -> Work:
    posterior, (rows, cols) = _posterior(likelihood), np.random.default_rng(1).integers(4000, size=(2, n))
    if interval:
        return lambda: posterior.predict(rows, cols).interval()
    return lambda: posterior.predict(rows, cols).mean


def _fold_in(likelihood: str, rows: int) -> Work:
    rng, n = np.random.default_rng(3), 50 * rows
    cells = np.unique(rng.integers(rows * 4000, size=n))
    V = psgld.Observations.from_coo(
        cells // 4000, cells % 4000, rng.integers(1, 6, len(cells)).astype(np.float32), (rows, 4000)
    )
    posterior = _posterior(likelihood)
    return lambda: posterior.fold_in(V)


def _recommend(policy: Any) -> Work:
    posterior, users = _posterior("gaussian"), np.arange(100)
    return lambda: posterior.recommend(users, 10, policy)


def _imported() -> None:
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    subprocess.run([sys.executable, "-c", "import psgld"], check=True, env=env)


def _sampled(data: psgld.Observations, model: Any, tune: int, draws: int, thin: int, **settings: Any) -> Work:
    return lambda: psgld.sample(
        data, model, tune=tune, draws=draws, thin=thin, chains=1, engine=psgld.Threads(1), progress=False,
        **settings,
    )  # fmt: skip


def _set_up() -> Work:
    rows, cols = _cells(_SHAPE, _ENTRIES)
    values = np.ones(len(rows), np.float32)
    model = _model(psgld.Poisson(), 50, psgld.Exponential(1.0))

    def work() -> None:
        data = psgld.Observations.from_coo(rows, cols, values, _SHAPE)
        psgld.PSGLD(blocks=15).prepare(data, model, psgld.Threads(1), 1000)

    return work


def _gibbs() -> Work:
    data = _dense(psgld.Poisson(), 256)
    return _advance(data, _model(psgld.Poisson(), _RANK, psgld.Exponential(1.0)), psgld.Gibbs(), 4)


def _bpmf(data: psgld.Observations, n: int) -> Work:
    model = _model(psgld.Gaussian(phi=1.0), _RANK, psgld.NormalWishart())
    return _advance(data, model, psgld.BPMFGibbs(), n)


def _small(sampler: Any) -> Work:
    """A run of defaults on a small matrix: most of its time is Python's."""
    model = _model(psgld.Poisson(), 4, psgld.Exponential())
    return _sampled(_dense(psgld.Poisson(), 64), model, 200, 200, 5, sampler=sampler)


CASES: dict[str, Callable[[], Work]] = {
    "import psgld": lambda: _imported,
    "dense, identity": lambda: _member(psgld.Poisson(), metric=psgld.Identity()),
    "dense, non-negative": lambda: _member(psgld.Poisson()),
    "dense, momentum": lambda: _member(psgld.Poisson(), momentum=None),
    "dense, beta 0.5": lambda: _member(psgld.CompoundPoisson(phi=0.5)),
    "dense, gamma": lambda: _member(psgld.Gamma(phi=0.1)),
    "dense, inverse Gaussian": lambda: _member(psgld.InverseGaussian(phi=0.005)),
    "dense, Gaussian": lambda: _member(psgld.Gaussian(phi=4.0)),
    "dense, real-valued": lambda: _real(_dense(psgld.Gaussian(phi=1.0)), _BLOCKS, 200),
    "dense, LD": lambda: _advance(
        _dense(psgld.Poisson()), _model(psgld.Poisson(), _RANK, psgld.Exponential(1.0)), psgld.LD(), 20
    ),
    "dense, SGLD": lambda: _advance(
        _dense(psgld.Poisson()), _model(psgld.Poisson(), _RANK, psgld.Exponential(1.0)), psgld.SGLD(), 100
    ),
    "sparse, K=64": lambda: _counts(64, _paper(15), 15),
    "sparse, K=50": lambda: _counts(50, _paper(15), 15),
    "sparse, K=32": lambda: _counts(32, _paper(15), 15),
    "sparse, K=16": lambda: _counts(16, _paper(15), 15),
    "sparse, float64, K=50": lambda: _counts(50, _paper(15, "float64"), 15),
    "sparse, float64, K=32": lambda: _counts(32, _paper(15, "float64"), 15),
    "sparse, float64, K=8": lambda: _counts(8, _paper(15, "float64"), 15),
    "sparse, momentum": lambda: _counts(32, psgld.PSGLD(15), 15),
    "sparse, real-valued": lambda: _real(_sparse(), 15, 15),
    "sparse, zeros": lambda: _counts(32, psgld.PSGLD(15), 15, absent="zero"),
    "sparse, zeros, Gaussian": lambda: _real(_sparse("zero"), 15, 15),
    "Gibbs": _gibbs,
    "BPMF, dense": lambda: _bpmf(_dense(psgld.Gaussian(phi=1.0), 256), 10),
    "BPMF, sparse": lambda: _bpmf(_sparse(shape=(4000, 4000), entries=200_000), 2),
    "predict, mean": lambda: _predict("gaussian", 20_000, False),
    "predict, interval, Gaussian": lambda: _predict("gaussian", 5_000, True),
    "predict, interval, Poisson": lambda: _predict("poisson", 2_000, True),
    "predict, interval, gamma": lambda: _predict("gamma", 2_000, True),
    "predict, interval, compound": lambda: _predict("compound-poisson", 500, True),
    "recommend, mean": lambda: _recommend("mean"),
    "recommend, ucb": lambda: _recommend(psgld.UCB(1.0)),
    "recommend, Thompson": lambda: _recommend("thompson"),
    "fold in, Poisson": lambda: _fold_in("poisson", 1),
    "fold in, Gaussian": lambda: _fold_in("gaussian", 50),
    "set-up of sparse data": _set_up,
    "sample, draws kept": lambda: _sampled(
        _dense(psgld.Poisson()), _model(psgld.Poisson(), _RANK, psgld.Exponential(1.0)), 0, 50, 10,
        sampler=_paper(_BLOCKS),
    ),
    "sample, small": lambda: _small(psgld.PSGLD()),
    "sample, small, Gibbs": lambda: _small(psgld.Gibbs()),
}  # fmt: skip


def _seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + used.ru_utime + used.ru_stime


def main() -> None:
    warnings.simplefilter("ignore")
    work = CASES[sys.argv[1]]()
    work()
    print("ready", flush=True)
    for _ in sys.stdin:
        before = _seconds()
        work()
        print(_seconds() - before, flush=True)


if __name__ == "__main__":
    main()
