"""Where chains start, if not at random: the factors and hyperparameters of a draw for each."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np

from ..models import Hyper
from .draws import NORMALS, Draws


@final
@dataclass(frozen=True, eq=False)
class Start:
    """The factors that chains start at; chains beyond those there were share them in turn."""

    draws: Draws
    bias: bool

    def begin(self, chain: Any, number: int) -> None:
        """Put a chain there."""
        d, c = self.draws, number % len(self.draws.phi)
        offset = float(d.offset[c, 0]) - chain.setup.shift if self.bias else 0.0
        normals = {name: a[c, 0].copy() for name in NORMALS if (a := getattr(d, name)) is not None}
        if self.bias and "col_mean" in normals:
            normals["col_mean"][-1] = offset
        hyper = Hyper(d.row_rate[c, 0], d.col_rate[c, 0], offset, float(d.phi[c, 0]), **normals)
        if d.theta is not None:
            hyper = replace(hyper, theta=d.theta[c, 0])
        W, H = d.W[c, 0], d.H[c, 0]
        if d.row_bias is not None and d.col_bias is not None:
            a, b = d.row_bias[c, 0][:, None], d.col_bias[c, 0][:, None] + W.dtype.type(offset)
            W, H = np.hstack([W, a, np.ones_like(a)]), np.hstack([H, np.ones_like(b), b])
        chain.begin(W, H, hyper)
