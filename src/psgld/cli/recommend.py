"""`psgld recommend`: the best columns of some rows."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import Any

from .options import Parser, add_columns, add_json, add_level, integer

_HEADER = ("row", "rank", "column", "score", "mean", "sd", "low", "high")


def add(commands: Any) -> None:
    """Add the command."""
    parser: Parser = commands.add_parser(
        "recommend",
        help="rank the best columns of rows, with uncertainty",
        description="Rank the columns that a row has no entry for. Prints CSV: row, rank, column, the score of\n"
        "the policy, mean and sd of μ there, and low and high, between which a new observation lies with\n"
        "probability --level. Policies: mean; ucb (mean + WIDTH sd); thompson (one\n"
        "draw per row); probability (that μ is above THRESHOLD).",
        epilog="Example:\n  psgld recommend run.npz user-1 user-2 -n 5 --policy ucb",
    )
    parser.add_argument("run_file", type=Path, metavar="RUN", help="run.npz or run.zarr")
    parser.add_argument("rows", nargs="*", metavar="ROW", help="labels of rows (all)")
    parser.add_argument("-n", type=integer(1), default=10, help="recommendations per row (%(default)s)")
    parser.add_argument(
        "--policy",
        choices=("mean", "ucb", "thompson", "probability"),
        default="mean",
        help="score (%(default)s)",
    )
    parser.add_argument("--width", type=float, help="ucb: number of standard deviations (1)")
    parser.add_argument("--threshold", type=float, help="probability: the value that μ exceeds")
    seen = parser.add_mutually_exclusive_group()
    seen.add_argument(
        "--seen",
        type=Path,
        metavar="FILE",
        help="entries to exclude (those of the data)",
    )
    seen.add_argument("--all", action="store_true", help="exclude nothing")
    add_level(parser)
    parser.add_argument("--seed", type=integer(0), default=0, help="thompson: random seed (%(default)s)")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("-o", "--output", type=Path, metavar="FILE.csv", help="output file (stdout)")
    add_json(form)
    add_columns(parser, "row", "col", "value")
    parser.set_defaults(run=run)


def run(args: Namespace) -> int:
    """Load, rank, write."""
    from ..posterior import load
    from .output import check_csv, print_json, write_csv

    check_csv(args.output, args.run_file, *([args.seen] if args.seen else []))
    policy = _policy(args)
    posterior = load(args.run_file)
    exclude = _seen(args, posterior)
    found = posterior.recommend(args.rows or None, args.n, policy, exclude_seen=exclude, seed=args.seed)
    table = found.records(args.level)
    if args.json:
        print_json({"policy": args.policy, "level": args.level, "recommendations": table})
        return 0
    numbers = ([f"{x:.6g}" for x in table[name]] for name in _HEADER[3:])
    lines = zip(table["row"], table["rank"], table["column"], *numbers, strict=True)
    write_csv(args.output, _HEADER, lines)
    return 0


def _policy(args: Namespace) -> Any:
    from ..errors import DataError
    from ..posterior.recommend import POLICIES, UCB, Probability

    for option, policy in (("threshold", Probability.name), ("width", UCB.name)):
        if getattr(args, option) is not None and args.policy != policy:
            raise DataError(f"--{option} is of --policy {policy}, got --policy {args.policy}")
    if args.policy == Probability.name:
        if args.threshold is None:
            raise DataError("--policy probability needs --threshold")
        return Probability(args.threshold)
    if args.policy == UCB.name and args.width is not None:
        return UCB(args.width)
    return POLICIES[args.policy]()


def _seen(args: Namespace, posterior: Any) -> Any:
    """Return what to leave out: nothing, the entries of a file that the run knows, or those of the data."""
    from ..data.observations import Observations
    from ..errors import DataError
    from .tables import known, read_entries

    if args.all:
        return False
    if args.seen is None:
        if posterior.seen is None:
            raise DataError(
                f"{args.run_file} does not say which entries were seen; give --seen FILE, or --all"
            )
        return True
    rows, cols, values, _ = read_entries(args.seen, args.row, args.col, args.value)
    both = known(posterior.row_labels, posterior.shape[0], rows)
    both &= known(posterior.col_labels, posterior.shape[1], cols)
    if not both.any():
        raise DataError(
            f"none of the {len(rows)} entries of {args.seen} is of a row and a column of the run; "
            "are they swapped? --row and --col name them, --all leaves nothing out"
        )
    from ..data.labels import find_labels

    i = find_labels(posterior.row_labels, rows[both], posterior.shape[0], "row")
    j = find_labels(posterior.col_labels, cols[both], posterior.shape[1], "column")
    return Observations.from_coo(i, j, values[both], posterior.shape, duplicates="last")
