"""One contract for all samplers of the registry: a new one fails here until it is in `CASES`, and then must keep it."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest
from scipy.sparse import csr_array

import psgld
from psgld import FactorModel, Observations, Threads
from psgld.dynamics.probes import Probes
from psgld.engines import H, W
from psgld.samplers import SAMPLERS, as_sampler

ROWS, COLS, RANK = 24, 17, 3
DRAWS = ("W", "H", "row_rate", "col_rate", "offset", "phi")


def counts(rows=ROWS, cols=COLS, seed=0):
    rng = np.random.default_rng(seed)
    return rng.poisson(rng.gamma(2.0, size=(rows, RANK)) @ rng.gamma(2.0, 0.5, size=(RANK, cols))).astype(
        float
    )


def poisson():
    return counts(), FactorModel(RANK, "poisson")


def gaussian():
    return counts() - 4.0, FactorModel(RANK, "gaussian")


def sparse_poisson():
    V = counts()
    i, j = np.nonzero(np.random.default_rng(1).random(V.shape) < 0.6)
    return Observations.from_coo(i, j, V[i, j], V.shape, absent="unobserved"), FactorModel(RANK, "poisson")


def zero_poisson():
    return Observations.from_sparse(csr_array(counts() * (counts(seed=1) > 4)), absent="zero"), FactorModel(
        RANK, "poisson"
    )


def gaps():
    V = counts() - 4.0
    V[np.random.default_rng(1).random(V.shape) < 0.3] = np.nan
    return V, FactorModel(RANK, "gaussian", bias=True)


def large():
    """Enough work for several chunks in an iteration of every sampler."""
    return counts(1200, 1000), FactorModel(RANK, "poisson")


LANGEVIN = (poisson, gaussian, sparse_poisson, zero_poisson, gaps, large)
CASES = {  # what each sampler can sample, the first one the plainest
    "psgld": LANGEVIN,
    "ld": LANGEVIN,
    "sgld": LANGEVIN,
    "dsgd": LANGEVIN,
    "dsgld": LANGEVIN,
    "gibbs": (poisson, sparse_poisson, zero_poisson),
    "bpmf-gibbs": (gaussian, gaps),
}
IMPOSSIBLE = {  # settings of the model or the sampler, data, and the words that tell why not
    "psgld": (
        ({"metric": "real-valued"}, poisson, "Gaussian models"),
        ({"blocks": 18}, poisson, "18 blocks"),
    ),
    "ld": (({"metric": "non-negative"}, gaussian, "non-negative factors"),),
    "sgld": (({"metric": "real-valued"}, poisson, "Gaussian models"),),
    "dsgd": (({"metric": "non-negative"}, gaussian, "non-negative factors"),),
    "dsgld": (({"size": 0.1}, zero_poisson, "does not store"), ({"workers": 18}, poisson, "workers <= 17")),
    "gibbs": (({}, gaussian, "Poisson"),),
    "bpmf-gibbs": (({}, poisson, "Gaussian"),),
}
SETTINGS = {  # settings that exist, but not with these values
    "psgld": ({"blocks": 0}, {"temperature": -1.0}, {"schedule": "cyclic"}, {"partition": 3}),
    "ld": ({"temperature": np.inf}, {"step_size": 0.0}, {"metric": "euclid"}, {"dtype": "float16"}),
    "sgld": ({"size": 0}, {"size": 1.5}, {"size": -0.1}, {"size": True}, {"size": "all"}, {"metric": 3}),
    "dsgd": ({"blocks": 2.0}, {"step_size": -1}, {"schedule": None}),
    "dsgld": ({"workers": 0}, {"exchange": 0}, {"exchange": 1.5}, {"size": 0.0}, {"temperature": "hot"}),
    "gibbs": ({"dtype": "int"},),
    "bpmf-gibbs": ({"dtype": "int"},),
}
TABLE = [pytest.param(name, case, id=f"{name}-{case.__name__}") for name in SAMPLERS for case in CASES[name]]
TEMPERED = [name for name in SAMPLERS if any(f.name == "temperature" for f in fields(SAMPLERS[name]))]


def draw(name, case, threads=1, seed=3, **settings):
    V, model = case()
    sizes = {"draws": 3, "tune": 8, "thin": 2, "chains": 2, "progress": False}
    sampler = SAMPLERS[name](**settings)
    return psgld.sample(V, model, sampler=sampler, engine=Threads(threads), seed=seed, **sizes)


def assert_same(one, other):
    for field in DRAWS:
        np.testing.assert_array_equal(getattr(one.draws, field), getattr(other.draws, field), err_msg=field)
    for field, trace in one.sample_stats.items():
        if field != "seconds":
            np.testing.assert_array_equal(trace, other.sample_stats[field], err_msg=field)


def test_every_sampler_is_in_the_tables():
    for table in (CASES, IMPOSSIBLE, SETTINGS):
        assert set(SAMPLERS) <= set(table)


@pytest.mark.parametrize("name", SAMPLERS)
def test_by_name_and_with_defaults_only(name):
    assert as_sampler(name) == SAMPLERS[name]()
    V, model = CASES[name][0]()
    post = psgld.sample(V, model, sampler=name, draws=2, chains=1, progress=False)
    assert np.isfinite(post.sample_stats["lp"]).all()
    assert post.divergences == 0
    assert post.settings["sampler"]["name"] == SAMPLERS[name].__name__
    assert post.summary().startswith("Posterior")


@pytest.mark.parametrize(("name", "case"), TABLE)
def test_draws_and_traces_have_one_form(name, case):
    V, model = case()
    rows, cols = psgld.observations(V).shape
    post = draw(name, case)
    assert post.W.shape == (2, 3, rows, RANK)
    assert post.H.shape == (2, 3, RANK, cols)
    assert post.draws.row_rate.shape == (2, 3, model.components)
    assert post.draws.phi.shape == (2, 3)
    assert post.W.dtype == np.float32
    assert set(post.sample_stats) == {"lp", "step_size", "diverging", "iteration", "seconds"}
    assert all(trace.shape == (2, 3) for trace in post.sample_stats.values())
    np.testing.assert_array_equal(post.sample_stats["iteration"], [[10, 12, 14]] * 2)
    assert set(post.warmup) == set(post.sample_stats)
    assert np.isfinite(post.W).all()
    assert np.isfinite(post.H).all()
    assert np.isfinite(post.sample_stats["lp"]).all()
    assert not np.array_equal(post.W[0], post.W[1])
    if model.nonnegative:
        assert post.W.min() >= 0
        assert post.H.min() >= 0
    assert post.predict([0, 1], [2, 3]).mean.shape == (2,)


@pytest.mark.parametrize(("name", "case"), TABLE)
def test_seeds_and_threads(name, case):
    one = draw(name, case)
    for threads in (1, 2, 3):
        assert_same(one, draw(name, case, threads))
    assert not np.array_equal(one.W, draw(name, case, seed=4).W)


@pytest.mark.parametrize(("name", "case"), TABLE)
def test_goes_on_from_its_state(name, case):
    V, model = case()
    data = psgld.observations(V)
    probes = Probes.of(data, 10_000)

    def chain(threads):
        return SAMPLERS[name]().prepare(data, model, Threads(threads), tune=40).chain(7, probes)

    whole, resumed = chain(2), chain(1)
    whole.advance(45)
    state = {key: np.asarray(value).copy() for key, value in whole.state().items()}
    resumed.advance(3)
    resumed.set_state(state)
    for one in (whole, resumed):
        one.advance(50)
    assert whole.iteration == resumed.iteration == 95
    assert whole.log_posterior() == resumed.log_posterior()
    for which in (W, H):
        np.testing.assert_array_equal(whole.factors.factor(which), resumed.factors.factor(which))
    for field, value in whole.hyper.arrays().items():
        np.testing.assert_array_equal(value, resumed.hyper.arrays()[field])


@pytest.mark.parametrize("nonnegative", [False, True])
@pytest.mark.parametrize("name", TEMPERED)
def test_nothing_moves_without_heat_and_gradient(name, nonnegative):
    """μ = V to the last bit, no priors, τ = 0."""
    rng = np.random.default_rng(0)
    w, h = (rng.integers(1 if nonnegative else -3, 4, (n, RANK)).astype(float) for n in (ROWS, COLS))
    prior = psgld.Exponential(1.0) if nonnegative else psgld.Normal(1.0)
    model = FactorModel(RANK, psgld.Gaussian(phi=1.0), prior, prior)
    data = psgld.observations(w @ h.T)
    setup = SAMPLERS[name](temperature=0.0).prepare(data, model, Threads(2), tune=0)
    chain = replace(setup, flat=True).chain(1, Probes.of(data, 0))
    chain.factors.set_factor(W, w)
    chain.factors.set_factor(H, h)
    chain.advance(50)
    np.testing.assert_array_equal(chain.factors.factor(W), w)
    np.testing.assert_array_equal(chain.factors.factor(H), h)
    cold = setup.chain(1, Probes.of(data, 0))  # with its priors it does move
    cold.factors.set_factor(W, w)
    cold.advance(50)
    assert not np.array_equal(cold.factors.factor(W), w)


@pytest.mark.parametrize("name", SAMPLERS)
def test_the_impossible_is_refused_with_the_reason(name):
    for settings, case, words in IMPOSSIBLE[name]:
        with pytest.raises(psgld.PsgldError, match=words) as caught:
            draw(name, case, **settings)
        assert "\n" not in str(caught.value)
    for settings in SETTINGS[name]:
        (setting,) = settings
        with pytest.raises(psgld.ModelError, match=setting):
            SAMPLERS[name](**settings)


def test_no_other_sampler():
    for wrong in ("metropolis", 3, SAMPLERS):
        with pytest.raises(psgld.SamplingError, match="psgld, ld, sgld"):
            as_sampler(wrong)


# -- how the samplers relate ---------------------------------------------------------------------------------


@pytest.mark.parametrize("case", LANGEVIN)
def test_ld_is_psgld_with_one_block(case):
    assert_same(draw("ld", case), draw("psgld", case, blocks=1, partition=psgld.InOrder(), momentum=0.0))


@pytest.mark.parametrize("case", LANGEVIN)
def test_dsgd_is_psgld_without_heat(case):
    assert_same(draw("dsgd", case), draw("psgld", case, temperature=0.0, momentum=0.0))


def test_dsgld_that_hops_at_once_visits_shards_as_the_ring_does():
    """Every worker's chain is PSGLD's, from a start of its own on the ring."""
    V, model = poisson()
    data = psgld.observations(V)
    same = {"step_size": 0.05, "metric": "identity"}
    hopping = psgld.DSGLD(workers=4, exchange=1, **same).prepare(data, model, Threads(1), 0)
    ring = psgld.PSGLD(blocks=4, momentum=0.0, **same).prepare(data, model, Threads(1), 0)
    key = 8  # a multiple of 4: starts with shard 0
    a, b = (setup.chain(key, Probes.of(data, 0)) for setup in (hopping, ring))
    a.advance(20)
    b.advance(20)
    np.testing.assert_array_equal(a.factors.factor(W), b.factors.factor(W))


def test_bytes_that_would_move():
    """PSGLD passes H on once an iteration; each chain of DSGLD takes W and H along every `exchange` iterations."""
    ring, alone = draw("psgld", poisson, blocks=4), draw("psgld", poisson, blocks=1)
    assert ring.settings["bytes_moved"] == 2 * 14 * COLS * RANK * 4
    assert alone.settings["bytes_moved"] == draw("ld", poisson).settings["bytes_moved"] == 0
    hops = draw("dsgld", poisson, workers=4, exchange=7, dtype="float64")
    assert hops.settings["bytes_moved"] == 2 * 2 * (ROWS + COLS) * RANK * 8


@pytest.mark.parametrize("name", SAMPLERS)
def test_a_dtype_is_known_by_any_of_its_names(name):
    for given in (np.float64, np.dtype("float64"), "float64", "f8", float):
        assert SAMPLERS[name](dtype=given) == SAMPLERS[name](dtype="float64")
        assert SAMPLERS[name](dtype=given).dtype == "float64"
    for bad in ("float16", np.int64, None, "numbers"):
        with pytest.raises(psgld.ModelError, match='dtype must be "float32" or "float64"'):
            SAMPLERS[name](dtype=bad)
