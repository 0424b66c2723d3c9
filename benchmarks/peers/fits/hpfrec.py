"""hpfrec: hierarchical Poisson factorisation by variational inference; absent entries are zeros."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from hpfrec import HPF

from ..record import Problem, Record

PACKAGE = "hpfrec"


def fit(problem: Problem, settings: dict[str, Any], record: Record) -> None:
    """Run each number of `iterations`; `shape` is that of both gamma priors, or None for the default."""
    about, shape = problem.about, settings["shape"]
    i, j, v = problem.train
    frame = pd.DataFrame({"UserId": i, "ItemId": j, "Count": v})
    options = {} if shape is None else {"a": shape, "c": shape}
    for iterations in settings["iterations"]:
        record.again()
        model = HPF(
            k=about["rank"], maxiter=iterations, ncores=about["threads"], random_seed=about["seed"] + 1,  # 0: none
            stop_crit="maxiter", verbose=False, produce_dicts=False, keep_data=False, **options,
        )  # fmt: skip
        model.fit(frame.copy())
        with record.aside():
            # Rows and columns without a count are not in the model, and their mean is zero.
            W, H = (np.zeros((n, about["rank"])) for n in problem.shape)
            W[np.asarray(model.user_mapping_, int)] = model.Theta
            H[np.asarray(model.item_mapping_, int)] = model.Beta
            mu = np.einsum("nk,nk->n", W[problem.test.rows], H[problem.test.cols])
            record.estimate(iterations, mu, float(W.sum(axis=0) @ H.sum(axis=0)))
