"""SMURFF: BPMF by Gibbs sampling. It centres nothing, and its `var` is a sum of squares over the draws."""

from __future__ import annotations

from typing import Any

import numpy as np
import smurff
from scipy import sparse

from ..record import Problem, Record

PACKAGE = "smurff"
_BURN_IN_EVERY = 4
"""Sweeps between two points of the curve in the burn-in: reading the predictions takes as long as a sweep."""


def fit(problem: Problem, settings: dict[str, Any], record: Record) -> None:
    """Run `burnin` and `nsamples` sweeps; noise of a fixed `precision`, or a sampled one if it is None."""
    about, precision = problem.about, settings["precision"]
    centre = float(problem.train.values.mean())
    i, j, v = problem.train
    train = sparse.coo_matrix((v - centre, (i, j)), problem.shape).tocsr()
    i, j, v = problem.test
    test = sparse.coo_matrix((v - centre, (i, j)), problem.shape)
    noise = smurff.SampledNoise() if precision is None else smurff.FixedNoise(precision)
    session = smurff.TrainSession(
        priors=["normal", "normal"], num_latent=about["rank"], burnin=settings["burnin"],
        nsamples=settings["nsamples"], num_threads=about["threads"], seed=about["seed"], verbose=0,
    )  # fmt: skip
    session.setTrain(train, noise, True)
    session.setTest(test)
    session.init()
    sweeps = 0
    while (status := session.step()) is not None:
        sweeps += 1
        if sweeps < settings["burnin"] and sweeps % _BURN_IN_EVERY:
            continue
        with record.aside():
            # Of a sampled precision SMURFF says nothing: the training error stands for the noise.
            sd = status.train_rmse if precision is None else precision**-0.5
            _record(session, problem, record, sweeps, sd, centre)


def _record(session: Any, problem: Problem, record: Record, sweeps: int, sd: float, centre: float) -> None:
    cells = np.array(
        [(*p.coords, p.pred_1sample, p.pred_avg, p.var, p.nsamples) for p in session.getTestPredictions()]
    )
    order = np.lexsort((cells[:, 1], cells[:, 0]))
    ours = np.lexsort((problem.test.cols, problem.test.rows))
    found = np.empty((len(cells), 4))
    found[ours] = cells[order, 2:]
    last, mean, squares, count = found.T
    keep = bool(count[0] >= 1)
    spread = np.sqrt(squares / np.maximum(count - 1, 1) + sd**2)
    record.moments(sweeps, (mean if keep else last) + centre, spread, last + centre, keep)
