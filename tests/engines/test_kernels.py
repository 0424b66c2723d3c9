"""Compiled = reference: the same iterations, sums and likelihoods, for every family, metric, form of data,
precision and instruction set."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from psgld import Cyclic, Proportional, Reshuffled, Tweedie, _core
from psgld.data.observations import Observations
from psgld.data.partition import Strips
from psgld.engines import H, Stretch, Threads, W
from psgld.engines.core_grid import CoreGrid
from psgld.engines.reference import update as reference
from psgld.models import FAMILIES as NAMED
from psgld.models import Likelihood

POWERS = (1.0, 2.0, 0.0, -1.0, 0.5, 0.3, -0.5)
FAMILIES = [
    *map(Tweedie, POWERS),
    *(make().resolved(lambda: np.arange(1.0, 6.0)) for make in NAMED if not issubclass(make, Tweedie)),
]
"""Every functor of the core, for any power of Tweedie's; other families come from the registry."""
METRICS = ("identity", "non-negative", "real-valued")
STEPS = {"identity": 2e-3, "non-negative": 0.1, "real-valued": 0.05}
RANKS = (1, 3, 8, 16, 17, 32, 50, 64, 100, 130)
SHAPES = ((37, 23, 3), (23, 41, 3), (5, 4, 4), (4, 5, 4), (70, 33, 1), (1, 1, 1), (33, 60, 7))
KEY = 0xC0FFEE1234567895
FLOOR = 1e-3


def uneven(n: int, blocks: int, rng: np.random.Generator) -> Strips:
    """Return strips of very different lengths, in any order."""
    cuts = np.sort(rng.choice(np.arange(1, n), blocks - 1, replace=False))
    return Strips(rng.permutation(n), np.concatenate([[0], cuts, [n]]).astype(np.int64))


class Problem:
    """One small V, its blocks, two factors and their rules, in the core and in the reference."""

    def __init__(
        self, shape, rank, family, form="dense", metric="identity", dtype="float64", temperature=1.0, seed=0,
        momentum=0.0, inverse=None,
    ):  # fmt: skip
        rng = np.random.default_rng([seed, *shape, rank])
        (rows, cols, blocks), self.metric, self.dtype = shape, metric, np.dtype(dtype)
        self.likelihood = family if isinstance(family, Likelihood) else Tweedie(family)
        _, self.theta = self.likelihood.split(self.likelihood.typical(2.0))
        self.model = reference.Model(self.likelihood, FLOOR, self.theta)
        self.rank, self.phi, self.step, self.temperature = rank, 1.7, STEPS[metric], temperature
        self.momentum, self.inverse = momentum, inverse
        self.strips = uneven(rows, blocks, rng), uneven(cols, blocks, rng)
        self.V, self.data = self._data(rows, cols, form, rng)
        self.x = [self._factor(n, rng) for n in (rows, cols)]
        engine = Threads(2)
        self.grid = engine.grid(self.data, self.strips, 0.0, self.dtype)
        self.chain = engine.factors(self.grid, rank, self.likelihood, FLOOR)
        self._set_up(rng)

    def _round(self, x):
        """Return what float32 holds exactly, so that both precisions start from the same numbers."""
        return np.float32(x).astype(np.float64)

    def _data(self, rows, cols, form, rng):
        signed = not self.likelihood.nonnegative_mean and form != "zeros"
        size = rows, cols
        V = self._round(rng.normal(0.5, 1.0, size) if signed else rng.gamma(3.0, 0.4, size) + 0.1)
        if self.likelihood.counts:
            V = np.ceil(V)
        if not self.likelihood.can_occur(V).all():
            V = (V > 1).astype(float)
        density = {"dense": 0.8, "sparse": 0.3, "zeros": 0.3}[form]
        hidden = rng.random((rows, cols)) > density
        hidden[rng.integers(rows)] = True  # a row without entries
        b, c = (s.order[s.bounds[-2] : s.bounds[-1]] for s in self.strips)
        if self.strips[0].number > 1:
            hidden[np.ix_(b, c)] = True  # an empty block
        hidden.flat[rng.integers(hidden.size)] = False  # but not an empty matrix
        V = np.where(hidden, 0.0 if form == "zeros" else np.nan, V)
        if form == "dense":
            return V, Observations.from_dense(V)
        i, j = np.nonzero(~hidden)
        absent = "zero" if form == "zeros" else "unobserved"
        return V, Observations.from_coo(i, j, V[i, j], V.shape, absent=absent)

    def _factor(self, n, rng):
        if not self.likelihood.nonnegative_mean and self.metric != "non-negative":
            return self._round(rng.normal(0.0, self.rank**-0.25, (n, self.rank)))
        return self._round(rng.gamma(4.0, 0.3, (n, self.rank)) / np.sqrt(self.rank))

    def _set_up(self, rng):
        chain, K = self.chain, self.rank
        nonnegative = self.likelihood.nonnegative_mean or self.metric == "non-negative"
        chain.set_dynamics(KEY, self.metric, nonnegative, self.temperature)
        chain.set_parameters(self.phi, self.theta)
        chain.set_momentum(self.momentum)
        self.rules = []
        for which in (W, H):
            self.chain.set_factor(which, self.x[which])
        if self.metric == "non-negative":
            chain.accumulate("weight")
            sums = reference.gradients(self.V, *self.x, self.model, weights=True)
        for which in (W, H):
            rate, linear, quadratic = rng.uniform(0.5, 2.0, (3, K))
            # One factor with, one without. In the other metrics 1/x would magnify rounding near 0.
            inverse = 0.25 if which == H and self.metric == "non-negative" else 0.0
            inverse = inverse if self.inverse is None else self.inverse
            linear = -linear if nonnegative else linear - 1.0
            move = np.ones(K)
            move[K // 2] = 0.0 if K > 1 and which == H else 1.0
            chain.set_prior(which, inverse, linear, quadratic)
            chain.set_move(which, move)
            b = np.ones((self.V.shape[which], K))
            if self.metric == "non-negative":
                chain.set_bound(which, rate)
                b = sums[which] / self.phi + rate
            elif self.metric == "real-valued":
                curvature = rng.uniform(0.2, 1.0, K)
                chain.set_curvature(which, curvature, rate)
                b = np.outer((~np.isnan(self.V)).sum(axis=1 - which), curvature) + rate
            prior = inverse, linear, quadratic
            rest = self.metric, b, move, nonnegative, self.temperature, KEY, self.momentum, np.zeros_like(b)
            empty = np.isnan(self.V).all(axis=1 - which)
            self.rules.append(reference.Rule(which, *prior, *rest, empty))

    @property
    def blocks(self):
        return self.grid.blocks

    def cells(self, part):
        """Return V with NaN everywhere but in a part."""
        V, p = np.full_like(self.V, np.nan), part
        for b in range(self.blocks):
            pairs = zip(self.strips, (b, (b + p) % self.blocks), strict=True)
            at = np.ix_(*(s.order[s.bounds[n] : s.bounds[n + 1]] for s, n in pairs))
            V[at] = self.V[at]
        return V

    def check(self, iterations=4, t0=2**32 - 2, **tolerance):
        """Run both and compare, across the iteration at which the counter carries."""
        parts = np.arange(iterations, dtype=np.int32) % self.blocks
        steps = self.step * np.linspace(1.0, 0.5, iterations)
        scales = np.full(iterations, float(self.blocks))
        expected = self.x
        for q in range(iterations):
            expected = reference.iterate(
                self.V, *expected, *self.strips, int(parts[q]), t0 + q, steps[q],
                scales[q] / self.phi, self.model, self.rules,
            )  # fmt: skip
        self.chain.advance(Stretch(t0, parts, steps, scales))
        for which in (W, H):
            assert np.abs(expected[which] - self.x[which]).max() > 1e-3  # something happened
            np.testing.assert_allclose(self.chain.factor(which), expected[which], **tolerance)


def combinations():
    """Yield every family × metric × form, with ranks and shapes taking turns."""
    ranks, shapes = itertools.cycle(RANKS), itertools.cycle(SHAPES)
    for family, metric, form in itertools.product(FAMILIES, METRICS, ("dense", "sparse", "zeros")):
        if form != "zeros" or family.zeros:
            for _ in range(2):
                yield next(shapes), next(ranks), family, form, metric


CASES = list(combinations())


def named(family):
    return f"{family.beta:g}" if isinstance(family, Tweedie) else family.name


def test_every_functor_of_the_core_is_compared():
    assert {family.functor for family in FAMILIES} == set(_core.families())


def label(case):
    (rows, cols, blocks), rank, family, form, metric = case
    return f"{named(family)}-{form}-{metric}-{rows}x{cols}-B{blocks}-K{rank}"


def use_compiled_noise(monkeypatch, problem):
    """Make the reference take the core's normals, so that only rounding is left between the two."""

    def noise(rows, components, factor, t, key):
        assert (components, key) == (problem.rank, KEY)
        return problem.chain.noise(factor, t)[rows].astype(np.float64)

    monkeypatch.setattr(reference, "noise", noise)


@pytest.mark.parametrize("case", CASES, ids=label)
def test_float64(case, monkeypatch):
    problem = Problem(*case, dtype="float64")
    use_compiled_noise(monkeypatch, problem)
    problem.check(rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("case", CASES, ids=label)
def test_float32(case):
    Problem(*case, dtype="float32").check(rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("beta", [0.0, -1.0])
def test_a_mean_close_to_zero_does_not_send_coefficients_away(beta, momentum, monkeypatch):
    problem = Problem((37, 23, 3), 8, beta, metric="non-negative", momentum=momentum)
    problem.x = [0.02 * x for x in problem.x]  # b is that of before; the gradient now asks for a thousandfold
    for which in (W, H):
        problem.chain.set_factor(which, problem.x[which])
    use_compiled_noise(monkeypatch, problem)
    problem.check(rtol=1e-9, atol=1e-12)
    assert max(problem.chain.factor(which).max() for which in (W, H)) < 100


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("shape", [0.1, 0.7])
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_near_zero_under_a_density_without_bound(metric, shape, momentum, dtype, monkeypatch):
    beta = 2.0 if metric == "real-valued" else 1.0
    problem = Problem((37, 23, 3), 8, beta, metric=metric, dtype=dtype, momentum=momentum, inverse=shape - 1)
    rng = np.random.default_rng(0)
    for which in (W, H):
        rule = problem.rules[which]
        rule.__dict__["mirror"] = True
        tiny = rng.random(problem.x[which].shape) < 0.5
        problem.x[which] = problem._round(
            np.where(tiny, rng.gamma(shape, 1e-4, tiny.shape), np.abs(problem.x[which]))
        )
        problem.chain.set_factor(which, problem.x[which])
    problem.chain.core.mirror = True
    use_compiled_noise(monkeypatch, problem)
    tolerance = {"rtol": 1e-9, "atol": 1e-13} if dtype == "float64" else {"rtol": 2e-3, "atol": 1e-5}
    problem.check(**tolerance)
    assert all((problem.chain.factor(which) >= 0).all() for which in (W, H))


@pytest.mark.parametrize("rank", RANKS)
@pytest.mark.parametrize("form", ["dense", "sparse", "zeros"])
@pytest.mark.parametrize("beta", [1.0, 2.0])
def test_every_rank(rank, form, beta):
    Problem((37, 23, 3), rank, beta, form, seed=1).check(rtol=1e-5, atol=5e-6)
    Problem((23, 37, 2), rank, beta, form, dtype="float32", seed=1).check(rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("rank", [3, 24, 50, 100])
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rows_that_lie_close(rank, metric, dtype, monkeypatch):
    """Where rows have few entries a block they take less memory, and the chain is the same but for rounding."""
    found = []
    for thin in (True, False):
        monkeypatch.setattr(CoreGrid, "thin", thin)
        problem = Problem((50, 37, 3), rank, 2.0, "sparse", metric, dtype, momentum=0.5)
        parts, steps, scales = np.array([0, 1, 2, 0], np.int32), np.full(4, problem.step), np.full(4, 3.0)
        problem.chain.advance(Stretch(0, parts, steps, scales))
        found.append([problem.chain.factor(which) for which in (W, H)])
        fours = -(-rank // 4) * 4
        stride = fours if thin else -(-rank // 16) * 16
        assert problem.chain.core.array(problem.grid.outer, "x").shape[1] == stride
    for close, whole in zip(*found, strict=True):
        tolerance = 1e-5 if dtype == "float32" else 1e-13
        np.testing.assert_allclose(close, whole, rtol=tolerance, atol=tolerance)


def test_thin_grids():
    rows, cols = uneven(60, 4, np.random.default_rng(0)), uneven(30, 4, np.random.default_rng(1))
    V = np.arange(1.0, 1801.0).reshape(60, 30)
    for entries, thin in ((719, True), (720, False)):
        i, j = np.divmod(np.arange(entries), 30)
        data = Observations.from_coo(i, j, V[i, j], V.shape)
        assert Threads(1).grid(data, (rows, cols), 0.0, np.dtype("float32")).thin is thin


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_temperature_zero(metric, dtype):
    tolerance = {"rtol": 1e-11, "atol": 1e-12} if dtype == "float64" else {"rtol": 1e-5, "atol": 1e-6}
    Problem((37, 23, 3), 6, 1.0, "sparse", metric, dtype, temperature=0.0).check(**tolerance)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("form", ["dense", "sparse", "zeros"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_momentum(metric, form, dtype, temperature, monkeypatch):
    """Steps of second order; enough of them that coordinates are mirrored, and their momenta with them."""
    problem = Problem((37, 23, 3), 19, 1.0, form, metric, dtype, temperature, momentum=0.8)
    use_compiled_noise(monkeypatch, problem)
    exact, rounded = {"rtol": 1e-7, "atol": 1e-9}, {"rtol": 2e-3, "atol": 2e-4}
    problem.check(12, **(exact if dtype == "float64" else rounded))


@pytest.mark.parametrize("metric", ["identity", "real-valued"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_inverse_term(metric, dtype):
    """The inverse / x of a gamma prior, on coefficients that keep away from 0; and its bound at 0."""
    problem = Problem((37, 23, 3), 19, 1.0, "sparse", metric, dtype)
    problem.step *= 0.01
    for which in (W, H):
        problem.x[which] = problem._round(problem.x[which] + 1.0)
        problem.chain.set_factor(which, problem.x[which])
        rule = problem.rules[which] = replace(problem.rules[which], inverse=1.5)
        problem.chain.set_prior(which, 1.5, rule.linear, rule.quadratic)
    problem.check(rtol=1e-4 if dtype == "float32" else 1e-6, atol=5e-6)


@pytest.mark.parametrize("form", ["dense", "sparse", "zeros"])
@pytest.mark.parametrize("metric", ["identity", "real-valued"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("case", [((37, 23, 3), 19), ((23, 41, 2), 5), ((70, 33, 1), 33)], ids=str)
def test_rows_of_a_full_precision(case, dtype, metric, form, monkeypatch):
    """A prior N(m, Λ⁻¹) of whole rows: the core adds what couples the components to the gradient."""
    problem = Problem(*case, 2.0, form, metric, dtype)
    use_compiled_noise(monkeypatch, problem)
    rng = np.random.default_rng(3)
    for which in (W, H):
        A = problem._round(rng.normal(0.0, 0.5, (problem.rank, problem.rank)))
        coupling = A + A.T - 2 * np.diag(np.diag(A))
        rule = problem.rules[which]
        problem.chain.set_prior(which, rule.inverse, rule.linear, rule.quadratic, coupling)
        problem.rules[which] = replace(rule, quadratic=np.diag(rule.quadratic) + coupling)
    exact, rounded = {"rtol": 1e-10, "atol": 1e-12}, {"rtol": 1e-4, "atol": 2e-5}
    problem.check(**(exact if dtype == "float64" else rounded))


LARGE = {  # blocks of several panels and several chunks
    "panels": ((300, 280, 2), 5, 1.0, "dense"),
    "dense chunks": ((1200, 200, 1), 20, 2.0, "dense"),
    "dense chunks, swapped": ((200, 1200, 1), 4, 0.5, "dense"),
    "sparse chunks": ((900, 300, 1), 20, 1.0, "sparse"),
    "zero chunks": ((300, 900, 1), 7, 2.0, "zeros"),
    "zero chunks, counts": ((900, 300, 1), 7, 1.0, "zeros"),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", LARGE)
def test_large_blocks(name, dtype, monkeypatch):
    problem = Problem(*LARGE[name], metric="non-negative", dtype=dtype)
    use_compiled_noise(monkeypatch, problem)
    exact, rounded = {"rtol": 1e-9, "atol": 1e-11}, {"rtol": 2e-4, "atol": 2e-5}
    problem.check(3, **(exact if dtype == "float64" else rounded))


def test_wide_indices():
    """An inner strip of more than 65,536 rows needs 32-bit indices."""
    n, rng = 70_000, np.random.default_rng(0)
    i, j = rng.integers(0, n, (2, 3000))
    v = rng.poisson(3.0, 3000) + 1.0
    data = Observations.from_coo(i, j, v, (n, n), absent="unobserved", duplicates="last")
    whole = Strips(rng.permutation(n), np.array([0, n]))
    chain = Threads(1).factors(
        Threads(1).grid(data, (whole, whole), 0.0, np.dtype(np.float64)), 3, Tweedie(1.0), FLOOR
    )
    x = rng.gamma(2.0, size=(2, n, 3))
    for which in (W, H):
        chain.set_factor(which, x[which])
    chain.accumulate("score")
    indptr, cols, values = data.csr
    rows = np.repeat(np.arange(n), np.diff(indptr))
    e = values / np.sum(x[W][rows] * x[H][cols], axis=1) - 1.0
    expected = np.zeros((2, n, 3))
    np.add.at(expected[W], rows, e[:, None] * x[H][cols])
    np.add.at(expected[H], cols, e[:, None] * x[W][rows])
    for which in (W, H):
        np.testing.assert_allclose(chain.accumulated(which), expected[which], rtol=1e-9, atol=1e-12)


# -- sums over parts and over everything ---------------------------------------------------------------------

FORMS = [(f, form) for f in FAMILIES for form in ("dense", "sparse", "zeros") if form != "zeros" or f.zeros]
by_form = pytest.mark.parametrize(("family", "form"), FORMS, ids=[f"{named(f)}-{form}" for f, form in FORMS])


@pytest.mark.parametrize("shape", [(37, 23, 3), (23, 37, 5), (4, 4, 4)])
@by_form
def test_accumulated_sums(family, form, shape):
    problem = Problem(shape, 5, family, form)
    for kind, part in itertools.product(("score", "weight"), range(-1, problem.blocks)):
        V = problem.V if part < 0 else problem.cells(part)
        expected = reference.gradients(V, *problem.x, problem.model, weights=kind == "weight")
        problem.chain.accumulate(kind, part)
        for which in (W, H):
            got = problem.chain.accumulated(which)
            np.testing.assert_allclose(got, expected[which], rtol=1e-10, atol=1e-11)
            np.testing.assert_array_equal(problem.chain.factor(which), problem.x[which])


@pytest.mark.parametrize("schedule", [Cyclic(), Reshuffled(), Proportional()], ids=lambda s: type(s).__name__)
@pytest.mark.parametrize("shape", [(37, 23, 3), (23, 37, 5), (4, 4, 4), (9, 3, 3)])
@by_form
def test_gradient_is_unbiased(family, form, shape, schedule):
    """The average over the schedule of s × (gradient of the part) is the full gradient, on uneven grids."""
    problem = Problem(shape, 4, family, form, seed=3)
    sizes, B = problem.grid.part_sizes, problem.blocks
    assert sizes.sum() == np.count_nonzero(~np.isnan(problem.V)) == problem.data.size
    parts, scales = schedule.parts(1, 50 * B, sizes, KEY)
    probability = sizes / sizes.sum() if isinstance(schedule, Proportional) else np.full(B, 1 / B)
    average = [np.zeros_like(x) for x in problem.x]
    for part in np.flatnonzero(probability):
        scale = np.unique(scales[parts == part])
        assert len(scale) == 1
        problem.chain.accumulate("score", int(part))
        for which in (W, H):
            average[which] += probability[part] * scale[0] * problem.chain.accumulated(which)
    full = reference.gradients(problem.V, *problem.x, problem.model)
    for which in (W, H):
        np.testing.assert_allclose(average[which], full[which], rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("form", ["dense", "sparse", "zeros"])
@pytest.mark.parametrize("shape", [(37, 23, 3), (23, 37, 3), (1200, 200, 1)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_squared_residuals(form, shape, dtype):
    problem = Problem(shape, 5, 2.0, form, dtype=dtype)
    expected = np.nansum((problem.V - problem.x[W] @ problem.x[H].T) ** 2)
    rtol = 1e-11 if dtype == "float64" else 1e-5
    problem.chain.accumulate("score")
    assert problem.chain.squared_residuals() == pytest.approx(expected, rel=rtol)
    # A Langevin pass finds those of the old values.
    problem.chain.advance(Stretch(1, np.zeros(1, np.int32), np.full(1, 1e-3), np.ones(1)))
    assert problem.chain.squared_residuals() == pytest.approx(expected, rel=rtol)


@pytest.mark.parametrize("form", ["dense", "sparse", "zeros"])
def test_weights_leave_the_residuals_alone(form):
    """A pass that adds up weights sees no residuals; those of the last visit stay."""
    problem = Problem((37, 23, 3), 5, 2.0, form)
    problem.chain.accumulate("score")
    before = problem.chain.squared_residuals()
    problem.chain.accumulate("weight")
    assert problem.chain.squared_residuals() == before > 0


@pytest.mark.parametrize("form", ["dense", "sparse"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_shift(form, dtype):
    """V - shift is taken in double: large values with small differences lose nothing."""
    rng = np.random.default_rng(0)
    shift = 1e6 + 0.3
    V = shift + rng.normal(size=(9, 7))
    data = Observations.from_dense(V)
    if form == "sparse":
        i, j = np.indices(V.shape).reshape(2, -1)
        data = Observations.from_coo(i, j, V.ravel(), absent="unobserved")
    strips = uneven(9, 2, rng), uneven(7, 2, rng)
    chain = Threads(1).factors(Threads(1).grid(data, strips, shift, np.dtype(dtype)), 2, Tweedie(2.0), FLOOR)
    chain.accumulate("score")  # the factors are zeros
    assert chain.squared_residuals() == pytest.approx(np.sum((V - shift) ** 2), rel=1e-6)


@pytest.mark.parametrize("rank", [1, 3, 17, 130])
@pytest.mark.parametrize("shape", [(200, 23, 3), (23, 200, 3)])
@pytest.mark.parametrize("form", ["dense", "sparse", "zeros"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_sums_of_a_factor(rank, shape, form, dtype):
    problem = Problem(shape, rank, 1.0, form, dtype=dtype)
    for which in (W, H):
        x, counts = problem.x[which], (~np.isnan(problem.V)).sum(axis=1 - which)
        signed = (x < 0).any()
        for logs in (False, True) if not signed else (False,):
            problem.chain.core.sums_logs = logs
            sum_log = np.log(x).sum(axis=0) if logs else np.zeros(rank)
            expected = x.sum(axis=0), (x**2).sum(axis=0), sum_log, counts @ x**2
            for got, want in zip(problem.chain.sums()[which], expected, strict=True):
                np.testing.assert_allclose(
                    got, want, rtol=1e-12 if dtype == "float64" else 1e-5, atol=1e-4 * logs
                )


@pytest.mark.parametrize("shape", [(200, 23, 3), (23, 200, 3), (4000, 5, 2)])
def test_sums_that_an_iteration_leaves_behind(shape):
    """Taken strip by strip in the iteration, or (large strips) when asked for: those of the factors as they are."""
    chain = Problem(shape, 20, 1.0).chain
    chain.save()
    before = chain.sums()
    for n in (1, 3):
        chain.advance(Stretch(1, np.arange(n, dtype=np.int32) % shape[2], np.full(n, 0.01), np.ones(n)))
        after = chain.sums()
        assert not np.array_equal(after, before)
        chain.set_factor(W, chain.factor(W))  # now they are taken anew
        np.testing.assert_array_equal(chain.sums(), after)
    chain.restore()
    np.testing.assert_array_equal(chain.sums(), before)


# -- factors in and out --------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(37, 23, 3), (23, 37, 3)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_factors_there_and_back(shape, dtype):
    problem = Problem(shape, 19, 1.0, dtype=dtype)
    chain = problem.chain
    for which in (W, H):
        np.testing.assert_array_equal(chain.factor(which), problem.x[which].astype(dtype))
        np.testing.assert_array_equal(chain.factor(which, width=5), problem.x[which][:, :5].astype(dtype))
    chain.save()
    chain.advance(Stretch(1, np.zeros(1, np.int32), np.full(1, 0.01), np.ones(1)))
    assert not np.array_equal(chain.factor(W), problem.x[W])
    chain.restore()
    for which in (W, H):
        np.testing.assert_array_equal(chain.factor(which), problem.x[which].astype(dtype))


@pytest.mark.parametrize("shape", [(37, 23, 3), (23, 37, 3)])
@pytest.mark.parametrize("rank", [1, 17, 32])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_mu(shape, rank, dtype):
    problem = Problem(shape, rank, 1.0, dtype=dtype)
    core, rng = problem.chain.core, np.random.default_rng(0)
    i, j = rng.integers(0, shape[0], 50), rng.integers(0, shape[1], 50)
    mu = core.mu(core.positions(W, i), core.positions(H, j))
    rtol = 1e-13 if dtype == "float64" else 1e-6
    expected = np.sum(problem.x[W][i] * problem.x[H][j], axis=1)
    np.testing.assert_allclose(mu, expected, rtol=rtol)
    out = np.empty(50, dtype)
    _core.dots(problem.x[W].astype(dtype), problem.x[H].astype(dtype), i, j, out)
    np.testing.assert_allclose(out, expected, rtol=rtol)


@pytest.mark.parametrize("family", FAMILIES, ids=named)
@pytest.mark.parametrize("n", [1, 5, 16, 1003])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_log_kernel_is_that_of_the_models(family, n, dtype):
    rng = np.random.default_rng(n)
    v, mu = rng.gamma(2.0, size=(2, n)).astype(dtype) + np.dtype(dtype).type(0.01)
    if family.counts:
        v = np.floor(v)
    if not family.can_occur(v).all():
        v = np.minimum(v, 1.0)
    if not family.nonnegative_mean:
        mu = np.where(np.arange(n) % 2, 8 * mu, -8 * mu).astype(dtype)
    problem = Problem((5, 4, 1), 2, family, dtype=dtype)
    core, floor = problem.chain.core, FLOOR if family.nonnegative_mean else -np.inf
    terms = family.kernel(v.astype(float), np.maximum(mu, floor).astype(float), *problem.theta)
    error = np.abs(terms).sum() * (1e-13 if dtype == "float64" else 3e-6)
    assert core.log_kernel(v, mu, np.empty(0, dtype)) == pytest.approx(terms.sum(), abs=error)


def test_exact_messages_of_the_core():
    problem = Problem((5, 4, 2), 3, 1.0)
    chain, one = problem.chain, np.ones(1)
    with pytest.raises(IndexError, match="part 2 is out of range: there are 2"):
        chain.advance(Stretch(1, np.array([2], np.int32), one, one))
    with pytest.raises(ValueError, match="one step and one scale"):
        chain.advance(Stretch(1, np.array([0], np.int32), np.ones(2), one))
    with pytest.raises(ValueError, match="wrong shape"):
        chain.set_factor(W, np.ones((4, 3)))
    with pytest.raises(ValueError, match="expected one value per component"):
        chain.set_move(W, np.ones(4))
    with pytest.raises(ValueError, match='there is no metric "euclidean"'):
        chain.set_dynamics(KEY, "euclidean", True, 1.0)
    with pytest.raises(ValueError, match='there is no sum "langevin"'):
        chain.accumulate("langevin")
    chain.set_dynamics(KEY, "non-negative", True, 1.0)
    with pytest.raises(ValueError, match="the non-negative metric needs its bound"):
        chain.advance(Stretch(1, np.array([0], np.int32), one, one))


# -- instruction sets ----------------------------------------------------------------------------------------


def check_some():
    """Run a fixed choice of comparisons, for `test_instruction_set` in a process of its own."""
    for case in CASES[::3]:
        Problem(*case, dtype="float32").check(rtol=1e-4, atol=2e-5)
        Problem(*case, dtype="float64", temperature=0.0).check(rtol=1e-9, atol=1e-11)
    for name in ("dense chunks", "zero chunks"):
        Problem(*LARGE[name], dtype="float32").check(2, rtol=2e-4, atol=2e-5)
    return _core.instruction_set


def run_with(level: str | None) -> subprocess.CompletedProcess[str]:
    code = "import test_kernels as t; print(t.check_some())"
    if level is None:
        code = "import psgld._core as c; print(c.instruction_set)"
    env = {k: v for k, v in os.environ.items() if k != "PSGLD_ISA"}
    env["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent), *filter(None, sys.path)])
    if level:
        env["PSGLD_ISA"] = level
    return subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("level", ["v2", "v3", "v4"])
def test_instruction_set(level):
    best = run_with(None).stdout.strip()
    done = run_with(level)
    if best == "generic" or level <= best:
        assert done.returncode == 0, done.stderr
        assert done.stdout.strip() == (best if best == "generic" else level)
    else:
        assert done.returncode != 0
        assert f"PSGLD_ISA={level} is not supported by this processor, which has {best}" in done.stderr


def test_unknown_instruction_set():
    done = run_with("avx9")
    if _core.instruction_set == "generic":  # the only one there is
        assert done.returncode == 0, done.stderr
    else:
        assert done.returncode != 0
        assert "PSGLD_ISA must be v2, v3 or v4, got 'avx9'" in done.stderr
