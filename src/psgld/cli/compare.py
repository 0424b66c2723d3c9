"""`psgld compare`: which of several runs, ranks or likelihoods predicts held-out entries best."""

from __future__ import annotations

from argparse import ArgumentTypeError, Namespace
from pathlib import Path
from typing import Any

from ..data.observations import ABSENT
from ..models import LIKELIHOODS
from .options import Parser, add_columns, add_json, add_skip_unknown, integer


def add(commands: Any) -> None:
    """Add the command."""
    parser: Parser = commands.add_parser(
        "compare",
        help="compare runs, or ranks and likelihoods, by held-out entries",
        description="Compare several RUNs by the entries of --test, or by those that were held out of them all; or,\n"
        "with --ranks or --likelihoods, hold out a tenth of one FILE of data, fit each model and compare.\n"
        "Prints log predictive densities, their differences with standard errors, and a recommendation.",
        epilog="Example:\n  psgld compare rank8.npz rank16.npz --test test.csv\n"
        "  psgld compare ratings.csv --ranks 4,8,16\n  psgld compare ratings.csv --ranks auto -o run.npz",
    )
    parser.add_argument(
        "files", type=Path, nargs="+", metavar="RUN", help="run.npz or run.zarr; or one FILE of data"
    )
    parser.add_argument("--test", type=Path, metavar="TEST", help="held-out entries")
    group = parser.add_argument_group("models to fit")
    group.add_argument(
        "--ranks", type=_ranks, metavar="R", help="such as 4,8,16; auto: the search of select_rank"
    )
    group.add_argument("--likelihoods", type=_names, metavar="L", help="such as poisson,gamma")
    group.add_argument("--absent", choices=ABSENT, help="meaning of entries that a sparse file does not list")
    group.add_argument("--draws", type=integer(1), help="draws per chain")
    group.add_argument("--chains", type=integer(1), default=2, help="independent chains (%(default)s)")
    group.add_argument("--seed", type=integer(0), default=0, help="random seed (%(default)s)")
    group.add_argument("-o", "--output", type=Path, metavar="RUN", help="where to save the recommended one")
    group.add_argument("-q", "--quiet", action="store_true", help="no bar, no notes")
    add_skip_unknown(parser)
    add_json(parser)
    add_columns(parser, "row", "col", "value", "weight")
    parser.set_defaults(run=run)


def run(args: Namespace) -> int:
    """Compare, print, perhaps save."""
    from ..errors import DataError
    from ..storage.backends import BACKENDS, durable, is_writable
    from .output import check_writable, print_json

    if args.output is not None:
        if not is_writable(args.output):
            raise DataError(f"cannot write {args.output}: give a name that ends in {durable(BACKENDS)}")
        check_writable(args.output, store=True, inputs=args.files)
    found = _fit(args) if args.ranks or args.likelihoods else _runs(args)
    if args.output is not None:
        found.posterior.save(args.output)
    if args.json:
        print_json(found.to_dict())
    else:
        print(found)
    return 0


def _runs(args: Namespace) -> Any:
    """Compare saved runs."""
    from ..errors import DataError
    from ..model_selection import compare
    from ..posterior import load
    from .evaluate import held_out

    if len(args.files) < 2:
        raise DataError("give two runs or more, or one file of data and --ranks or --likelihoods")
    names = [str(path) for path in args.files]
    if len(set(names)) < len(names):
        raise DataError(f"each run is compared once, got {', '.join(names)}")
    posteriors = dict(zip(names, map(load, args.files), strict=True))
    test = None if args.test is None else held_out(next(iter(posteriors.values())), args.test, args)
    return compare(posteriors, test)


def _fit(args: Namespace) -> Any:
    """Fit models to a file, and compare them."""
    from ..data.observations import Observations
    from ..errors import DataError
    from ..model_selection import compare, select_rank, usual_model
    from ..models import likelihood as as_likelihood

    if len(args.files) != 1:
        raise DataError(f"models are fitted to one file of data, got {len(args.files)}")
    columns = args.row, args.col, args.value
    data = Observations.from_file(args.files[0], *columns, args.absent, weight=args.weight)
    test = None if args.test is None else Observations.from_file(args.test, *columns, weight=args.weight)
    options = {"draws": args.draws, "chains": args.chains, "seed": args.seed}
    options["progress"] = False if args.quiet else None
    if args.ranks != "auto":
        return compare(data, test, ranks=args.ranks, likelihoods=args.likelihoods, **options)
    if args.likelihoods and len(args.likelihoods) > 1:
        raise DataError("--ranks auto is of one likelihood; compare the results")
    if not args.likelihoods:
        return select_rank(data, test=test, **options)
    model = usual_model(1, as_likelihood(args.likelihoods[0]))
    return select_rank(data, test=test, model=model, **options)


def _ranks(text: str) -> Any:
    if text == "auto":
        return text
    try:
        ranks = [int(word) for word in text.split(",")]
    except ValueError:
        ranks = [0]
    if min(ranks) < 1:
        raise ArgumentTypeError(f"must be integers >= 1, such as 4,8,16, or auto, got {text!r}")
    return ranks


def _names(text: str) -> list[str]:
    names = text.split(",")
    for name in names:
        if name not in LIKELIHOODS:
            raise ArgumentTypeError(f"must be some of {', '.join(LIKELIHOODS)}, got {text!r}")
    return names
