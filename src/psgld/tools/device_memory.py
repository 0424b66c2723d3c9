"""A forecast of the memory per device of `JAX(devices=D)`.

    blocks     dense: 4 bytes per cell;  sparse: 16 bytes per cell of the buckets, that is per entry and what fills
               them up: value and index by row of the outer side, index and cell by row of the inner one
    factors    value, momentum and the numbers b of the metric, before and after a call; the saved state; the sums of b
    work       dense: two arrays of the size of a part;  sparse: one number per cell of a part, and a row per sum

all of them divided by D. K components, N entries, B strips; float32.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, final

from ..errors import ModelError, in_bytes
from .forecast import Size

_FILLED = 2.1
"""Cells of the buckets per entry, where lengths of rows vary as in `benchmarks.accelerator.movielens`."""

_COPIES = 8
"""Arrays of the size of the factors."""


@final
@dataclass(frozen=True)
class DeviceMemory:
    """Bytes per device for B strips on D devices."""

    blocks: int
    devices: int
    data_bytes: float
    factor_bytes: float
    work_bytes: float

    @property
    def total(self) -> float:
        """Bytes per device."""
        return self.data_bytes + self.factor_bytes + self.work_bytes

    def to_dict(self) -> dict[str, Any]:
        """Return all numbers, serialisable as JSON."""
        return asdict(self) | {"memory_bytes": self.total}

    def text(self, size: Size) -> str:
        """Return the forecast as text."""
        lines = [
            ("problem", f"{size.rows:,} × {size.cols:,}, {size.entries:,} entries, K = {size.rank}"),
            ("B, D", f"{self.blocks:,} strips on {self.devices:,} device(s)"),
            (
                "memory",
                f"{in_bytes(self.total)} per device: blocks {in_bytes(self.data_bytes)}, "
                f"factors {in_bytes(self.factor_bytes)}, work {in_bytes(self.work_bytes)}",
            ),
        ]
        return "\n".join(f"{name:<12}{value}" for name, value in lines)


def device_memory(size: Size, blocks: int, devices: int) -> DeviceMemory:
    """Return the forecast for B strips on D devices; D must divide B.

    Examples
    --------
    >>> movielens = Size(rows=71_567, cols=10_681, entries=10_000_000, rank=50)
    >>> round(device_memory(movielens, blocks=4, devices=4).total / device_memory(movielens, 4, 1).total, 2)
    0.25
    """
    if blocks < 1 or devices < 1 or blocks % devices:
        raise ModelError(f"B must be a multiple of the number of devices, {devices}, got {blocks}")
    if blocks > min(size.rows, size.cols):
        raise ModelError(f"B must be at most {min(size.rows, size.cols)}, rows or columns, got {blocks}")
    row = 4.0 * size.rank
    if size.entries == size.rows * size.cols:
        data, work = 4.0 * size.entries, 2 * 4.0 * size.entries / blocks
    else:
        # Besides the cells, the place of each row in each block, and of each row of the outer buckets.
        data = 16.0 * _FILLED * size.entries + 4.0 * blocks * (
            2 * max(size.rows, size.cols) + min(size.rows, size.cols)
        )
        work = 4.0 * _FILLED * size.entries / blocks + 2 * row * (size.rows + size.cols)
    factors = _COPIES * row * (size.rows + size.cols)
    return DeviceMemory(blocks, devices, data / devices, factors / devices, work / devices)
