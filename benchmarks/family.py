"""The other members of the family on the dense problem, φ fixed, the non-negative metric, against Poisson."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import psgld

from . import problems
from .harness import Row, Settings, in_turns, timed

_MEMBERS = {
    "1": psgld.Poisson(),
    "0.5": psgld.CompoundPoisson(phi=0.5),
    "0": psgld.Gamma(phi=0.1),
    "-1": psgld.InverseGaussian(phi=0.005),
    "2": psgld.Gaussian(phi=4.0),
}


def run(settings: Settings) -> Iterator[Row]:
    blocks, iterations = problems.blocks(settings), settings.choose(10_000, 20)
    sampler = psgld.PSGLD(blocks, metric=psgld.NonNegative())
    for threads in (1, 2):
        cases = {}
        for beta, likelihood in _MEMBERS.items():
            data = problems.dense(problems.side(settings), likelihood)
            model = problems.fixed(problems.RANK, likelihood)
            cases[beta] = timed(partial(problems.run, data, model, sampler, iterations, threads))
        best = in_turns(cases, settings.choose(4, 1))
        for beta in list(_MEMBERS)[1:]:
            yield Row(
                f"dense, {threads} thread(s): β = {beta} / Poisson",
                best[beta] / best["1"],
                2.0,
                note=f"{best[beta]:.2f} s, {best['1']:.2f} s",
            )
