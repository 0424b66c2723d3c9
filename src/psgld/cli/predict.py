"""`psgld predict`: pairs in, means and intervals out."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import Any

from .options import Parser, add_columns, add_json, add_level, add_skip_unknown

_HEADER = ("row", "column", "mean", "sd", "low", "high")


def add(commands: Any) -> None:
    """Add the command."""
    parser: Parser = commands.add_parser(
        "predict",
        help="predict cells of the matrix, with intervals",
        description="Predict the cells listed in PAIRS (text or Parquet with columns row and column; the header\n"
        "of text is optional; other columns are ignored). Prints CSV: row, column, mean and sd of μ, and\n"
        "low and high, between which a new observation lies with probability --level.",
        epilog="Example:\n  psgld predict run.npz pairs.csv -o predictions.csv --level 0.9",
    )
    parser.add_argument("run_file", type=Path, metavar="RUN", help="run.npz or run.zarr")
    parser.add_argument("pairs", type=Path, metavar="PAIRS")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("-o", "--output", type=Path, metavar="FILE.csv", help="output file (stdout)")
    add_json(form)
    add_level(parser)
    unknown = parser.add_mutually_exclusive_group()
    add_skip_unknown(unknown)
    unknown.add_argument(
        "--fallback",
        choices=("prior",),
        help="predict rows and columns that were not in the data from the prior",
    )
    add_columns(parser, "row", "col")
    parser.set_defaults(run=run)


def run(args: Namespace) -> int:
    """Read the pairs, predict, write."""
    from ..posterior import load
    from .output import check_csv, print_json, write_csv
    from .tables import read_pairs, select_known

    check_csv(args.output, args.run_file, args.pairs)
    posterior = load(args.run_file)
    rows, cols = read_pairs(args.pairs, args.row, args.col, posterior)
    if args.fallback is None:
        keep = select_known(posterior, rows, cols, args.skip_unknown)
        rows, cols = rows[keep], cols[keep]
    p = posterior.predict(rows, cols, fallback=args.fallback)
    low, high = p.interval(args.level)
    columns = [x.tolist() for x in (p.row_labels, p.col_labels, p.mean, p.sd, low, high)]
    if args.json:
        print_json({"level": args.level, "predictions": dict(zip(_HEADER, columns, strict=True))})
        return 0
    numbers = ((f"{x:.6g}" for x in column) for column in columns[2:])
    write_csv(args.output, _HEADER, zip(*columns[:2], *numbers, strict=True))
    return 0
