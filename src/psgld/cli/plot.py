"""`psgld plot`: a plot of a saved posterior."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import Any

from ..errors import DataError
from .options import Parser, add_columns, add_skip_unknown

_NEED_TEST = ("observed", "calibration", "coverage")
_PLOTS = (
    "overview", "trace", *_NEED_TEST, "examples", "certainty", "components", "dictionary", "activations", "factor_map",
    "parts",
)  # fmt: skip
_SUFFIXES = (".png", ".svg", ".pdf")


def add(commands: Any) -> None:
    """Add the command."""
    parser: Parser = commands.add_parser(
        "plot",
        help="plot a saved posterior",
        description="Write a plot of a run to FILE.png, FILE.svg or FILE.pdf. The plots observed, calibration and\n"
        "coverage compare predictions with held-out entries: those of --test, or of fit --holdout. Needs matplotlib.",
        epilog="Example:\n  psgld plot run.npz -o trace.png --what trace\n"
        "  psgld plot run.npz -o run.png --test test.csv",
    )
    parser.add_argument("run_file", type=Path, metavar="RUN", help="run.npz or run.zarr")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE", help="output file")
    parser.add_argument("--what", choices=_PLOTS, default="overview", help="the plot (%(default)s)")
    parser.add_argument("--test", type=Path, metavar="FILE", help="held-out entries")
    add_skip_unknown(parser)
    add_columns(parser, "row", "col", "value")
    parser.set_defaults(run=run)


def run(args: Namespace) -> int:
    """Load, plot, write."""
    from ..posterior import load
    from .output import check_writable, say, size_of
    from .tables import read_test

    if args.output.suffix not in _SUFFIXES:
        raise DataError(f"{args.output}: give a name that ends in {', '.join(_SUFFIXES)}")
    check_writable(args.output, inputs=[path for path in (args.run_file, args.test) if path is not None])
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise DataError("plots need matplotlib: pip install 'psgld[plot]'; psgld report does not") from None
    from ..posterior import plots

    posterior = load(args.run_file)
    if args.what in _NEED_TEST and args.test is None and posterior.held_out is None:
        raise DataError(f"--what {args.what} needs held-out entries: --test FILE")
    test = None if args.test is None else read_test(args, posterior)
    plot = getattr(plots, args.what)
    given = (posterior, test) if args.what in (*_NEED_TEST, "overview", "examples") else (posterior,)
    made = plot(*given)
    figure = made if args.what == "overview" else made.figure
    figure.savefig(args.output, dpi=150)
    say(f"saved to {args.output} ({size_of(args.output)})")
    return 0
