"""`psgld split`: a file in, one to sample and one to test out."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import Any

from ..data.observations import ABSENT
from .options import Parser, add_columns, add_json, integer, share


def add(commands: Any) -> None:
    """Add the command."""
    parser: Parser = commands.add_parser(
        "split",
        help="hold out a random part of a file",
        description="Write a random fraction of the entries of FILE (any file that `psgld fit` reads) to TEST, and\n"
        "the others to TRAIN. Files ending in .csv have the columns row, column, value (and weight, if there\n"
        "are any); .npz keeps the shape, too.",
        epilog="Example:\n  psgld split ratings.csv train.csv test.csv --fraction 0.1",
    )
    parser.add_argument("file", type=Path, metavar="FILE")
    parser.add_argument("train", type=Path, metavar="TRAIN", help="TRAIN.csv or TRAIN.npz")
    parser.add_argument("test", type=Path, metavar="TEST", help="TEST.csv or TEST.npz")
    parser.add_argument("--fraction", type=share, default=0.1, help="of the entries (%(default)s)")
    parser.add_argument("--seed", type=integer(0), default=0, help="random seed (%(default)s)")
    parser.add_argument(
        "--absent", choices=ABSENT, help="meaning of entries that a sparse file does not list"
    )
    add_json(parser)
    add_columns(parser, "row", "col", "value", "weight")
    parser.set_defaults(run=run)


def run(args: Namespace) -> int:
    """Read, split, write."""
    from ..data.observations import Observations
    from ..data.split import split
    from ..errors import DataError
    from .output import check_writable, print_json

    for path in (args.train, args.test):
        if path.suffix not in (".csv", ".npz"):
            raise DataError(f"cannot write {path}: give a name that ends in .csv or .npz")
        check_writable(path, inputs=[args.file])
    if args.train == args.test:
        raise DataError(f"TRAIN and TEST are both {args.train}; give two names")
    data = Observations.from_file(args.file, args.row, args.col, args.value, args.absent, weight=args.weight)
    parts = split(data, args.fraction, args.seed)
    for path, part in zip((args.train, args.test), parts, strict=True):
        _write(path, part)
    if args.json:
        print_json({"train": parts[0].stored, "test": parts[1].stored})
    else:
        print(f"{parts[0].stored:,} entries in {args.train}, {parts[1].stored:,} in {args.test}")
    return 0


def _write(path: Path, data: Any) -> None:
    import numpy as np

    from ..data.labels import named
    from .output import write_csv

    if path.suffix == ".npz":
        data.save(path)
        return
    rows, cols, values = data.entries(np.arange(data.stored))
    columns = [named(data.row_labels, rows).tolist(), named(data.col_labels, cols).tolist()]
    numbers = [values] if data.entry_weights is None else [values, data.entry_weights]
    header = ("row", "column", "value", "weight")[: 2 + len(numbers)]
    text = ((f"{x:.9g}" for x in column.tolist()) for column in numbers)
    write_csv(path, header, zip(*columns, *text, strict=True))
