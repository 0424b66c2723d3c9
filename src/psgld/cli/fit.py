"""`psgld fit`: a file in, a posterior out."""

from __future__ import annotations

import time
import warnings
from argparse import Namespace
from dataclasses import fields
from pathlib import Path
from typing import Any

from ..data.source import Source
from ..data.split import split
from ..dynamics.metrics import METRICS
from ..engines import Engine
from ..errors import DataError, PsgldWarning, SamplingError
from ..models import LIKELIHOODS, MAX_RANK, FactorModel, guess
from ..posterior.posterior import Posterior
from ..runs.interrupt import like_ctrl_c
from ..samplers import SAMPLERS, Sampler
from ..storage.backends import BACKENDS, durable, is_resumable, is_writable
from ..storage.resume import STORE_DTYPES
from .options import (
    INTERRUPTED,
    Parser,
    above_zero,
    add_columns,
    add_json,
    integer,
    number,
    option_of,
    path_or_url,
    seconds,
    share,
)
from .output import check_writable, print_json, say, size_of
from .reading import add_meaning, read_data

_SETTINGS = ("blocks", "step_size", "metric", "size", "workers", "exchange")
"""Settings of samplers that have an option."""


def add(commands: Any) -> None:
    """Add the command."""
    parser: Parser = commands.add_parser(
        "fit",
        help="sample the posterior of a factor model and save it",
        description="Sample the posterior of V ≈ W H. FILE is delimited text (row, column, value; header\n"
        "optional), Parquet, Matrix Market, .npy (dense, NaN = unobserved), .npz (scipy.sparse), or a directory\n"
        "that `psgld shard` wrote.\n"
        "Ctrl-C or SIGTERM stops early and saves the draws made so far. A RUN.zarr is written while sampling,\n"
        "and --resume resumes the run, whatever stopped it.",
        epilog="Example:\n  psgld fit ratings.csv -o run.npz --rank 32\n"
        "  psgld fit ratings.csv -o run.zarr --rank 32 --resume\n"
        "  psgld fit counts.mtx -o run.npz --rank 20 --likelihood poisson --absent zero",
    )
    parser.add_argument("file", type=path_or_url, metavar="FILE")
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="RUN", help="where to save: RUN.npz or RUN.zarr"
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="no bar, no notes, no summary")
    add_json(parser)
    add_model(parser)
    add_sampling(parser)
    _add_store(parser)
    add_columns(parser, "row", "col", "value", "weight")
    parser.add_argument(
        "--holdout",
        type=share,
        metavar="F",
        help="hold out a fraction of the entries, by --seed, for psgld evaluate",
    )
    parser.set_defaults(run=run)


def add_model(parser: Parser) -> None:
    """Add the options of the model."""
    from argparse import BooleanOptionalAction

    group = parser.add_argument_group("model")
    group.add_argument("--rank", type=integer(1, MAX_RANK), required=True, help="number of components K")
    group.add_argument(
        "--likelihood",
        choices=("auto", *LIKELIHOODS),
        default="auto",
        help="auto (default): chosen from the values, and printed",
    )
    group.add_argument(
        "--bias",
        action=BooleanOptionalAction,
        default=None,
        help="row and column biases (default: only for gaussian)",
    )
    add_meaning(group)


def add_sampling(parser: Parser) -> None:
    """Add the options of chains and samplers."""
    group = parser.add_argument_group("sampling (defaults depend on the data)")
    group.add_argument("--draws", type=integer(1), help="draws per chain (200, up to 600 for small data)")
    group.add_argument("--tune", type=integer(0), help="iterations of burn-in")
    group.add_argument("--thin", type=integer(1), help="iterations per draw")
    group.add_argument("--chains", type=integer(1), default=2, help="independent chains (%(default)s)")
    group.add_argument("--starts", type=integer(2), help="short chains; all chains start at the best of them")
    group.add_argument("--seed", type=integer(0), default=0, help="random seed (%(default)s)")
    group.add_argument("--threads", type=integer(1), help="threads per rank (all cores)")
    group.add_argument(
        "--engine", choices=("auto", "threads", "mpi"), default="auto", help="auto: mpi if started by mpiexec"
    )
    group.add_argument(
        "--dtype", choices=("float32", "float64"), default="float32", help="precision (%(default)s)"
    )
    group.add_argument("--sampler", choices=tuple(SAMPLERS), default="psgld", help="(%(default)s)")
    group = parser.add_argument_group("settings of some samplers")
    group.add_argument("--blocks", type=integer(1), help="number of row strips and of column strips, B")
    group.add_argument("--step-size", type=above_zero, help="a constant step size ε")
    group.add_argument("--metric", choices=tuple(METRICS))
    group.add_argument(
        "--size", type=number, help="sgld, dsgld: entries per iteration; below 1, a fraction of them"
    )
    group.add_argument("--workers", type=integer(1), help="dsgld: number of workers, one shard each")
    group.add_argument("--exchange", type=integer(1), help="dsgld: iterations between two exchanges")


def _add_store(parser: Parser) -> None:
    group = parser.add_argument_group("store (RUN.zarr)")
    group.add_argument(
        "--resume", action="store_true", help="resume RUN.zarr, also with more --draws; or start it"
    )
    group.add_argument(
        "--checkpoint-every",
        type=seconds,
        default=30.0,
        metavar="S",
        help="seconds between checkpoints (%(default)g)",
    )
    group.add_argument(
        "--store-dtype", choices=STORE_DTYPES, help="precision of W and H in the store; float16 halves it"
    )


def run(args: Namespace) -> int:
    """Read, sample, save, report; on several ranks, by the first."""
    from ..engines import MPI, Threads
    from ..engines.distributed.mpi import launched

    if args.engine == "threads" or (args.engine == "auto" and not launched()):
        with like_ctrl_c():
            return _run(args, Threads(args.threads))
    engine = MPI(args.threads)
    with engine.guard():
        args.quiet = args.quiet or engine.rank > 0
        return _run(args, engine)


def _run(args: Namespace, engine: Engine) -> int:
    from ..runs.inputs import DRAWS
    from ..sample import sample

    store = _store(args)
    if engine.rank == 0:
        check_writable(args.output, store=bool(store), inputs=[Path(args.file)])
    sampler = sampler_of(args)
    data = engine.own_share(_held_out(read_data(args), args))
    model = model_of(args, data)
    numbers = args.chains * (args.draws or DRAWS) * sum(data.shape) * model.components
    if not store and engine.rank == 0:
        check_writable(args.output, numbers * (8 if args.dtype == "float64" else 4))
    start = time.perf_counter()
    posterior = sample(
        data,
        model,
        sampler=sampler,
        engine=engine,
        draws=args.draws,
        tune=args.tune,
        thin=args.thin,
        chains=args.chains,
        starts=args.starts,
        seed=args.seed,
        progress=False if args.quiet else None,
        **store,
    )
    elapsed = time.perf_counter() - start
    if engine.any("unsaved" in posterior.settings):
        found = _rescue(args.output, posterior) if engine.rank == 0 else "see rank 0"
        engine.agree(0.0)  # the other ranks wait for that
        raise DataError(found)
    if engine.rank == 0:
        if not store:
            posterior.save(args.output)
        _report(args, posterior, elapsed)
    return INTERRUPTED if posterior.interrupted else 0


def _rescue(output: Path, posterior: Posterior) -> str:
    """Save the draws of a store that could not be written to a file beside it; say what became of them."""
    why = posterior.settings.get("unsaved", f"cannot write {output}")
    names = (output.with_name(f"{output.stem}{end}.npz") for end in ("", *(f"-{n}" for n in range(2, 1000))))
    file = next(name for name in names if not name.exists())
    try:
        posterior.save(file)
        return f"{why}; all draws of the run are in {file}"
    except DataError as error:
        left = (
            "those since its last checkpoint; repair that, then --resume"
            if output.is_dir()
            else "all of them"
        )
        return f"{why}; {error}; the draws are lost, {left}"


def sampler_of(args: Namespace) -> Sampler:
    """Build the sampler from the settings that were given; refuse those that it does not have."""
    make: Any = SAMPLERS[args.sampler]
    given = {name: getattr(args, name) for name in _SETTINGS if getattr(args, name) is not None}
    known = [field.name for field in fields(make)]
    for name in given:
        if name not in known:
            has = ", ".join(option_of(other) for other in _SETTINGS if other in known) or "none of these"
            raise SamplingError(f"--sampler {args.sampler} has no {option_of(name)}; it has {has}")
    sampler: Sampler = make(dtype=args.dtype, **given)
    return sampler


def _store(args: Namespace) -> dict[str, Any]:
    """Return the options of a store, if the output is one."""
    if is_resumable(args.output):
        warnings.filterwarnings("ignore", "cannot write", PsgldWarning)  # said below, as an error
        return {
            "store": args.output,
            "resume": args.resume,
            "checkpoint_every": args.checkpoint_every,
            "store_dtype": args.store_dtype,
        }
    if not is_writable(args.output):
        raise DataError(f"cannot write {args.output}: give a name that ends in {durable(BACKENDS)}")
    if args.resume or args.store_dtype:
        raise DataError(f"--resume and --store-dtype need a store, such as -o run.zarr, got -o {args.output}")
    return {}


def _held_out(data: Source, args: Namespace) -> Source:
    """Return the data without the entries to hold out, which the result then keeps."""
    if args.holdout is None:
        return data
    if data.on_disk is not None:
        raise DataError(
            "--holdout is for files that fit into memory; of shards, split the file before psgld shard"
        )
    return split(data, args.holdout, args.seed)[0]


def model_of(args: Namespace, data: Source) -> FactorModel:
    """Build the model; what is guessed is said."""
    likelihood, reason = args.likelihood, ""
    if likelihood == "auto":
        likelihood, reason = guess(data.sample_entries(100_000)[2])
    model = FactorModel(args.rank, likelihood, bias=bool(args.bias))
    if args.bias is None and not model.likelihood.nonnegative_mean:
        model = FactorModel(args.rank, likelihood, bias=True)
    if args.likelihood == "auto" and not args.quiet:
        say(f"note: {likelihood.name} likelihood, because {reason} (--likelihood chooses another)")
    return model


def _report(args: Namespace, posterior: Posterior, seconds: float) -> None:
    draws = posterior.draws.phi.shape[1]
    if posterior.interrupted:
        more = "; --resume resumes the run" if is_resumable(args.output) else ""
        say(f"interrupted: {posterior.chains} chain(s) × {draws} draws so far saved to {args.output}{more}")
    elif not args.quiet:
        say(f"saved to {args.output} ({size_of(args.output)}) after {seconds:.1f} s")
    if args.json:
        print_json(record(posterior) | {"output": str(args.output), "seconds": seconds})
    elif not args.quiet:
        print(posterior.summary())


def record(posterior: Posterior) -> dict[str, Any]:
    """Return the outcome of a run, serialisable as JSON."""
    lp = posterior.sample_stats["lp"]
    return {
        "shape": list(posterior.shape),
        "model": posterior.model.to_dict(),
        "settings": posterior.settings,
        "chains": posterior.chains,
        "draws": int(lp.shape[1]),
        "log_posterior": float(lp.mean()),
        "phi": float(posterior.draws.phi.mean()),
        "parameters": {name: float(x.mean()) for name, x in posterior.parameters.items()},
        "divergences": posterior.divergences,
        "interrupted": posterior.interrupted,
        "convergence": _convergence(posterior),
    }


def _convergence(posterior: Posterior) -> dict[str, Any] | None:
    """Return the verdict and what it rests on; None if that cannot be told."""
    from ..errors import SamplingError

    try:
        found: dict[str, Any] = posterior.diagnose().record()
    except SamplingError:
        return None
    return found
