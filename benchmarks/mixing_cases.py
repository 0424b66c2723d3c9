"""One case of `benchmarks.mixing` in this process; prints its figures as JSON. Started by the Python of any checkout.

    python mixing_cases.py CASE DIR FILE [--reference] [--quick]

μ at the cells of every draw is written to FILE.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from arviz_stats.base import array_stats
from numpy.typing import NDArray

import psgld

try:
    from psgld.dynamics.probes import Probes
    from psgld.runs.inputs import usual_plan
except ImportError:  # before psgld had folders
    from psgld.probes import Probes  # type: ignore[no-redef]

    from psgld.sample import _usual  # type: ignore[attr-defined]

    def usual_plan(sampler: Any, data: Any, components: int, *_: Any) -> Any:  # type: ignore[misc]
        return Plan(*_usual(sampler, data, components))


class Plan(NamedTuple):
    """The default plan."""

    tune: int
    thin: int


class Problem(NamedTuple):
    """Data, model, held-out (rows, columns, values), passes between draws, draws; a reference has twice both."""

    data: psgld.Observations
    model: psgld.FactorModel
    test: tuple[NDArray[Any], NDArray[Any], NDArray[Any]]
    passes: int
    draws: int


_CELLS = 400
_REFERENCE = {"blocks": 1, "step_size": 0.2, "momentum": 0.93}
"""One part, so that no gradient is noisy, and a step that is small for it."""

_NONE = (np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.float32))


def _movielens(rank: int, folder: Path) -> Problem:
    import zipfile

    with zipfile.ZipFile(folder / "ml-1m.zip") as archive, archive.open("ml-1m/ratings.dat") as lines:
        table = np.loadtxt((line.replace(b"::", b" ") for line in lines), dtype=np.int64, usecols=(0, 1, 2))
    rows, cols = (np.unique(table[:, n], return_inverse=True)[1] for n in (0, 1))
    shape = (int(rows.max()) + 1, int(cols.max()) + 1)
    data = psgld.Observations.from_coo(rows, cols, table[:, 2].astype(np.float32), shape, "unobserved")
    return Problem(data, psgld.FactorModel(rank, psgld.Gaussian(), bias=True), _NONE, 1, 400)


def _counts(n: int, rank: int = 32) -> Problem:
    rng = np.random.default_rng(1)
    mu = rng.exponential(size=(n, rank)) @ rng.exponential(size=(rank, n))
    V = psgld.Poisson().sample(mu, 1.0, np.random.default_rng(2)).astype(np.float32)
    prior = psgld.Exponential(1.0)
    return Problem(
        psgld.Observations.from_dense(V),
        psgld.FactorModel(rank, psgld.Poisson(), prior, prior),
        _NONE,
        4,
        500,
    )


def _very_sparse(rows: int, cols: int, entries: int, rank: int = 8) -> Problem:
    """Return ratings of rows and columns whose popularities are Pareto variates of shape 1.2."""
    rng = np.random.default_rng(3)
    i, j = (rng.choice(n, int(1.3 * entries), p=_heavy(rng, n)) for n in (rows, cols))
    cells = rng.permutation(np.unique(i * cols + j))[: entries + entries // 10]
    i, j = cells // cols, cells % cols
    W, H = rng.normal(size=(rows, rank)), rng.normal(size=(cols, rank))
    mu = 7 + 0.6 * (rng.normal(size=rows)[i] + rng.normal(size=cols)[j]) + 0.35 * (W[i] * H[j]).sum(1)
    v = rng.normal(mu, 1.2).astype(np.float32)
    data = psgld.Observations.from_coo(i[:entries], j[:entries], v[:entries], (rows, cols), "unobserved")
    test = i[entries:][:4000], j[entries:][:4000], v[entries:][:4000]
    return Problem(data, psgld.FactorModel(rank, psgld.Gaussian(), bias=True), test, 2, 200)


def _heavy(rng: np.random.Generator, n: int) -> NDArray[np.float64]:
    weight = 1 + rng.pareto(1.2, n)
    share = np.minimum(weight / weight.sum(), 0.02)
    return np.asarray(share / share.sum())


CASES: dict[str, Callable[[Path, bool], Problem]] = {
    "MovieLens-1M, rank 32": lambda folder, quick: _movielens(2 if quick else 32, folder),
    "MovieLens-1M, rank 64": lambda folder, quick: _movielens(2 if quick else 64, folder),
    "dense Poisson, 256²": lambda _, quick: _counts(32 if quick else 256),
    "dense Poisson, 1024²": lambda _, quick: _counts(48 if quick else 1024),
    "78,000 × 186,000, 390,000 entries": lambda _, quick: (
        _very_sparse(780, 1860, 3900) if quick else _very_sparse(78_000, 186_000, 390_000)
    ),
}


def _probes(problem: Problem) -> Any:
    """Return random cells, then the held-out ones, for the chain to read μ at."""
    data, rng = problem.data, np.random.default_rng(0)
    rows, cols = (
        np.concatenate([rng.integers(n, size=_CELLS), held]).astype(np.int64)
        for n, held in zip(data.shape, problem.test[:2], strict=True)
    )
    values = np.full(len(rows), float(np.mean(data.values if data.dense is None else data.dense)))
    try:
        return Probes((rows, cols), values, data.size)
    except TypeError:  # before psgld had modes
        return Probes(rows, cols, values, data.size)  # type: ignore[call-arg, arg-type]


def _order(chain: Any, probes: Any) -> NDArray[np.int64]:
    """Return where the chain keeps each of the cells."""
    index = (probes.index,) if hasattr(probes, "index") else (probes.rows, probes.cols)
    return np.argsort(chain.factors.order(*index))


def effective(mu: NDArray[Any]) -> float:
    """Return the effective number of draws, the median over 200 cells."""
    columns = mu[:, : min(_CELLS, 200)].T.astype(np.float64)
    return float(np.median([array_stats.ess(x[None], chain_axis=0, draw_axis=1) for x in columns]))


def measure(problem: Problem, reference: bool, quick: bool) -> tuple[dict[str, float], NDArray[Any]]:
    """Run a chain on one thread; return processor times, effective draws, coverage, and μ at the cells."""
    sampler, longer = psgld.PSGLD(**(_REFERENCE if reference else {})), 2 if reference else 1
    cycle, engine, probes = sampler.cycle(problem.data), psgld.Threads(1), _probes(problem)
    plan = usual_plan(sampler, problem.data, problem.model.components, None, None, None)
    tune = 50 if quick else max(plan.tune, 200 * cycle)
    thin, draws = longer * problem.passes * cycle, 20 if quick else longer * problem.draws
    chain: Any = sampler.prepare(problem.data, problem.model, engine, tune).chain(1, probes, engine)
    start = time.process_time()
    chain.advance(tune)
    burn_in, seconds = time.process_time() - start, 0.0
    mu, phi = np.empty((draws, len(probes.values)), np.float32), np.empty(draws)
    for d in range(draws):
        start = time.process_time()
        chain.advance(thin)
        seconds += time.process_time() - start
        mu[d], phi[d] = chain.probes.means(), chain.hyper.phi
    mu = mu[:, _order(chain, probes)]
    found = {"burn_in": burn_in, "seconds": seconds, "ess": effective(mu), "blocks": cycle}
    if len(problem.test[2]):
        at = mu[:, _CELLS:] + float(np.asarray(chain.setup.shift))
        spread = 1.645 * np.sqrt(at.var(axis=0) + phi.mean())
        found["covered"] = float(np.mean(np.abs(problem.test[2] - at.mean(axis=0)) < spread))
    return found, mu[:, :_CELLS]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("case", choices=CASES)
    parser.add_argument("folder", type=Path)
    parser.add_argument("file", type=Path)
    parser.add_argument("--reference", action="store_true")
    parser.add_argument("--quick", action="store_true")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    problem = CASES[args.case](args.folder, args.quick)
    found, mu = measure(problem, args.reference, args.quick)
    np.save(args.file, mu)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
