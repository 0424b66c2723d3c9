"""Components aligned across draws and chains; what explains a prediction."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import psgld
from psgld.posterior.align import align
from psgld.runs.draws import Draws

MODELS = {
    "poisson": psgld.FactorModel(3, "poisson"),
    "gaussian": psgld.FactorModel(3, "gaussian", bias=True),
    "one": psgld.FactorModel(1, "poisson"),
}


@pytest.fixture(scope="module")
def truth():
    rng = np.random.default_rng(0)
    W, H = rng.gamma(0.4, 2.0, (60, 3)), rng.gamma(0.4, 4.0, (3, 40))
    return W, H, rng.poisson(W @ H).astype(float)


@pytest.fixture(scope="module", params=MODELS)
def post(request, truth):
    V = truth[2] - truth[2].mean() if request.param == "gaussian" else truth[2]
    return psgld.sample(V, MODELS[request.param], draws=60, progress=False)


def scrambled(post, seed=1):
    """Return the posterior with other components in each draw, and the same W H."""
    rng, W, H = np.random.default_rng(seed), post.draws.W.copy(), post.draws.H.copy()
    for at in np.ndindex(W.shape[:2]):
        rank = post.model.rank
        A = np.diag(rng.gamma(5.0, 1.0, rank))[:, rng.permutation(rank)]
        if not post.model.nonnegative:
            A = rng.normal(size=(rank, rank)) + 2 * np.eye(rank)
        W[at], H[at] = W[at] @ A, H[at] @ np.linalg.inv(A).T
    return replace(post, draws=Draws.of(**post.draws.arrays() | {"W": W, "H": H}))


def test_alignment_leaves_the_product_as_it_is(post):
    found, d = align(post), post.draws
    W = found.factor(d, 0, np.arange(post.shape[0]))
    H = found.factor(d, 1, np.arange(post.shape[1]))
    np.testing.assert_allclose(W @ H.swapaxes(-1, -2), d.W @ d.H.swapaxes(-1, -2), atol=2e-3)
    np.testing.assert_allclose(W.mean(axis=(0, 1)), found.mean[0], atol=1e-10)


def test_order_sign_scale_and_rotation_do_not_matter(post):
    one, two = post.components(), scrambled(post).components()
    for side in ("rows", "cols"):
        np.testing.assert_allclose(one.mean(side), two.mean(side), atol=0.02 * np.abs(one.mean(side)).max())
    np.testing.assert_allclose(one.share, two.share, atol=1e-3)
    assert list(one[0].cols.labels) == list(two[0].cols.labels)


def test_shares(post):
    share = align(post).share
    np.testing.assert_allclose(share.sum(axis=-1), 1.0)
    assert (np.diff(share.mean(axis=(0, 1))) <= 0).all()
    one = post.components()[0]
    assert one.share_low <= one.share <= one.share_high


def test_the_true_components_are_found(truth):
    W, H, V = truth
    found = psgld.sample(V, psgld.FactorModel(3, "poisson"), draws=100, progress=False).components(n=4)
    both = np.corrcoef(found.mean("rows"), W.T)[:3, 3:]
    assert (both.max(axis=1) > 0.95).all() and (found.stability > 0.9).all()
    band = found.band("cols")
    assert (band.low <= band.mean).all() and (band.mean <= band.high).all() and band.mean.shape == H.shape
    np.testing.assert_allclose(band.low[0, found[0].cols.index], found[0].cols.low)
    assert all(0.2 < s < 1 for one in found for s in one.sparsity)


def test_components_without_structure_are_unstable():
    V = np.random.default_rng(0).poisson(5.0, (50, 40)).astype(float)
    found = psgld.sample(V, psgld.FactorModel(4, "poisson"), draws=60, progress=False).components()
    assert found.stability.min() < 0.7 and "unstable" in repr(found)


def test_tables(post):
    found = post.components(n=2)
    lines = found.to_frame()
    sides = 1 if post.model.nonnegative else 2
    assert len(lines) == len(found) * 2 * 2 * sides and len(repr(found).splitlines()) == len(found) + 1
    assert found.to_dict()["components"][0]["cols"]["mean"] == found[0].cols.mean.tolist()
    assert "stability" in repr(found[0]) and len(found[0].rows.to_frame()) == 2 * sides


def test_terms_add_up(post):
    why = post.explain(3, 5)
    eta = post.predict([3], [5]).draws.mean()
    assert sum(why.terms["mean"]) == pytest.approx(eta, rel=1e-4, abs=1e-4)
    assert why.mean == pytest.approx(eta) and why.low <= why.high
    assert len(why.to_frame()) == len(why.terms["name"]) + 10 and "row 3, column 5" in repr(why)


@pytest.mark.filterwarnings("ignore:chains diverged")  # short chains
def test_effects_of_entries_are_those_of_the_exact_posterior():
    """Normal rows given H: leaving out v_j' changes E[μ_ij] by h_jᵀ Σ h_j' (v_j' - E[μ_ij']) / φ, to first order."""
    rng = np.random.default_rng(0)
    H, v, phi = rng.normal(size=(8, 2)), rng.normal(size=8), 0.5
    cov = np.linalg.inv(np.eye(2) + H.T @ H / phi)
    mean = cov @ H.T @ v / phi
    V = np.vstack([v, rng.normal(size=(3, 8))])
    model = psgld.FactorModel(2, psgld.Gaussian(phi), psgld.Normal(1.0), psgld.Normal(1.0))
    post = psgld.sample(V, model, draws=10, tune=10, chains=2, progress=False)
    W = rng.normal(size=(2, 4_000, 4, 2))
    W[:, :, 0] = rng.multivariate_normal(mean, cov, (2, 4_000))
    shape = W.shape[:2]
    draws = Draws.of(
        W=W, H=np.broadcast_to(H, (*shape, 8, 2)), offset=np.zeros(shape), phi=np.full(shape, phi),
        row_rate=np.ones((*shape, 2)), col_rate=np.ones((*shape, 2)),
    )  # fmt: skip
    exact = replace(post, draws=draws)
    why = exact.explain(0, 1, V, n=20)
    expected = (H @ cov @ H[1]) * (v - H @ mean) / phi
    np.testing.assert_allclose(why.entries["effect"], expected[why.entries["column"]], atol=0.02)
    assert 1 not in why.entries["column"] and np.all(np.array(why.entries["se"]) < 0.02)
    per_unit = exact.explain(0, 1, n=20)
    np.testing.assert_allclose(
        per_unit.entries["effect"], (H @ cov @ H[1] / phi)[per_unit.entries["column"]], atol=0.02
    )


def test_entries_of_sparse_data_by_label():
    data = psgld.datasets.ratings(users=40, items=30, entries=400)
    post = psgld.sample(data.V, psgld.FactorModel(2, "gaussian"), draws=20, tune=100, progress=False)
    why = post.explain("user-3", "item-4", data.V, n=50)
    i = data.V.row_index(["user-3"])[0]
    cols = data.V.col_labels[data.V.indices[data.V.indptr[i] : data.V.indptr[i + 1]]]
    assert set(why.entries["column"]) == set(cols) - {"item-4"} and why.kind == "removal"
    assert set(post.explain("user-3", "item-4", n=50).entries["column"]) == set(why.entries["column"])


@pytest.mark.parametrize(
    "call", [lambda p: p.components(0), lambda p: p.components(level=1.0), lambda p: p.explain(0, 999)]
)
def test_errors(call, truth):
    post = psgld.sample(truth[2], MODELS["one"], draws=4, tune=10, progress=False)
    with pytest.raises(psgld.DataError):
        call(post)
    with pytest.raises(psgld.DataError, match="side must be one of"):
        post.components().mean("up")


def test_no_draws_is_an_error(truth):
    post = psgld.sample(truth[2], MODELS["one"], draws=4, tune=10, keep=False, progress=False)
    with pytest.raises(psgld.SamplingError, match="no draws"):
        post.components()
