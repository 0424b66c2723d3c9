"""`psgld doctor`: versions, machine, a self-check, a speed; with `--mpi`, what messages between ranks take;
with `--jax`, the devices of `JAX()`."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from .options import Parser, add_json
from .plan import number


def add(commands: Any) -> None:
    """Add the command."""
    parser: Parser = commands.add_parser(
        "doctor",
        help="versions, machine, self-check, speed; messages between ranks",
        description="Print versions, cores, memory, instruction set; sample a tiny model; time a larger one.\n"
        "With --mpi, under mpiexec: the latency and bandwidth of messages between neighbouring ranks instead.\n"
        "With --jax: the devices that JAX sees, a self-check, and times per iteration beside the core's instead.",
        epilog="Example:\n  psgld doctor\n  psgld doctor --jax\n  mpiexec -n 4 psgld doctor --mpi --json",
    )
    parser.add_argument("--mpi", action="store_true", help="measure messages between the ranks of this job")
    parser.add_argument(
        "--jax", action="store_true", help="measure the engine on GPUs, JAX(), beside the core"
    )
    parser.add_argument(
        "--rank",
        type=number,
        default=50,
        metavar="K",
        help="with --mpi or --jax: number of components of the timed model (50)",
    )
    parser.add_argument("--threads", type=number, default=1, help="with --mpi: threads per rank (1)")
    add_json(parser)
    parser.set_defaults(run=run)


def run(args: Namespace) -> int:
    """Examine and report; fail if the self-check does."""
    from ..tools.doctor import examine, text
    from .output import print_json

    if args.mpi:
        return _network(args)
    if args.jax:
        return _accelerator(args)
    report = examine()
    if args.json:
        print_json(report)
    else:
        print(text(report))
    return 0 if report["check"]["ok"] else 1


def _network(args: Namespace) -> int:
    """Measure on all ranks, report on rank 0."""
    from ..engines import MPI
    from ..tools import network
    from .output import print_json

    engine = MPI(args.threads)
    with engine.guard():
        report = network.measure(args.rank, args.threads)
    if engine.rank == 0:
        if args.json:
            print_json(report)
        else:
            print(network.text(report))
    return 0


def _accelerator(args: Namespace) -> int:
    """Measure the devices of JAX."""
    from ..tools import accelerator
    from .output import print_json

    report = accelerator.examine(args.rank)
    if args.json:
        print_json(report)
    else:
        print(accelerator.text(report))
    return 0 if report["check"]["ok"] else 1
