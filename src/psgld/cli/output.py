"""What the commands print and where they write."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import sys
import tempfile
from argparse import Namespace
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ..errors import DataError, in_bytes
from ..storage.backends import BACKENDS, durable, is_writable
from ..system.atomic import whole_file
from ..system.csv_table import CsvTable
from .options import option_of


def say(line: str) -> None:
    """Print one line to stderr, under the name of the program."""
    print("psgld: " + " ".join(line.split()), file=sys.stderr, flush=True)


def open_closed_streams() -> None:
    """Let what a shell has closed (`2>&-`) lead nowhere; else the next file to be opened would be taken for it."""
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest number that is free: this one
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115


_VALUE = r"['\"][\w-]+['\"]"
_ARGUMENT = re.compile(rf"\b(\w+)=(True|{_VALUE}(?:(?:, | or ){_VALUE})*)( in psgld\.\w+)?")
"""Arguments in a message of the library: resume=True, duplicates='sum', 'mean' or 'last' in psgld.observations."""


def in_options(message: str, args: Namespace) -> str:
    """Turn the arguments that a message advises into options of the command, where it has them.

    Examples
    --------
    >>> in_options("choose duplicates='sum' or 'last' in psgld.observations", Namespace(duplicates="error"))
    'choose --duplicates sum or last'
    """

    def option(match: re.Match[str]) -> str:
        name, values, _ = match.groups()
        if name not in args:
            return match[0]
        return option_of(name) + ("" if values == "True" else " " + re.sub("['\"]", "", values))

    return _ARGUMENT.sub(option, message)


def print_json(record: dict[str, Any]) -> None:
    """Print one JSON object; numbers that JSON does not know become null."""
    print(json.dumps({name: _plain(value) for name, value in record.items()}, ensure_ascii=False))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value


def write_csv(path: Path | None, header: tuple[str, ...], lines: Iterable[Iterable[Any]]) -> None:
    """Write a table to a file, all or nothing, or print it."""
    if path is None:
        _write_lines(sys.stdout, header, lines)
    elif path.exists() and not path.is_file():  # /dev/stdout, a pipe
        with open(path, "w", encoding="utf-8", newline="") as file:
            _write_lines(file, header, lines)
    else:
        with whole_file(path) as beside, open(beside, "w", encoding="utf-8", newline="") as file:
            _write_lines(file, header, lines)


def _write_lines(file: Any, header: tuple[str, ...], lines: Iterable[Iterable[Any]]) -> None:
    table = CsvTable(file, header)
    table.write(lines)
    table.close()


def check_posterior(path: Path, *inputs: Path) -> None:
    """Raise unless a posterior can be saved there."""
    if not is_writable(path):
        raise DataError(f"cannot write {path}: give a name that ends in {durable(BACKENDS)}")
    check_writable(path, inputs=inputs)


def check_csv(path: Path | None, *inputs: Path) -> None:
    """Raise unless a table can be written there, or is printed."""
    if path is not None:
        if path.suffix not in ("", ".csv", ".txt"):
            raise DataError(f"cannot write {path}: the table is CSV; give a name that ends in .csv")
        check_writable(path, inputs=inputs)


def check_writable(path: Path, needed: int = 0, store: bool = False, inputs: Iterable[Path] = ()) -> None:
    """Raise unless a file (or a store) of that many bytes can be written there: better now than after the sampling.

    What the command reads, `inputs`, is not written over.
    """
    if any(path.exists() and source.exists() and path.samefile(source) for source in inputs):
        raise DataError(f"cannot write {path}: the command reads it; give another name")
    if path.is_dir() and not store:
        raise DataError(f"cannot write {path}: it is a directory, give the name of a file")
    if not path.parent.is_dir():
        raise DataError(f"cannot write {path}: there is no directory {path.parent}; make it first")
    try:
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise DataError(f"cannot write {path}: {error.strerror or error}") from error
    free = shutil.disk_usage(path.parent).free
    if needed > free:
        raise DataError(
            f"cannot write {path}: it needs {in_bytes(needed)}, {in_bytes(free)} are free; "
            "ask for fewer draws or a smaller rank"
        )


def size_of(path: Path) -> str:
    """Return the size of a file, or of all files of a folder, in words."""
    files = [file for file in path.rglob("*") if file.is_file()] if path.is_dir() else [path]
    return in_bytes(sum(file.stat().st_size for file in files))
