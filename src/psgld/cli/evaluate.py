"""`psgld evaluate`: how well a saved posterior predicts entries that it has not seen."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import Any

import numpy as np

from .options import Parser, add_columns, add_json, add_level, add_skip_unknown


def add(commands: Any) -> None:
    """Add the command."""
    parser: Parser = commands.add_parser(
        "evaluate",
        help="score predictions of held-out entries",
        description="Predict the entries of TEST (any file that `psgld fit` reads) and compare. The\n"
        "baseline predicts the mean of the test values everywhere: no constant can do better.\n"
        "With --weight, all scores are weighted means.",
        epilog="Example:\n  psgld evaluate run.npz test.csv --level 0.9",
    )
    parser.add_argument("run_file", type=Path, metavar="RUN", help="run.npz or run.zarr")
    parser.add_argument("test", type=Path, metavar="TEST")
    add_level(parser)
    add_skip_unknown(parser)
    add_json(parser)
    add_columns(parser, "row", "col", "value", "weight")
    parser.set_defaults(run=run)


def run(args: Namespace) -> int:
    """Read the entries, predict, compare."""
    from ..posterior import load
    from .output import print_json, say
    from .scores import score
    from .tables import read_entries, select_known

    posterior = load(args.run_file)
    rows, cols, values, weights = read_entries(args.test, args.row, args.col, args.value, args.weight)
    keep = select_known(posterior, rows, cols, args.skip_unknown)
    values, weights = values[keep], None if weights is None else weights[keep]
    if posterior.seen is not None and posterior.seen.absent == "zero":
        say(
            f"note: absent entries of the run are zeros; scored: the {len(values):,} entries of {args.test.name}"
        )
    posterior.model.check_values(values)
    baseline = float(np.average(values, weights=weights))
    s = score(posterior.predict(rows[keep], cols[keep]), values, args.level, baseline, weights)
    if args.json:
        print_json(vars(s))
        return 0
    print(f"entries        {s.entries:,}")
    print(f"RMSE           {s.rmse:.4g}   (baseline, always {s.baseline:.4g}: {s.baseline_rmse:.4g})")
    print(f"MAE            {s.mae:.4g}   (baseline: {s.baseline_mae:.4g})")
    print(f"log density    {s.log_density:.4g}   (mean log predictive density per entry)")
    print(f"coverage       {s.coverage:.1%}   of the entries lie in their {s.level:.0%} intervals")
    return 0
