"""The engine on accelerators, on a CPU: its noise, the ring of devices, checkpoints between numbers of devices,
compiled programs, and what it refuses. `test_contract.py` compares its chains with those of other engines."""

from __future__ import annotations

import numpy as np
import pytest
from chain_cases import counts

import psgld
from psgld import DSGLD, JAX, PSGLD, FactorModel
from psgld.dynamics.probes import Probes
from psgld.engines import H
from psgld.engines.reference import update as reference

jax = pytest.importorskip("jax", reason="JAX is not installed")

from psgld.engines.accelerated import buckets, noise, program  # noqa: E402
from psgld.engines.accelerated.devices import precision  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::psgld.PsgldWarning")
KEY = 2**64 - 7


# -- noise -------------------------------------------------------------------------------------------------


def test_words_are_those_of_the_reference():
    counter = np.random.default_rng(0).integers(0, 2**32, (500, 4), dtype=np.uint32)
    found = jax.jit(noise.ars)(tuple(counter.T), noise.round_keys(KEY))
    np.testing.assert_array_equal(np.stack(found, axis=-1), reference.ars(counter, KEY))


@pytest.mark.parametrize(("dtype", "atol"), [("float32", 1e-6), ("float64", 1e-13)])
def test_normals_are_those_of_the_reference(dtype, atol):
    rows, t = np.array([[3, 0], [41, 2**31 - 1]], np.int32), 2**40 - 3
    with precision(dtype):
        words = np.array([t % 2**32, t >> 32], np.uint32)
        z = jax.jit(noise.normals, static_argnums=(1, 5))(rows, 18, 1, words, noise.round_keys(KEY), dtype)
        assert z.dtype == dtype
    expected = reference.noise(rows.ravel(), 18, 1, t, KEY).reshape(2, 2, 18)
    np.testing.assert_allclose(z, expected, rtol=0, atol=atol)


# -- buckets -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_every_entry_has_a_cell_of_its_own(seed):
    rng = np.random.default_rng(seed)
    lengths = np.minimum(rng.pareto(1.0, (4, 60)) * rng.integers(0, 3, (4, 60)), 300).astype(np.int64)
    found = buckets.buckets_for(lengths)
    assert len(found.widths) <= buckets.MOST_BUCKETS
    width_of_slot = np.repeat(found.widths, found.rows)
    for block in lengths:
        places = buckets.placed(block, found)
        assert len(np.unique(places.cell)) == block.sum()
        assert places.cell.max(initial=0) < found.cells
        held = block > 0
        assert (places.slot[~held] == sum(found.rows)).all()
        assert len(np.unique(places.slot[held])) == held.sum()
        assert (width_of_slot[places.slot[held]] >= block[held]).all()
    # Never more cells than in one bucket for all.
    assert found.cells <= lengths.max() * (lengths > 0).sum(axis=1).max()


# -- the ring ----------------------------------------------------------------------------------------------

SAMPLERS = {
    "cyclic": PSGLD(4),
    "shuffled parts": PSGLD(4, schedule=psgld.Reshuffled(), metric="identity", step_size=1e-4),
}
DATA = {
    "dense": (counts(20, 33, seed=1), FactorModel(3, "poisson")),
    "sparse": (
        psgld.observations(np.where(np.random.default_rng(2).random((37, 22)) < 0.4, 1.0, np.nan)
                           * np.random.default_rng(3).normal(size=(37, 22))),
        FactorModel(3, "gaussian", bias=True),
    ),
}  # fmt: skip

needs_four = pytest.mark.skipif(len(jax.devices()) < 4, reason="JAX has less than 4 devices")


def chain_on(devices, data, sampler):
    V, model = DATA[data]
    observed = psgld.observations(V)
    engine = JAX(devices)
    setup = SAMPLERS[sampler].prepare(observed, model, engine, tune=40)
    return setup.chain(7, Probes.of(observed, 10_000), engine)


def bits(chain):
    state = chain.factors.state()
    return {**state, "lp": chain.log_posterior(), "sums": chain.factors.sums(), "gram": chain.factors.gram(H)}


@needs_four
@pytest.mark.parametrize(
    ("data", "sampler"), [("dense", "cyclic"), ("dense", "shuffled parts"), ("sparse", "cyclic")]
)
def test_draws_do_not_depend_on_the_number_of_devices(data, sampler):
    found = []
    for devices in (1, 2, 4):
        chain = chain_on(devices, data, sampler)
        chain.advance(150)
        found.append(bits(chain))
    assert np.ptp(found[0]["W"]) > 0
    for other in found[1:]:
        for name, value in found[0].items():
            np.testing.assert_array_equal(other[name], value, err_msg=name)


@needs_four
@pytest.mark.parametrize("data", DATA)
def test_a_chain_is_resumed_on_another_number_of_devices(data):
    through, first = chain_on(1, data, "cyclic"), chain_on(2, data, "cyclic")
    through.advance(151)
    first.advance(97)
    second = chain_on(4, data, "cyclic")
    second.set_state(first.state())
    second.advance(54)
    for name, value in bits(through).items():
        np.testing.assert_array_equal(bits(second)[name], value, err_msg=name)


@needs_four
def test_a_store_is_resumed_on_another_number_of_devices(tmp_path):
    V, model = DATA["dense"]
    settings = {"sampler": PSGLD(4), "tune": 10, "thin": 4, "chains": 1}
    whole = psgld.sample(V, model, draws=4, engine=JAX(), **settings)
    psgld.sample(V, model, draws=2, store=tmp_path / "run.zarr", engine=JAX(4), **settings)
    resumed = psgld.sample(
        V, model, draws=4, store=tmp_path / "run.zarr", resume=True, engine=JAX(2), **settings
    )
    np.testing.assert_array_equal(resumed.W, whole.W)


# -- the programs ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("data", DATA)
def test_iterations_have_no_scatter_and_send_nothing_to_the_host(data, monkeypatch):
    texts = []

    def lowered(*arguments):
        texts.append(program.iterations.lower(*arguments).as_text())
        return program.iterations(*arguments)

    monkeypatch.setattr("psgld.engines.accelerated.factors.iterations", lowered)
    chain_on(1, data, "cyclic").advance(3)
    assert texts
    for text in texts:
        assert "stablehlo.while" in text
        for name in (
            "stablehlo.scatter",
            "stablehlo.sort",
            "callback",
            "infeed",
            "outfeed",
            "stablehlo.send",
        ):
            assert name not in text, name


def test_all_iterations_up_to_a_mark_are_one_call(monkeypatch):
    calls = []

    def counted(*arguments):
        calls.append(int(arguments[-1].number))
        return program.iterations(*arguments)

    monkeypatch.setattr("psgld.engines.accelerated.factors.iterations", counted)
    chain = chain_on(1, "dense", "cyclic")
    chain.advance(chain.setup.cycle)
    assert calls == [4]


# -- weights -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["dense", "unobserved", "zero"])
def test_weights_and_empty_rows_are_those_of_the_reference(form):
    V, rng = counts(12, 17, seed=1), np.random.default_rng(4)
    weights = rng.integers(1, 4, V.shape).astype(float)
    if form == "dense":
        data = psgld.observations(V, weights=weights)
    else:
        seen = (rng.random(V.shape) < 0.4) & (V > 0)
        seen[3] = seen[:, 5] = False
        rows, cols = np.nonzero(seen)
        more = {"zero_weight": 0.5} if form == "zero" else {}
        at = rows, cols
        data = psgld.Observations.from_coo(
            rows, cols, V[at], V.shape, absent=form, weights=weights[at], **more
        )
    sampler, found = PSGLD(2, dtype="float64"), []
    for engine in (psgld.Reference(), JAX()):
        setup = sampler.prepare(data, FactorModel(2, "gaussian"), engine, tune=40)
        chain = setup.chain(3, Probes.of(data, 100), engine)
        chain.advance(64)
        found.append((chain.factors.factor(H), chain.factors.squared_residuals(), chain.log_posterior()))
    for expected, value in zip(*found, strict=True):
        np.testing.assert_allclose(value, expected, rtol=1e-6, atol=1e-9)


# -- what is refused ---------------------------------------------------------------------------------------

REFUSED = {
    "DSGLD": (DSGLD(workers=2), JAX(), r"DSGLD does not run on JAX\(devices=1\), as its chains move"),
    "strips": (PSGLD(3), JAX(2), r"3 block\(s\) cannot be shared equally by 2 devices; choose blocks = 4, or"),
    "devices": (PSGLD(2), JAX(512), r"JAX\(devices=512\): JAX sees \d+ device\(s\), cpu; use devices="),
    "Gibbs": (psgld.Gibbs(), JAX(), r"Gibbs does not run on JAX\(devices=1\); PSGLD, .* use Threads\(\)"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name):
    sampler, engine, message = REFUSED[name]
    with pytest.raises(psgld.PsgldError, match=message):
        psgld.sample(counts(20, 15), FactorModel(2, "poisson"), sampler=sampler, engine=engine)


@pytest.mark.parametrize("devices", [0, 1.5, True, "2"])
def test_devices_are_counted(devices):
    with pytest.raises(psgld.ModelError, match=r"devices must be an integer >= 1"):
        JAX(devices)


def test_without_jax_the_remedy_is_named(monkeypatch):
    monkeypatch.setattr("psgld.engines.accelerated.engine.find_spec", lambda _: None)
    with pytest.raises(psgld.ModelError, match=r"JAX\(\) needs JAX; install it: pip install 'psgld\[jax\]'"):
        JAX()


def test_large_data_with_zeros_are_not_drawn():
    V = psgld.Observations.from_coo([0], [0], [1.0], (3000, 2000), absent="zero")
    with pytest.raises(
        psgld.ModelError, match=r"6,000,000 cells, at most 4,000,000 are allowed; use PSGLD\(\)"
    ):
        psgld.sample(V, FactorModel(2, "poisson"), sampler=psgld.SGLD(), engine=JAX())


# -- sound draws -------------------------------------------------------------------------------------------


def test_the_posterior_is_that_of_gibbs():
    """In float32, as it is used: posterior means of μ within the Monte Carlo error of two samplers."""
    V = np.random.default_rng(1).poisson(3.0, (20, 16))
    prior = psgld.Exponential(1.0)
    model = FactorModel(2, "poisson", prior, prior)
    rows, cols = np.divmod(np.arange(V.size), V.shape[1])
    shared = {"track": (rows, cols), "keep": False, "progress": False, "seed": 0}
    exact = psgld.sample(V, model, sampler=psgld.Gibbs(), draws=4000, tune=500, thin=2, chains=2, **shared)
    found = psgld.sample(
        V, model, sampler=PSGLD(2), engine=JAX(), draws=1000, tune=2000, thin=20, chains=1, **shared
    )
    away = (found.tracked.mean - exact.tracked.mean) / exact.tracked.sd
    assert np.abs(away).max() < 0.4
    assert np.sqrt(np.mean(away**2)) < 0.12
    ratio = found.tracked.sd / exact.tracked.sd
    assert ratio.min() > 0.85
    assert ratio.max() < 1.15
    assert found.divergences == 0
