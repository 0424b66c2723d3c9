"""The devices that JAX sees, and the precision of a program."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, SingleDeviceSharding
from jax.sharding import PartitionSpec as P

from ...errors import ModelError
from .ring import AXIS


def precision(dtype: Any) -> AbstractContextManager[Any]:
    """Compute in float64 within this context if that is the type of the factors, whatever the process has set."""
    context: AbstractContextManager[Any] = jax.enable_x64(np.dtype(dtype) == np.float64)
    return context


def ring_of(devices: int, blocks: int) -> Mesh | None:
    """Return the ring of the first devices, None for a single one; raise ModelError if it cannot hold the blocks."""
    seen = jax.devices()
    if devices > len(seen):
        raise ModelError(
            f"JAX(devices={devices}): JAX sees {len(seen)} device(s), {seen[0].platform}; use devices={len(seen)}"
        )
    if blocks % devices:
        fitting = [d for d in range(1, devices) if blocks % d == 0]
        raise ModelError(
            f"JAX(devices={devices}): {blocks} block(s) cannot be shared equally by {devices} devices; choose blocks "
            f"= {devices * -(-blocks // devices)}, or devices={fitting[-1]}"
        )
    return None if devices == 1 else Mesh(np.array(seen[:devices]), (AXIS,))


def placement(mesh: Mesh | None) -> Any:
    """Return where arrays by strip are kept: on the only device, or their strips on the devices of the ring."""
    if mesh is None:
        return SingleDeviceSharding(jax.devices()[0])
    return NamedSharding(mesh, P(AXIS))


def described() -> list[dict[str, Any]]:
    """Return platform, kind and memory in bytes (None if it is not known) of each device."""
    found = []
    for device in jax.devices():
        stats = device.memory_stats() or {}
        found.append(
            {"platform": device.platform, "kind": device.device_kind, "memory": stats.get("bytes_limit")}
        )
    return found
