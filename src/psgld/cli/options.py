"""The parser, and the options that several commands share."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from ..data.tables import Column

FAILED, INTERRUPTED, PIPE_CLOSED = 2, 130, 141
"""Exit codes."""


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line, and whose help keeps the lines of its example."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        kwargs.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]

    def error(self, message: str) -> NoReturn:
        """Say what was wrong and where to look, and leave with code 2."""
        self.exit(FAILED, f"psgld: error: {message} (see {self.prog} --help)\n")


def option_of(name: str) -> str:
    """Return the option of an argument of the library."""
    return "--" + name.replace("_", "-")


def column(text: str) -> Column:
    """Read a column: a position from 0, or a name."""
    return int(text) if text.isdecimal() else text


def path_or_url(text: str) -> Path | str:
    """Read the path of a file or folder, or leave a URL as it is."""
    return text if "://" in text else Path(text)


def number(text: str) -> float:
    """Read an integer or a float."""
    return int(text) if text.isdecimal() else float(text)


def integer(least: int, most: int | None = None) -> Callable[[str], int]:
    """Return a reader of integers within these bounds."""
    allowed = f"an integer >= {least}" if most is None else f"an integer from {least} to {most}"

    def read(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if value < least or (most is not None and value > most):
            raise argparse.ArgumentTypeError(f"must be {allowed}, got {text!r}")
        return value

    return read


def real(allowed: str, holds: Callable[[float], bool]) -> Callable[[str], float]:
    """Return a reader of numbers for which something holds."""

    def read(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = float("nan")
        if not holds(value):
            raise argparse.ArgumentTypeError(f"must be {allowed}, got {text!r}")
        return value

    return read


level = real("a number between 0 and 1, such as 0.9", lambda x: 0.0 < x < 1.0)
share = real("a number between 0 and 1, such as 0.1", lambda x: 0.0 < x < 1.0)
above_zero = real("a number > 0", lambda x: 0.0 < x < float("inf"))
seconds = real("a number of seconds >= 0", lambda x: x >= 0.0)


def add_level(parser: Parser) -> None:
    """Add --level."""
    parser.add_argument(
        "--level",
        type=level,
        default=0.9,
        help="probability of the intervals of a new observation (%(default)s)",
    )


def add_columns(parser: Parser, *roles: str) -> None:
    """Add --row, --col and perhaps --value and --weight: where a table keeps them."""
    group = parser.add_argument_group("columns of the table, by name or by position from 0")
    for role in roles:
        group.add_argument(f"--{role}", type=column, metavar="COL")


def add_skip_unknown(parser: argparse._ActionsContainer) -> None:
    """Add --skip-unknown."""
    parser.add_argument(
        "--skip-unknown", action="store_true", help="skip pairs whose row or column was not in the data"
    )


def add_json(parser: argparse._ActionsContainer) -> None:
    """Add --json."""
    parser.add_argument("--json", action="store_true", help="print one JSON object")
