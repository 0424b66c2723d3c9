"""Warm start: chains start at the factors and hyperparameters of given draws instead of at random."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import final

from ..models import FactorModel, Hyper, RowNormal
from ..models.hyperparameters import ModeHyper
from ..samplers import Chain
from .draws import Draws


@final
@dataclass(frozen=True, eq=False)
class Start:
    """The draws at which chains start. If there are more chains than draws, draws are reused in turn."""

    draws: Draws
    model: FactorModel

    def begin(self, chain: Chain, number: int) -> None:
        """Set a chain to its start."""
        at, modes = (number % len(self.draws.phi), 0), self.model.modes
        offset = float(self.draws.offset[at]) - chain.setup.shift if self.model.bias else 0.0
        hypers, factors = [], []
        for mode, own in zip(modes, self.draws.modes, strict=True):
            normal = None
            if own.mean is not None and own.precision is not None:
                normal = RowNormal(own.mean[at].copy(), own.precision[at].copy())
                if mode.centred:
                    normal.mean[mode.bias] = offset
            hypers.append(
                ModeHyper(own.rate[at], normal, None if own.shape is None else float(own.shape[at]))
            )
            factors.append(mode.pack(own.factor[at], None if own.bias is None else own.bias[at], offset))
        hyper = Hyper(tuple(hypers), offset, float(self.draws.phi[at]))
        if self.draws.theta is not None:
            hyper = replace(hyper, theta=self.draws.theta[at])
        chain.begin(factors, hyper)
