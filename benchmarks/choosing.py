"""Is the true model found? `python -m benchmarks.choosing [--ranks 5,10,20] [--seeds 1] [--only ranks|likelihoods]`.

Ranks: 300 × 200 matrices, Poisson (mean 20, gamma factors of shape 1/2) and Gaussian (normal factors, noise of sd 2).
`psgld.select_rank` by held-out entries; then the same fits by leave-one-out densities of the entries that they were
trained on; and the number of components in use of a fit of twice the rank. Likelihoods: 100 × 60 matrices of rank 3, a
tenth held out; every likelihood under which all values can occur, by `psgld.compare`.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

import psgld

Floats = NDArray[np.float64]

KINDS = ("poisson", "gaussian", "gamma", "compound-poisson", "negative-binomial")
_RANK, _SHAPE = 3, (100, 60)


def low_rank(kind: str, rank: int, seed: int) -> Floats:
    """Return a 300 × 200 matrix of that rank, with noise."""
    rng, (rows, cols) = np.random.default_rng(seed), (300, 200)
    if kind == "poisson":
        W, H = rng.gamma(0.5, 2.0, (rows, rank)), rng.gamma(0.5, 40.0 / rank, (rank, cols))
        return rng.poisson(W @ H).astype(float)
    W, H = rng.normal(size=(rows, rank)), rng.normal(size=(rank, cols))
    return np.asarray(W @ H + 2.0 * rng.normal(size=(rows, cols)))


def ranks_found(kind: str, rank: int, seed: int) -> tuple[int, int, int]:
    """Return the rank by held-out density, by leave-one-out, and the components in use at twice the rank."""
    train, _ = psgld.split(low_rank(kind, rank, seed), 0.1, seed)
    found = psgld.select_rank(train, model=psgld.FactorModel(1, kind), chains=1, seed=seed)
    left_out = psgld.compare(dict(found.posteriors), train)
    wide = psgld.sample(train, psgld.FactorModel(2 * rank, kind), chains=1, seed=seed)
    return found.posterior.model.rank, left_out.posterior.model.rank, wide.components_in_use


def simulated(kind: str, seed: int) -> Floats:
    """Return a matrix of a likelihood, whose means are about 10."""
    rng = np.random.default_rng(seed)
    mu = rng.gamma(2.0, 1.0, (_SHAPE[0], _RANK)) @ rng.gamma(2.0, 10.0 / (4 * _RANK), (_RANK, _SHAPE[1]))
    parameters = {"gaussian": 4.0, "gamma": 0.2, "compound-poisson": 2.0, "negative-binomial": 4.0}
    theta = (parameters[kind],) if kind in parameters else (1.0,)
    member = psgld.FactorModel(1, kind).likelihood
    return np.asarray(member.sample(mu, *theta[: len(member.parameters)], rng))


def likelihood_found(kind: str, seed: int) -> psgld.Comparison:
    """Return the comparison of all likelihoods under which the values can occur."""
    V = simulated(kind, seed)
    whole = bool((np.rint(V) == V).all())
    members = {name: psgld.FactorModel(1, name).likelihood for name in KINDS}
    fit = [
        name for name, m in members.items() if m.can_occur(V).all() and (whole or not (m.lattice or m.counts))
    ]
    short = {"chains": 1, "draws": 100, "tune": 1000, "thin": 10}
    return psgld.compare(V, ranks=_RANK, likelihoods=fit, seed=seed, **short)


def rows(ranks: list[int], seeds: int, only: str | None) -> Iterator[str]:
    if only != "likelihoods":
        for kind in ("poisson", "gaussian"):
            for rank in ranks:
                for seed in range(seeds):
                    start = time.process_time()
                    held_out, left_out, used = ranks_found(kind, rank, seed)
                    took = time.process_time() - start
                    yield (
                        f"{kind:18} true rank {rank:3}, seed {seed}: {held_out} by held-out density, {left_out} by "
                        f"leave-one-out, {used} in use of {2 * rank}; {took:.0f} s of the processor"
                    )
    if only != "ranks":
        for kind in KINDS:
            found = [likelihood_found(kind, seed) for seed in range(10)]
            names = [f.choice.partition(", ")[2] for f in found]
            wrong = sorted({name for name in names if name != kind})
            yield f"{kind:18} chosen in {names.count(kind)} of 10 seeds" + (
                f"; else {wrong}" if wrong else ""
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--ranks", default="5,10,20")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--only", choices=("ranks", "likelihoods"))
    args = parser.parse_args()
    warnings.simplefilter("ignore", psgld.PsgldWarning)
    for line in rows([int(r) for r in args.ranks.split(",")], args.seeds, args.only):
        print(line, flush=True)


if __name__ == "__main__":
    main()
