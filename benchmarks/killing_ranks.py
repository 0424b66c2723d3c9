"""`python -m benchmarks.killing_ranks`: kill -9 a random rank at a random moment, resume with another number of ranks.

Each time: the whole job must end within 10 s, with a line that names the rank; the store must be readable, and hold
nothing but draws of the run that was never stopped; and the run that goes on from it must have all of them, bit by bit.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psgld
from psgld.engines.distributed.mpi import launched

from . import killing
from .launch import environment, mpiexec, ranks_of

CASES = ("counts", "ratings", "words", "half", "hops")
MOST_RANKS = 4
_END = 10.0
"""Seconds within which the death of a rank ends the job."""

_AFTER = {
    "its start": None,
    "the store was made": "zarr.json",
    "the first checkpoint": "checkpoints/0.npz",
    "the last chain's first": "checkpoints/1.npz",
}
"""What a run is killed after, and the file of the store that shows it."""

_RANK = re.compile(rb"\0(?:PMI_RANK|OMPI_COMM_WORLD_RANK|PMIX_RANK)=(\d+)\0")


def pids_of_ranks(job: int, word: str) -> dict[int, int]:
    """Return the processes of an MPI job by their ranks: descendants of mpiexec with a word among their arguments."""
    found = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdecimal():
            continue
        try:
            arguments = (folder / "cmdline").read_bytes().split(b"\0")
            rank = _RANK.search(b"\0" + (folder / "environ").read_bytes() + b"\0")
            if rank and word.encode() in arguments and _descends(int(folder.name), job):
                found[int(rank[1])] = int(folder.name)
        except (OSError, ValueError):  # gone meanwhile
            continue
    return found


def _descends(pid: int, ancestor: int) -> bool:
    while pid > 1:
        if pid == ancestor:
            return True
        stat = Path(f"/proc/{pid}/stat").read_text()
        pid = int(stat.rpartition(")")[2].split()[1])
    return False


def trial(
    case: str,
    size: int,
    reference: psgld.Posterior,
    folder: Path,
    moments: random.Random,
    after: str | None = None,
) -> tuple[str, str]:
    """Kill one run and resume it; return what was done, and what is wrong, "" if nothing."""
    ranks, then = moments.randint(1, MOST_RANKS), moments.randint(1, MOST_RANKS)
    # Any moment after one of these: so all phases of a run are met. A job that ended before its moment came is started
    # again, and killed earlier: first sooner after the same phase, then after the one before it.
    after, latest = after or moments.choice(list(_AFTER)), 2.0
    for attempt in range(20):
        if attempt % 5 == 4:
            phases = list(_AFTER)
            after, latest = phases[max(0, phases.index(after) - 1)], 1.0
        store = folder / f"{case}-{moments.getrandbits(32):08x}.zarr"
        victim, when = moments.randrange(ranks), moments.uniform(0.0, latest)
        wrong = _killed(case, size, store, ranks, victim, when, _AFTER[after])
        if wrong is not None:
            break
        latest = 0.7 * when
    else:
        return f"{case:8} {ranks} ranks", "the job always ended before its moment came; give a larger --size"
    moment = f"{when:.2f} s after {after}, {_kept(store)} draws"
    told = f"{case:8} rank {victim} of {ranks} killed {moment}; resumed with {then}"
    if wrong or (wrong := killing.readable(store, reference)):
        return told, wrong
    done = _job(case, size, store, then)
    _, error = done.communicate(timeout=600)
    if done.returncode:
        return told, f"the resumed run failed: {error.decode()[-500:]}"
    end = psgld.load(store)
    differing = killing.differing(end, reference)
    if differing or end.draws.phi.shape != reference.draws.phi.shape or end.settings != reference.settings:
        return told, f"differs in {differing}"
    return told, ""


def _killed(
    case: str, size: int, store: Path, ranks: int, victim: int, when: float, after: str | None
) -> str | None:
    """Start a job, kill one of its ranks; return what was wrong with its end, None if it had ended before."""
    with _job(case, size, store, ranks) as job:
        pids: dict[int, int] = {}
        while (len(pids) < ranks or (after and not (store / after).exists())) and job.poll() is None:
            time.sleep(0.02)
            pids = pids_of_ranks(job.pid, str(store))
        time.sleep(when)
        if job.poll() is not None:
            return None
        try:
            os.kill(pids[victim], 9)
        except ProcessLookupError:
            return None
        killed = time.monotonic()
        _, error = job.communicate(timeout=120)
        seconds = time.monotonic() - killed
    if job.returncode == 0 or _kept(store) == size:
        return None  # it was about to end, and its ranks may have taken leave
    if seconds > _END:
        return f"the job took {seconds:.1f} s to end"
    # A rank that is alone, or that psgld has not taken charge of yet, is not watched.
    if (
        after
        and ranks > 1
        and f"psgld: rank {victim} of {ranks} ended without an error".encode() not in error
    ):
        return f"the job did not name rank {victim}: {error.decode()[-500:]}"
    return ""


def _kept(store: Path) -> int:
    try:
        return int(psgld.load(store).draws.phi.shape[1])
    except psgld.DataError:
        return 0


def _job(case: str, size: int, store: Path, ranks: int) -> subprocess.Popen[bytes]:
    program = mpiexec()
    assert program is not None
    command = ranks_of(ranks, program, "killing_ranks", "--case", case, "--size", size, store)
    root = Path(__file__).parents[1]
    return subprocess.Popen(
        command, cwd=root, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def torture(cases: tuple[str, ...], size: int, kills: int, seed: int) -> int:
    """Kill that many runs, spread over the cases; print each, and return how many went wrong."""
    moments, bad = random.Random(seed), 0
    with tempfile.TemporaryDirectory() as name:
        folder, references = Path(name), {}
        for kill in range(kills):
            case = cases[kill % len(cases)]
            if case not in references:
                references[case] = killing.whole_run(case, size, folder)
            told, wrong = trial(case, size, references[case], folder, moments)
            bad += bool(wrong)
            print(f"{kill + 1:3} {told}: {wrong or 'the same bits'}", flush=True)
    return bad


def main() -> int:
    """Kill `--kills` jobs; or, with a store, be a rank of one."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.killing_ranks", description=__doc__)
    parser.add_argument(
        "store", nargs="?", help="be a rank of a run that writes here and resumes what is there"
    )
    parser.add_argument("--case", choices=CASES)
    parser.add_argument("--size", type=int, default=2000, help="draws a chain")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    if args.store is not None:
        engine = psgld.MPI(1) if launched() else psgld.Threads(1)
        killing.sample(
            args.case, args.size, engine=engine, store=args.store, resume=True, checkpoint_every=0.1
        )
        return 0
    if mpiexec() is None:
        print("no MPI: pip install 'psgld[mpi]'")
        return 0
    bad = torture(CASES if args.case is None else (args.case,), args.size, args.kills, args.seed)
    print(f"{args.kills} kills, {bad} wrong")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
