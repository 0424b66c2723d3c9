"""`psgld fold-in`: the posterior of rows or columns that were not in the data."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import Any

from .options import Parser, add_columns, integer
from .reading import add_meaning


def add(commands: Any) -> None:
    """Add the command."""
    parser: Parser = commands.add_parser(
        "fold-in",
        help="add rows or columns without sampling anew",
        description="Sample new rows, or new columns, given their entries and the draws of the other factor. The\n"
        "result has these rows only; predict and recommend work on it. FILE is as in `psgld fit`.",
        epilog="Example:\n  psgld fold-in run.npz new-users.csv -o new.npz\n  psgld recommend new.npz user-1001",
    )
    parser.add_argument("run_file", type=Path, metavar="RUN", help="run.npz or run.zarr")
    parser.add_argument("file", type=Path, metavar="FILE", help="the entries of the new rows or columns")
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="NEW", help="where to save: NEW.npz or NEW.zarr"
    )
    parser.add_argument("--side", choices=("rows", "cols"), default="rows", help="what is new (%(default)s)")
    parser.add_argument("--seed", type=integer(0), default=0, help="random seed (%(default)s)")
    add_meaning(parser)
    add_columns(parser, "row", "col", "value", "weight")
    parser.set_defaults(run=run)


def run(args: Namespace) -> int:
    """Load, fold in, save."""
    from ..posterior import load
    from .output import check_posterior, say
    from .reading import read_data

    check_posterior(args.output, args.run_file, args.file)
    found = load(args.run_file).fold_in(read_data(args), args.side, args.seed)
    found.save(args.output)
    number = found.shape[args.side == "cols"]
    say(f"saved to {args.output}: {number:,} {'row(s)' if args.side == 'rows' else 'column(s)'}")
    return 0
