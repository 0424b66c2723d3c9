"""The NumPy update as an engine: slow, and written as the equations are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np

from ...data.partition import ModeStrips
from ...data.source import Source
from ...errors import ModelError
from ...models import Likelihood
from ..base import Engine
from .blocks import ReferenceGrid
from .factors import ReferenceFactors

_MOST_CELLS = 4_000_000


@final
@dataclass(frozen=True)
class Reference(Engine):
    """Run the update in NumPy, in float64, on one core: the specification that the compiled core is tested against.

    V is kept as one dense array, so it is for small data. Chains have the noise, the schedules
    and the hyperparameters of `Threads()`, and differ from it only by rounding. `PSGLD`, `LD`, `SGLD`, `DSGLD` and
    `DSGD` run on it.

    Examples
    --------
    >>> import numpy as np, psgld
    >>> V = np.random.default_rng(0).poisson(4.0, size=(30, 20))
    >>> settings = {"sampler": psgld.PSGLD(dtype="float64"), "draws": 5, "tune": 20, "chains": 1}
    >>> model = psgld.FactorModel(2, "poisson")
    >>> one = psgld.sample(V, model, engine=psgld.Reference(), **settings)
    >>> bool(np.allclose(one.W, psgld.sample(V, model, **settings).W, rtol=1e-4))
    True
    """

    compiled = False

    @property
    def workers(self) -> int:
        """The number of threads: one."""
        return 1

    def grid(
        self,
        data: Source,
        strips: ModeStrips,
        shift: float,
        dtype: np.dtype[Any],
        hopping: bool = False,
    ) -> ReferenceGrid:
        """Keep V - shift as one array."""
        cells = data.shape[0] * data.shape[1]
        if cells > _MOST_CELLS:
            raise ModelError(
                f"Reference() is for small data: V has {cells:,} cells, at most {_MOST_CELLS:,} are allowed; "
                "use Threads()"
            )
        return ReferenceGrid(data.load(), strips, shift)

    def factors(
        self, grid: ReferenceGrid, components: int, likelihood: Likelihood, floor: float
    ) -> ReferenceFactors:
        """Create factors of zeros."""
        return ReferenceFactors(grid, components, likelihood, floor)
