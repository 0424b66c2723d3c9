"""`psgld shard`: a file of any size in, row strips on disk out."""

from __future__ import annotations

import time
from argparse import Namespace
from pathlib import Path
from typing import Any

import numpy as np

from ..data.labels import DUPLICATES
from ..data.observations import ABSENT
from .options import Parser, add_columns, add_json, integer
from .output import print_json, say


def add(commands: Any) -> None:
    """Add the command."""
    parser: Parser = commands.add_parser(
        "shard",
        help="partition a file of any size into row strips on disk",
        description="Partition FILE (delimited text, Parquet or Matrix Market; it may be larger than memory) into B\n"
        "row strips, in one pass. `psgld fit DIRECTORY` then samples from disk.",
        epilog="Example:\n  psgld shard ratings.parquet -B 120 -o shards\n  psgld fit shards -o run.npz --rank 50",
    )
    parser.add_argument("file", type=Path, metavar="FILE")
    parser.add_argument("-B", "--blocks", type=integer(1), required=True, help="number of strips")
    parser.add_argument(
        "-o",
        "--output",
        required=True,
        metavar="DIRECTORY",
        help="a new directory, or a URL that Zarr can open",
    )
    parser.add_argument("--absent", choices=ABSENT, help="meaning of entries that the file does not list")
    parser.add_argument(
        "--duplicates",
        choices=DUPLICATES,
        default="error",
        help="treatment of repeated pairs (%(default)s)",
    )
    parser.add_argument("--seed", type=integer(0), default=0, help="random seed of the shuffle (%(default)s)")
    parser.add_argument("-q", "--quiet", action="store_true", help="print nothing")
    add_json(parser)
    add_columns(parser, "row", "col", "value")
    parser.set_defaults(run=run)


def run(args: Namespace) -> int:
    """Shard and report."""
    from ..data.shards import shard

    start = time.perf_counter()
    shards = shard(
        args.file,
        args.output,
        args.blocks,
        columns=(args.row, args.col, args.value),
        absent=args.absent,
        duplicates=args.duplicates,
        seed=args.seed,
    )
    seconds = time.perf_counter() - start
    strips = shards.block_entries.sum(axis=1)
    fullest = float(strips.max() / np.mean(strips))
    if args.json:
        print_json(
            {
                "output": args.output,
                "shape": list(shards.shape),
                "entries": shards.stored,
                "blocks": shards.blocks,
                "fullest_strip": fullest,
                "seconds": seconds,
            }
        )
    elif not args.quiet:
        say(
            f"{shards.shape[0]:,} × {shards.shape[1]:,}, {shards.stored:,} entries in {shards.blocks} strips, the "
            f"fullest {fullest:.2f} times the mean; written to {args.output} in {seconds:.1f} s"
        )
    return 0
