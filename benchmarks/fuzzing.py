"""`python -m benchmarks.fuzzing`: bad input by the hundred thousand; nothing but a clear error may come of it.

Each target (`fuzz/trying.py`) makes one input from a random generator and tries it. A finding is whatever is neither a
good answer nor one of the errors that users are meant to meet: another exception, a traceback, several lines where one
is promised, a crash of the process, more than `PATIENCE` seconds, a pickle that was read. An input is known by its
target and its number: `--only TARGET --first NUMBER --inputs 1` tries it again, and `--again FILE` all those that
`--findings FILE` wrote down.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from .fuzz.originals import Originals
from .fuzz.trying import TARGETS, attempt

SCRATCH = next((folder for folder in ("/dev/shm",) if os.access(folder, os.W_OK)), None)
"""Where the files are: in memory, where there is such a folder."""
_LOT = 1000

Lot = tuple[str, int, int]
"""A target, the first input and their number."""


def work_through(target: str, first: int, inputs: int) -> None:
    """Try inputs in this process; print a line of JSON before what may crash, and for each finding."""
    faulthandler.enable()
    with tempfile.TemporaryDirectory() as folder:
        have = Originals(Path(folder) / "fuzz")
        out = sys.stdout
        for number in range(first, first + inputs):
            print(json.dumps({"try": number}), file=out, flush=True)
            if wrong := attempt(target, number, have):
                print(json.dumps({"wrong": number, "what": wrong}), file=out, flush=True)
            for left in have.work.glob("*"):
                shutil.rmtree(left) if left.is_dir() else left.unlink()


def run(target: str, first: int, inputs: int) -> tuple[int, list[dict[str, Any]]]:
    """Try inputs in a process of their own, and in another after a crash; return how many, and the findings."""
    done, findings = 0, []
    while done < inputs:
        argv = [sys.executable, "-m", "benchmarks.fuzzing", "--worker", "--only", target]
        argv += ["--first", str(first + done), "--inputs", str(inputs - done)]
        with tempfile.TemporaryDirectory(dir=SCRATCH) as folder:  # what a crash leaves behind goes with it
            ran = subprocess.run(argv, capture_output=True, text=True, env={**os.environ, "TMPDIR": folder})
        records = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith("{")]
        tried = [r["try"] for r in records if "try" in r]
        findings += [
            {"target": target, "number": r["wrong"], "what": r["what"]} for r in records if "wrong" in r
        ]
        if ran.returncode:
            what = f"crash, code {ran.returncode}: {_crashed_at(ran.stderr)}"
            findings.append({"target": target, "number": tried[-1] if tried else first + done, "what": what})
            if not tried:
                break
        done += len(tried)
    return done, findings


def _crashed_at(stderr: str) -> str:
    """Return where the interpreter was, by what faulthandler says."""
    head = next(
        (line for line in stderr.splitlines() if line.startswith(("Fatal", "Timeout"))), stderr[-200:]
    )
    threads = re.split(r"\n(?=Current thread|Thread)", stderr)
    current = [thread for thread in threads if thread.startswith("Current thread")] or threads
    places = re.findall(r'File "[^"]*?([^/"]+)", line (\d+) in (\w+)', current[-1])[:4]
    return f"{head} ({', '.join(f'{file}:{line} {name}' for file, line, name in places)})"


def kinds(findings: list[dict[str, Any]]) -> list[str]:
    """Return the different findings, the most frequent first: how many, what, and the first input that shows it."""

    def kind(finding: dict[str, Any]) -> tuple[str, str]:
        return finding["target"], re.sub(r"'[^']*'|\"[^\"]*\"|[0-9.]+", "…", finding["what"])[:120]

    counts = Counter(map(kind, findings))
    first = {kind(f): f for f in sorted(findings, key=lambda f: -f["number"])}
    return [
        f"{n:>6} × {target} {first[target, what]['number']}: {first[target, what]['what']}"
        for (target, what), n in counts.most_common()
    ]


def fuzz() -> int:
    """Try them all and print the counts."""
    args = _arguments()
    if args.worker:
        work_through(args.only, args.first, args.inputs)
        return 0
    total, start, found = 0, time.perf_counter(), []
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        pending = {pool.submit(run, *lot): lot for lot in _lots(args)}
        for future in as_completed(pending):
            (target, first, _), (done, findings) = pending[future], future.result()
            total, found = total + done, found + findings
            print(f"{target:<24} from {first:>6,}: {done:>6,} inputs, {len(findings)} findings", flush=True)
    for line in kinds(found):
        print(line)
    if args.findings:
        args.findings.write_text("".join(json.dumps(f) + "\n" for f in found))
    print(f"all: {total:,} inputs, {len(found)} findings, {time.perf_counter() - start:.0f} s")
    return 1 if found else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--only", choices=TARGETS)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--findings", type=Path, help="write them to a file, a line of JSON each")
    parser.add_argument("--again", type=Path, help="try the inputs of such a file")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def _lots(args: argparse.Namespace) -> list[Lot]:
    """Cut the inputs of the targets into lots for a process each."""
    if args.again:
        records = [json.loads(line) for line in args.again.read_text().splitlines()]
        return [
            (target, number, 1) for target, number in sorted({(r["target"], r["number"]) for r in records})
        ]
    shares = {args.only: 100} if args.only else {target: share for target, (share, _) in TARGETS.items()}
    lots = []
    for target, share in shares.items():
        last = args.first + args.inputs * share // 100
        lots += [(target, at, min(_LOT, last - at)) for at in range(args.first, last, _LOT)]
    return sorted(lots, key=lambda lot: lot[1])  # something of every target first


if __name__ == "__main__":
    sys.exit(fuzz())
