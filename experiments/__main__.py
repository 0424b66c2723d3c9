"""Re-make the figures of the paper. A figure that is done is not made again; pieces of the others are kept."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from . import audio, mixing, parts, ratings, scaling
from .folder import Folder, Outcome

FIGURES: dict[str, Callable[[Folder], Outcome]] = {
    "parts": parts.run,
    "mixing": mixing.poisson,
    "compound": mixing.compound,
    "audio": audio.run,
    "ratings": ratings.run,
    "scaling": scaling.run,
}


def main(arguments: list[str] | None = None) -> None:
    """Make the figures that are named and not yet there."""
    parser = argparse.ArgumentParser(prog="python -m experiments", description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"some of {', '.join(FIGURES)}; all by default"
    )
    parser.add_argument("--quick", action="store_true", help="tiny sizes: shows that it runs")
    parser.add_argument(
        "--again", action="store_true", help="draw figures again that are there, from their pieces"
    )
    parser.add_argument("-o", "--out", type=Path, help="folder of the results (out/paper)")
    parser.add_argument("--data", type=Path, help="folder with MovieLens, for the figure of ratings")
    args = parser.parse_args(arguments)
    unknown = [name for name in args.names if name not in FIGURES]
    if unknown:
        parser.error(f"no figure {', '.join(unknown)}; there are {', '.join(FIGURES)}")
    folder = Folder(args.out or Path("out/paper-quick" if args.quick else "out/paper"), args.quick, args.data)
    for name in args.names or FIGURES:
        if (folder.path / f"{name}.json").is_file() and not args.again:
            print(f"{name}: done before, in {folder.path}")
            continue
        print(f"{name}:", flush=True)
        outcome = FIGURES[name](folder)
        folder.write(name, outcome)
        print(f"{outcome.paragraph}\n", flush=True)


if __name__ == "__main__":
    main()
