"""`python -m benchmarks.together`: several processes on the same files at once, at random offsets.

In every round 2 to 4 processes start on what a target has set up. Each must end as if it were alone, bit for bit, or
say in one line why it does not. A target is a line of `TARGETS`.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

import psgld

_WORKER = """
import hashlib, sys
import numpy as np, psgld, zarr

def digest(post):
    sums = hashlib.sha256()
    for array in (post.W, post.H, post.sample_stats["lp"]):
        sums.update(array.tobytes())
    return sums.hexdigest()

print("ready", flush=True)
sys.stdin.readline()
"""
"""What every process does first, so that all are awake before the first one starts."""


class Output(NamedTuple):
    """How a process ended."""

    code: int
    out: str
    err: str


@dataclass(frozen=True)
class Target:
    """Something that several processes use at once."""

    setup: Callable[[Path], object]
    """Writes into an empty folder what the processes find."""
    command: str
    """The code of a process, run in that folder after `import psgld`; `digest(post)` is at hand."""
    check: Callable[[Path, list[Output], Output], list[str]]
    """Tells what is wrong, from the folder, the outputs, and that of a process that ran alone."""
    spread: float = 0.05
    """Seconds between the first and the last start, at most."""


def entries() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return rows, columns and values of a small problem whose blocks take some milliseconds to write."""
    rng = np.random.default_rng(0)
    rows, cols = np.divmod(np.sort(rng.choice(2000 * 600, 100_000, replace=False)), 600)
    return rows, cols, rng.normal(size=len(rows))


def write_shards(folder: Path) -> psgld.Shards:
    """Write shards without blocks."""
    return psgld.shard(iter([entries()]), folder / "shards", blocks=8, shape=(2000, 600), absent="unobserved")


def write_blocks(folder: Path) -> Path:
    """Write shards, and the blocks that a run leaves beside them."""
    psgld.sample(
        write_shards(folder), psgld.FactorModel(3, "gaussian"), draws=1, tune=1, chains=1, progress=False
    )
    (blocks,) = (folder / "shards" / "blocks").glob("*.bin")
    return blocks


def write_damaged_blocks(folder: Path) -> None:
    """Write shards and blocks of which some bytes are wrong."""
    blocks = write_blocks(folder)
    damaged = bytearray(blocks.read_bytes())
    damaged[1000:1100] = bytes([0xA5]) * 100
    blocks.write_bytes(damaged)


def write_left_over(folder: Path) -> None:
    """Write shards beside which a writer of blocks was killed."""
    write_shards(folder)
    (folder / "shards" / "blocks").mkdir()
    (folder / "shards" / "blocks" / "blocks-0123456789abcdef-0.bin-0.part").write_bytes(bytes(1000))


def share_blocks(folder: Path, outputs: list[Output], alone: Output, said: str = "") -> list[str]:
    """All must have the draws of the run alone; one file of blocks stays, nothing else."""
    wrong = [
        f"exit code {output.code}, {output.out.strip()[:12]}, {output.err.strip()[-300:]}"
        for output in outputs
        if output.code or output.out != alone.out or (output.err and (not said or said not in output.err))
    ]
    left = sorted(path.name for path in (folder / "shards" / "blocks").iterdir())
    if len(left) != 1 or not left[0].endswith(".bin"):
        wrong.append(f"left beside the shards: {left}")
    return wrong


def share_damaged_blocks(folder: Path, outputs: list[Output], alone: Output) -> list[str]:
    """As `share_blocks`; who found the damage says so."""
    return share_blocks(folder, outputs, alone, said="are written again")


_ON_SHARDS = """
model = psgld.FactorModel(3, "gaussian")
settings = {"draws": 3, "tune": 16, "thin": 2, "chains": 1, "progress": False, "engine": psgld.Threads(1)}
print(digest(psgld.sample("shards", model, **settings)))
"""


def write_nothing(folder: Path) -> None:
    """Leave the folder empty."""


def write_some_draws(folder: Path) -> None:
    """Write the store of a run that has half of its draws."""
    finish([start(_ON_STORE.replace("draws=40", "draws=20"), folder)], [0.0])


def one_line(output: Output) -> str | None:
    """Return the last line of an error of psgld's; None if it is something else."""
    last = output.err.strip().splitlines()[-1:]
    return last[0] if last and last[0].startswith("psgld.errors.DataError: ") else None


def one_wins(words: str, made: str) -> Callable[[Path, list[Output], Output], list[str]]:
    """Return a check: whoever comes to an end has the bits of the run alone, the others say in `words` why not."""

    def check(folder: Path, outputs: list[Output], alone: Output) -> list[str]:
        wrong = [
            f"exit code {output.code}, {output.out.strip()[:12]}, {output.err.strip()[-300:]}"
            for output in outputs
            if (output.out != alone.out if output.code == 0 else words not in (one_line(output) or ""))
        ]
        if all(output.code for output in outputs):
            wrong.append("nobody came to an end")
        left = sorted(path.name for path in folder.iterdir())
        if left != [made]:
            wrong.append(f"left behind: {left}")
        (again,) = finish([start(_READ[made], folder)], [0.0])
        if again.out != alone.out:
            wrong.append(f"read again: {again.out.strip()[:12]}, {again.err.strip()[-300:]}")
        return wrong

    return check


_SETTINGS = "V = np.random.default_rng(0).poisson(4.0, (60, 40)); model = psgld.FactorModel(3, 'poisson')\n"
_ON_STORE = _SETTINGS + (
    "settings = dict(draws=40, tune=200, progress=False, engine=psgld.Threads(1), checkpoint_every=0.02)\n"
    "post = psgld.sample(V, model, store='run.zarr', resume=True, **settings)\n"
    "print(digest(post))\n"
)
_WITH_READERS = _ON_STORE.replace(
    "print(",
    "for _ in range(20): psgld.load('run.zarr')\nassert digest(psgld.load('run.zarr')) == digest(post)\nprint(",
)
_TO_FILE = _SETTINGS + (
    "post = psgld.sample(V, model, draws=10, tune=50, progress=False, engine=psgld.Threads(1))\n"
    "for _ in range(10): post.save('run.npz'); psgld.load('run.npz')\n"
    "print(digest(post))\n"
)
_TO_SAVED = _SETTINGS + (
    "post = psgld.sample(V, model, draws=10, tune=50, progress=False, engine=psgld.Threads(1))\n"
    "post.save('saved.zarr')\n"
    "print(digest(post))\n"
)
_TO_SHARDS = _SETTINGS + (
    "found = psgld.shard(V + 1.0, 'shards', blocks=4)\nprint(found.load().fingerprint())\n"
)
_READ = {
    "run.zarr": "print(digest(psgld.load('run.zarr')))",
    "run.npz": "print(digest(psgld.load('run.npz')))",
    "saved.zarr": "print(digest(psgld.load('saved.zarr')))",
    "shards": "print(psgld.Observations.from_shards('shards').fingerprint())",
}
"""How what was made is looked at when all is over."""

_BUSY = "is being written by another run (process"

TARGETS = {
    "store": Target(write_nothing, _ON_STORE, one_wins(_BUSY, "run.zarr")),
    "store that goes on": Target(write_some_draws, _ON_STORE, one_wins(_BUSY, "run.zarr")),
    "store and readers": Target(write_some_draws, _WITH_READERS, one_wins(_BUSY, "run.zarr")),
    "saved file": Target(write_nothing, _TO_FILE, one_wins("nobody may fail", "run.npz")),
    "saved store": Target(write_nothing, _TO_SAVED, one_wins("cannot write saved.zarr", "saved.zarr")),
    "sharding": Target(write_nothing, _TO_SHARDS, one_wins("exists; give another path", "shards")),
    "shards": Target(write_shards, _ON_SHARDS, share_blocks),
    "shards with blocks": Target(write_blocks, _ON_SHARDS, share_blocks),
    "shards with damaged blocks": Target(write_damaged_blocks, _ON_SHARDS, share_damaged_blocks),
    "shards and left-over files": Target(write_left_over, _ON_SHARDS, share_blocks),
}


def start(code: str, folder: Path) -> subprocess.Popen[str]:
    """Start a process that waits for a line when it is ready."""
    pipe = subprocess.PIPE
    argv = [sys.executable, "-c", _WORKER + code]
    return subprocess.Popen(argv, cwd=folder, stdin=pipe, stdout=pipe, stderr=pipe, text=True)


def finish(processes: list[subprocess.Popen[str]], offsets: list[float]) -> list[Output]:
    """Let processes go, each so many seconds after the one before, and wait for them."""
    for process in processes:
        assert process.stdout is not None
        process.stdout.readline()
    for process, offset in zip(processes, offsets, strict=True):
        time.sleep(offset)
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    ended = [process.communicate(timeout=120) for process in processes]
    return [Output(process.returncode, *text) for process, text in zip(processes, ended, strict=True)]


def rounds(target: Target, number: int, seed: int) -> Iterator[list[str]]:
    """Yield what is wrong in each round: nothing, if all is well."""
    moments = random.Random(seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        target.setup(folder)
        (alone,) = finish([start(target.command, folder)], [0.0])
    for _ in range(number):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            target.setup(folder)
            many = moments.randint(2, 4)
            processes = [start(target.command, folder) for _ in range(many)]
            offsets = [moments.uniform(0, target.spread / (many - 1)) for _ in processes]
            yield target.check(folder, finish(processes, offsets), alone)


def main() -> int:
    """Run `--rounds` rounds, shared out over the targets."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.together", description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"some of {', '.join(TARGETS)}")
    parser.add_argument("--rounds", type=int, default=50, help="of all targets together")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    names = args.targets or list(TARGETS)
    if unknown := [name for name in names if name not in TARGETS]:
        parser.error(f"no target {', '.join(unknown)}; there are {', '.join(TARGETS)}")
    bad = 0
    for k, name in enumerate(names):
        number = args.rounds // len(names) + (k < args.rounds % len(names))
        wrong = [problems for problems in rounds(TARGETS[name], number, args.seed + k) if problems]
        bad += len(wrong)
        print(f"{name:28} {number} rounds, {len(wrong)} failed", flush=True)
        for problem in (problem for problems in wrong for problem in problems):
            print(f"  {problem}", flush=True)
    print(f"{args.rounds} rounds, {bad} failed")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
