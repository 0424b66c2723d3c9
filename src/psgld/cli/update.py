"""`psgld update`: more data, with a warm start."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import Any

from .options import INTERRUPTED, Parser, add_columns, integer
from .reading import add_meaning


def add(commands: Any) -> None:
    """Add the command."""
    parser: Parser = commands.add_parser(
        "update",
        help="sample again where data has grown, from the last draws",
        description="Sample the posterior of data that has grown. FILE has all entries, old and new, and is as in\n"
        "`psgld fit`. Chains start at the last draws of RUN, with a short burn-in; new rows and columns\n"
        "are folded in first.",
        epilog="Example:\n  psgld update run.npz ratings-of-today.csv -o today.npz",
    )
    parser.add_argument("run_file", type=Path, metavar="RUN", help="run.npz or run.zarr")
    parser.add_argument("file", type=Path, metavar="FILE", help="all entries, old and new")
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="NEW", help="where to save: NEW.npz or NEW.zarr"
    )
    parser.add_argument("--draws", type=integer(1), help="draws per chain (as many as before)")
    parser.add_argument("--tune", type=integer(0), help="iterations of burn-in (50 passes over the data)")
    parser.add_argument("--threads", type=integer(1), help="threads (all cores)")
    parser.add_argument("--seed", type=integer(0), default=1, help="random seed (%(default)s)")
    parser.add_argument("-q", "--quiet", action="store_true", help="no bar, no notes, no summary")
    add_meaning(parser)
    add_columns(parser, "row", "col", "value", "weight")
    parser.set_defaults(run=run)


def run(args: Namespace) -> int:
    """Load, sample, save."""
    from ..engines import Threads
    from ..posterior import load
    from ..runs.interrupt import like_ctrl_c
    from .output import check_posterior, say
    from .reading import read_data

    check_posterior(args.output, args.run_file, args.file)
    before = load(args.run_file)
    with like_ctrl_c():
        found = before.update(
            read_data(args),
            args.draws,
            args.tune,
            args.seed,
            engine=Threads(args.threads),
            progress=False if args.quiet else None,
        )
    found.save(args.output)
    if found.interrupted:
        say(f"interrupted: the draws so far are saved to {args.output}")
        return INTERRUPTED
    if not args.quiet:
        say(f"saved to {args.output}")
        print(found.summary())
    return 0
