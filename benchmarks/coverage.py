"""Do intervals hold what they say? `python -m benchmarks.coverage [DIR]`: every likelihood on every real set.

Defaults only, ranks 5 and 30. A tenth of the entries is held out; of these (5,000 at most) are printed the root mean
square error of the mean, the mean log density, and the coverage of the 50, 90 and 99 % intervals,

    share of v inside = |[P(< v), P(≤ v)] ∩ [α/2, 1 - α/2]| / P(= v)

For a density this is 0 or 1. A count, or an exact zero, has a probability of its own, and an interval that must take
all of it or nothing would hold too much by construction: of such a value as much is counted as lies within the
interval. Then the largest R-hat and the smallest effective sample size of μ at 50 cells, per second. Synthetic data of
each likelihood, first, have a right answer. The sets are those of `real_sets.py`; without DIR, those of scikit-learn.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

import psgld
from psgld.datasets import synthetic
from psgld.models import LIKELIHOODS

from .real_sets import SETS, Split, held_out

LEVELS = (0.5, 0.9, 0.99)
_MOST = 5_000
"""Held-out entries that are scored: the standard error of the coverage is below 0.5 %."""

_COUNTS = ("poisson", "negative-binomial")
"""Likelihoods that have no density between the integers: other values get a warning, and are left out here."""


@dataclass(frozen=True)
class Scores:
    """A line of the table."""

    data: str
    likelihood: str
    rank: int
    rmse: float
    log_density: float
    covered: tuple[float, ...]
    rhat: float
    ess_per_second: float
    seconds: float
    verdict: str

    def __str__(self) -> str:
        shares = " | ".join(f"{100 * share:.1f}" for share in self.covered)
        return (
            f"| {self.data} | {self.likelihood} | {self.rank} | {self.rmse:.4g} | {self.log_density:.3f} | {shares} | "
            f"{self.rhat:.2f} | {self.ess_per_second:.3g} | {self.seconds:.1f} | {self.verdict} |"
        )


HEADER = (
    "| data | likelihood | rank | RMSE | log density | 50 % | 90 % | 99 % | R-hat | ESS per s | s | verdict |\n"
    "|---|---|---|---|---|---|---|---|---|---|---|---|"
)


def share_inside(p: psgld.Prediction, values: Any, level: float = 0.9) -> Any:
    """Return the share of each value that lies between the ends of its interval."""
    low, high = (1 - level) / 2, (1 + level) / 2
    below, upto = 1 - p.exceeds(np.nextafter(values, -np.inf)), 1 - p.exceeds(values)
    inside = np.minimum(upto, high) - np.maximum(below, low)
    wide = upto - below > 1e-9
    return np.where(wide, np.clip(inside, 0, None) / np.where(wide, upto - below, 1), inside >= 0)


def scored(name: str, split: Split, model: psgld.FactorModel) -> Scores:
    """Fit by the defaults, and score the held-out entries."""
    start = time.perf_counter()
    post = psgld.sample(split.train, model, progress=False)
    seconds = time.perf_counter() - start
    some = np.random.default_rng(0).permutation(len(split.test[2]))[:_MOST]
    i, j, v = (a[some] for a in split.test)
    p, found = post.predict(i, j), post.diagnose()
    return Scores(
        name,
        model.likelihood.name,
        model.rank,
        float(np.sqrt(np.mean((p.mean - v) ** 2))),
        float(np.mean(p.log_density(v))),
        tuple(float(np.mean(share_inside(p, v, level))) for level in LEVELS),
        float(np.nanmax(found.rhat[1:])),
        float(np.nanmin(found.ess_bulk[1:])) / seconds,
        seconds,
        found.kind,
    )


def lines(name: str, split: Split, likelihoods: list[str], ranks: list[int]) -> Iterator[Scores]:
    """Yield a line per rank and likelihood that admits the values; the models are those of `psgld fit`."""
    counts = np.array_equal(split.train.values, np.rint(split.train.values))
    for likelihood in likelihoods:
        for rank in ranks:
            if likelihood in _COUNTS and not counts:
                continue
            real = not LIKELIHOODS[likelihood]().nonnegative_mean
            try:
                yield scored(name, split, psgld.FactorModel(rank, likelihood, bias=real))
            except psgld.PsgldError as refused:
                print(f"{name}, {likelihood}: {refused}", file=sys.stderr)


def made_up(likelihood: str) -> Split:
    """Return synthetic data of a likelihood."""
    return held_out(synthetic(300, 200, 4, likelihood, seed=1).V)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.coverage", description=__doc__.splitlines()[0]
    )
    parser.add_argument("folder", type=Path, metavar="DIR", nargs="?")
    parser.add_argument("--only", action="append", choices=("synthetic", *SETS), metavar="SET")
    parser.add_argument("--likelihood", action="append", choices=tuple(LIKELIHOODS), metavar="NAME")
    parser.add_argument("--rank", type=int, nargs="+", default=[5, 30])
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    likelihoods = args.likelihood or list(LIKELIHOODS)
    print(
        f"psgld {psgld.__version__}, {date.today()}, {processor()}, {len(os.sched_getaffinity(0))} threads\n"
    )
    print(HEADER, flush=True)
    if not args.only or "synthetic" in args.only:
        for likelihood in likelihoods:
            for line in lines(f"synthetic {likelihood}", made_up(likelihood), [likelihood], [4]):
                print(line, flush=True)
    for name, read in SETS.items():
        if name in (args.only or SETS):
            try:
                split = read(args.folder or Path())
            except OSError as missing:
                print(f"{name}: {missing}", file=sys.stderr)
                continue
            for line in lines(name, split, likelihoods, args.rank):
                print(line, flush=True)


def processor() -> str:
    """Return the name of the processor, where the system tells it."""
    try:
        named = (line for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line)
        return next(named, "").partition(":")[2].strip() or platform.machine()
    except OSError:
        return platform.machine()


if __name__ == "__main__":
    main()
