"""An entry of weight w counts w times: the gradient, the posterior, and every place that reads entries."""

from dataclasses import replace

import numpy as np
import pytest

import psgld
from psgld import BPMFGibbs, DataError, FactorModel, Gibbs, Observations, Reference, Threads, _core
from psgld.data.partition import InOrder
from psgld.models import LIKELIHOODS
from psgld.samplers import SAMPLERS

I, J, K = 24, 18, 3
RNG = np.random.default_rng(0)
COUNTS = RNG.poisson(3.0, (I, J)) + 1.0
CELLS = np.sort(RNG.choice(I * J, 150, replace=False))
AT = CELLS // J, CELLS % J
WEIGHTS = RNG.integers(1, 5, (I, J)).astype(float)
FAMILIES = [name for name in LIKELIHOODS if name != "tweedie"]
MAY_BE_ZERO = [name for name in FAMILIES if name not in ("gamma", "inverse-gaussian")]


def model(name, **more):
    given = {
        "compound-poisson": psgld.CompoundPoisson(0.5),
        "ordinal": psgld.Ordinal(range(int(COUNTS.max()) + 1)),
    }
    likelihood = given.get(name, name)
    return FactorModel(K, likelihood, **more)


def values(name):
    return (COUNTS > 3.0) * 1.0 if name == "bernoulli" else COUNTS


def data(name, form, weights=WEIGHTS, zero_weight=0.5):
    v = values(name)
    if form == "dense":
        return Observations.from_dense(v, weights=weights)
    if form == "gaps":
        v = v.copy()
        v[AT] = np.nan
        return Observations.from_dense(v, weights=weights)
    more = {} if weights is None else {"weights": weights[AT]}
    if form == "zeros" and weights is not None:
        more["zero_weight"] = zero_weight
    return Observations.from_coo(*AT, v[AT], (I, J), "zero" if form == "zeros" else "unobserved", **more)


def dense(V):
    """Return data as an array, NaN where it was not observed."""
    V = V.filled()
    out = np.full(V.shape, np.nan)
    out[np.repeat(np.arange(I), np.diff(V.indptr)), V.indices] = V.values
    return out


FORMS = ("dense", "gaps", "sparse", "zeros")
BOTH = [(name, form) for name in FAMILIES for form in FORMS if form != "zeros" or name in MAY_BE_ZERO]


def draw(V, m, sampler=None, engine=None, **more):
    sampler = psgld.PSGLD(blocks=2, dtype="float64") if sampler is None else sampler
    settings = {"draws": 3, "tune": 12, "thin": 2, "chains": 1, "progress": False, **more}
    return psgld.sample(V, m, sampler=sampler, engine=engine or Threads(1), **settings)


@pytest.mark.parametrize(("name", "form"), BOTH)
@pytest.mark.parametrize("sampler", ["psgld", "sgld"])
def test_core_is_the_reference(name, form, sampler):
    """Chains are equal up to rounding: gradients, metric, squared residuals, parameters, `lp`."""
    settings = {"psgld": psgld.PSGLD(blocks=2, dtype="float64"), "sgld": psgld.SGLD(0.4, dtype="float64")}[
        sampler
    ]
    V, m = data(name, form), model(name)
    core, reference = (draw(V, m, settings, engine) for engine in (Threads(2), Reference()))
    plain = draw(data(name, form, None), m, settings)
    np.testing.assert_allclose(core.W, reference.W, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(core.H, reference.H, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(core.draws.phi, reference.draws.phi, rtol=1e-4)
    np.testing.assert_allclose(core.sample_stats["lp"], reference.sample_stats["lp"], rtol=1e-5)
    assert np.abs(core.W - plain.W).max() > 0.01


def sums(V, name, W, H, engine):
    """Return the sums of scores and of weights for W, and the squared residuals, in one pass."""
    m, strips = model(name).likelihood, InOrder().cut(V, 2)
    factors = engine.factors(engine.grid(V, strips, 0.0, np.dtype(np.float64)), K, m, 1e-9)
    if m.constants or m.parameters:
        factors.set_parameters(1.0, m.split(m.typical(2.0))[1])
    for which, x in enumerate((W, H)):
        factors.set_factor(which, x)
    found = []
    for kind in ("score", "weight"):
        factors.accumulate(kind)
        found.append(factors.accumulated(0))
    return *found, factors.fresh_squared_residuals()


@pytest.mark.parametrize(("name", "form"), BOTH)
@pytest.mark.parametrize("engine", [Threads(1), Reference()], ids=["threads", "reference"])
def test_integer_weights_are_repeated_entries(name, form, engine):
    times = np.arange(J) % 3 + 1
    W, H = RNG.gamma(2.0, size=(I, K)), RNG.gamma(2.0, size=(J, K))
    V = data(name, form, np.broadcast_to(times * 1.0, (I, J)), 1.0)
    if form == "zeros":  # each cell of a column counts as often
        V = V.filled()
        V = replace(V, weights=np.ascontiguousarray(np.broadcast_to(times * 1.0, (I, J))))
    twice = Observations.from_dense(np.repeat(dense(data(name, form, None)), times, axis=1))
    one, other = sums(V, name, W, H, engine), sums(twice, name, W, np.repeat(H, times, axis=0), engine)
    for x, y in zip(one, other, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", ["poisson", "gaussian"])
@pytest.mark.parametrize("engine", [Threads(1), Reference()], ids=["threads", "reference"])
def test_implicit_zeros_are_the_zeros_written_out(name, engine):
    W, H = RNG.gamma(2.0, size=(I, K)), RNG.gamma(2.0, size=(J, K))
    V = data(name, "zeros", zero_weight=2.5)
    for x, y in zip(sums(V, name, W, H, engine), sums(V.filled(), name, W, H, engine), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-9)


SAME_WEIGHT = {
    "psgld": lambda: psgld.PSGLD(blocks=2, dtype="float64", step_size=0.05),
    "ld": lambda: psgld.LD(dtype="float64", step_size=0.05),
    "sgld": lambda: psgld.SGLD(0.5, dtype="float64", step_size=0.05),
    "dsgld": lambda: psgld.DSGLD(workers=2, dtype="float64", step_size=0.02),
    "dsgd": lambda: psgld.DSGD(blocks=2, dtype="float64", step_size=0.05),
    "bpmf-gibbs": lambda: BPMFGibbs(dtype="float64"),
}


def test_the_table_of_samplers_is_complete():
    assert set(SAMPLERS) == {*SAME_WEIGHT, "gibbs"}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", SAME_WEIGHT)
def test_one_weight_for_all_is_a_smaller_dispersion(name, form):
    """log p(v | μ, φ)^c is log p(v | μ, φ/c) up to a constant: the same chain."""
    c, prior = 4.0, psgld.Normal(1.0)
    start = RNG.normal(size=(I, K)), RNG.normal(size=(K, J))
    chains = [
        draw(
            data("gaussian", form, weights, c),
            FactorModel(K, psgld.Gaussian(phi), prior, prior),
            SAME_WEIGHT[name](),
            start=start,
        )
        for weights, phi in ((np.full((I, J), c), 2.0), (None, 2.0 / c))
    ]
    np.testing.assert_allclose(chains[0].W, chains[1].W, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(chains[0].H, chains[1].H, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("form", FORMS)
def test_gibbs_allocates_weight_times_value(form):
    """Weights c: with W' = c W the posterior is that of counts c v, W' having the rate λ / c."""
    c = 3.0
    start = RNG.gamma(2.0, size=(I, K)), RNG.gamma(2.0, size=(K, J))
    weighted = draw(
        data("poisson", form, np.full((I, J), c), c),
        FactorModel(K, "poisson", psgld.Exponential(1.5), psgld.Exponential(0.7)),
        Gibbs(dtype="float64"),
        start=start,
    )
    plain = data("poisson", form, None)
    scaled = (
        replace(plain, dense=plain.dense * c)
        if plain.csr is None
        else replace(plain, csr=plain.csr._replace(values=plain.values * c))
    )
    other = draw(
        scaled,
        FactorModel(K, "poisson", psgld.Exponential(1.5 / c), psgld.Exponential(0.7)),
        Gibbs(dtype="float64"),
        start=(c * start[0], start[1]),
    )
    np.testing.assert_allclose(c * weighted.W, other.W, rtol=1e-9)
    np.testing.assert_allclose(weighted.H, other.H, rtol=1e-9)


def test_gibbs_with_weights_is_the_same_with_zeros_written_out():
    V = data("poisson", "zeros", zero_weight=2.0)
    m = model("poisson")
    one, other = (draw(x, m, Gibbs(dtype="float64")) for x in (V, V.filled()))
    np.testing.assert_allclose(one.W, other.W, rtol=1e-8)


def test_gibbs_refuses_what_it_cannot_allocate():
    with pytest.raises(
        DataError, match=r"allocates weight × value, which must be a count.*use integer weights"
    ):
        draw(data("poisson", "sparse", WEIGHTS + 0.3), model("poisson"), Gibbs())


def test_rows_of_bpmf_have_the_weights_of_their_entries():
    """A row with weights c is a row of values sqrt(c) v and columns sqrt(c) h, each counting once."""
    c, v, h = RNG.gamma(2.0, size=J), RNG.normal(size=J), RNG.normal(size=(J, K))
    start, index, zero = np.array([0, J]), np.arange(J, dtype=np.int32), 0.3
    root = np.sqrt(c)

    def drawn(values, other, weights, precision, zero_weight=0.0):
        rows, x = _core.Rows64(start, index, values, J, weights, zero_weight), np.zeros((1, K))
        _core.draw_normal_rows(
            _core.Pool(1), rows, other, x, precision, np.ones(K), np.ones(K), 0.7, False, 0, 1, 1
        )
        return x, _core.sum_residuals(_core.Pool(1), rows, other, x, zero_weight > 0)

    x, squares = drawn(root * v, root[:, None] * h, np.empty(0), np.eye(K))
    y, weighted = drawn(v, h, c, np.eye(K))
    z, less = drawn(v, h, c, np.eye(K) + zero * h.T @ h / 0.7, zero)
    np.testing.assert_allclose(y, x, rtol=1e-10)
    np.testing.assert_allclose(z, x, rtol=1e-8)
    assert weighted == pytest.approx(squares)
    assert less == pytest.approx(squares - zero * float(((h @ z[0]) ** 2).sum()))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["poisson", "gaussian", "bernoulli", "negative-binomial"])
def test_new_rows_have_the_weights_of_their_entries(name, form):
    """Integer weights are repeated columns; with implicit zeros, weights are those of the zeros written out."""
    prior = psgld.Normal(1.0) if name in ("gaussian", "bernoulli") else psgld.Exponential(1.0)
    post = draw(data(name, "dense", None), model(name, row_prior=prior, col_prior=prior))
    V, other, times = data(name, form), post, np.arange(J) % 3 + 1
    if form == "zeros":
        same = V.filled()
    else:
        V = data(name, form, np.broadcast_to(times * 1.0, (I, J)))
        H = np.repeat(post.draws.modes[1].factor, times, axis=2)
        other = replace(post, shape=(I, len(H[0, 0])), draws=post.draws.with_mode(1, factor=H, bias=None))
        same = Observations.from_dense(np.repeat(dense(data(name, form, None)), times, axis=1))
    plain = post.fold_in(data(name, form, None)).W
    np.testing.assert_allclose(post.fold_in(V).W, other.fold_in(same).W, rtol=1e-5, atol=1e-8)
    np.testing.assert_allclose(post.transform(V), other.transform(same), rtol=1e-5, atol=1e-7)
    assert np.abs(post.fold_in(V).W - plain).max() > 0.01


def test_the_dispersion_has_the_total_weight():
    """Repeating all entries four times halves the posterior sd of φ."""
    V = RNG.normal(size=(40, 30))
    m = FactorModel(1, "gaussian")
    for sampler in (psgld.PSGLD(blocks=2), BPMFGibbs()):
        sd = [
            float(
                draw(
                    psgld.observations(V, weights=w), m, sampler, draws=400, tune=300, thin=3
                ).draws.phi.std()
            )
            for w in (None, np.full(V.shape, 4.0))
        ]
        assert sd[1] / sd[0] == pytest.approx(0.5, rel=0.2)


@pytest.mark.parametrize("name", ["gamma", "negative-binomial"])
def test_moves_of_parameters_weigh_the_entries(name):
    likelihood = psgld.Gamma() if name == "gamma" else psgld.NegativeBinomial()
    v, eta, w = RNG.poisson(3.0, 50) + 1.0, RNG.gamma(5.0, size=50), RNG.integers(1, 4, 50)
    weighted = likelihood.profile(v, eta, (1.0,), w.astype(float))
    repeated = likelihood.profile(np.repeat(v, w), np.repeat(eta, w), (1.0,))
    for theta in (0.3, 2.0):
        assert weighted((theta,)) == pytest.approx(repeated((theta,)), rel=1e-12)


# -- every other place that reads entries: it honours the weights, or refuses ----------------------------


def posterior():
    return draw(data("poisson", "sparse"), model("poisson"), chains=2)


def test_optimize_honours_weights():
    found = [
        psgld.optimize(data("poisson", "dense", w), model("poisson"), max_passes=50).W
        for w in (None, WEIGHTS)
    ]
    assert np.abs(found[0] - found[1]).max() > 0.01


def test_optimize_has_the_weighted_dispersion():
    V, m = data("gaussian", "dense"), FactorModel(K, psgld.Gaussian())
    found = psgld.optimize(V, m, max_passes=50)
    error = (V.dense - found.predict(np.repeat(np.arange(I), J), np.tile(np.arange(J), I)).reshape(I, J)) ** 2
    assert found.phi == pytest.approx((WEIGHTS * error).sum() / WEIGHTS.sum(), rel=1e-3)


def test_lp_is_the_weighted_log_likelihood():
    """A trace of a point whose prior is known: Σ w log p(v | μ) + log p(W, H)."""
    V, prior = data("poisson", "sparse"), psgld.Exponential(1.0)
    start = RNG.gamma(2.0, size=(I, K)), RNG.gamma(2.0, size=(K, J))
    m = FactorModel(K, "poisson", prior, prior)
    post = draw(V, m, Gibbs(dtype="float64"), start=start)
    W, H = post.W[0, -1], post.H[0, -1]
    log_p = m.likelihood.logpdf(V.values, (W @ H)[AT], 1.0)
    expected = float(V.entry_weights @ log_p) - W.sum() - H.sum()
    assert post.sample_stats["lp"][0, -1] == pytest.approx(expected)
    assert post.settings["total_weight"] == V.total_weight
    assert "total_weight" not in draw(data("poisson", "sparse", None), m).settings


def test_update_and_new_rows_honour_weights():
    post = posterior()
    grown = Observations.from_coo([*AT[0], I], [*AT[1], 0], [*COUNTS[AT], 9.0], (I + 1, J), "unobserved")
    heavy = psgld.observations(grown, weights=np.append(WEIGHTS[AT], 50.0))
    light = psgld.observations(grown, weights=np.append(WEIGHTS[AT], 0.1))
    one, other = (post.update(V, tune=20, draws=5).predict([I], [0]).mean[0] for V in (heavy, light))
    assert abs(one - 9.0) < abs(other - 9.0)


def test_new_rows_without_weights_warn():
    with pytest.warns(psgld.PsgldWarning, match="was sampled with weights, the new entries have none"):
        posterior().fold_in(data("poisson", "sparse", None))


def test_stacking_honours_weights_and_refuses_trained_entries():
    post, cells = posterior(), np.setdiff1d(np.arange(I * J), CELLS)[:100]
    at = cells // J, cells % J
    test = Observations.from_coo(*at, COUNTS[at], (I, J), "unobserved")
    w = RNG.integers(1, 60, 100).astype(float)
    plain, weighted = (
        post.stack(V).settings["stacking"]["weights"] for V in (test, psgld.observations(test, weights=w))
    )
    assert plain != weighted
    with pytest.raises(DataError, match="were sampled, with weights that the posterior does not keep"):
        post.stack(data("poisson", "sparse"))


def test_a_run_with_other_weights_is_not_resumed(tmp_path):
    pytest.importorskip("zarr")
    store, m = tmp_path / "run.zarr", model("poisson")
    draw(data("poisson", "sparse"), m, store=store)
    with pytest.raises(psgld.PsgldError, match="data"):
        draw(data("poisson", "sparse", WEIGHTS[::-1]), m, store=store, resume=True)
    again = draw(data("poisson", "sparse"), m, store=store, resume=True, draws=6)
    np.testing.assert_array_equal(again.W, draw(data("poisson", "sparse"), m, draws=6).W)
