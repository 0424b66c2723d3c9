"""Marks that a chain passes are recorded as if it had stopped at each of them."""

from __future__ import annotations

import warnings
from types import SimpleNamespace

import numpy as np
import pytest

import psgld
from psgld.engines.threads import ThreadedFactors
from psgld.runs.clock import Clock
from psgld.runs.loop import Plan, run
from psgld.runs.recorder import Recorder
from psgld.samplers import Marks

V = np.random.default_rng(0).poisson(4.0, size=(30, 20)).astype(float)
SPARSE = np.where(np.random.default_rng(1).random(V.shape) < 0.3, V, np.nan)
REAL = V - 4.0
FIXED = psgld.FactorModel(3, "poisson", psgld.Exponential(1.0), psgld.Exponential(1.0))


def jump(t):
    """A step size that is far too large from some iteration on, which is no end of a cycle."""
    return np.where(t < 72, 1e-4, 1e6)


CASES = {
    "defaults": dict(V=V, model=psgld.FactorModel(3, "poisson")),
    "fixed": dict(V=V, model=FIXED),
    "fixed, upkeep without work": dict(V=V, model=FIXED, sampler=psgld.PSGLD(2, 1e-4, psgld.Identity())),
    "no draws": dict(V=V, model=psgld.FactorModel(3, "poisson"), keep=False),
    "tracked": dict(V=V, model=psgld.FactorModel(3, "poisson"), track=([0, 1], [2, 3])),
    "sparse": dict(V=SPARSE, model=psgld.FactorModel(3, "gaussian")),
    "biases": dict(V=SPARSE, model=psgld.FactorModel(2, "gaussian", bias=True)),
    "biases, no draws": dict(V=SPARSE, model=psgld.FactorModel(2, "gaussian", bias=True), keep=False),
    "gamma prior": dict(V=V, model=psgld.FactorModel(3, "poisson", psgld.GammaPrior(2.0, 1.0))),
    "normal-Wishart": dict(V=REAL, model=psgld.FactorModel(2, "gaussian", psgld.NormalWishart())),
    "double": dict(V=V, model=psgld.FactorModel(3, "poisson"), sampler=psgld.PSGLD(dtype="float64")),
    "whole cache lines": dict(V=V, model=psgld.FactorModel(16, "poisson"), sampler=psgld.PSGLD(7)),
    "whole cache lines, columns outer": dict(
        V=V.T, model=psgld.FactorModel(16, "poisson"), sampler=psgld.PSGLD(7)
    ),
    "drawn entries": dict(V=V, model=psgld.FactorModel(3, "poisson"), sampler=psgld.SGLD()),
    "diverging": dict(
        V=V, model=psgld.FactorModel(3, "poisson"), sampler=psgld.PSGLD(10, jump, psgld.Identity())
    ),
    "diverging late": dict(V=V, model=FIXED, sampler=psgld.PSGLD(2, jump, psgld.Identity()), tune=65),
}


@pytest.mark.filterwarnings("ignore::psgld.PsgldWarning")
@pytest.mark.parametrize("thin", [1, 3, 7])
@pytest.mark.parametrize("case", CASES)
def test_passed_marks_are_as_those_that_were_stopped_at(case, thin, monkeypatch):
    settings = dict(tune=45, draws=60, thin=thin, chains=1, seed=3, engine=psgld.Threads(2)) | CASES[case]
    passed = psgld.sample(**settings)
    monkeypatch.setattr(Recorder, "buffers", lambda self, n, keep: None)
    stopped = psgld.sample(**settings)
    assert passed.divergences == stopped.divergences
    assert (passed.divergences > 0) == case.startswith("diverging")
    for name, expected in stopped.draws.arrays().items():
        np.testing.assert_array_equal(getattr(passed.draws, name), expected, err_msg=name)
    for name in ("sample_stats", "warmup"):
        for column, expected in getattr(stopped, name).items():
            if column == "seconds":
                continue
            np.testing.assert_array_equal(getattr(passed, name)[column], expected, err_msg=column)
    if stopped.tracked is not None:
        np.testing.assert_array_equal(passed.tracked.mean, stopped.tracked.mean)


@pytest.mark.parametrize("ahead", [1, 30 * 20 * 4 * 7])
def test_memory_of_draws_is_made_ready_once(ahead, monkeypatch):
    """A few draws ahead, in order and without overlap, whatever is asked for; not behind the last."""
    monkeypatch.setattr("psgld.runs.recorder._AHEAD", ahead)
    asked = {30: [], 20: []}
    monkeypatch.setattr(
        ThreadedFactors, "reserve", lambda self, buffers: asked[buffers.shape[1]].append(buffers)
    )
    post = psgld.sample(V, FIXED, tune=0, draws=100, thin=2, chains=1, sampler=psgld.PSGLD(5))
    for all_draws, arrays in ((post.draws.W[0], asked[30]), (post.draws.H[0], asked[20])):
        first, size = all_draws.ctypes.data, all_draws[0].nbytes
        starts = [(buffers.ctypes.data - first) // size for buffers in arrays]
        ends = [start + len(buffers) for start, buffers in zip(starts, arrays, strict=True)]
        assert len(arrays) > 1 and starts[0] <= 1 and ends[-1] <= 100  # the very first is recorded at a stop
        assert all(end <= start for end, start in zip(ends, starts[1:], strict=False))


def test_memory_that_is_made_ready_is_not_changed():
    """It may hold draws already."""
    chain = chain_of(FIXED)
    buffers = np.random.default_rng(2).random((2000, 30, 16)).astype(np.float32)
    before = buffers.copy()
    for some in (buffers, buffers[3:5], buffers[:0], buffers[1999:]):
        chain.factors.reserve(some)
    np.testing.assert_array_equal(buffers, before)


class Log:
    """A recorder that notes where the chain rests."""

    def __init__(self, chain, buffers):
        self.chain, self.recorded, self.stops, self._buffers = chain, 0, [], buffers
        self.clock = Clock()

    def buffers(self, n, keep):
        return self._buffers

    def record(self, marks, keep):
        assert len(marks.iterations) == len(marks.lp) == len(marks.steps) > 0
        assert (self.chain.iteration == marks.iterations[-1]) or not marks.paused
        self.stops += marks.iterations if marks.paused else []
        self.recorded += len(marks.lp)


def chain_of(model):
    data = psgld.Observations.from_dense(V.astype(np.float32))
    sampler = psgld.PSGLD(blocks=5)
    setup = sampler.prepare(data, model, psgld.Threads(1), 10)
    return setup.chain(1, psgld.dynamics.probes.Probes.of(data, 100), psgld.Threads(1))


@pytest.mark.parametrize(
    "last", [lambda t: 1e-4 * (1 - t / 601), lambda t: np.full(600, 1e-4)[t.astype(int) - 1]]
)
def test_a_step_size_may_end_with_the_run(last):
    """It is asked for ahead, up to the next upkeep."""
    sampler = psgld.PSGLD(7, last, psgld.Identity())
    post = psgld.sample(V, FIXED, sampler=sampler, tune=100, draws=50, thin=10, chains=1)
    assert post.W.shape[1] == 50
    with pytest.raises((psgld.ModelError, IndexError)):
        psgld.sample(V, FIXED, sampler=sampler, tune=100, draws=51, thin=10, chains=1)


def test_nothing_is_said_of_steps_beyond_the_run():
    """NumPy warns of a negative root."""
    sampler = psgld.PSGLD(7, lambda t: 1e-4 * np.sqrt(1 - t / 601), psgld.Identity())
    with warnings.catch_warnings(record=True) as said:  # an error would be taken for the end of the function
        warnings.simplefilter("always")
        warnings.filterwarnings("ignore", "verdict:")
        psgld.sample(V, FIXED, sampler=sampler, tune=100, draws=50, thin=10, chains=1)
    assert not said


def test_a_chain_that_cannot_pass_comes_back_after_each_mark():
    """Ctrl-C is looked for in between."""
    chain = chain_of(FIXED)
    (mark,) = chain.run(range(3, 100, 3))
    assert chain.iteration == 3 and mark.iterations == [3] and mark.paused
    (mark,) = psgld.samplers.Chain.run(chain, range(6, 100, 3))  # as chains that cannot pass marks inherit it
    assert chain.iteration == 6 and mark.iterations == [6] and mark.paused


def test_draws_are_written_to_the_place_that_is_given():
    """A chain knows where its draws go, not who asks for them; it yields each mark once, in order."""
    chain, other = chain_of(FIXED), chain_of(FIXED)
    buffers = np.full((33, 30, 3), np.nan, np.float32), np.full((33, 20, 3), np.nan, np.float32)
    marks, done = range(3, 100, 3), 0
    for found in chain.run(marks, buffers):
        assert list(found.iterations) == list(marks[done : done + len(found.lp)]) and found.divergences == 0
        for t, lp in zip(found.iterations, found.lp, strict=True):
            other.advance(t - other.iteration)
            assert other.log_posterior() == lp
            if not found.paused:
                np.testing.assert_array_equal(buffers[0][done], other.factors.factor(0))
                np.testing.assert_array_equal(buffers[1][done], other.factors.factor(1))
            done += 1
    assert done == 33


@pytest.mark.parametrize("stops", [True, False])
def test_a_chain_stops_only_where_it_must(stops):
    """Where the recorder has to see the state, and at the end of a cycle, after the upkeep."""
    chain = chain_of(FIXED)
    none = np.empty((0, 30, 3), np.float32), np.empty((0, 20, 3), np.float32)
    log = Log(chain, None if stops else none)
    assert sum(run(chain, Plan(0, 400, 1), log)) == 400
    assert log.recorded == 400 and chain.iteration == 400
    if stops:
        assert log.stops == list(range(1, 401))
    else:
        late = [t for t in log.stops if t > 50]  # by then the pace is larger than a mark
        assert late and all(t % 5 == 0 for t in late)


class Slow:
    """A chain, and its recorder, whose draws take ten times as long as its iterations."""

    passes = True

    def __init__(self):
        self.iteration, self.recorded, self.seconds = 0, 0, 0.0
        self.clock = Clock()

    def advance(self, n):
        self.iteration, self.seconds = self.iteration + n, self.seconds + n * 1e-5

    def buffers(self, n, keep):
        return None

    def record(self, marks, keep):
        self.recorded, self.seconds = self.recorded + 1, self.seconds + 1e-4 * keep

    def run(self, marks, buffers):
        for mark in marks:
            self.advance(mark - self.iteration)
            yield Marks([mark], [0.0], [0.0], 0, True)


def test_slow_draws_do_not_keep_the_outside_world_waiting(monkeypatch):
    """How long iterations took before the first draw says nothing of the draws."""
    chain = Slow()
    monkeypatch.setattr("psgld.runs.loop.time", SimpleNamespace(perf_counter=lambda: chain.seconds))
    looks = [chain.seconds for _ in run(chain, Plan(200_000, 100_000, 1), chain)]
    assert chain.iteration == 300_000 and chain.recorded == 100 + 100_000
    assert max(np.diff(looks)) < 0.5
