"""The paper's figure of parts and blocks, read off the grid of a real run."""

from __future__ import annotations

from typing import Any

import numpy as np

import psgld
from psgld.datasets import ratings
from psgld.dynamics.probes import Probes

from .folder import Folder, Outcome
from .style import label, panels

_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00")


def run(folder: Folder) -> Outcome:
    """Cut ratings into B × B blocks, and check that the scores of the parts add up to those of all of V."""
    B = 4
    data = ratings(users=48, items=36, entries=600, seed=2).V
    model = psgld.FactorModel(3, psgld.Gaussian(1.0), psgld.Normal(1.0), psgld.Normal(1.0))
    sampler = psgld.PSGLD(B)
    setup = sampler.prepare(data, model, psgld.Threads(1), 10)
    chain = setup.chain(1, Probes.of(data, 100))
    i, j, _ = data.entries(np.arange(data.stored))
    strips = sampler.partition.cut(data, B)
    sides = []
    for side in strips:
        strip = np.empty(len(side.order), int)
        strip[side.order] = np.repeat(np.arange(B), np.diff(side.bounds))
        place = np.empty(len(side.order), int)
        place[side.order] = np.arange(len(side.order))
        sides.append((strip, place))
    (row, row_at), (col, col_at) = sides
    part = (col[j] - row[i]) % B
    sizes = np.bincount(part, minlength=B)
    total, apart = [], []
    for which in (0, 1):
        chain.factors.accumulate("score", -1)
        total.append(np.array(chain.factors.accumulated(which), float))
        sums = np.zeros_like(total[-1])
        for p in range(B):
            chain.factors.accumulate("score", p)
            sums += chain.factors.accumulated(which)
        apart.append(sums)
    error = max(float(np.abs(a - b).max() / np.abs(b).max()) for a, b in zip(apart, total, strict=True))
    same = bool((np.sort(sizes) == np.sort(setup.grid.part_sizes)).all())
    text = (
        "The paper's figure shows a matrix cut into B × B blocks and B parts, whose blocks share no row and "
        "no column. "
        f"We see the same in the grid of a run on {data.shape[0]} × {data.shape[1]} ratings with B = {B}: parts of "
        f"{', '.join(map(str, sizes))} of the {data.stored} entries (the core counts "
        f"{'the same' if same else 'others'}); "
        f"the scores of the parts add up to those of all entries within {error:.0e}, relative: cyclic parts with s = B "
        f"are unbiased although their sizes differ."
    )
    numbers = {"part sizes": sizes, "as in the core": same, "relative error of the sum of the parts": error}
    return Outcome(
        numbers, {"blocks": B, "shape": data.shape, "entries": data.stored}, text,
        _draw((i, j, part, row_at, col_at), strips, B),
    )  # fmt: skip


def _draw(cells: Any, strips: Any, B: int) -> Any:
    i, j, part, row_at, col_at = cells
    figure, axes = panels(1, 2, 4.0, 4.2)
    for axis, x, y, title in (
        (axes[0, 0], j, i, "V as given; colour = part"),
        (axes[0, 1], col_at[j], row_at[i], "rows and columns by strip"),
    ):
        for p in range(B):
            chosen = part == p
            axis.scatter(x[chosen], y[chosen], s=9, marker="s", color=_COLOURS[p], label=f"part {p + 1}")
        axis.invert_yaxis()
        label(axis, title, "columns", "rows")
    rows, cols = strips
    for at in rows.bounds:
        axes[0, 1].axhline(at - 0.5, color="#222222", lw=0.8)
    for at in cols.bounds:
        axes[0, 1].axvline(at - 0.5, color="#222222", lw=0.8)
    handles, names = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=B, fontsize=8, frameon=False)
    return figure
