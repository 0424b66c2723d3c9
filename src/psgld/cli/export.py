"""`psgld export`: a posterior for other programs."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import Any

from .options import Parser, add_json

_TABLES = ("factors", "draws", "stats", "cells")


def add(commands: Any) -> None:
    """Add the command."""
    parser: Parser = commands.add_parser(
        "export",
        help="export a posterior to netCDF, CSV or Parquet",
        description="FILE.nc holds all draws and traces, for ArviZ. FILE.csv and FILE.parquet hold one long table:\n"
        "factors (mean and sd of W and H, per chain), draws (of W and H), stats (lp, step size, φ,\n"
        "offset along the chains) or cells (mean and sd of μ at every cell of the matrix).",
        epilog="Example:\n  psgld export run.npz -o factors.csv\n  psgld export run.npz -o cells.parquet --what cells\n"
        "  psgld export run.zarr -o run.nc",
    )
    parser.add_argument("run_file", type=Path, metavar="RUN", help="run.npz or run.zarr")
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        required=True,
        metavar="FILE",
        help="output file: FILE.nc, FILE.csv or FILE.parquet",
    )
    parser.add_argument("--what", choices=_TABLES, help="the table (factors)")
    add_json(parser)
    parser.set_defaults(run=run)


def run(args: Namespace) -> int:
    """Load, write, say how much."""
    from ..posterior import load
    from ..posterior.export import export
    from .output import check_writable, print_json, say, size_of

    check_writable(args.output, inputs=[args.run_file])
    record = export(load(args.run_file), args.output, args.what)
    if args.json:
        print_json(record)
    else:
        lines = f"{record['lines']:,} lines, " if "lines" in record else ""
        say(f"saved to {args.output} ({lines}{size_of(args.output)})")
    return 0
