"""The overview of a posterior."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...runs.draws import check_factors
from ...runs.result import Result
from .factors import components
from .predictions import calibration, certainty, examples
from .runs import trace

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def overview(posterior: Result, test: Any = None) -> Figure:
    """Plot traces, calibration, uncertainty and predictions, in four panels.

    The trace of the log posterior; whether intervals hold as much of the held-out data as they promise
    (without held-out data: how sure the means are); examples of predictions; the shares of the components.

    Parameters
    ----------
    posterior
        What `sample` returned, with its draws.
    test
        Held-out entries: (rows, cols, values), or any data of `sample`; by default those of `split`. At most
        4,000 are used, and the plots say so.

    Returns
    -------
    matplotlib.figure.Figure
        Write it with `.savefig("overview.png")`.

    Examples
    --------
    >>> import psgld
    >>> from psgld import datasets, plots
    >>> data = datasets.ratings(users=60, items=40, entries=800)
    >>> post = psgld.sample(data.V, psgld.FactorModel(2, "gaussian", bias=True), draws=20, chains=1)
    >>> figure = plots.overview(post, data.test)
    >>> len(figure.axes)
    4
    """
    from matplotlib.figure import Figure

    check_factors(posterior.draws)
    figure = Figure(figsize=(11.0, 8.0), layout="constrained")
    axes = figure.subplots(2, 2)
    rows, cols = posterior.shape
    model = posterior.model
    figure.suptitle(
        f"{rows:,} × {cols:,}, rank {model.rank}, {model.likelihood.name} likelihood", weight="bold"
    )
    trace(posterior, axes[0, 0])
    if test is None and posterior.held_out is None:
        certainty(posterior, axes[0, 1])
    else:
        calibration(posterior, test, axes[0, 1])
    examples(posterior, test, axes[1, 0])
    components(posterior, axes[1, 1])
    return figure
