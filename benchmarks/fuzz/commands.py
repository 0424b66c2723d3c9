"""Command lines that are nearly right."""

from __future__ import annotations

import argparse
import contextlib
import io
import random
from pathlib import Path
from typing import Any

from psgld.cli import main, make_parser
from psgld.cli.completion import subparsers

from .damage import ODD, damaged
from .originals import Originals

RUNS = ("counts.npz", "ratings.npz", "run.zarr", "counts.zarr")


def command_line(rng: random.Random, have: Originals) -> None:
    """Run a command with odd arguments and files."""
    run_command(arguments(rng, have))


def run_command(argv: list[str]) -> None:
    """Run a command: exit code 0, 1 or 2, no traceback, and one line if the code is 2."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code: Any = main(argv)
        except SystemExit as stop:
            code = stop.code
    lines = [line for line in err.getvalue().splitlines() if not line.startswith("psgld: note: ")]
    if code not in (0, 1, 2) or "Traceback" in err.getvalue():
        raise AssertionError(f"{argv}: exit code {code}: {err.getvalue()[-500:]}")
    if code == 2 and argv and not (len(lines) == 1 and lines[0].startswith("psgld: error: ")):
        raise AssertionError(f"{argv}: {len(lines)} lines on stderr: {lines[:3]}")


def arguments(rng: random.Random, have: Originals) -> list[str]:
    """Return words that are nearly a command line."""
    commands = subparsers(make_parser())
    name = rng.choice(sorted(commands))
    if rng.random() < 0.03:
        return [rng.choice(ODD) for _ in range(rng.randrange(4))]
    bad = have.work / f"bad{rng.choice(list(have.tables))}"
    if rng.random() < 0.3:
        bad.write_bytes(damaged(rng, have.tables["".join(bad.suffixes)]))
    files = [*have.argument_files, str(bad), str(have.work), str(have.work / "no.csv")]
    words: list[str] = []
    for action in commands[name]._actions:
        if not action.option_strings:
            words += [
                _value(rng, action, files) for _ in range(1 if rng.random() < 0.95 else rng.randrange(3))
            ]
        elif action.dest != "help" and (action.required or rng.random() < 0.08):
            words.append(rng.choice(action.option_strings))
            if action.nargs != 0:
                words.append(_value(rng, action, files))
    if rng.random() < 0.1:
        words.insert(rng.randrange(len(words) + 1), rng.choice((*ODD, "--nonsense", "--help", "-")))
    if name in ("demo", "doctor"):
        words.append("--nonsense")  # they are right, and take seconds
    short = ["--draws", "3", "--tune", "5", "--chains", "1", "--threads", "1"] if name == "fit" else []
    return [name, *short, *words]


def _value(rng: random.Random, action: argparse.Action, files: list[str]) -> str:
    """Return a value for an argument: mostly of the right kind; never one that asks for hours of work."""
    if action.choices and rng.random() < 0.9:
        return str(rng.choice(list(action.choices)))
    if action.dest == "output":
        suffix = rng.choice((".npz", ".zarr", ".csv", ".parquet", ".nc", "", ".x"))
        return str(Path(files[-2]) / f"out{rng.randrange(3)}{suffix}")
    if action.dest == "run_file" and rng.random() < 0.6:
        return rng.choice([file for file in files if Path(file).name in RUNS])
    if action.dest == "rows":
        return rng.choice(("a", "b", "0", *ODD))
    if action.type is Path:
        return rng.choice(files if rng.random() < 0.95 else ODD)
    if action.type is int and action.dest != "seed":
        return rng.choice(("1", "2", "3") if rng.random() < 0.8 else ("0", "-1", "x", "", "1.5", "nan"))
    return rng.choice(("0.5", "1", "2", "a", "user", "row", "0", *ODD))
