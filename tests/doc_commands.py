"""Runs the commands of a page: those of psgld here, at a small size; of other programs what can be checked."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
from mpi_job import ENVIRONMENT, MISSING, MPIEXEC

import psgld
from psgld.cli import main

ROOT = Path(__file__).parents[1]

SMALL = {  # options that make a command quick, unless the page gives them
    "demo": ["--small"],
    "fit": ["--draws", "10", "--tune", "60", "--thin", "2", "-q"],
    "compare": ["--draws", "20", "--chains", "1", "-q"],
}

ELSEWHERE = {"."}
"""Words that begin lines which change the shell of the reader only."""


def prepare(folder: Path) -> None:
    """Write what pages take for granted: a CSV of ratings, two parts of it, some runs."""
    V = psgld.datasets.ratings(users=100, items=60, entries=2000).V
    table = np.array(V.labelled_entries(), object).T.tolist()
    (folder / "out").mkdir()
    cut = 9 * len(table) // 10
    for name, lines in (("ratings", table), ("train", table[:cut]), ("test", table[cut:])):
        text = "user,item,rating\n" + "".join(f"{i},{j},{v:g}\n" for i, j, v in lines)
        (folder / f"{name}.csv").write_text(text)
    (folder / "pairs.csv").write_text("user,item\nuser-1,item-2\nzed,item-4\n")


def runs(folder: Path) -> None:
    """Write runs and a Parquet file, for pages that name them."""
    import pandas as pd

    pd.read_csv(folder / "ratings.csv").to_parquet(folder / "ratings.parquet")
    train, _ = psgld.split(str(folder / "ratings.csv"), 0.1)
    for rank, names in ((1, ["rank4.npz", "rank8.npz"]), (2, ["rank16.npz", "run.npz", "run.zarr"])):
        model = psgld.FactorModel(rank, "gaussian", bias=True)
        post = psgld.sample(train, model, draws=10, tune=60, thin=2, chains=1, progress=False)
        for name in names:
            post.save(folder / name)


def commands(block: str, console: bool) -> list[tuple[str, bool]]:
    """Return the commands of a block, and whether the page shows that they fail."""
    found: list[tuple[str, bool]] = []
    for line in block.replace("\\\n", " ").splitlines():
        if console and not line.startswith("$ "):
            if line.startswith("psgld: error") and found:
                found[-1] = found[-1][0], True
        elif line.strip() and not line.startswith("#SBATCH"):
            found.append((line.removeprefix("$ "), False))
    return found


def run(command: str, fails: bool, capsys) -> None:
    """Run one command."""
    if found := re.fullmatch(r'eval "\$\((.*)\)"', command):
        command = found[1]
    words = shlex.split(os.path.expandvars(command), comments=True)
    words, target = _redirected(words)
    if not words:  # a comment
        return
    if words[0] == "srun":
        words = words[1:]
    if words[0] == "psgld":
        code, said = _psgld(words[1:], capsys)
        assert (code != 0) == fails, f"{command}: exit code {code}: {said}"
    elif words[0] == "mpiexec":
        said = _mpiexec(words)
    elif words[0] == "make":
        assert re.search(rf"^{words[1]}:", (ROOT / "Makefile").read_text(), re.MULTILINE), command
        return
    elif words[:2] == ["pip", "install"]:
        extras = (ROOT / "pyproject.toml").read_text()
        for extra in re.findall(r"\[([\w,]+)\]", command):
            assert all(re.search(rf"^{name} = \[", extras, re.MULTILINE) for name in extra.split(",")), (
                command
            )
        return
    elif words[0] in ELSEWHERE:
        return
    else:
        said = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    if target:
        Path(target).write_text(said)


def _redirected(words: list[str]) -> tuple[list[str], str | None]:
    """Return a command without what comes after a pipe, and the file that it writes to."""
    if "|" in words:
        words = words[: words.index("|")]
    if ">" in words:
        at = words.index(">")
        return words[:at], words[at + 1]
    return words, None


def _small(words: list[str]) -> list[str]:
    extra = SMALL.get(words[0], [])
    if words[0] == "compare" and not any(w.startswith(("--ranks", "--likelihoods")) for w in words):
        return words
    pairs = list(zip(extra[::2], [*extra[1::2], None], strict=False))
    return words + [w for option, value in pairs if option not in words for w in (option, value) if w]


def _psgld(words: list[str], capsys) -> tuple[int, str]:
    capsys.readouterr()
    try:
        code = main(_small(words))
    except SystemExit as stop:
        code = int(stop.code or 0)
    out, err = capsys.readouterr()
    return code, out if code == 0 else err


def _mpiexec(words: list[str]) -> str:
    """Start an MPI job, with the interpreter of the tests."""
    if MISSING:
        return "{}"
    at = words.index("-n") + 2
    program = words[at:]
    inner = ["-m", "psgld", *_small(program[1:])] if program[0] == "psgld" else program[1:]
    environment = {**os.environ, **ENVIRONMENT}
    job = [str(MPIEXEC), *words[1:at], sys.executable, *inner]
    done = subprocess.run(job, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout
