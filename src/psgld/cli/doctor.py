"""`psgld doctor`: versions, machine, a self-check, a speed."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from .options import Parser, add_json


def add(commands: Any) -> None:
    """Add the command."""
    parser: Parser = commands.add_parser(
        "doctor",
        help="versions, machine, self-check, speed",
        description="Print versions, cores, memory, instruction set; sample a tiny model; time a larger one.",
        epilog="Example:\n  psgld doctor",
    )
    add_json(parser)
    parser.set_defaults(run=run)


def run(args: Namespace) -> int:
    """Examine and report; fail if the self-check does."""
    from ..doctor import examine, text
    from .output import print_json

    report = examine()
    if args.json:
        print_json(report)
    else:
        print(text(report))
    return 0 if report["check"]["ok"] else 1
