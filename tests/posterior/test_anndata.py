"""AnnData in and out: counts with names, factors by name."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix

import psgld
from psgld.errors import DataError

anndata = pytest.importorskip("anndata")


@pytest.fixture(scope="module")
def cells():
    rng = np.random.default_rng(0)
    counts = rng.poisson(rng.gamma(0.5, 2.0, (30, 2)) @ rng.gamma(0.5, 2.0, (2, 20))).astype(np.float32)
    adata = anndata.AnnData(csr_matrix(counts), layers={"twice": 2 * counts})
    adata.obs_names, adata.var_names = [f"cell-{i}" for i in range(30)], [f"gene-{j}" for j in range(20)]
    return adata, counts


def test_counts_with_names(cells):
    adata, counts = cells
    V = psgld.from_anndata(adata)
    assert (
        V.absent == "zero" and V.size == 600 and V.row_labels[3] == "cell-3" and V.col_labels[7] == "gene-7"
    )
    np.testing.assert_array_equal(V.filled().values.reshape(30, 20), counts)
    np.testing.assert_array_equal(psgld.from_anndata(adata, "twice").values, 2 * counts.ravel())
    assert psgld.from_anndata(adata, absent="unobserved").size == np.count_nonzero(counts)


def test_factors_by_name(cells):
    adata, _ = cells
    post = psgld.sample(
        psgld.from_anndata(adata), psgld.FactorModel(2, "poisson"), draws=20, tune=200, progress=False
    )
    other = adata[::-1, ::2].copy()  # in another order
    assert post.to_anndata(other) is other
    found = post.components()
    np.testing.assert_allclose(other.obsm["X_psgld"], found.mean("rows").T[::-1])
    np.testing.assert_allclose(other.varm["psgld_high"], found.band("cols", 0.9).high.T[::2])
    assert (other.obsm["X_psgld_low"] <= other.obsm["X_psgld"]).all()
    assert other.uns["psgld"]["rank"] == 2 and other.uns["psgld"]["share"].shape == (2,)
    more = anndata.AnnData(np.ones((1, 20), np.float32))
    more.var_names = adata.var_names
    with pytest.raises(DataError, match=r"1 unknown row label\(s\): '0'; .*fold them in"):
        post.to_anndata(more)


def test_without_labels(cells):
    adata, counts = cells
    post = psgld.sample(counts, psgld.FactorModel(1, "poisson"), draws=10, tune=100, progress=False)
    assert post.to_anndata(adata.copy(), key="nmf").varm["nmf"].shape == (20, 1)
    with pytest.raises(DataError, match="adata has 29 rows, the posterior 30"):
        post.to_anndata(adata[1:].copy())


def test_refusals(cells):
    adata, counts = cells
    with pytest.raises(DataError, match=r"must be an anndata\.AnnData, got a ndarray"):
        psgld.from_anndata(counts)
    with pytest.raises(DataError, match="layer 'spliced' is not one of 'twice'"):
        psgld.from_anndata(adata, "spliced")
    with pytest.raises(DataError, match="has no matrix in memory"):
        psgld.from_anndata(anndata.AnnData(obs=adata.obs, var=adata.var))
