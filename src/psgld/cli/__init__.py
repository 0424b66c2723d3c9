"""The command line: `psgld demo | fit | predict | recommend | evaluate | summary | export | …`. One file per command.

Exit codes: 0 success, 2 invalid input (one line on stderr), 130 interrupted.
"""

from __future__ import annotations

import os
import sys
import warnings
from argparse import Namespace
from collections.abc import Sequence
from typing import Any

from ..errors import PsgldError, PsgldWarning
from ..storage.backends import is_resumable
from ..system.version import __version__
from . import (
    compare,
    completion,
    demo,
    doctor,
    evaluate,
    export,
    fit,
    fold_in,
    plan,
    plot,
    predict,
    recommend,
    report,
    shard,
    split,
    summary,
    update,
)
from .options import FAILED, INTERRUPTED, PIPE_CLOSED, Parser
from .output import in_options, open_closed_streams, say

_COMMANDS = (
    *(demo, split, fit, fold_in, update, predict, recommend, evaluate, compare),
    *(summary, report, plot, export, shard, plan, doctor, completion),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    open_closed_streams()
    parser = make_parser()
    args = parser.parse_args(argv, Namespace(parser=parser))
    if args.command is None:
        parser.print_help()
        return FAILED
    with warnings.catch_warnings():
        warnings.simplefilter("always", PsgldWarning)
        warnings.showwarning = _show(warnings.showwarning, args)
        return _guarded(args)


def make_parser() -> Parser:
    """Return the parser of all commands."""
    parser = Parser(
        prog="psgld",
        description="Bayesian matrix factorisation: posterior draws of W and H in V ≈ W H, and predictions.",
        epilog="Example, to start with:\n  psgld demo",
    )
    parser.add_argument("-v", "--version", action="version", version=f"psgld {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=Parser)
    for command in _COMMANDS:
        command.add(commands)
    return parser


def _guarded(args: Namespace) -> int:
    """Run the command; report errors that the user can fix in one line."""
    try:
        code: int = args.run(args)
        sys.stdout.flush()
        return code
    except PsgldError as error:
        say(f"error: {in_options(str(error), args)}")
    except BrokenPipeError:
        # The reader (head, less) has had enough; Python must not complain when it closes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PIPE_CLOSED
    except OSError as error:
        say(f"error: {error.filename or 'input or output'}: {error.strerror or error}")
    except MemoryError as error:
        detail = f": {error}" if str(error) else ""
        say(f"error: not enough memory{detail}; try fewer draws or a smaller rank")
    except KeyboardInterrupt as stop:
        said = ["interrupted", str(stop)]
        if args.command == "fit":  # also by a second Ctrl-C, which does not wait for the first to save
            said.append("--resume resumes the run" if is_resumable(args.output) else "nothing was saved")
        say("; ".join(filter(None, said)))
        return INTERRUPTED
    return FAILED


def _show(usual: Any, args: Namespace) -> Any:
    """Return a `warnings.showwarning` that prints psgld's own as one line."""

    def show(message: Any, category: type[Warning], *where: Any, **more: Any) -> None:
        if not issubclass(category, PsgldWarning):
            usual(message, category, *where, **more)
        elif not getattr(args, "quiet", False):
            say(f"note: {in_options(str(message), args)}")

    return show
