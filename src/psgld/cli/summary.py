"""`psgld summary`: what was sampled, how, and how it went."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import Any

from .options import Parser, add_json


def add(commands: Any) -> None:
    """Add the command."""
    parser: Parser = commands.add_parser(
        "summary",
        help="summarise a saved posterior",
        description="Print the model, the settings, estimates and convergence of a run.",
        epilog="Example:\n  psgld summary run.npz",
    )
    parser.add_argument("run_file", type=Path, metavar="RUN", help="run.npz or run.zarr")
    add_json(parser)
    parser.set_defaults(run=run)


def run(args: Namespace) -> int:
    """Print the summary."""
    from ..posterior import load
    from .fit import record
    from .output import print_json

    posterior = load(args.run_file)
    if args.json:
        print_json(record(posterior))
    else:
        print(posterior.summary())
    return 0
