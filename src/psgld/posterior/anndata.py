"""The factors of a posterior in an AnnData object: aligned components in `.obsm` and `.varm`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..data.labels import find_labels
from ..errors import DataError
from ..models.modes import NAMES
from ..runs.result import Result
from .components import components


def to_anndata(posterior: Result, adata: Any, key: str = "psgld", level: float = 0.9) -> Any:
    """Write the components to an AnnData object; `Posterior.to_anndata` says where."""
    if not (hasattr(adata, "obsm") and hasattr(adata, "varm") and hasattr(adata, "uns")):
        raise DataError(f"adata must be an anndata.AnnData, got a {type(adata).__name__}")
    if not isinstance(key, str) or not key:
        raise DataError(f"key must be a name, such as 'psgld', got {key!r}")
    found = components(posterior, level=level)
    for axis, (side, index, target, name) in enumerate(
        (("rows", adata.obs_names, adata.obsm, f"X_{key}"), ("cols", adata.var_names, adata.varm, key))
    ):
        at, band = _places(posterior, axis, index), found.band(side)
        target[name] = band.mean.T[at]
        target[f"{name}_low"], target[f"{name}_high"] = band.low.T[at], band.high.T[at]
    adata.uns[key] = {
        "rank": posterior.model.rank,
        "likelihood": posterior.model.likelihood.name,
        "share": found.share,
        "stability": found.stability,
        "level": float(level),
        "version": posterior.settings["version"],
    }
    return adata


def _places(posterior: Result, axis: int, index: Any) -> NDArray[np.int64]:
    """Return which row or column of the posterior each name is."""
    names, labels, size = np.asarray(index).astype(str), posterior.labels[axis], posterior.shape[axis]
    if labels is not None:
        return find_labels(labels, names, size, NAMES[axis].dim, "take the others, or fold them in")
    if len(names) != size:
        raise DataError(f"adata has {len(names)} {NAMES[axis].dim}s, the posterior {size}, without labels")
    return np.arange(size)
