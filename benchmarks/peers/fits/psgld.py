"""psgld itself: one chain, all settings at their defaults but those that a variant names."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

import psgld
from psgld.dynamics.probes import Probes
from psgld.runs.inputs import chain_keys, ready, usual_plan
from psgld.samplers import as_sampler

from ..record import Problem, Record

PACKAGE = "psgld"
_BURN_IN_MARKS = 25


def fit(problem: Problem, settings: dict[str, Any], record: Record) -> None:
    """Sample the named `model`; `sampler` by its name; `tune`, `draws` and `thin` as of `psgld.sample`."""
    warnings.simplefilter("ignore")
    if problem.kind == "clicks":
        _rank_clicks(problem, settings, record)
        return
    if problem.kind == "posterior":
        _sample(problem, settings, record)
        return
    model = _model(problem, settings)
    data = psgld.Observations.from_coo(
        *problem.train, problem.shape, absent="zero" if problem.kind == "counts" else "unobserved"
    )
    sampler, engine = as_sampler(settings["sampler"]), psgld.Threads(problem.about["threads"])
    data = ready(data, model, sampler.dtype)
    plan = usual_plan(sampler, data, model.components, *(settings.get(n) for n in ("draws", "tune", "thin")))
    setup = sampler.prepare(data, model, engine, plan.tune)
    chain = setup.chain(chain_keys(problem.about["seed"], 1)[0], Probes.of(data, 0), engine)
    with record.aside():
        record.note(blocks=setup.cycle, tune=plan.tune, thin=plan.thin)
        places = tuple(chain.factors.positions(n, index) for n, index in enumerate(problem.test[:2]))
    every = max(1, plan.tune // _BURN_IN_MARKS)
    marks = [(n, False) for n in range(every, plan.tune + 1, every)]
    marks += [(n, True) for n in range(plan.tune + plan.thin, plan.iterations + 1, plan.thin)]
    for mark, keep in marks:
        chain.advance(mark - chain.iteration)
        chain.settle()
        with record.aside():
            mu = chain.factors.mu(places).astype(np.float64) + setup.shift
            sums = chain.sums()
            total = float(sums[0, 0] @ sums[1, 0])
            sd = chain.hyper.phi**0.5 if problem.kind == "ratings" else None
            record.draw(chain.iteration // setup.cycle, mu, sd, total, keep)
    record.note(divergences=len(chain.divergences))


def _sample(problem: Problem, settings: dict[str, Any], record: Record) -> None:
    """Sample a complete matrix by `psgld.sample`, which records the time of each draw; the first ends the warm-up."""
    V = np.zeros(problem.shape)
    V[problem.train.rows, problem.train.cols] = problem.train.values
    post = psgld.sample(
        V, _model(problem, settings), sampler=_sampler(settings), engine=psgld.Threads(problem.about["threads"]),
        draws=settings.get("draws"), thin=settings.get("thin"), chains=1, seed=problem.about["seed"],
        progress=False,
    )  # fmt: skip
    with record.aside():
        i, j, _ = problem.test
        mu = np.einsum("dnk,dkn->dn", post.W[0][:, i], post.H[0][:, :, j]).astype(np.float64)
        seconds, iteration = (post.sample_stats[name][0] for name in ("seconds", "iteration"))
        cycle = post.settings.get("blocks", 1)
        for n, draw in enumerate(mu):
            record.draw(int(iteration[n]) // cycle, draw, keep=n > 0, seconds=float(seconds[n]))
    record.note(
        blocks=cycle, tune=post.settings["tune"], thin=post.settings["thin"], divergences=post.divergences
    )


def _sampler(settings: dict[str, Any]) -> Any:
    """Return the sampler of a variant: with its defaults, or with a constant step size."""
    if "step_size" in settings:
        return psgld.PSGLD(step_size=psgld.Constant(settings["step_size"]))
    return as_sampler(settings["sampler"])


def _model(problem: Problem, settings: dict[str, Any]) -> psgld.FactorModel:
    """Return the model of a variant."""
    rank, name, about = problem.about["rank"], settings["model"], problem.about
    if name == "bpmf":
        prior = psgld.NormalWishart()
        return psgld.FactorModel(rank, psgld.Gaussian(phi=settings["phi"]), prior)
    if name == "fixed":
        prior_of_both = psgld.Exponential(about["rate"])
        likelihood = psgld.Poisson() if about["phi"] is None else psgld.Gamma(phi=about["phi"])
        return psgld.FactorModel(rank, likelihood, prior_of_both, prior_of_both)
    if name == "gamma priors":
        shape = psgld.GammaPrior(settings["shape"])
        return psgld.FactorModel(rank, "poisson", shape, shape)
    return psgld.FactorModel(rank, name, bias=name == "gaussian")


def _rank_clicks(problem: Problem, settings: dict[str, Any], record: Record) -> None:
    from ...clicks import METHODS, Clicks, hits

    i, j, _ = problem.train
    clicks = Clicks(i, j, problem.test.cols, problem.shape)
    best = METHODS[settings["model"]](clicks, settings["weight"])
    with record.aside():
        record.hits(hits(clicks, best))
