"""psgld beside its peers: `python -m benchmarks.peers DATA`, or `make bench-peers DATA=folder`.

The same data, split, rank, threads and machine, in one run; each peer in an environment of its own. DATA holds
`ml-1m.zip`, `ml-100k/u.data` and `docword.kos.txt.gz`; what is missing is left out. Results go to `out/peers/`, and
from there into docs/peers.md.
"""

from __future__ import annotations

import argparse
import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from . import page, results
from .environments import ROOT
from .problems import LARGE, PROBLEMS, QUICK, Pair, with_threads
from .registry import PEERS, Peer, Variant
from .registry import QUICK as QUICK_PEERS
from .run import Limits, Result, fitted


def main(argv: list[str] | None = None) -> None:
    args = _arguments(argv)
    out = args.output
    if not args.page_only:
        for name, result in _all(args, out):
            print(f"{name}: {page.in_a_line(result)}", flush=True)
    target = out / "peers.md" if args.quick else ROOT / "docs" / "peers.md"
    page.write(target, page.tables(out, target, QUICK if args.quick else PROBLEMS | LARGE))


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    parser.add_argument("folder", type=Path, metavar="DATA", nargs="?", default=Path())
    parser.add_argument("--only", action="append", metavar="PROBLEM", help=f"some of: {'; '.join(PROBLEMS)}")
    parser.add_argument("--peer", action="append", metavar="NAME", help=", ".join(p.name for p in PEERS))
    parser.add_argument("--variant", action="append", metavar="NAME")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--limit", type=float, default=600.0, help="seconds per fit (default 600)")
    parser.add_argument("--large", action="store_true", help="also 10 million synthetic ratings")
    parser.add_argument("--quick", action="store_true", help="tiny data: shows that it runs")
    parser.add_argument("--page-only", action="store_true", help="write the page from existing results")
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "out" / "peers")
    args = parser.parse_args(argv)
    known = [p.name for p in PEERS]
    for name in args.peer or ():
        if name not in known:
            parser.error(f"no peer {name}; there are {', '.join(known)}")
    problems = PROBLEMS | LARGE | QUICK
    for name in args.only or ():
        if name not in problems:
            parser.error(f"no problem {name}; there are {'; '.join(problems)}")
    return args


def _all(args: argparse.Namespace, out: Path) -> Iterator[tuple[str, Result]]:
    """Fit every chosen peer to every chosen problem, and write each result at once."""
    limits = Limits(args.limit, here=args.quick)
    problems: dict[str, Any] = QUICK if args.quick else PROBLEMS | (LARGE if args.large else {})
    if args.only:
        problems = {name: make for name, make in (PROBLEMS | LARGE | QUICK).items() if name in args.only}
    for name, make in problems.items():
        try:
            pair = with_threads(make(args.folder), args.threads)
        except OSError as missing:
            print(f"{name}: left out, {missing}")
            continue
        path, header = results.file_of(out, name), results.described(name, pair)
        for peer, variant in _variants(args, name, pair):
            result = fitted(peer, variant, pair, limits)
            results.merge(path, header, result)
            yield name, result


def _variants(args: argparse.Namespace, problem: str, pair: Pair) -> Iterator[tuple[Peer, Variant]]:
    for peer in QUICK_PEERS if args.quick else PEERS:
        if args.peer and peer.name not in args.peer:
            continue
        if args.quick and importlib.util.find_spec(peer.script) is None:
            continue
        for variant in peer.variants:
            wanted = not args.variant or variant.name in args.variant
            if variant.kind == pair.problem.kind and wanted and problem in (variant.only or (problem,)):
                yield peer, variant


if __name__ == "__main__":
    main()
