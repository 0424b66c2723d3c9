"""`python -m benchmarks.guided`: bad input that grows towards code it has not reached yet (atheris, libFuzzer).

The readers, the loaders and the command line of psgld are instrumented; an input that takes a new branch is kept and
changed further. What counts as a finding is what `benchmarks.fuzzing` says. Each target runs in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

Case = tuple[list[bytes], Callable[[bytes], None]]
"""Inputs to begin with, and what tries one."""

TARGETS = {"posterior": 25, "store": 10, "text": 25, "Parquet": 10, "Matrix Market": 15, "command line": 15}
"""Shares of the inputs in percent."""


def case(target: str, have: Any) -> Case:
    """Return the first inputs of a target and what tries one."""
    from .fuzz import tables

    suffixes = {"text": ".csv", "Parquet": ".parquet", "Matrix Market": ".mtx"}
    if target == "posterior":
        return have.posteriors, lambda data: _posterior(have, data)
    if target == "store":
        return [bytes([n]) + path.read_bytes() for n, (_, path) in enumerate(_store_files(have))], (
            lambda data: _store(have, data)
        )
    if target == "command line":
        return [b"\0".join(words) for words in _lines(have)], lambda data: _command(have, data)
    suffix = suffixes[target]
    return [have.tables[suffix]], lambda data: tables.read(have, suffix, data)


def _posterior(have: Any, data: bytes) -> None:
    from .fuzz import posteriors

    path = have.work / "bad.npz"
    path.write_bytes(data)
    posteriors.use(path)


def _store_files(have: Any) -> list[tuple[Path, Path]]:
    return [(store, file) for store in have.stores for file in have.files[store]][:256]


def _store(have: Any, data: bytes) -> None:
    """The first byte names the file of a store that the others take the place of."""
    from .fuzz import posteriors

    files = _store_files(have)
    store, file = files[data[0] % len(files)] if data else files[0]
    whole = file.read_bytes()
    try:
        file.write_bytes(data[1:])
        posteriors.use(store)
    finally:
        file.write_bytes(whole)


def _lines(have: Any) -> list[list[bytes]]:
    """Return a good command line or two of every command, as words."""
    import random

    from .fuzz import commands

    rng = random.Random("command lines")
    return [[os.fsencode(w) for w in commands.arguments(rng, have)] for _ in range(200)]


def _command(have: Any, data: bytes) -> None:
    from .fuzz import commands

    argv = [word.decode("utf-8", "replace") for word in data.split(b"\0")[:20]]
    if argv and argv[0] in ("demo", "doctor", "fit", "plan", "shard", "evaluate"):
        # These may be asked for hours of work, or to write anywhere: only as far as the parser and the files go.
        argv.append("--nonsense")
    argv = [w for w in argv if not w.startswith(("-o", "--o", "/")) or w.startswith(str(have.work.parent))]
    commands.run_command(argv)


def work_through(target: str, inputs: int) -> None:
    """Try inputs in this process, which ends with them; print a line of JSON for each finding, then their number."""
    import atheris

    with atheris.instrument_imports(include=["psgld"], enable_loader_override=False):
        import psgld.cli
        import psgld.data.matrix_market
        import psgld.data.readers
        import psgld.storage  # noqa: F401

        from . import fuzzing
        from .fuzz import originals, trying

    folder = Path(tempfile.mkdtemp(dir=fuzzing.SCRATCH))
    have = originals.Originals(folder / "fuzz")
    seeds, attempt = case(target, have)
    corpus = folder / "corpus"
    corpus.mkdir()
    for n, seed in enumerate(seeds):
        (corpus / str(n)).write_bytes(seed)
    out, tried, known = sys.stdout, 0, set()

    def one(data: bytes) -> None:
        nonlocal tried
        tried += 1
        wrong = trying.guarded(lambda: attempt(data))
        if wrong and wrong not in known:
            known.add(wrong)
            print(json.dumps({"wrong": data.hex()[:4000], "what": wrong}), file=out, flush=True)
        for left in have.work.glob("*"):
            shutil.rmtree(left) if left.is_dir() else left.unlink()
        if tried >= inputs:  # libFuzzer would leave without a word
            print(json.dumps({"tried": tried}), file=out, flush=True)
            shutil.rmtree(folder, ignore_errors=True)
            os._exit(0)

    warnings.simplefilter("ignore")
    longest = 4 * max(len(seed) for seed in seeds)
    # `guarded` watches the clock.
    flags = [f"-max_len={longest}", "-timeout=0", "-rss_limit_mb=0", "-seed=1", "-verbosity=0"]
    atheris.Setup([sys.argv[0], str(corpus), *flags], one)
    atheris.Fuzz()


def run(target: str, inputs: int) -> tuple[int, list[str]]:
    """Try inputs in a process of their own; return how many, and the findings."""
    argv = [sys.executable, "-m", "benchmarks.guided", "--worker", "--only", target, "--inputs", str(inputs)]
    ran = subprocess.run(argv, capture_output=True, text=True)
    records = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith("{")]
    findings = [f"{target}: {r['what']}; input {r['wrong'][:200]}" for r in records if "wrong" in r]
    tried = sum(r["tried"] for r in records if "tried" in r)
    if ran.returncode or not tried:
        findings.append(f"{target}: crash, code {ran.returncode}: {ran.stderr[-600:]}")
    return tried, findings


def main() -> int:
    """Try them all and print the counts."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.guided", description=__doc__)
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--only", choices=TARGETS)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        work_through(args.only, args.inputs)
    try:
        import atheris  # noqa: F401
    except ImportError:
        print("benchmarks.guided needs atheris: pip install atheris")
        return 2
    shares = {args.only: 100} if args.only else TARGETS
    total, found, start = 0, 0, time.perf_counter()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        pending = {t: pool.submit(run, t, args.inputs * share // 100) for t, share in shares.items()}
        for target, future in pending.items():
            done, findings = future.result()
            total, found = total + done, found + len(findings)
            print(f"{target:<22} {done:>7,} inputs, {len(findings)} findings", flush=True)
            for line in findings[:20]:
                print(f"  {line}", flush=True)
    print(f"all: {total:,} inputs, {found} findings, {time.perf_counter() - start:.0f} s")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
