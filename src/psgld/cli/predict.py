"""`psgld predict`: pairs in, means and intervals out."""

from __future__ import annotations

import csv
import sys
from argparse import Namespace
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from .options import Parser, add_columns, add_level, add_skip_unknown

_HEADER = ("row", "column", "mean", "sd", "low", "high")


def add(commands: Any) -> None:
    """Add the command."""
    parser: Parser = commands.add_parser(
        "predict",
        help="predict cells of the matrix, with intervals",
        description="Predict the cells listed in PAIRS (text of two columns, row and column; header or not;\n"
        "other columns are ignored). Prints CSV: row, column, mean and sd of the mean μ, and low and\n"
        "high, between which a new observation falls with probability --level.",
        epilog="Example:\n  psgld predict run.npz pairs.csv -o predictions.csv --level 0.9",
    )
    parser.add_argument("run_file", type=Path, metavar="RUN", help="run.npz or run.zarr")
    parser.add_argument("pairs", type=Path, metavar="PAIRS")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE.csv", help="where to write (stdout)")
    add_level(parser)
    add_skip_unknown(parser)
    add_columns(parser, "row", "col")
    parser.set_defaults(run=run)


def run(args: Namespace) -> int:
    """Read the pairs, predict, write."""
    from ..storage import load
    from .output import check_writable
    from .tables import read_pairs, select_known

    if args.output is not None:
        check_writable(args.output)
    posterior = load(args.run_file)
    rows, cols = read_pairs(args.pairs, args.row, args.col, posterior)
    keep = select_known(posterior, rows, cols, args.skip_unknown)
    p = posterior.predict(rows[keep], cols[keep])
    low, high = p.interval(args.level)
    names = [
        at.tolist() if labels is None else labels[at].tolist()
        for at, labels in ((p.rows, posterior.row_labels), (p.cols, posterior.col_labels))
    ]
    numbers = ((f"{x:.6g}" for x in column.tolist()) for column in (p.mean, p.sd, low, high))
    lines = zip(*names, *numbers, strict=True)
    if args.output is None:
        _write(sys.stdout, lines)
    else:
        with open(args.output, "w", encoding="utf-8", newline="") as file:
            _write(file, lines)
    return 0


def _write(file: Any, lines: Iterable[tuple[Any, ...]]) -> None:
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(_HEADER)
    writer.writerows(lines)
