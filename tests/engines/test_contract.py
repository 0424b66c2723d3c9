"""One contract for all engines: every Langevin sampler, metric and form of data gives the same chain on each of them.

Those that run the core give it bit for bit; `Reference` and `JAX` nearly, as their noise is not rounded to float32.
"""

from __future__ import annotations

import inspect
import os
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from itertools import product

import numpy as np
import pytest
from chain_cases import counts
from mpi_case import coo, soon
from test_pipes import run_on_pipes

import psgld
from psgld import DSGD, DSGLD, JAX, LD, PSGLD, SGLD, FactorModel, Reference, Threads, engines
from psgld.dynamics.probes import Probes
from psgld.engines import Engine, H, W

# -- what is run -------------------------------------------------------------------------------------------

SAMPLERS = {
    "psgld": partial(PSGLD, blocks=3),
    "reshuffled": partial(PSGLD, blocks=4, schedule=psgld.Reshuffled(), momentum=0.0),
    "proportional": partial(PSGLD, blocks=3, schedule=psgld.Proportional(), partition=psgld.InOrder()),
    "ld": LD,
    "sgld": partial(SGLD, size=0.3),
    "dsgld": partial(DSGLD, workers=3, exchange=2),
    "dsgld-drawn": partial(DSGLD, workers=3, exchange=1, size=0.2),
    "dsgd": partial(DSGD, blocks=3),
}
RING = {"psgld", "reshuffled", "proportional", "dsgd", "dsgld", "dsgld-drawn"}
"""Samplers that run on several ranks."""

STEPS = {"identity": 2e-4, "non-negative": None, "real-valued": None}
LIKELIHOODS = {
    "poisson": partial(FactorModel, 3, "poisson", psgld.Exponential()),
    "poisson-shapes": partial(FactorModel, 3, "poisson"),
    "poisson-phi": partial(FactorModel, 2, psgld.Poisson(phi=None), psgld.Exponential()),
    "gaussian": partial(FactorModel, 3, "gaussian", bias=True),
    "wishart": partial(FactorModel, 3, "gaussian", psgld.NormalWishart(), psgld.NormalWishart()),
    "gaussian-nmf": partial(FactorModel, 3, "gaussian", psgld.Exponential(), psgld.Exponential()),
    "gamma": partial(FactorModel, 2, "gamma", psgld.GammaPrior(1.8)),
    "compound": partial(FactorModel, 2, psgld.CompoundPoisson(0.5, 1.0)),
    "power": partial(FactorModel, 2, psgld.Tweedie(0.3, 0.8)),
    "negative-binomial": partial(FactorModel, 2, "negative-binomial", psgld.Exponential()),
    "bernoulli": partial(FactorModel, 2, "bernoulli", bias=True),
    "ordinal": partial(FactorModel, 2, "ordinal", bias=True),
}
FORMS = ("dense", "gaps", "sparse", "zeros")


def values(likelihood, form):
    """Small data: more columns than rows in half of the cases."""
    rows, cols = (26, 19) if form in ("dense", "zeros") else (17, 29)
    if likelihood in ("gaussian", "wishart"):
        V = np.random.default_rng(5).normal(1.0, 1.0, (rows, cols))
    elif likelihood == "bernoulli":
        V = (counts(rows, cols, seed=4) > 1).astype(float)
    elif likelihood == "ordinal":
        V = np.clip(counts(rows, cols, seed=4), 0.0, 4.0) / 2 + 1.0
    else:
        whole = likelihood.startswith("poisson") or likelihood == "negative-binomial"
        V = counts(rows, cols, seed=4) + (0.0 if whole else 0.5)
    seen = np.random.default_rng(6).random(V.shape) < 0.5
    if form == "dense":
        return V
    if form == "gaps":
        return np.where(seen, V, np.nan)
    return coo(np.where(seen, V, 0.0), "zero" if form == "zeros" else "unobserved")


def test_every_family_is_here():
    assert set(psgld.models.LIKELIHOODS) - {"inverse-gaussian"} <= {
        model().likelihood.name for model in LIKELIHOODS.values()
    }


def is_possible(sampler, metric, likelihood, form):
    real = likelihood in ("gaussian", "wishart", "bernoulli", "ordinal")
    if (metric == "non-negative" and real) or (metric == "real-valued" and not real):
        return False
    if likelihood == "poisson-shapes" and metric == "identity":
        return False  # where x^(a-1) has no bound, nothing holds a step: rounding grows
    if form == "zeros":
        return (
            likelihood in ("poisson", "poisson-shapes", "gaussian", "gaussian-nmf")
            and sampler != "dsgld-drawn"
        )
    return True


NAMES = [
    "/".join(name) for name in product(SAMPLERS, STEPS, LIKELIHOODS, FORMS) if is_possible(*name)
]  # fmt: skip
CASES = [name for n, name in enumerate(NAMES) if n % 3 == 0]  # still each pair of choices several times


def covering(names):
    """Return few of the cases, with every choice, and every metric on every form of data."""
    choices = {name: set(name.split("/")) | {(name.split("/")[1], name.split("/")[3])} for name in names}
    chosen, left = [], set().union(*choices.values())
    while left:
        chosen.append(max(names, key=lambda name: len(choices[name] & left)))
        left -= choices[chosen[-1]]
    return chosen


JAX_CASES = [case for case in CASES if not case.startswith("dsgld")]
"""`make test-jax` runs all of them, CI few: each is compiled anew."""


def settings_of(name):
    sampler, metric, likelihood, form = name.split("/")
    made = SAMPLERS[sampler](metric=metric, step_size=STEPS[metric], dtype="float64")
    return values(likelihood, form), LIKELIHOODS[likelihood](), made


def draws_of(engine, names):
    """Return all that is recorded of short runs, by the names of the cases."""
    found = {}
    for name in names:
        V, model, sampler = settings_of(name)
        plan = {"draws": 3, "tune": 12, "thin": 8, "chains": 2, "seed": 3, "progress": False}
        with soon():
            post = psgld.sample(V, model, sampler=sampler, engine=engine, **plan)
        tables = {"draws": post.draws.arrays(), "stats": post.sample_stats}
        found[name] = {
            f"{t}/{n}": a
            for t, table in tables.items()
            for n, a in table.items()
            if a is not None and n != "seconds"
        }
    return found


# -- the engines: a new one is a line here -----------------------------------------------------------------


@dataclass(frozen=True)
class Kind:
    """An engine, or a number of ranks on pipes; whether its chains have the bits of one thread."""

    engine: Engine | None
    exact: bool = True
    ranks: int = 1
    cases: tuple[str, ...] = tuple(CASES)


ENGINES = {
    "threads-3": Kind(Threads(3)),
    "reference": Kind(Reference(), exact=False),
    "ranks-2": Kind(None, ranks=2, cases=tuple(case for case in CASES if case.split("/")[0] in RING)),
}
HAS_JAX = find_spec("jax") is not None
if HAS_JAX:
    ALL = "PSGLD_ALL_JAX_CASES" in os.environ
    ENGINES["jax"] = Kind(JAX(), exact=False, cases=tuple(JAX_CASES if ALL else covering(JAX_CASES)))


def found_on(kind, names, folder):
    if kind.engine is not None:
        return draws_of(kind.engine, names)
    found, codes = run_on_pipes(kind.ranks, partial(draws_of, names=names), folder)
    assert codes == [0] * kind.ranks
    return found


pytestmark = pytest.mark.filterwarnings("ignore::psgld.PsgldWarning")


@pytest.mark.parametrize("name", ENGINES)
def test_the_same_chain(name, tmp_path):
    kind = ENGINES[name]
    expected, found = draws_of(Threads(1), kind.cases), found_on(kind, kind.cases, tmp_path)
    assert set(found) == set(expected)
    for case, arrays in expected.items():
        assert np.isfinite(arrays["draws/W"]).all() and np.ptp(arrays["draws/W"], axis=1).min() > 0, case
        for array, want in arrays.items():
            got, what = found[case][array], f"{case}: {array}"
            if kind.exact:
                np.testing.assert_array_equal(got, want, err_msg=what)
            else:
                atol = 1e-5 * np.abs(want).max()
                # lp has Σ log x there, and of an x near zero rounding leaves few digits.
                rtol = 1e-3 if array == "stats/lp" and "-shapes/" in case else 1e-4
                np.testing.assert_allclose(got, want, rtol=rtol, atol=atol, err_msg=what)


def test_every_engine_is_here():
    """`Ranks` stands for `MPI`, which differs by its communicator alone (`test_mpi.py`)."""
    named = [getattr(engines, name) for name in engines.__all__]
    kinds = {kind for kind in named if inspect.isclass(kind) and issubclass(kind, Engine)}
    here = {type(kind.engine) for kind in ENGINES.values() if kind.engine is not None}
    assert kinds - {Engine} == here | {engines.Ranks, engines.MPI, *(() if HAS_JAX else (JAX,))}


def test_every_choice_is_made():
    for choices, place in ((SAMPLERS, 0), (STEPS, 1), (LIKELIHOODS, 2), (FORMS, 3)):
        assert {case.split("/")[place] for case in CASES} == set(choices)


# -- states go from one engine to another ------------------------------------------------------------------

STATES = ["psgld/non-negative/poisson/dense", "psgld/real-valued/gaussian/sparse", "sgld/identity/gamma/gaps"]


def chain_of(name, engine):
    V, model, sampler = settings_of(name)
    data = psgld.observations(V)
    setup = sampler.prepare(data, model, engine, tune=40)
    return setup.chain(7, Probes.of(data, 10_000), engine)


@pytest.mark.parametrize("name", STATES)
@pytest.mark.parametrize(
    ("start", "end"),
    [
        (Threads(2), Reference()),
        (Reference(), Threads(2)),
        (Reference(),) * 2,
        *([(Threads(2), JAX()), (JAX(), Threads(2)), (JAX(),) * 2] if HAS_JAX else ()),
    ],
)
def test_a_chain_goes_from_one_engine_to_another(name, start, end):
    with soon():
        through, first, second = chain_of(name, start), chain_of(name, start), chain_of(name, end)
        through.advance(31)
        first.advance(20)
        second.set_state(first.state())
        second.advance(11)
    exact = type(start) is type(end)
    tolerance = {"rtol": 0, "atol": 0} if exact else {"rtol": 1e-4, "atol": 1e-6}
    for which in (W, H):
        np.testing.assert_allclose(second.factors.factor(which), through.factors.factor(which), **tolerance)
    assert second.log_posterior() == pytest.approx(through.log_posterior(), rel=1e-12 if exact else 1e-5)
    # Zero, unless the likelihood is Gaussian.
    assert second.factors.squared_residuals() == pytest.approx(through.factors.squared_residuals(), rel=1e-4)


@pytest.mark.parametrize("engine", [Threads(2), Reference()], ids=repr)
def test_one_process_delivers_to_itself(engine):
    factors = chain_of(STATES[0], engine).factors
    w, out = factors.factor(W), np.zeros((26, 2))
    factors.deliver(W, slice(1, 3), out, np.array([0, 26]))
    np.testing.assert_array_equal(out, w[:, 1:3])


# -- Reference ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sampler", [psgld.Gibbs(), psgld.BPMFGibbs()])
def test_samplers_without_blocks_are_refused(sampler):
    likelihood = "poisson" if isinstance(sampler, psgld.Gibbs) else "gaussian"
    with pytest.raises(
        psgld.SamplingError, match=r"Gibbs does not run on Reference\(\); PSGLD, .* use Threads\(\)"
    ):
        psgld.sample(counts(9, 8), FactorModel(2, likelihood), sampler=sampler, engine=Reference())


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("form", ["dense", "sparse", "zeros"])
def test_the_same_entries_are_drawn_from_several_chunks(form, wide):
    V = np.random.default_rng(0).poisson(2.0, (300, 900) if wide else (900, 300)) + 1.0
    data = V if form == "dense" else coo(np.where(V < 4, V, 0.0), "zero" if form == "zeros" else "unobserved")
    sampler = SGLD(size=130_000, metric="identity", step_size=1e-3, temperature=0.0, dtype="float64")
    setups = [
        sampler.prepare(psgld.observations(data), FactorModel(2, "poisson"), e, 0)
        for e in (Threads(2), Reference())
    ]
    entries = [setup.subsample.entries for setup in setups]
    assert entries[0].shape[1] > 2
    np.testing.assert_array_equal(*entries)
    chains = [setup.chain(3, Probes.of(setup.data, 100)) for setup in setups]
    for chain in chains:
        chain.advance(2)
    for which in (W, H):
        one, other = (chain.factors.factor(which) for chain in chains)
        # One entry more or less is worth 1e-3.
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def test_large_data_are_refused():
    data = psgld.Observations.from_coo([0], [0], [1.0], (3000, 2000), absent="unobserved")
    with pytest.raises(
        psgld.ModelError, match=r"6,000,000 cells, at most 4,000,000 are allowed; use Threads\(\)"
    ):
        psgld.sample(data, FactorModel(2, "poisson"), engine=Reference())


def test_the_optimiser_runs_on_the_reference():
    V, model = counts(20, 15), FactorModel(2, "poisson", psgld.Exponential(1.0), psgld.Exponential(1.0))
    one, other = (
        psgld.optimize(V, model, sampler=DSGD(2, dtype="float64"), engine=e, max_passes=30)
        for e in (Threads(1), Reference())
    )
    np.testing.assert_allclose(one.W, other.W, rtol=1e-6, atol=1e-9)


def test_a_store_is_resumed_on_the_reference(tmp_path):
    V, model = counts(20, 15), FactorModel(2, "poisson")
    settings = {
        "sampler": PSGLD(2, dtype="float64"),
        "tune": 10,
        "thin": 4,
        "engine": Reference(),
        "chains": 1,
    }
    whole = psgld.sample(V, model, draws=6, **settings)
    psgld.sample(V, model, draws=3, store=tmp_path / "run.zarr", **settings)
    resumed = psgld.sample(V, model, draws=6, store=tmp_path / "run.zarr", resume=True, **settings)
    np.testing.assert_array_equal(resumed.W, whole.W)
