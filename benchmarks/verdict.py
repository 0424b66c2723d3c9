"""The verdict against the truth: runs with step sizes from 1/30 to 100 times the default, on small problems.

    python -m benchmarks.verdict [--runs N] [--workers N]

The answer of each problem is that of the Gibbs sampler (Poisson), or of long chains with a quarter of the default step
size, with the mean and the standard deviation (sd) of μ at every cell. A run is *off* if one of these holds:

    mean off   median over cells of |mean - answer|, over the root mean square of the answer, > 10 %
    sd off     median over cells of sd / answer is below 0.75 or above 1.25

Medians over a hundred cells and more, so that the Monte Carlo error of both is some percent: it is printed for the
answers, as the same numbers of one half of their chains against the other. "Converged" must never be said of a run that
is off, and must be said of at least 90 % of the runs with all defaults.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

import psgld

FACTORS = (1 / 30, 1 / 10, 1 / 3, 3.0, 10.0, 30.0, 100.0)
SAMPLERS: dict[str, Callable[..., Any]] = {
    "PSGLD": partial(psgld.PSGLD, blocks=4),
    "PSGLD identity": partial(psgld.PSGLD, blocks=4, metric="identity"),
    "LD": psgld.LD,
    "LD identity": partial(psgld.LD, metric="identity"),
    "SGLD": partial(psgld.SGLD, size=1 / 4),
    "DSGLD": partial(psgld.DSGLD, workers=4, exchange=4),
}
LIKELIHOODS = {
    "Poisson": psgld.Poisson(),
    "Gaussian": psgld.Gaussian(1.0),
    "Gamma": psgld.Gamma(0.5),
    "CompoundPoisson": psgld.CompoundPoisson(0.5, 1.0),
    "NegativeBinomial": psgld.NegativeBinomial(5.0),
    "Bernoulli": psgld.Bernoulli(),
}
SHAPES = ((12, 10, 2), (20, 16, 3))
SWEEP = {"draws": 400, "thin": 40, "tune": 1000}
"""Long enough for small data that effective sample sizes of 400 are reached at the default step size."""

MEAN_OFF, SD_OFF = 0.10, 0.25


@dataclass(frozen=True)
class Problem:
    """A likelihood and a shape; the data are a function of both."""

    likelihood: str
    shape: tuple[int, int, int]

    learnt: bool = False
    """Whether the rates of the priors are learnt, as they are by default."""

    @property
    def model(self) -> psgld.FactorModel:
        """The likelihood, with priors of rate 1, or the default priors."""
        likelihood = LIKELIHOODS[self.likelihood]
        prior = (
            None
            if self.learnt
            else psgld.Normal(1.0)
            if likelihood.signed or likelihood.normal
            else psgld.Exponential(1.0)
        )
        return psgld.FactorModel(self.shape[2], likelihood, prior, prior)

    @property
    def V(self) -> Any:
        """The data, drawn from the model with priors of rate 1."""
        rng = np.random.default_rng(1)
        rows, cols, rank = self.shape
        likelihood = LIKELIHOODS[self.likelihood]
        draw = rng.normal if likelihood.signed or likelihood.normal else rng.gamma
        W, H = draw(1.0, 1.0, (rows, rank)), draw(1.0, 1.0, (rank, cols))
        theta = tuple(getattr(likelihood, name) for name in likelihood.parameters)
        return likelihood.sample(W @ H, *theta, rng)

    @property
    def cells(self) -> tuple[Any, Any]:
        """All rows and columns."""
        rows, cols = np.indices(self.shape[:2]).reshape(2, -1)
        return rows, cols


@dataclass(frozen=True)
class Run:
    """A sampler on a problem, with `factor` times its default step size; sampler None: all defaults."""

    problem: Problem
    sampler: str | None
    factor: float = 1.0
    seed: int = 0

    def settings(self, V: Any) -> Any:
        """Return the sampler."""
        if self.sampler is None:
            return psgld.PSGLD()
        make = SAMPLERS[self.sampler]
        return (
            make()
            if self.factor == 1.0
            else make(step_size=scaled(make(), V, self.problem.model, self.factor))
        )


class Moments(NamedTuple):
    """Mean and sd of μ at every cell."""

    mean: Any
    sd: Any


@dataclass(frozen=True)
class Outcome:
    """The verdict, and how far the run is from the answer."""

    kind: str
    mean: float
    sd: float
    divergences: int
    spread: float
    seconds: float

    @property
    def off(self) -> bool:
        """Whether the run is off."""
        return self.mean > MEAN_OFF or not 1 - SD_OFF <= self.sd <= 1 + SD_OFF


def scaled(sampler: Any, V: Any, model: psgld.FactorModel, factor: float) -> Any:
    """Return the default step size of a sampler times a factor."""
    base = sampler.prepare(psgld.observations(V), model, psgld.Threads(1), 3000).step_size
    return psgld.Decay(base.first * factor, base.last * factor, base.over)


def answer(problem: Problem) -> list[Moments]:
    """Return the mean and sd of μ of each cell, from two independent halves."""
    V, model = problem.V, problem.model
    if problem.likelihood == "Poisson":
        sampler, plan = psgld.Gibbs(), {"tune": 1000, "thin": 5, "draws": 3000}
    else:
        sampler = psgld.LD(step_size=scaled(psgld.LD(), V, model, 0.25))
        plan = {"tune": 4000, "thin": 20, "draws": 1000}
    settings = {**plan, "chains": 2, "progress": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        runs = [
            psgld.sample(V, model, sampler=sampler, engine=psgld.Threads(1), seed=100 + s, **settings)
            for s in (0, 1)
        ]
    return [moments(run, problem) for run in runs]


def moments(post: psgld.Posterior, problem: Problem) -> Moments:
    """Return mean and sd of μ at every cell."""
    found = post.predict(*problem.cells)
    return Moments(found.mean, found.sd)


def errors(found: Moments, mean: Any, sd: Any) -> tuple[float, float]:
    """Return the two numbers that say whether a run is off."""
    size = np.sqrt(np.mean(mean**2))
    return float(np.median(np.abs(found.mean - mean)) / size), float(np.median(found.sd / sd))


def outcome(run: Run, halves: list[Moments]) -> Outcome:
    """Sample, and compare with the answer."""
    mean = np.mean([h.mean for h in halves], axis=0)
    sd = np.sqrt(np.mean([h.sd**2 for h in halves], axis=0))
    V, begin = run.problem.V, time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            post = psgld.sample(
                V, run.problem.model, sampler=run.settings(V), engine=psgld.Threads(1), seed=run.seed,
                progress=False, **({} if run.sampler is None else SWEEP),
            )  # fmt: skip
        except psgld.SamplingError:
            return Outcome("error", np.nan, np.nan, 0, np.nan, time.perf_counter() - begin)
    spread = max(square for square, _ in post.settings["fit"]["spread"].values())
    return Outcome(
        post.diagnose().kind,
        *errors(moments(post, run.problem), mean, sd),
        post.divergences,
        spread,
        time.perf_counter() - begin,
    )


def plan(number: int) -> list[Run]:
    """Return that many runs: those with defaults first, then all samplers, likelihoods and step sizes in turn."""
    defaults = [
        Run(Problem(name, SHAPES[n % 2], True), None, seed=n) for name in LIKELIHOODS for n in range(4)
    ]
    sweep = [
        Run(Problem(name, SHAPES[(i + j + k) % len(SHAPES)]), sampler, factor)
        for i, factor in enumerate((*FACTORS, 1.0))
        for j, sampler in enumerate(SAMPLERS)
        for k, name in enumerate(LIKELIHOODS)
    ]
    order = np.random.default_rng(0).permutation(len(defaults) + len(sweep))[:number]
    return [(defaults + sweep)[i] for i in order]


def report(done: list[tuple[Run, Outcome]]) -> None:
    """Print the table of confusion, and the runs that break a rule."""
    print("\nverdict     right    off   (runs)")
    table = Counter((o.kind, o.off) for _, o in done)
    for kind in ("fine", "slow", "modes", "biased", "unknown", "error"):
        print(f"{kind:10} {table[kind, False]:6} {table[kind, True]:6}")
    fooled = [(run, o) for run, o in done if o.kind == "fine" and o.off]
    usual = [o for run, o in done if run.sampler is None]
    fine = sum(o.kind == "fine" for o in usual)
    print(f"\nconverged, but off: {len(fooled)}")
    for run, o in fooled:
        print("  ", run, o)
    if usual:
        print(f"converged with all defaults: {fine} of {len(usual)} ({fine / len(usual):.0%})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=312, help="number of runs, of 312")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=1e6, help="report what is done after that time")
    args = parser.parse_args()
    runs, end, done = plan(args.runs), time.monotonic() + 60 * args.minutes, []
    pool = ProcessPoolExecutor(args.workers)
    answers = {
        problem: pool.submit(answer, problem) for problem in dict.fromkeys(run.problem for run in runs)
    }
    for problem, future in answers.items():
        one, other = future.result()
        mean, sd = errors(one, other.mean, other.sd)
        print(
            f"answer {problem.likelihood:16} {problem.shape}: halves differ by {mean:.1%}, sd ratio {sd:.3f}",
            flush=True,
        )
    futures = {pool.submit(outcome, run, answers[run.problem].result()): run for run in runs}
    try:
        for future in as_completed(futures, timeout=max(end - time.monotonic(), 1.0)):
            run, o = futures[future], future.result()
            done.append((run, o))
            name = f"{run.problem.likelihood} {run.problem.shape} {run.sampler or 'all defaults'} × {run.factor:.3g}"
            print(
                f"{name:60} {o.kind:8} {'OFF' if o.off else '   '} mean {o.mean:6.1%} sd {o.sd:.2f} "
                f"spread² {o.spread:.2f} divergences {o.divergences} {o.seconds:.0f} s", flush=True,
            )  # fmt: skip
    except TimeoutError:
        print(f"{len(done)} of {len(runs)} runs in {args.minutes:g} minutes")
    pool.shutdown(wait=False, cancel_futures=True)
    report(done)


if __name__ == "__main__":
    main()
