"""The paper's figures of mixing and running time of PSGLD, SGLD, LD and Gibbs on synthetic matrices.

    v_ij ~ Poisson(Σ_k w_ik h_kj), or a compound Poisson of β = 0.5, φ = 1;   K = 32, B = I / 32

The step sizes are those that the paper prints, in the identity metric, and our defaults beside them.
"""

from __future__ import annotations

from typing import Any, NamedTuple, final

import numpy as np

import psgld
from psgld.datasets import synthetic

from .curves import curve, seconds_per_iteration, seconds_to, unguarded
from .folder import Folder, Outcome, Record
from .style import COLOURS, INK, duration, label, panels

LAMBDAS = ("1", "data")
"""Rates of the exponential priors, which the paper does not give: 1, or such that the prior mean of μ is that of V."""


@final
class Data(NamedTuple):
    """A matrix, the log likelihood of the factors that made it, and λ of the scale of the data."""

    V: Any
    likelihood: psgld.models.Likelihood
    truth: float
    rate: float


def data_of(size: int, rank: int, likelihood: Any) -> Data:
    """Draw a size × size matrix."""
    made = synthetic(size, size, rank, likelihood, seed=1)
    theta = made.likelihood.start(lambda: ())
    truth = float(made.likelihood.logpdf(made.V.dense, made.mu, *theta).sum())
    return Data(made.V, made.likelihood, truth, float(np.sqrt(rank / made.V.mean())))


def model_of(data: Data, rank: int, rate: str | None) -> psgld.FactorModel:
    """Return the model with λ = 1, with λ of the scale of the data, or with learnt rates (None)."""
    if rate is None:
        return psgld.FactorModel(rank, data.likelihood)
    prior = psgld.Exponential(1.0 if rate == "1" else data.rate)
    return psgld.FactorModel(rank, data.likelihood, prior, prior)


def printed(blocks: int) -> dict[str, Any]:
    """Return the samplers with the constants of the paper."""
    plain = psgld.Identity()
    return {
        "PSGLD": psgld.PSGLD(blocks, psgld.Power(0.01, 0.51), plain),
        "SGLD": psgld.SGLD(1 / 32, psgld.Power(1.0, 0.51), plain),
        "LD": psgld.LD(0.2, plain),
    }


DEFAULTS = {"PSGLD": psgld.PSGLD(), "SGLD": psgld.SGLD(1 / 32), "LD": psgld.LD()}


def runs(folder: Folder, kind: str, size: int, rank: int, iterations: int, sweeps: int) -> Record:
    """Return the curves of all samplers on one matrix, by sampler and setting."""
    likelihood = "poisson" if kind == "poisson" else psgld.CompoundPoisson(0.5, 1.0)
    data = data_of(size, rank, likelihood)
    blocks = max(2, size // 32)
    cases: list[tuple[str, str | None, Any, int]] = []
    for name, sampler in DEFAULTS.items():
        cases.append((name, None, sampler, iterations))
    for rate in LAMBDAS:
        cases += [(name, rate, sampler, iterations) for name, sampler in printed(blocks).items()]
    if kind == "poisson":
        cases.append(("Gibbs", None, psgld.Gibbs(), sweeps))
    found: Record = {"truth": data.truth, "rate": data.rate, "entries": data.V.size, "curves": {}}
    for name, rate, sampler, n in cases:
        about = "default" if rate is None else f"printed, λ = {rate}"
        settings = {"size": size, "rank": rank, "iterations": n, "sampler": repr(sampler), "setting": about}
        made = folder.piece(
            f"{kind}-{size}-{name}-{'default' if rate is None else rate}",
            settings,
            lambda rate=rate, sampler=sampler, n=n: curve(data.V, model_of(data, rank, rate), sampler, n),
        )
        found["curves"][f"{name}, {about}"] = made
    return found


def table(found: Record) -> Record:
    """Return what is read off the curves: time to the level of the truth, time per iteration, level at the end."""
    out: Record = {}
    for name, one in found["curves"].items():
        if "failed" in one:
            out[name] = {"failed": one["failed"]}
            continue
        last = np.mean(one["log_likelihood"][-50:])
        out[name] = {
            "seconds to the log likelihood of the truth": seconds_to(one, found["truth"]),
            "seconds per iteration": seconds_per_iteration(one),
            "iterations": int(one["iteration"][-1]),
            "level at the end, per entry": float(last - found["truth"]) / found["entries"],
            "divergences": one["divergences"],
            "diverged first at": one["diverged_at"],
        }
    return out


def effective(folder: Folder, size: int, rank: int, sampler: Any, plan: tuple[int, int, int]) -> Record:
    """Return the effective sample sizes of μ at 50 cells, and the processor seconds of the draws."""
    import time

    data = data_of(size, rank, "poisson")
    tune, draws, thin = plan

    def make() -> Record:
        start = time.process_time(), time.perf_counter()
        post = psgld.sample(
            data.V, model_of(data, rank, None), sampler=sampler, engine=psgld.Threads(1), tune=tune, draws=draws,
            thin=thin, chains=2, progress=False,
        )  # fmt: skip
        share = (time.process_time() - start[0]) / (time.perf_counter() - start[1])
        seconds = sum(post.sample_stats["seconds"][:, -1] - post.warmup["seconds"][:, -1]) * share
        ess = np.asarray(post.diagnose().ess_bulk[1:])  # the first is that of lp
        return {
            "ess": float(np.median(ess)),
            "seconds": float(seconds),
            "per_second": float(np.median(ess) / seconds),
        }

    name = type(sampler).__name__
    return folder.piece(
        f"ess-{size}-{name}", {"size": size, "rank": rank, "plan": plan, "sampler": repr(sampler)}, make
    )


def draw(results: dict[int, Record], kind: str, spread: float) -> Any:
    """Plot log likelihood against iterations and against seconds, a column per size."""
    figure, axes = panels(2, len(results), 3.8) if len(results) > 1 else panels(1, 2, 4.6, 3.6)
    axes = axes if len(results) > 1 else axes.T
    styles = {"default": "-", "printed, λ = 1": ":", "printed, λ = data": "--"}
    for column, (size, found) in zip(axes.T, results.items(), strict=True):
        for axis, x in zip(column, ("iteration", "seconds"), strict=True):
            for name, one in found["curves"].items():
                sampler, _, about = name.partition(", ")
                if "failed" in one:
                    continue
                level = (np.array(one["log_likelihood"]) - found["truth"]) / found["entries"]
                axis.plot(one[x], level, styles[about], color=COLOURS[sampler], lw=1.2, label=name)
            axis.axhline(0, color=INK, lw=0.6)
            axis.set_xscale("log")
            axis.set_yscale("symlog", linthresh=spread)
            axis.set_ylim(-30, 3 * spread)
            unit = "iterations" if x == "iteration" else "processor seconds, one thread"
            label(axis, f"{kind}, {size} × {size}", unit, "log likelihood − truth's, per entry")
    handles, names = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=4, fontsize=8, frameon=False)
    return figure


def poisson(folder: Folder) -> Outcome:
    """Poisson, three sizes, Gibbs beside the Langevin samplers."""
    sizes, rank = folder.choose((256, 512, 1024), (64,)), folder.choose(32, 4)
    iterations = folder.choose(10_000, 60)
    sweeps = folder.choose({256: 4000, 512: 1000, 1024: 300}, {})
    results = {
        size: runs(folder, "poisson", size, rank, iterations, sweeps.get(size, 20))
        for size in sizes
    }  # fmt: skip
    size = sizes[0]
    plans = folder.choose(((2000, 400, 100), (1000, 400, 5)), ((40, 20, 2), (20, 20, 1)))
    ess = {
        type(s).__name__: effective(folder, size, rank, s, plan)
        for s, plan in zip((psgld.PSGLD(), psgld.Gibbs()), plans, strict=True)
    }
    alone = data_of(size, rank, "poisson")
    growth = folder.piece(
        f"unguarded-{size}", {"size": size, "rank": rank},
        lambda: unguarded(
            alone.V, model_of(alone, rank, "1"),
            psgld.PSGLD(max(2, size // 32), psgld.Power(0.01, 0.51), psgld.Identity(), dtype="float64"), iterations,
        ),
    )  # fmt: skip
    tables = {str(n): table(found) for n, found in results.items()}
    numbers = {"log likelihood of the truth": {str(n): r["truth"] for n, r in results.items()}, "curves": tables,
               "effective samples of mu": ess, "unguarded": growth}  # fmt: skip
    return Outcome(
        numbers, {"rank": rank, "iterations": iterations, "sizes": sizes},
        _poisson_text(tables, ess, growth, iterations, size),
        draw(results, "Poisson", 0.01),
    )  # fmt: skip


def _ratio(one: float | None, other: float | None) -> str:
    """Return how many times `one` is in `other`."""
    return "—" if one is None or other is None else f"{other / one:.3g} ×"


def _times(one: Record) -> dict[str, Any]:
    key = "seconds to the log likelihood of the truth"
    return {name: entry.get(key) for name, entry in one.items()}


def _poisson_text(tables: Record, ess: Record, growth: Record, iterations: int, size: int) -> str:
    most = max(tables, key=int)
    rows, to = tables[most], _times(tables[most])
    each = {name: row.get("seconds per iteration") for name, row in rows.items()}
    ours, last = each["PSGLD, default"], rows["PSGLD, printed, λ = data"]
    paper = each.get("PSGLD, printed, λ = data") or each.get("PSGLD, printed, λ = 1") or ours
    largest = [x for x in growth["largest"] if x is not None]
    diverged = [f"{name}: {row['divergences']}" for name, row in rows.items() if row.get("divergences")]
    failed = [name for name, row in rows.items() if "failed" in row]
    return (
        "The paper saw PSGLD mix as well as the Gibbs sampler and take under 15 s on a GPU for 10,000 "
        "samples at 1024², "
        f"against over 3 hours of its Gibbs sampler. We see at {most}², on one thread: {iterations:,} "
        "iterations of PSGLD "
        f"with B = I/32 take {duration(iterations * paper)} (our default B: {duration(iterations * ours)}); "
        f"{iterations:,} "
        f"sweeps of our Gibbs sampler would take {duration(iterations * each['Gibbs, default'])} (extrapolated from "
        f"{rows['Gibbs, default']['iterations']} sweeps), {_ratio(paper, each['Gibbs, default'])} as long; "
        "the paper's 3 "
        f"hours are {3 * 3600 / (iterations * paper):,.0f} × ours. To the log likelihood of the truth: PSGLD "
        f"{duration(to['PSGLD, default'])}, SGLD {duration(to['SGLD, default'])}, LD "
        f"{duration(to['LD, default'])}, Gibbs "
        f"{duration(to['Gibbs, default'])}, all by default; with the printed constants (λ of the scale of the "
        "data) PSGLD "
        f"{duration(to['PSGLD, printed, λ = data'])}, SGLD {duration(to['SGLD, printed, λ = data'])}, LD "
        f"{duration(to['LD, printed, λ = data'])}. The printed constants diverge: divergences at {most}² "
        f"{'; '.join(diverged) or 'none'}{'; ended by an error: ' + ', '.join(failed) if failed else ''}. The "
        "guard halves the step "
        "until they stop. Without the guard and in double precision PSGLD with (0.01/t)^0.51 reaches |w| = "
        f"{max(largest):.0e} at {size}² before the falling step brings it back. Where it says never, the chain does "
        f"not arrive within {iterations:,} iterations; PSGLD with the printed steps last diverged at iteration "
        f"{max([0, *last.get('diverged first at', [])])}, and ends "
        f"{-last.get('level at the end, per entry', 0.0):.2g} per entry below the truth: the "
        "steps, in the identity metric, are still too large for its noisy gradients. "
        f"Effective samples of μ per second at {size}², where a "
        f"sweep costs more but moves further: PSGLD {ess['PSGLD']['per_second']:.0f}, Gibbs "
        f"{ess['Gibbs']['per_second']:.0f}."
    )


def compound(folder: Folder) -> Outcome:
    """Compound Poisson, which has no Gibbs sampler."""
    size, rank = folder.choose(1024, 64), folder.choose(32, 4)
    iterations = folder.choose(10_000, 60)
    found = runs(folder, "compound", size, rank, iterations, 0)
    rows = table(found)
    to = _times(rows)
    each = {name: row.get("seconds per iteration") for name, row in rows.items()}
    one = "PSGLD, default"
    diverged = [f"{name}: {row['divergences']}" for name, row in rows.items() if row.get("divergences")]
    stuck = [n for n, t in to.items() if t is None]
    text = (
        f"The paper saw PSGLD reach the level of LD and SGLD more than 60 × sooner at 1024². We see at {size}², on one "
        f"thread, by default: time to the log likelihood of the truth {duration(to[one])} for PSGLD, SGLD "
        f"{duration(to['SGLD, default'])} ({_ratio(to[one], to['SGLD, default'])}), LD {duration(to['LD, default'])} "
        f"({_ratio(to[one], to['LD, default'])}). With the printed constants (λ = 1): PSGLD "
        f"{duration(to['PSGLD, printed, λ = 1'])}, "
        f"SGLD {duration(to['SGLD, printed, λ = 1'])}, LD {duration(to['LD, printed, λ = 1'])}. Never within "
        f"{iterations:,} "
        f"iterations: {', '.join(stuck) or 'none'}. Divergences: {'; '.join(diverged) or 'none'}. An "
        "iteration of LD costs "
        f"{_ratio(each[one], each['LD, default'])} that of PSGLD. "
        "Our metric lets every sampler take steps near the largest stable one, so what is left of the ratio is cost "
        "per iteration, less the noise of a part. Against LD with its printed step, PSGLD by default is there "
        f"{_ratio(to[one], to['LD, printed, λ = data'])} sooner."
    )
    return Outcome({"log likelihood of the truth": found["truth"], "curves": rows},
                   {"size": size, "rank": rank, "iterations": iterations, "beta": 0.5, "phi": 1.0}, text,
                   draw({size: found}, "compound Poisson, β = 0.5", 0.01))  # fmt: skip
