"""The engine on accelerators."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, final

import numpy as np

from ...checks import is_integer
from ...data.partition import ModeStrips
from ...data.source import Source
from ...errors import ModelError
from ...models import Likelihood
from ..base import Engine


@final
@dataclass(frozen=True)
class JAX(Engine):
    """Run on the devices that JAX sees: a GPU, a TPU, or a CPU for tests.

    Chains have the noise, the schedules and the hyperparameters of `Threads()`, and differ from it by rounding.
    `PSGLD`, `LD`, `SGLD` and `DSGD` run on it.

    Parameters
    ----------
    devices
        D, the number of devices in a ring. It divides the number of blocks.

    Examples
    --------
    >>> import psgld
    >>> psgld.JAX()  # doctest: +SKIP
    JAX(devices=1)
    """

    devices: int = 1
    compiled = False

    def __post_init__(self) -> None:
        if not is_integer(self.devices) or self.devices < 1:
            raise ModelError(f"JAX: devices must be an integer >= 1, got {self.devices!r}")
        if find_spec("jax") is None:
            raise ModelError(
                "JAX() needs JAX; install it: pip install 'psgld[jax]' for a CPU, 'psgld[cuda]' for an NVIDIA GPU"
            )

    @property
    def workers(self) -> int:
        """The number of threads that update chains: one, which feeds the devices."""
        return 1

    def grid(
        self,
        data: Source,
        strips: ModeStrips,
        shift: float,
        dtype: np.dtype[Any],
        hopping: bool = False,
    ) -> Any:
        """Cut V - shift into blocks, kept on the devices."""
        from .devices import ring_of
        from .grid import AcceleratedGrid

        if hopping:
            raise ModelError(
                f"DSGLD does not run on {self!r}, as its chains move between processes; use PSGLD(), which passes "
                "strips between devices, or Threads()"
            )
        mesh = ring_of(self.devices, strips[0].number)
        return AcceleratedGrid(data.load(), strips, shift, np.dtype(dtype), mesh)

    def factors(self, grid: Any, components: int, likelihood: Likelihood, floor: float) -> Any:
        """Create factors of zeros on the devices."""
        from .factors import AcceleratedFactors

        return AcceleratedFactors(grid, components, likelihood, floor)
