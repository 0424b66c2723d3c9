"""A posterior for ArviZ: of version 0.2x as `InferenceData`, of version 1 as an `xarray.DataTree`.

posterior             W, H, biases, rates, parameters of the likelihood, and μ at the monitored cells
sample_stats          lp, step_size, diverging, iteration
observed_data         v: the values of a random sample of the entries
posterior_predictive  v: draws of new observations of these
log_likelihood        v: log p(v | μ, θ) of these in each draw (of an entry of weight w, w times as much)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..data.cells import Cells
from ..errors import SamplingError
from ..runs.result import Result
from .diagnostics import cell_names, monitored_draws, monitored_names
from .predict import Prediction

INSTALL = 'pip install "psgld[diagnostics]"'

Groups = dict[str, dict[str, Any]]


def to_arviz(posterior: Result) -> Any:
    """Return what the installed ArviZ takes."""
    groups, dims, coords = _posterior(posterior)
    groups["sample_stats"] = dict(posterior.sample_stats)
    if posterior.observed is not None and posterior.draws.W.shape[1]:
        groups |= _observed(posterior, posterior.observed)
        dims["v"] = ["entry"]
        coords["entry"] = cell_names(posterior, posterior.observed.rows, posterior.observed.cols)
    attributes = {"inference_library": "psgld", "inference_library_version": posterior.settings["version"]}
    if _is_old():
        import arviz

        return arviz.from_dict(**groups, coords=coords, dims=dims, attrs=attributes)
    try:
        from arviz_base import from_dict
    except ImportError:
        raise SamplingError(f"to_arviz needs arviz-base, or ArviZ: {INSTALL}") from None
    return from_dict(groups, coords=coords, dims=dims, attrs={"posterior": attributes})


def _is_old() -> bool:
    """Return whether the installed ArviZ is of version 0."""
    from importlib import metadata  # here, so that `import psgld` is quick

    try:
        return metadata.version("arviz").startswith("0.")
    except metadata.PackageNotFoundError:
        return False


def _posterior(p: Result) -> tuple[Groups, dict[str, list[str]], dict[str, Any]]:
    """Return the group of the draws, and the names and coordinates of all dimensions."""
    d, (rows, cols) = p.draws, p.shape
    variables: dict[str, Any] = {**p.parameters, "row_rate": d.row_rate, "col_rate": d.col_rate}
    variables |= {name: array for name, array in d.arrays().items() if name in ("row_shape", "col_shape")}
    stored = "component_and_bias" if p.model.bias else "component"  # the names that a store has
    dims = {"row_rate": [stored], "col_rate": [stored]}
    coords: dict[str, Any] = {
        "row": np.arange(rows) if p.row_labels is None else p.row_labels,
        "column": np.arange(cols) if p.col_labels is None else p.col_labels,
        "component": np.arange(p.model.rank),
        stored: np.arange(d.row_rate.shape[-1]),
    }
    if d.W.shape[1]:
        variables |= {"W": d.W, "H": d.H.swapaxes(-1, -2)}
        dims |= {"W": ["row", "component"], "H": ["component", "column"]}
        names, first = np.unique(monitored_names(p), return_index=True)  # ArviZ 0.2x refuses one name twice
        variables["mu"] = monitored_draws(p)[..., np.sort(first)]
        dims["mu"] = ["cell"]
        coords["cell"] = names[np.argsort(first)]
    if d.row_bias is not None and d.col_bias is not None:
        variables |= {"row_bias": d.row_bias, "col_bias": d.col_bias, "offset": d.offset}
        dims |= {"row_bias": ["row"], "col_bias": ["column"]}
    return {"posterior": variables}, dims, coords


def _observed(p: Result, cells: Cells) -> Groups:
    """Return the groups of the observed entries that the posterior keeps."""
    shape = (*p.draws.phi.shape, -1)
    prediction = Prediction(p.draws, p.model.likelihood, cells.rows, cells.cols)
    logs = prediction.log_densities(cells.values)
    logs = logs if cells.weights is None else cells.weights * logs
    return {
        "observed_data": {"v": cells.values},
        "posterior_predictive": {"v": prediction.new_draws().reshape(shape)},
        "log_likelihood": {"v": logs.reshape(shape)},
    }
