"""NumPyro: NUTS on the full data, exponential priors of a fixed rate; compilation is timed apart."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.infer import MCMC, NUTS

from ..record import Problem, Record

PACKAGE = "numpyro"


def fit(problem: Problem, settings: dict[str, Any], record: Record) -> None:
    """Run `warmup` and `samples` iterations: once to compile, once for the record."""
    about = problem.about
    V = np.zeros(problem.shape)
    V[problem.train.rows, problem.train.cols] = problem.train.values

    def model(V: Any) -> None:
        prior = dist.Exponential(about["rate"])
        W = numpyro.sample("W", prior.expand([problem.shape[0], about["rank"]]).to_event(2))
        H = numpyro.sample("H", prior.expand([about["rank"], problem.shape[1]]).to_event(2))
        mu = W @ H
        shape = None if about["phi"] is None else 1 / about["phi"]
        noise = dist.Poisson(mu) if shape is None else dist.Gamma(shape, shape / mu)
        numpyro.sample("V", noise.to_event(2), obs=V)

    mcmc = MCMC(
        NUTS(model), num_warmup=settings["warmup"], num_samples=settings["samples"], progress_bar=False
    )
    first, second = jax.random.split(jax.random.key(about["seed"]))
    mcmc.warmup(first, V)
    with record.aside():
        record.note(warmup_seconds=record.seconds)
    mcmc.run(second, V)  # compiles
    mcmc.post_warmup_state = mcmc.last_state
    record.again()
    mcmc.run(second, V)
    found = mcmc.get_samples()
    W, H = (np.asarray(jax.block_until_ready(found[name])) for name in "WH")
    with record.aside():
        i, j, _ = problem.test
        for n, mu in enumerate(np.einsum("dnk,dkn->dn", W[:, i], H[:, :, j])):
            record.draw(n + 1, mu)
