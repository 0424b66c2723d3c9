"""`psgld plan`: what a run would take, before it is run."""

from __future__ import annotations

import json
from argparse import ArgumentTypeError, Namespace
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from ..checks import is_number
from ..dynamics.metrics import METRICS
from ..errors import DataError, in_bytes
from .options import Parser, add_json

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
        description="Predict memory per rank, bytes sent, and time per iteration and per pass over the data. Speed is\n"
        "measured on this machine unless given. Without --blocks or --ranks, the fastest are chosen.",
        epilog="Example:\n  psgld plan --rows 1e9 --cols 1e7 --entries 1e11 --rank 50 --ranks 1000 --cores 32",
    )
    group = parser.add_argument_group("the problem")
    for name, text in (("rows", "I"), ("cols", "J"), ("entries", "N")):
        group.add_argument(f"--{name}", type=number, required=True, metavar=text)
    group.add_argument("--rank", type=number, required=True, metavar="K")
    group.add_argument("--metric", choices=tuple(METRICS), default="non-negative", help="(%(default)s)")
    group.add_argument(
        "--passes", type=number, default=600, help="passes over the data of the run (%(default)s)"
    )
    group = parser.add_argument_group("the machines")
    group.add_argument("--blocks", type=number, metavar="B", help="strips per side; a multiple of the ranks")
    group.add_argument(
        "--ranks", type=number, metavar="R", help="processes (without --blocks: an upper bound)"
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
    from ..tools import forecast as plan
    from .output import print_json

    size = plan.Size(args.rows, args.cols, args.entries, args.rank)
    machine = _machine(args, size)
    ranks = args.ranks or 1
    if args.blocks is not None:
        chosen = plan.forecast(size, machine, args.blocks, ranks, args.metric)
    else:
        chosen = plan.best(size, machine, ranks, args.metric)
    turn = plan.turning_point(size, machine)
    record = chosen.to_dict() | {
        "run_seconds": args.passes * chosen.cycle,
        "passes": args.passes,
        "communication_dominates_from_ranks": turn,
        "size": asdict(size),
        "machine": asdict(machine),
    }
    if args.json:
        print_json(record)
    else:
        print(_text(record))
    return 0


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
    return "\n".join(f"{name:<12}{value}" for name, value in lines)


def _time(seconds: float) -> str:
    for unit, scale in (("days", 86400.0), ("hours", 3600.0), ("minutes", 60.0), ("s", 1.0), ("ms", 1e-3)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds * 1e6:.3g} µs"
