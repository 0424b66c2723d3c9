"""Run the benchmarks and print a row for each bar. It reports, so the exit code is 0 whatever is missed."""

from __future__ import annotations

import argparse
import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

from . import (
    bias,
    building,
    busy,
    checkpoints,
    dense,
    family,
    gibbs,
    hopping,
    importing,
    metrics,
    overhead,
    planning,
    predicting,
    prototype,
    ring,
    scaling,
    sharding,
    sparse,
    throughput,
    tiles,
)
from .harness import Row, Settings

BENCHMARKS: dict[str, Callable[[Settings], Iterator[Row]]] = {
    "import": importing.run,
    "dense": dense.run,
    "overhead": overhead.run,
    "busy": busy.run,
    "family": family.run,
    "blocks": building.run,
    "sparse": sparse.run,
    "ring": ring.run,
    "hops": hopping.run,
    "scaling": scaling.run,
    "metrics": metrics.run,
    "gibbs": gibbs.run,
    "bias": bias.run,
    "checkpoints": checkpoints.run,
    "predicting": predicting.run,
    "throughput": throughput.run,
    "shards": sharding.run,
    "plan": planning.run,
    "tiles": tiles.run,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"some of {', '.join(BENCHMARKS)}; all by default"
    )
    parser.add_argument(
        "--prototypes", type=Path, help="folder with dense2.cpp and sparse.cpp, the floor to beat"
    )
    parser.add_argument(
        "--quick", action="store_true", help="tiny sizes: shows that it runs, its figures mean nothing"
    )
    args = parser.parse_args()
    unknown = [name for name in args.names if name not in BENCHMARKS]
    if unknown:
        parser.error(f"no benchmark {', '.join(unknown)}; there are {', '.join(BENCHMARKS)}")
    settings = Settings(args.quick, prototype.usable(args.prototypes))
    cores = len(os.sched_getaffinity(0))
    print(
        f"{cores} cores, load {os.getloadavg()[0]:.1f}; the least of several runs in turns, unless a row says otherwise"
    )
    warnings.simplefilter("ignore")
    for name in args.names or BENCHMARKS:
        for row in BENCHMARKS[name](settings):
            print(row, flush=True)


if __name__ == "__main__":
    main()
