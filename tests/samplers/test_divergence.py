"""Too large a step: noticed, rolled back, halved, reported; never NaN in a result."""

import warnings

import numpy as np
import pytest

import psgld
from psgld.engines.threads import ThreadedFactors

V = np.random.default_rng(2).poisson(6.0, (60, 50)).astype(float)


@pytest.mark.parametrize("step", [0.01, 1.0, 1e6])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_identity_metric_with_a_wild_step(step, dtype):
    sampler = psgld.PSGLD(metric="identity", step_size=step, blocks=5, dtype=dtype)
    model = psgld.FactorModel(3, "poisson")
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        post = psgld.sample(V, model, sampler=sampler, draws=100, tune=3000, thin=5, progress=False)
    first = ["chains diverged"] * (post.divergences > 0) or ["verdict: "] * (not post.diagnose().converged)
    assert [str(w.message)[: len(f)] for w, f in zip(said, first, strict=True)] == first
    for array in (post.W, post.H, post.sample_stats["lp"], post.predict([0, 1], [2, 3]).mean):
        assert np.isfinite(array).all()
    if step > 0.5:
        assert post.divergences > 0
        assert post.sample_stats["step_size"][:, -1].max() < step
        assert "diverged" in post.summary()
    # Whatever the start, the sampler ends at a step at which the means are of the size of the data.
    assert post.predict(*np.divmod(np.arange(3000), 50)).mean.mean() == pytest.approx(V.mean(), rel=0.1)


@pytest.mark.filterwarnings("ignore:chains diverged:psgld.PsgldWarning")
def test_gaussian_with_a_wild_step():
    X = np.random.default_rng(3).normal(size=(60, 50))
    sampler = psgld.PSGLD(step_size=30.0, blocks=5)
    post = psgld.sample(
        X, psgld.FactorModel(3, "gaussian"), sampler=sampler, draws=50, tune=2000, thin=5, progress=False
    )
    assert np.isfinite(post.W).all() and post.divergences > 0


def test_a_chain_that_no_step_can_save_says_so(monkeypatch):
    monkeypatch.setattr("psgld.samplers.langevin.guard._DIVERGED", 1e-9)
    with pytest.raises(psgld.SamplingError, match="still diverges after halving the step size"):
        psgld.sample(V, psgld.FactorModel(2, "poisson"), draws=5, tune=100, progress=False)


def test_a_sound_run_reports_none():
    post = psgld.sample(V, psgld.FactorModel(2, "poisson"), draws=20, tune=200, progress=False)
    assert post.divergences == 0 and not post.sample_stats["diverging"].any()


def chain_of(sampler):
    """A chain that learns nothing: most of its cycle ends are passed over."""
    model = psgld.FactorModel(2, "poisson", psgld.Exponential(1.0), psgld.Exponential(1.0))
    data = psgld.Observations.from_dense(V.astype(np.float32))
    setup = sampler.prepare(data, model, psgld.Threads(1), 0)
    return setup.chain(1, psgld.dynamics.probes.Probes.of(data, 100), psgld.Threads(1))


@pytest.mark.parametrize(("metric", "step"), [("non-negative", 0.01), ("identity", 1e-5)])
def test_a_chain_would_not_go_back_far(metric, step, monkeypatch):
    """It loses eight cycles, or a fourth of those behind it, wherever it runs away."""
    chain = chain_of(psgld.PSGLD(2, step, metric))
    cycles, save = [], ThreadedFactors.save

    def note(self):
        cycles.append(chain.iteration // 2)
        save(self)

    monkeypatch.setattr(ThreadedFactors, "save", note)
    chain.advance(2 * 2000)
    late = np.array([c for c in cycles if c >= 30] + [2000])
    assert late[0] == 30
    assert (np.diff(late) <= np.maximum(8, late[:-1] / 4)).all()


def test_a_long_run_is_not_planned_all_at_once():
    """It would be without a look at the outside world meanwhile: some schedules take microseconds an iteration."""
    asked = []

    def step(t):
        asked.append(len(t))
        return np.full(len(t), 1e-5)

    chain_of(psgld.PSGLD(2, step, "identity")).advance(100_000)
    assert 2**10 < max(asked) < 2**14
