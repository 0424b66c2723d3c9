"""The paper's figure of RMSE: the error on ratings along PSGLD and along DSGD, over iterations and over seconds.

    v_ij ~ Poisson(Σ_k w_ik h_kj) (β = φ = 1), K = 50, B = 15, 1,000 iterations

DSGD is PSGLD without noise. Both start at the same factors and use the same step sizes and parts.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

import psgld
from psgld.dynamics.probes import Probes

from .folder import Folder, Outcome, Record
from .style import COLOURS, duration, label, panels

STEPS = (1e-6, 1e-4)
"""Values of a in ε = (a / t)^0.51. The paper gives none for this figure."""

DISPERSIONS = (0.2, 0.01)
"""Values of φ besides 1: that of ratings, whose variance is about a fifth of their mean; and one that is nearly 0."""

SHOWN = 4
"""Cases in the plot: the last ones."""


def data_of(folder: Folder) -> tuple[str, Any]:
    """Return the largest MovieLens in the folder of data, or ratings of the shape of MovieLens-100K."""
    for name in ("10m", "1m", "100k") if folder.data is not None and not folder.quick else ():
        assert folder.data is not None
        try:
            return f"MovieLens-{name.upper()}", psgld.datasets.movielens(name, folder.data)
        except psgld.DataError as error:
            print(f"  {error}")
    users, items, entries = folder.choose((943, 1682, 100_000), (60, 50, 900))
    made = psgld.datasets.ratings(users, items, entries, test=0.01, seed=3)
    return f"synthetic ratings, {users:,} × {items:,}", made.V


def errors(V: Any, model: psgld.FactorModel, sampler: Any, iterations: int, every: int) -> Record:
    """Return RMSE on training and held-out entries along a chain: of its states, of the mean of its second half."""
    train, (rows, cols, values) = V.split(0.1, seed=0)
    setup = sampler.prepare(train, model, psgld.Threads(1), iterations // 2)
    chain = setup.chain(7, Probes.of(train, 100_000))
    held = train.row_index(rows), train.col_index(cols)
    *seen, known = train.sample_entries(min(train.stored, 100_000), seed=1)
    sets = {"train": (seen, known), "test": (held, values)}
    places = {
        name: tuple(chain.factors.positions(which, np.asarray(i, np.int64)) for which, i in enumerate(index))
        for name, (index, _) in sets.items()
    }
    means = {name: np.zeros(len(v)) for name, (_, v) in sets.items()}
    found: Record = {"iteration": [], "seconds": [], **{name: [] for name in sets}}
    used, averaged = 0.0, 0
    while chain.iteration < iterations:
        start = time.process_time()
        chain.advance(min(every, iterations - chain.iteration))
        chain.settle()
        used += time.process_time() - start
        averaged += chain.iteration > iterations // 2
        found["iteration"].append(chain.iteration)
        found["seconds"].append(used)
        for name, (_, v) in sets.items():
            mu = chain.factors.mu(places[name]).astype(float)
            found[name].append(float(np.sqrt(np.mean((np.clip(mu, 0.5, 5.0) - v) ** 2))))
            if chain.iteration > iterations // 2:
                means[name] += mu
    for name, (_, v) in sets.items():
        mean = np.clip(means[name] / max(averaged, 1), 0.5, 5.0)
        found[f"{name}, mean of the second half"] = float(np.sqrt(np.mean((mean - v) ** 2)))
    return {**found, "divergences": len(chain.divergences), "step_size": chain.step_size}


def run(folder: Folder) -> Outcome:
    """Run both samplers in several settings, and compare their curves."""
    name, V = data_of(folder)
    rank, blocks = folder.choose((50, 15), (4, 3))
    iterations, every = folder.choose((1000, 10), (30, 3))
    scale = float(np.sqrt(rank / V.mean()))
    cases: dict[str, tuple[psgld.FactorModel, dict[str, Any]]] = {}
    for rate, about in ((1.0, "λ = 1"), (scale, "λ of the data")):
        prior = psgld.Exponential(rate)
        model = psgld.FactorModel(rank, "poisson", prior, prior)
        for a in STEPS[rate == 1.0 :]:
            step = {"step_size": psgld.Power(a, 0.51), "metric": psgld.Identity()}
            cases[f"identity, a = {a:g}, {about}"] = model, step
        cases[f"our metric, {about}"] = model, {}
    for phi in DISPERSIONS:
        other = psgld.FactorModel(rank, psgld.Poisson(phi=phi), prior, prior)
        cases[f"our metric, φ = {phi:g}, {about}"] = other, {}
    curves: Record = {}
    for about, (model, step) in cases.items():
        for sampler in (psgld.PSGLD(blocks, momentum=0.0, **step), psgld.DSGD(blocks, **step)):
            kind = type(sampler).__name__
            settings = {"data": name, "rank": rank, "blocks": blocks, "iterations": iterations, "case": about,
                        "sampler": repr(sampler), "model": model.to_dict()}  # fmt: skip
            made = folder.piece(
                f"ratings-{kind}-{''.join(c if c.isalnum() else '_' for c in about)}", settings,
                lambda model=model, sampler=sampler: errors(V, model, sampler, iterations, every),
            )  # fmt: skip
            curves[f"{kind}, {about}"] = made
    numbers = {about: compared(curves[f"PSGLD, {about}"], curves[f"DSGD, {about}"]) for about in cases}
    return Outcome(
        numbers,
        {"data": name, "rank": rank, "blocks": blocks, "iterations": iterations, "beta": 1, "phi": 1, "lambda": scale},
        _text(name, numbers, iterations), _draw(name, curves, list(cases)[-SHOWN:]),
    )  # fmt: skip


def compared(ours: Record, other: Record) -> Record:
    """Return the last errors of both, the mean of PSGLD's second half, and how far apart the curves are at most."""
    return {
        **{f"PSGLD, {name}": ours[name][-1] for name in ("train", "test")},
        **{f"DSGD, {name}": other[name][-1] for name in ("train", "test")},
        "PSGLD, test, mean of the second half": ours["test, mean of the second half"],
        "largest difference, train": float(np.abs(np.subtract(ours["train"], other["train"])).max()),
        "largest difference, test": float(np.abs(np.subtract(ours["test"], other["test"])).max()),
        "seconds": [ours["seconds"][-1], other["seconds"][-1]],
        "divergences": [ours["divergences"], other["divergences"]],
    }  # fmt: skip


def _text(name: str, numbers: Record, iterations: int) -> str:
    near = [
        about
        for about, one in numbers.items()
        if one["largest difference, test"] <= 0.02 and not any(one["divergences"])
    ]
    rows = "; ".join(
        f"{about}: PSGLD {one['PSGLD, test']:.3f}, DSGD {one['DSGD, test']:.3f} (mean over PSGLD's second half "
        f"{one['PSGLD, test, mean of the second half']:.3f})"
        for about, one in numbers.items()
    )
    times = [one["seconds"] for one in numbers.values()]
    ratio = float(np.median([a / b for a, b in times]))
    return (
        f"The paper saw the RMSE of PSGLD follow that of DSGD over {iterations:,} iterations on "
        "MovieLens-10M, at about the same "
        f"cost. We see on {name}, test RMSE of the last state: {rows}. The curves stay within 0.02 of each other in: "
        f"{'; '.join(near) or 'none of these settings'}. With φ = 1, as the "
        "paper has it, the likelihood says that the variance of a rating is its mean, about 3.6, while that "
        "of ratings around "
        f"their means is below 1: the noise of a draw is larger than the data justify, and a stationary PSGLD errs "
        "differently from a mode. With φ at the scale of the ratings' own variance (0.2) or below, the noise "
        "is small beside "
        f"the drift. PSGLD took {ratio:.2f} × the time of DSGD ({duration(times[-1][0])} for {iterations:,} "
        "iterations)."
    )


def _draw(name: str, curves: Record, cases: list[str]) -> Any:
    figure, axes = panels(2, len(cases), 2.9, 2.5)
    for column, about in zip(axes.T, cases, strict=True):
        for axis, x in zip(column, ("iteration", "seconds"), strict=True):
            for kind, width in (("DSGD", 3.5), ("PSGLD", 1.3)):
                one = curves[f"{kind}, {about}"]
                axis.plot(one[x], one["test"], color=COLOURS[kind], lw=width, label=f"{kind}, held out")
                axis.plot(
                    one[x], one["train"], "--", color=COLOURS[kind], lw=width, label=f"{kind}, training"
                )
            axis.set_xscale("log")
            axis.set_ylim(0.75, 1.25)
            label(
                axis,
                about.replace(", λ", "\nλ"),
                "iterations" if x == "iteration" else "processor seconds",
                "RMSE",
            )
    handles, names = axes[0, 0].get_legend_handles_labels()
    figure.suptitle(name, fontsize=10)
    figure.legend(handles, names, loc="outside lower center", ncols=4, fontsize=8, frameon=False)
    return figure
