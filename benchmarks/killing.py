"""`python -m benchmarks.killing`: kill -9 at random moments, resume, compare with the run that was never stopped.

After every kill the store must be readable, and hold nothing but draws of the uninterrupted run; at the end, all of
them, bit for bit.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import psgld

CASES = ("counts", "ratings", "words", "half", "turns", "hops")


def sample(case: str, size: int, engine: Any = None, **options: Any) -> psgld.Posterior:
    """Return the posterior of a case; `size` draws a chain."""
    rng = np.random.default_rng(0)
    common = {"draws": size, "progress": False, "chains": 2, "seed": 3, "engine": engine}
    if case in ("counts", "half", "turns", "hops"):
        V = rng.poisson(4.0, (300, 200)).astype(np.float64)
        if case == "half" and "store" in options:
            options["store_dtype"] = "float16"
        common["engine"] = engine or psgld.Threads(1 if case == "turns" else 2)
        sampler = psgld.DSGLD(workers=4, exchange=3) if case == "hops" else psgld.PSGLD(blocks=4)
        return psgld.sample(
            V, psgld.FactorModel(8, "poisson"), sampler=sampler, tune=size // 2, thin=6,
            track=([0, 1], [2, 3]), **common, **options,
        )  # fmt: skip
    i, j = np.nonzero(rng.random((500, 400)) < 0.2)
    if case == "ratings":
        v = 3.5 + rng.normal(size=500)[i] + rng.normal(size=400)[j] + rng.normal(size=len(i))
        data = psgld.Observations.from_coo(i, j, v, (500, 400), row_labels=[f"r{n}" for n in range(500)])
        model = psgld.FactorModel(6, "gaussian", bias=True)
        return psgld.sample(
            data, model, sampler=psgld.PSGLD(blocks=4), tune=size // 2, thin=4, **common, **options
        )
    v = rng.poisson(3.0, len(i)).astype(np.float64)
    data = psgld.Observations.from_coo(i, j, v, (500, 400), absent="zero")
    sampler = psgld.PSGLD(blocks=4, schedule=psgld.Reshuffled(), dtype="float64")
    return psgld.sample(
        data, psgld.FactorModel(6, "poisson"), sampler=sampler, tune=size // 2, thin=4, **common, **options
    )


def differing(one: psgld.Posterior, whole: psgld.Posterior) -> list[str]:
    """Return the arrays in which the draws of a run differ from the first ones of another; times always do."""
    n = one.draws.phi.shape[1]
    keys = whole.settings["keys"]
    chains = list(range(len(keys))) if one.chains == len(keys) else None
    wrong = []
    for group, other in ((one.draws.arrays(), whole.draws.arrays()), (one.sample_stats, whole.sample_stats)):
        for name, array in group.items():
            if array is None or name == "seconds":
                continue
            if chains is None:  # some chains have no draws yet: each must be one of the whole run
                same = all(any(np.array_equal(a, b[:n], equal_nan=True) for b in other[name]) for a in array)
            else:
                same = np.array_equal(array, other[name][:, :n], equal_nan=True)
            if not same:
                wrong.append(name)
    return wrong


def killed(case: str, size: int, kills: int, folder: Path, random: random.Random) -> Iterator[str]:
    """Kill and resume a run; yield what happened to each kill, "" if nothing was wrong."""
    store = folder / f"{case}.zarr"
    start = time.monotonic()
    reference = whole_run(case, size, folder)
    seconds = time.monotonic() - start
    for _ in range(kills):
        process = _process(case, size, store)
        # Most of the time goes to starting Python: from there on, any moment.
        time.sleep(random.uniform(0.2, 0.7) * seconds)
        process.kill()
        process.wait()
        yield readable(store, reference)
    if _process(case, size, store).wait() != 0:
        yield "the last run failed"
        return
    end = psgld.load(store)
    wrong = differing(end, reference)
    if wrong or end.draws.phi.shape != reference.draws.phi.shape or end.settings != reference.settings:
        yield f"{case}: differs in {wrong}"


def whole_run(case: str, size: int, folder: Path) -> psgld.Posterior:
    """Return the run that nobody stops."""
    whole = folder / f"{case}-whole.zarr"
    _process(case, size, whole).wait()
    return psgld.load(whole)


def readable(store: Path, reference: psgld.Posterior) -> str:
    """Return what is wrong with a store after a kill, "" if nothing."""
    if not store.exists():
        return ""  # killed before there was one
    try:
        found = psgld.load(store)
    except psgld.DataError as error:
        return "" if "no draws yet" in str(error) else str(error)
    wrong = differing(found, reference)
    return f"draws of {store} differ in {wrong}" if wrong else ""


def _process(case: str, size: int, store: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "benchmarks.killing", "--case", case, "--size", str(size), str(store)]
    return subprocess.Popen(command, cwd=Path(__file__).parents[1])


def main() -> int:
    """Kill `--kills` runs, spread over the cases; or, with a store, be one of those runs."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.killing", description=__doc__)
    parser.add_argument("store", nargs="?", help="be a run that writes here and resumes what is there")
    parser.add_argument("--case", choices=CASES)
    parser.add_argument("--size", type=int, default=3000, help="draws a chain")
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    if args.store is not None:
        sample(args.case, args.size, store=args.store, resume=True, checkpoint_every=0.1)
        return 0
    cases = CASES if args.case is None else (args.case,)
    moments, bad = random.Random(args.seed), 0
    with tempfile.TemporaryDirectory() as folder:
        for number, case in enumerate(cases):
            kills = args.kills // len(cases) + (number < args.kills % len(cases))
            wrong = [w for w in killed(case, args.size, kills, Path(folder), moments) if w]
            bad += len(wrong)
            print(
                f"{case:10} {kills} kills, {len(wrong)} wrong",
                *wrong,
                sep="\n  " if wrong else " ",
                flush=True,
            )
    print(f"{args.kills} kills, {bad} wrong")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
