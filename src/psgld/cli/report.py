"""`psgld report`: a page to share."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import Any

from .options import Parser, add_columns, add_json, add_skip_unknown


def add(commands: Any) -> None:
    """Add the command."""
    parser: Parser = commands.add_parser(
        "report",
        help="write a page to share: verdict, accuracy, components, look-up of rows",
        description="Write one HTML file that needs no network: the verdict in plain words, how good the\n"
        "predictions of held-out entries are, the components, the best columns of each row with the\n"
        "reasons, and the diagnostics.",
        epilog="Example:\n  psgld report run.npz -o report.html --test test.csv",
    )
    parser.add_argument("run_file", type=Path, metavar="RUN", help="run.npz or run.zarr")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE.html", help="output file")
    parser.add_argument(
        "--test",
        type=Path,
        metavar="FILE",
        help="held-out entries, to judge predictions (those of fit --holdout)",
    )
    parser.add_argument(
        "--data",
        type=Path,
        metavar="FILE",
        help="the data of the run: reasons then name the values of entries",
    )
    parser.add_argument("--title", help="heading of the page")
    add_skip_unknown(parser)
    add_json(parser)
    add_columns(parser, "row", "col", "value")
    parser.set_defaults(run=run)


def run(args: Namespace) -> int:
    """Load, write, say what the page says first."""
    from ..posterior import load
    from .output import check_writable, print_json, say, size_of
    from .tables import read_test

    inputs = [path for path in (args.run_file, args.test, args.data) if path is not None]
    check_writable(args.output, inputs=inputs)
    posterior = load(args.run_file)
    test = None if args.test is None else read_test(args, posterior)
    record = posterior.report(args.output, test, args.data, args.title)
    if args.json:
        print_json(record)
        return 0
    for line in record["said"]:
        print(line)
    say(f"saved to {args.output} ({size_of(args.output)})")
    return 0
