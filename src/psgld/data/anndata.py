"""Cells × genes of an AnnData object (annotated data of single cells) as observations."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import DataError
from .observations import Observations
from .sparse import sparse_entries


def from_anndata(adata: Any, layer: str | None = None, absent: str = "zero") -> Observations:
    """Return the matrix of an AnnData object, with the names of its observations and variables as labels.

    Parameters
    ----------
    adata
        An `anndata.AnnData`, in memory.
    layer
        The layer with the counts; by default `adata.X`.
    absent
        Meaning of what a sparse matrix does not store: a count of "zero", or "unobserved".

    Examples
    --------
    >>> import anndata, numpy as np, psgld
    >>> adata = anndata.AnnData(np.random.default_rng(0).poisson(1.0, (30, 20)).astype(float))
    >>> post = psgld.sample(psgld.from_anndata(adata), psgld.FactorModel(2, "poisson"), draws=50)
    >>> post.to_anndata(adata).obsm["X_psgld"].shape
    (30, 2)
    """
    missing = [name for name in ("obs_names", "var_names", "layers", "X") if not hasattr(adata, name)]
    if missing:
        raise DataError(
            f"adata must be an anndata.AnnData, got a {type(adata).__name__}; observations(V) takes others"
        )
    if layer is not None and layer not in adata.layers:
        raise DataError(f"layer {layer!r} is not one of {', '.join(map(repr, adata.layers)) or 'none'}")
    X = adata.X if layer is None else adata.layers[layer]
    if X is None or getattr(adata, "isbacked", False):
        raise DataError("adata has no matrix in memory; name a layer, or call adata.to_memory() first")
    names: dict[str, Any] = {"row_labels": _names(adata.obs_names), "col_labels": _names(adata.var_names)}
    if hasattr(X, "tocoo"):
        return Observations.from_coo(*sparse_entries(X), absent, **names)
    return Observations.from_dense(X, **names)


def _names(index: Any) -> list[str]:
    return [str(name) for name in np.asarray(index)]
