"""`psgld evaluate`: how well a saved posterior predicts entries that it has not seen."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .options import Parser, add_columns, add_json, add_skip_unknown, integer, level, number

if TYPE_CHECKING:
    from ..data.cells import Cells
    from ..posterior.posterior import Posterior


def add(commands: Any) -> None:
    """Add the command."""
    parser: Parser = commands.add_parser(
        "evaluate",
        help="score predictions of held-out entries",
        description="Predict the entries of TEST (any file that `psgld fit` reads) and compare; without TEST, the\n"
        "entries that `psgld fit --holdout` or `psgld.split` held out. The baseline predicts the mean of\n"
        "the test values everywhere: no constant can do better. With --weight, all scores are weighted means.",
        epilog="Example:\n  psgld evaluate run.npz test.csv\n  psgld evaluate run.zarr -k 10 --relevant 4",
    )
    parser.add_argument("run_file", type=Path, metavar="RUN", help="run.npz or run.zarr")
    parser.add_argument("test", type=Path, metavar="TEST", nargs="?")
    parser.add_argument(
        "--level",
        type=level,
        action="append",
        help="level of the intervals whose coverage is measured; may be repeated (0.5, 0.8, 0.9, 0.95)",
    )
    parser.add_argument(
        "-k", type=integer(1), metavar="K", help="also NDCG, recall and hit rate of K recommendations per row"
    )
    parser.add_argument(
        "--relevant",
        type=number,
        metavar="V",
        help="with -k: least value of an entry that should be found (all)",
    )
    add_skip_unknown(parser)
    add_json(parser)
    add_columns(parser, "row", "col", "value", "weight")
    parser.set_defaults(run=run)


def run(args: Namespace) -> int:
    """Read the entries, predict, compare."""
    from ..posterior import load
    from ..posterior.evaluate import LEVELS
    from .output import print_json, say

    posterior = load(args.run_file)
    cells = held_out(posterior, args.test, args)
    if posterior.seen is not None and posterior.seen.absent == "zero":
        where = "that were held out" if args.test is None else f"of {args.test.name}"
        say(f"note: absent entries of the run are zeros; scored: the {len(cells):,} entries {where}")
    found = posterior.evaluate(cells, args.level or LEVELS, args.k, args.relevant)
    if args.json:
        print_json(found.to_dict())
    else:
        print(found)
    return 0


def held_out(posterior: Posterior, path: Path | None, args: Namespace) -> Cells:
    """Return the entries of a file whose rows and columns the posterior has; without a file, those held out."""
    from ..posterior.held_out import entries
    from .tables import read_entries, select_known

    if path is None:
        return entries(posterior)
    rows, cols, values, weights = read_entries(path, args.row, args.col, args.value, args.weight)
    keep = select_known(posterior, rows, cols, args.skip_unknown)
    cells = entries(posterior, (rows[keep], cols[keep], values[keep]))
    return cells if weights is None else replace(cells, weights=weights[keep].astype(float))
