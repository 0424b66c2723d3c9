"""`psgld plan`: what a run would take, before it is run."""

from __future__ import annotations

import json
import time
from argparse import ArgumentTypeError, Namespace
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from ..checks import is_number
from ..errors import DataError, SamplingError, in_bytes
from .fit import add_model, add_sampling, model_of, sampler_of
from .options import Parser, add_columns, add_json, option_of, path_or_url
from .reading import read_data

_SIZED = (
    "rows",
    "cols",
    "entries",
    "ranks",
    "devices",
    "network",
    "bandwidth",
    "latency",
    "entry",
    "coefficient",
)
"""Options of problems without a file."""

_MEASURED = ("latency", "bandwidth", "entry", "coefficient", "efficiency")


def number(text: str) -> int:
    """Read an integer; 1e9 is one."""
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not 1 <= value < 1e18 or value != int(value):
        raise ArgumentTypeError(f"must be an integer >= 1, such as 120 or 1e9, got {text!r}")
    return int(value)


def add(commands: Any) -> None:
    """Add the command."""
    parser: Parser = commands.add_parser(
        "plan",
        help="predict memory and time of a run",
        description="Predict memory and time of `psgld fit FILE` with the same options: the data are read, and one\n"
        "chain runs for about a second. Without FILE, predict those of data of a given size, also on many machines:\n"
        "memory per rank, bytes sent, and time per iteration and per pass over the data. Speed is then measured on\n"
        "this machine unless given. Without --blocks or --ranks, the fastest are chosen.",
        epilog="Example:\n  psgld plan ratings.csv --rank 32\n"
        "  psgld plan --rows 1e9 --cols 1e7 --entries 1e11 --rank 50 --ranks 1000 --cores 32",
    )
    parser.add_argument(
        "file", type=path_or_url, nargs="?", metavar="FILE", help="the data, as for psgld fit"
    )
    add_model(parser)
    add_sampling(parser)
    add_columns(parser, "row", "col", "value", "weight")
    group = parser.add_argument_group("without FILE: the problem")
    for name, text in (("rows", "I"), ("cols", "J"), ("entries", "N")):
        group.add_argument(f"--{name}", type=number, metavar=text)
    group.add_argument(
        "--passes", type=number, default=600, help="passes over the data of the run (%(default)s)"
    )
    group = parser.add_argument_group("without FILE: the machines")
    group.add_argument(
        "--ranks", type=number, metavar="R", help="processes (without --blocks: an upper bound)"
    )
    group.add_argument(
        "--devices", type=number, metavar="D", help="GPUs of JAX(devices=D): memory per device only"
    )
    group.add_argument("--cores", type=number, default=1, help="cores per rank (%(default)s)")
    group.add_argument("--memory", type=float, metavar="GB", help="memory available per rank")
    group.add_argument(
        "--network", type=Path, metavar="JSON", help="output of psgld doctor --mpi --json: network and speed"
    )
    group.add_argument("--bandwidth", type=float, metavar="GBIT", help="bandwidth in Gb/s (10)")
    group.add_argument("--latency", type=float, metavar="US", help="latency in microseconds (30)")
    group.add_argument("--sharing", type=float, default=1.0, help="messages that share a link (%(default)s)")
    group.add_argument("--entry", type=float, metavar="NS", help="nanoseconds per entry, one core (measured)")
    group.add_argument(
        "--coefficient", type=float, metavar="NS", help="nanoseconds per coefficient, one core (measured)"
    )
    add_json(parser)
    parser.set_defaults(run=run)


def run(args: Namespace) -> int:
    """Predict and report."""
    from .output import print_json

    record, text = _sized(args) if args.file is None else _rehearsed(args)
    if args.json:
        print_json(record)
    else:
        print(text)
    return 0


def _rehearsed(args: Namespace) -> tuple[dict[str, Any], str]:
    """Predict the run of `psgld fit` with these options."""
    from ..engines import Threads
    from ..tools.rehearsal import rehearse

    for name in _SIZED:
        if getattr(args, name) is not None:
            raise DataError(f"{option_of(name)} is for problems without a file; leave it out, or {args.file}")
    if args.starts:
        raise SamplingError("psgld plan does not predict --starts; leave it out")
    sampler, engine = sampler_of(args), Threads(args.threads)
    begun = time.perf_counter()
    data = read_data(args)
    read = time.perf_counter() - begun
    args.quiet = True
    model = model_of(args, data)
    counts = args.draws, args.tune, args.thin
    found = rehearse(data, model, sampler, engine, counts, args.chains)
    record = found.to_dict() | {"read_seconds": read, "shape": list(data.shape), "entries": data.stored}
    record |= {"model": model.to_dict(), "threads": engine.workers}
    lines = [
        ("problem", f"{data.shape[0]:,} × {data.shape[1]:,}, {data.stored:,} entries, K = {args.rank}"),
        ("model", f"{model.likelihood!r}"),
        (
            "draws",
            f"{found.chains} chains × {found.draws:,}, {found.thin:,} iterations apart, after {found.tune:,}",
        ),
        (
            "iteration",
            f"{_time(found.iteration_seconds)} on {engine.workers // found.side_by_side or 1} thread(s); "
            f"a pass over the data is {found.cycle:,} of them",
        ),
        ("memory", f"{in_bytes(found.memory)}, of which draws {in_bytes(found.draws_bytes)}"),
        ("run", f"{_time(found.seconds)}, and {_time(read)} to read the file"),
    ]
    return record, _table(lines)


def _sized(args: Namespace) -> tuple[dict[str, Any], str]:
    """Predict a run on data of a given size."""
    from ..tools import forecast as plan

    missing = [option_of(name) for name in ("rows", "cols", "entries") if getattr(args, name) is None]
    if missing:
        raise DataError(f"a FILE is needed, or --rows, --cols and --entries; {missing[0]} is missing")
    metric = args.metric or "non-negative"
    size = plan.Size(args.rows, args.cols, args.entries, args.rank)
    if args.devices is not None:
        from ..tools.device_memory import device_memory

        found = device_memory(size, args.blocks or args.devices, args.devices)
        return found.to_dict() | {"size": asdict(size)}, found.text(size)
    machine = _machine(args, size)
    ranks = args.ranks or 1
    if args.blocks is not None:
        chosen = plan.forecast(size, machine, args.blocks, ranks, metric)
    else:
        chosen = plan.best(size, machine, ranks, metric)
    turn = plan.turning_point(size, machine)
    record = chosen.to_dict() | {
        "run_seconds": args.passes * chosen.cycle,
        "passes": args.passes,
        "communication_dominates_from_ranks": turn,
        "size": asdict(size),
        "machine": asdict(machine),
    }
    return record, _text(record)


def _machine(args: Namespace, size: Any) -> Any:
    from ..tools import forecast as plan

    given = args.entry is not None and args.coefficient is not None
    found: dict[str, Any] = {} if args.network is None else _network(args.network)
    known = given or args.network is not None
    base = plan.Machine(**found) if known else plan.measured(args.rank, cores=args.cores)
    # What was asked for counts more than what was measured.
    asked = {
        "entry": None if args.entry is None else args.entry * 1e-9 / size.stride,
        "coefficient": None if args.coefficient is None else args.coefficient * 1e-9,
        "memory": None if args.memory is None else args.memory * 1e9,
        "bandwidth": None if args.bandwidth is None else args.bandwidth * 1e9 / 8,
        "latency": None if args.latency is None else args.latency * 1e-6,
    }
    given_here = {name: value for name, value in asked.items() if value is not None}
    return replace(base, cores=args.cores, sharing=args.sharing, **given_here)


def _network(path: Path) -> dict[str, float]:
    """Return what `mpiexec … psgld doctor --mpi --json` found: network and speed."""
    try:
        report = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise DataError(f"{path} is not JSON: {error}; make it by psgld doctor --mpi --json") from error
    found = {}
    for name in _MEASURED:
        value = report.get(name) if isinstance(report, dict) else None
        if not is_number(value) or not 0 < value < float("inf"):
            raise DataError(f"{path} has no {name}, got {value!r}; make it by psgld doctor --mpi --json")
        found[name] = float(value)
    return found


def _text(record: dict[str, Any]) -> str:
    size, machine, turn = record["size"], record["machine"], record["communication_dominates_from_ranks"]
    stride = -(-size["rank"] // 16) * 16
    waiting = record["waiting_seconds"] + record["sum_seconds"]
    lines = [
        ("problem", f"{size['rows']:,} × {size['cols']:,}, {size['entries']:,} entries, K = {size['rank']}"),
        (
            "speed",
            f"{machine['entry'] * stride * 1e9:.3g} ns per entry, {machine['coefficient'] * 1e9:.3g} ns per "
            "coefficient, on one core",
        ),
        ("B, R", f"{record['blocks']:,} strips on {record['ranks']:,} ranks of {machine['cores']} core(s)"),
        (
            "memory",
            f"{in_bytes(record['memory_bytes'])} per rank: blocks {in_bytes(record['data_bytes'])}, "
            f"factors {in_bytes(record['factor_bytes'])}",
        ),
        ("sent", f"{in_bytes(record['sent_bytes'])} per rank and iteration"),
        (
            "iteration",
            f"{_time(record['iteration_seconds'])}: computing {_time(record['compute_seconds'])}, "
            f"waiting {_time(waiting)}",
        ),
        ("pass", f"{_time(record['pass_seconds'])} over the data"),
        ("run", f"{_time(record['run_seconds'])} for {record['passes']} passes"),
        (
            "messages",
            "never take longer than the computing"
            if turn is None
            else f"take longer than the computing from {turn:,} ranks of one strip each",
        ),
    ]
    return _table(lines)


def _table(lines: list[tuple[str, str]]) -> str:
    return "\n".join(f"{name:<12}{value}" for name, value in lines)


def _time(seconds: float) -> str:
    for unit, scale in (("days", 86400.0), ("hours", 3600.0), ("minutes", 60.0), ("s", 1.0), ("ms", 1e-3)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds * 1e6:.3g} µs"
