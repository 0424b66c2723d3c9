"""cmfrec: alternating least squares with biases; each point of the curve is a fit of its own."""

from __future__ import annotations

from typing import Any

from cmfrec import CMF
from scipy import sparse

from ..record import Problem, Record

PACKAGE = "cmfrec"


def fit(problem: Problem, settings: dict[str, Any], record: Record) -> None:
    """Run each number of `iterations`; `penalty` is λ, or None for the default."""
    about, penalty = problem.about, settings["penalty"]
    i, j, v = problem.train
    cells = sparse.coo_matrix((v, (i, j)), problem.shape)
    options = {} if penalty is None else {"lambda_": penalty}
    for iterations in settings["iterations"]:
        record.again()
        model = CMF(
            k=about["rank"], niter=iterations, nthreads=about["threads"], random_state=about["seed"],
            verbose=False, **options,
        )  # fmt: skip
        model.fit(cells)
        with record.aside():
            record.estimate(iterations, model.predict(problem.test.rows, problem.test.cols))
