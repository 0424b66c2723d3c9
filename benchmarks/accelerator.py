"""`JAX()` beside the compiled core, and its programs compiled for an H100 that need not be there.

    python -m benchmarks.accelerator            times on the devices that JAX sees: the table for who has a GPU
    python -m benchmarks.accelerator --static   kernels per iteration, scatters, temporary memory on an H100

The second needs JAX's plug-in for CUDA (`pip install psgld[cuda]`), but neither a GPU nor its driver.
`tests/engines/test_accelerator.py` holds the static counts against their bars, where the plug-in is installed.
"""

from __future__ import annotations

import argparse
import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import psgld
from psgld import JAX, PSGLD, FactorModel, Observations, Threads
from psgld.tools.accelerator import iteration_seconds

TARGET = """
gpu_device_info {
  threads_per_block_limit: 1024 threads_per_warp: 32 shared_memory_per_block: 49152
  shared_memory_per_core: 233472 threads_per_core_limit: 2048 core_count: 132 fpus_per_core: 128
  block_dim_limit_x: 2147483647 block_dim_limit_y: 65535 block_dim_limit_z: 65535
  memory_bandwidth: 3352320000000 l2_cache_size: 52428800 clock_rate_ghz: 1.98
  device_memory_size: 84929347584 shared_memory_per_block_optin: 232448
  cuda_compute_capability { major: 9 } registers_per_core_limit: 65536 registers_per_block_limit: 65536
}
platform_name: "CUDA"
dnn_version_info { major: 9 minor: 7 }
runtime_version { major: 13 minor: 0 }
device_description_str: "NVIDIA H100 80GB HBM3"
"""
"""What the compiler is told of an H100 with 80 GB."""

_FREE = {"parameter", "tuple", "get-tuple-element", "bitcast", "constant", "after-all", "opt-barrier"}
"""Instructions of a compiled program that start no kernel."""

_SECONDS = 1.0
"""Time that an engine is measured for."""


def dense(side: int = 1024) -> Observations:
    """Return counts of the size of the paper's dense problem."""
    return Observations.from_dense(np.random.default_rng(0).poisson(4.0, (side, side)).astype(np.float32))


def movielens(rows: int = 71_567, cols: int = 10_681, entries: int = 10_000_000) -> Observations:
    """Return ratings of the shape of MovieLens-10M, with rows and columns of very different lengths."""
    rng = np.random.default_rng(0)
    drawn = []
    for n, spread in ((rows, 1.2), (cols, 1.8)):
        weight = np.cumsum(rng.lognormal(0.0, spread, n))
        drawn.append(np.minimum(np.searchsorted(weight / weight[-1], rng.random(2 * entries)), n - 1))
    cells = rng.permutation(np.unique(drawn[0] * cols + drawn[1]))[:entries]
    values = rng.integers(1, 6, len(cells)).astype(np.float32)
    return Observations.from_coo(*np.divmod(cells, cols), values, (rows, cols), absent="unobserved")


def setup_of(data: Observations, rank: int, engine: Any) -> Any:
    """Return what chains of a Poisson model with the default sampler share."""
    model = FactorModel(rank, "poisson", psgld.Exponential(1.0), psgld.Exponential(1.0))
    return PSGLD().prepare(psgld.observations(data), model, engine, tune=0)


# -- compiled for a device that need not be there ----------------------------------------------------------


@dataclass(frozen=True)
class Counts:
    """What an iteration takes on an H100."""

    kernels: int
    scatters: int
    temporary_bytes: int
    argument_bytes: int
    compile_seconds: float


def static_counts(data: Observations, rank: int) -> Counts:
    """Compile the iterations of a chain with momentum for an H100, and count."""
    os.environ.setdefault("JAX_SKIP_CUDA_CONSTRAINTS_CHECK", "1")
    import jax
    from jax.experimental import topologies
    from jax.sharding import SingleDeviceSharding

    from psgld.engines.accelerated.program import iterations

    topology = topologies.get_topology_desc(
        platform="cuda", topology_name="", topology="1x1x1", target_config=TARGET
    )
    place = SingleDeviceSharding(topology.devices[0])
    plan, *arrays = arguments_of(setup_of(data, rank, JAX()), rank)

    def described(x: Any) -> Any:
        return jax.ShapeDtypeStruct(np.shape(x), np.asarray(x).dtype, sharding=place)

    start = time.perf_counter()
    traced = iterations.trace(plan, *jax.tree.map(described, tuple(arrays)))
    compiled = traced.lower(lowering_platforms=("cuda",)).compile()
    seconds = time.perf_counter() - start
    text, memory = compiled.as_text(), compiled.memory_analysis()
    opcodes = list(opcodes_of_loop(text))
    return Counts(
        len(opcodes), len(re.findall(r" scatter\(", text)), memory.temp_size_in_bytes,
        memory.argument_size_in_bytes, seconds,
    )  # fmt: skip


def arguments_of(setup: Any, rank: int) -> tuple[Any, ...]:
    """Return the arguments of the iterations of a chain with momentum, as NumPy arrays on the host."""
    from psgld.engines.accelerated.noise import round_keys
    from psgld.engines.accelerated.program import Half, Plan, Rules, State, Table
    from psgld.engines.reference.moves import Numbers, form_of

    grid, f32, length = setup.grid, np.float32, 256
    x = [np.zeros((*side.rows.shape, rank), f32) for side in grid.sides]
    halves = [Half(y, y, y, side.rows, side.rows < 0) for y, side in zip(x, grid.sides, strict=True)]
    each, one = np.zeros(rank, f32), f32(1)
    form, power = form_of("non-negative", True, 0.0, each, each, 1.0, setup.momentum)
    numbers = Numbers(one, each, each, each, one, one, f32(power))
    plan = Plan(
        setup.model.likelihood, setup.floor, (form, form), grid.factors, grid.blocks, None, True, grid.mesh
    )
    ints, floats = np.zeros(length, np.int32), np.zeros(length, f32)
    table = Table(np.int32(1), np.zeros(2, np.uint32), ints, ints, floats, floats, None)
    rules = Rules((numbers, numbers), np.zeros(0, f32), round_keys(0))
    return plan, State(halves[0], halves[1], None), grid.cut(), rules, table


def opcodes_of_loop(text: str) -> Iterator[str]:
    """Yield the instructions that start a kernel in the body of the loop over iterations."""
    bodies = {
        match["name"]: match["body"]
        for match in re.finditer(
            r"^(?:ENTRY )?%(?P<name>[\w.\-]+) .*?\{\n(?P<body>.*?)^\}", text, re.S | re.M
        )
    }
    loops = re.findall(r"= .*? while\(.*body=%([\w.\-]+)", text)
    assert len(loops) == 1, f"one loop was expected, found {loops}"
    yield from _kernels(loops[0], bodies)


def _kernels(name: str, bodies: dict[str, str]) -> Iterator[str]:
    for line in bodies[name].splitlines():
        found = re.match(r"\s+(?:ROOT )?%[\w.\-]+ = (?:\(.*?\)|\S+) ([\w\-]+)\(", line)
        if found and found[1] == "call":
            yield from _kernels(re.search(r"to_apply=%([\w.\-]+)", line)[1], bodies)  # type: ignore[index]
        elif found and found[1] not in _FREE:
            yield found[1]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.accelerator", description=__doc__)
    parser.add_argument("--static", action="store_true", help="compile for an H100 instead, and count")
    parser.add_argument("--quick", action="store_true", help="small problems, to see that it runs")
    args = parser.parse_args()
    problems = {
        "dense 1024², K = 32": (dense(128 if args.quick else 1024), 32),
        "MovieLens-10M's shape, K = 50": (movielens(700, 100, 9000) if args.quick else movielens(), 50),
    }
    if args.static:
        for name, (data, rank) in problems.items():
            found = static_counts(data, rank)
            print(
                f"{name:<32} {found.kernels:>3} kernels per iteration, {found.scatters} scatters, temporaries "
                f"{found.temporary_bytes / 1e6:,.0f} MB, arguments {found.argument_bytes / 1e6:,.0f} MB, "
                f"compiled in {found.compile_seconds:.1f} s"
            )
        return
    from psgld.engines.accelerated.devices import described

    device = described()[0]
    print(f"device: {device['kind']} ({device['platform']}); the core on {Threads().workers} thread(s)")
    for name, (data, rank) in problems.items():
        on_device, on_core = (iteration_seconds(data, e, rank, _SECONDS) for e in (JAX(), Threads()))
        print(
            f"{name:<32} {on_device * 1e3:>9.3f} ms on JAX() {on_core * 1e3:>9.3f} ms on the core: "
            f"ratio {on_core / on_device:.3g}"
        )


if __name__ == "__main__":
    main()
