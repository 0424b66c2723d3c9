"""`psgld demo`: from data to predictions with intervals in a few seconds, with nothing to prepare."""

from __future__ import annotations

import csv
import time
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import DataError
from .options import INTERRUPTED, Parser, integer

if TYPE_CHECKING:
    from ..datasets import Synthetic
    from ..posterior.posterior import Posterior

_RANK, _LEVEL = 8, 0.9
_SIZES = {"users": 1000, "items": 500, "entries": 40_000}
_SMALL = {"users": 100, "items": 60, "entries": 1500}


def add(commands: Any) -> None:
    """Add the command."""
    parser: Parser = commands.add_parser(
        "demo",
        help="generate ratings, sample, predict, plot: a complete example in seconds",
        description="Generate ratings of 1 to 5 stars, hold some out, sample the posterior, predict the held-out\n"
        "ratings, plot. All files are written to one directory.",
        epilog="Example:\n  psgld demo -o psgld-demo",
    )
    parser.add_argument(
        "-o", "--output", type=Path, default=Path("psgld-demo"), metavar="DIR", help="directory (%(default)s)"
    )
    parser.add_argument("--small", action="store_true", help="less data, takes a second or two")
    parser.add_argument("--seed", type=integer(0), default=0, help="random seed (%(default)s)")
    parser.set_defaults(run=run)


def run(args: Namespace) -> int:
    """Make data, sample, predict, draw, and say what to try next."""
    from ..datasets import ratings
    from ..models import FactorModel
    from ..sample import sample
    from .output import check_writable

    out: Path = args.output
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"cannot make the directory {out}: {error.strerror}; give another with -o") from None
    check_writable(out / "demo.npz")
    data = ratings(**(_SMALL if args.small else _SIZES), seed=args.seed)
    assert data.test is not None
    held_out = len(data.test[2])
    users, items = data.V.shape
    print(f"1. Data: {users:,} users rate {items:,} items with 1 to 5 stars; most cells are empty.")
    print(f"   {data.V.stored:,} ratings to learn from, {held_out:,} held out to test on.")
    print(f"2. Sampling: a rank-{_RANK} Gaussian model with biases, 2 chains × 200 draws …", flush=True)
    start = time.perf_counter()
    posterior = sample(data.V, FactorModel(_RANK, "gaussian", bias=True), seed=args.seed)
    print(f"   done in {time.perf_counter() - start:.1f} s.")
    if posterior.interrupted:
        print("   Interrupted: continuing with the draws made so far.")
    _predictions(data, posterior)
    _write(data, posterior, out)
    print(_next(out))
    return INTERRUPTED if posterior.interrupted else 0


def _predictions(data: Synthetic, posterior: Posterior) -> None:
    """Say how well the held-out ratings are predicted, and show one."""
    assert data.test is not None
    rows, cols, values = data.test
    prediction = posterior.predict(rows, cols)
    s = posterior.evaluate(data.test, _LEVEL)
    low, high = (bound[0] for bound in prediction.interval(_LEVEL))
    print("3. Predicting the held-out ratings:")
    print(
        f"   RMSE {s.rmse.value:.3f}, against {s.baseline_rmse:.3f} for always predicting the mean, {s.baseline:.2f}."
    )
    print(f"   The {_LEVEL:.0%} intervals hold {s.coverage[_LEVEL].value:.1%} of them.")
    print(f"   For example {rows[0]}, {cols[0]}: {prediction.mean[0]:.1f} stars expected,")
    print(f"   {low:.1f} to {high:.1f} with probability {_LEVEL:.0%}; the user gave {values[0]:.0f}.")


def _write(data: Synthetic, posterior: Posterior, out: Path) -> None:
    """Write the data, the posterior and the plot."""
    import numpy as np

    rows, cols, values = data.V.entries(np.arange(data.V.stored))
    assert data.V.row_labels is not None and data.V.col_labels is not None and data.test is not None
    _write_csv(out / "train.csv", data.V.row_labels[rows], data.V.col_labels[cols], values)
    _write_csv(out / "test.csv", *data.test)
    posterior.save(out / "demo.npz")
    print(f"4. Written to {out}: the ratings (train.csv, test.csv), the posterior (demo.npz)")
    try:
        from ..posterior.plots import overview

        overview(posterior, data.test).savefig(out / "demo.png", dpi=120)
        print("   and a plot of the results (demo.png).")
    except ImportError:
        print("   (no plot: matplotlib is not installed; pip install matplotlib).")


def _write_csv(path: Path, rows: Any, cols: Any, values: Any) -> None:
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("user", "item", "rating"))
        writer.writerows(zip(rows.tolist(), cols.tolist(), map(int, values.tolist()), strict=True))


def _next(out: Path) -> str:
    commands = (
        f"psgld summary {out}/demo.npz",
        f"psgld evaluate {out}/demo.npz {out}/test.csv",
        f"psgld predict {out}/demo.npz {out}/test.csv | head",
        f"psgld fit {out}/train.csv -o {out}/run.npz --rank 16",
    )
    return "\n".join(["5. Next, try:", *(f"   {command}" for command in commands)])
