"""Reads the data of a command: its options, and the file or the shards that it names."""

from __future__ import annotations

from argparse import Namespace, _ActionsContainer

from ..data.labels import DUPLICATES
from ..data.observations import ABSENT, Observations, observations
from ..data.source import Source
from ..errors import DataError
from .options import above_zero


def add_meaning(group: _ActionsContainer) -> None:
    """Add --absent, --zero-weight and --duplicates."""
    group.add_argument("--absent", choices=ABSENT, help="meaning of entries that a sparse file does not list")
    group.add_argument(
        "--zero-weight",
        type=above_zero,
        default=1.0,
        metavar="W",
        help="with --absent zero: how often each absent entry counts (%(default)g)",
    )
    group.add_argument(
        "--duplicates",
        choices=DUPLICATES,
        default="error",
        help="treatment of repeated pairs (%(default)s)",
    )


def read_data(args: Namespace) -> Source:
    """Read a file, or open shards, which stay on disk."""
    if isinstance(args.file, str) or args.file.is_dir():
        for name, usual in (("row", None), ("col", None), ("value", None), ("duplicates", "error")):
            if getattr(args, name) != usual:
                raise DataError(f"--{name} is for files; shards have been read, see psgld shard --{name}")
        if args.weight is not None or args.zero_weight != 1.0:
            raise DataError("--weight and --zero-weight are for files; shards have no weights")
        return observations(args.file, args.absent)
    columns = args.row, args.col, args.value
    return Observations.from_file(
        args.file, *columns, args.absent, args.duplicates, args.weight, args.zero_weight
    )
