"""BPMF: the normal–Wishart prior, its Gibbs sampler, and the same model by PSGLD."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy import stats

import psgld
from psgld import _core
from psgld.data.observations import Observations
from psgld.dynamics.probes import Probes
from psgld.engines import H, W
from psgld.engines.reference import update as reference
from psgld.errors import ModelError, SamplingError
from psgld.models import FactorModel, FactorStats, Hyper, Moments, RowNormal
from psgld.models import hyperparameters as hyperparameters

BPMF = FactorModel(3, "gaussian", psgld.NormalWishart())
MODELS = {
    "normal-wishart": BPMF,
    "normal-wishart, biases": FactorModel(3, "gaussian", psgld.NormalWishart(), bias=True),
    "normal": FactorModel(3, psgld.Gaussian(0.25), psgld.Normal(2.0)),
    "normal, biases": FactorModel(3, "gaussian", bias=True),
    "mixed": FactorModel(3, "gaussian", psgld.Normal(), psgld.NormalWishart(), bias=True),
}
FORMS = ("sparse", "dense", "complete", "zeros")
each_model = pytest.mark.parametrize("model", MODELS.values(), ids=MODELS.keys())


def matrix(form="sparse", shape=(60, 45), rank=3, seed=0):
    """Return V around a mean of 2, as data of one form, and as an array with NaN for what was not observed."""
    rng = np.random.default_rng(seed)
    a, b = (rng.normal(0.3, 1.0, (n, rank)) for n in shape)
    V = 2.0 + a @ b.T + 0.5 * rng.normal(size=shape)
    hidden = rng.random(shape) < 0.6
    hidden[3] = hidden[:, 5] = True  # a row and a column without entries
    if form == "complete":
        return Observations.from_dense(V), V
    i, j = np.nonzero(~hidden)
    if form == "zeros":
        return Observations.from_coo(i, j, V[i, j], shape, absent="zero"), np.where(hidden, 0.0, V)
    V[hidden] = np.nan
    if form == "dense":
        return Observations.from_dense(V), V
    return Observations.from_coo(i, j, V[i, j], shape, absent="unobserved"), V


def start(data, model, threads=1, dtype="float64", key=7):
    engine = psgld.Threads(threads)
    setup = psgld.BPMFGibbs(dtype).prepare(data, model, engine, 0)
    return setup.chain(key, Probes.of(data, 0), engine)


# -- the prior -----------------------------------------------------------------------------------------------


def test_draw_of_mean_and_precision():
    """m is a multivariate t, Λ a Wishart: their moments in closed form."""
    rng = np.random.default_rng(0)
    n, rate, free = 12, np.array([0.5, 1.0, 2.0, 1.0]), np.array([True, True, False, True])
    x = rng.normal(size=(n, 4)) @ rng.normal(size=(4, 4)) + 1.0
    prior, d = psgld.NormalWishart(beta0=3.0, nu0=5.0), 3
    drawn = [prior.draw(n, x.sum(0), x.T @ x, rate, free, rng) for _ in range(10_000)]
    f = x[:, free]
    mean = f.sum(0) / (n + 3.0)
    spread = np.diag(5.0 / rate[free]) + f.T @ f - (n + 3.0) * np.outer(mean, mean)
    scale, nu = np.linalg.inv(spread), 5.0 + n
    precision = np.array([r.precision[np.ix_(free, free)] for r in drawn])
    means = np.array([r.mean[free] for r in drawn])
    diagonal = np.diag(scale)
    deviation = np.sqrt(nu * (scale**2 + np.outer(diagonal, diagonal)))  # of an entry of Λ
    assert np.abs((precision.mean(0) - nu * scale) / deviation).max() < 4 / np.sqrt(len(drawn))
    assert precision.std(0) == pytest.approx(deviation, rel=0.05)
    cov = spread / ((n + 3.0) * (nu - d + 1 - 2))  # of a t with ν - d + 1 degrees of freedom
    assert np.abs((means.mean(0) - mean) / np.sqrt(np.diag(cov))).max() < 4 / np.sqrt(len(drawn))
    assert np.cov(means.T) == pytest.approx(cov, abs=0.05 * np.abs(cov).max())
    frozen = drawn[0].mean[2], *drawn[0].precision[2], *drawn[0].precision[:, 2]
    assert set(frozen) == {0.0}


def test_log_prior_of_rows():
    rng = np.random.default_rng(1)
    A = rng.normal(size=(3, 3))
    normal, x = RowNormal(rng.normal(size=3), A @ A.T + np.eye(3)), rng.normal(size=(8, 3))
    total = normal.log_constant(8, np.ones(3, bool)) + normal.linear @ x.sum(0)
    total -= 0.5 * np.sum((normal.off_diagonal + np.diag(np.diag(normal.precision))) * (x.T @ x))
    exact = stats.multivariate_normal(normal.mean, np.linalg.inv(normal.precision)).logpdf(x).sum()
    assert total == pytest.approx(exact)


def test_hyperparameters_there_and_back():
    model = MODELS["normal-wishart, biases"]
    first = hyperparameters.start(model, Moments(0.0, 2.0, 100), (1.0,))
    x, y = np.random.default_rng(2).normal(size=(2, 30, model.components))
    sums = [FactorStats(30, f.sum(0), (f**2).sum(0), f.T @ f) for f in (x, y)]
    hyper = hyperparameters.draw(model, first, first, sums, np.random.default_rng(0), rss=50.0, size=100)
    assert hyper.offset == hyper.modes[1].normal.mean[-1] != 0.0
    assert hyper.row_rate[:4] == pytest.approx(np.diag(hyper.modes[0].normal.precision)[:4])
    back = Hyper.from_dict(json.loads(json.dumps(hyper.to_dict())))
    for name, value in hyper.arrays().items():
        np.testing.assert_array_equal(back.arrays()[name], value)
    plain = hyperparameters.start(MODELS["normal"], Moments(0.0, 2.0, 100), (1.0,))
    assert plain.modes[0].normal is None and "row_mean" not in plain.to_dict()


def test_model_of_one_prior():
    assert BPMF.col_prior == psgld.NormalWishart() and BPMF.centred
    assert FactorModel.from_dict(json.loads(json.dumps(BPMF.to_dict()))) == BPMF
    with pytest.raises(ModelError, match="nu0 must be >= 4, the number of components"):
        FactorModel(3, "gaussian", psgld.NormalWishart(nu0=3), bias=True)
    with pytest.raises(ModelError, match="allows negative means"):
        FactorModel(3, "poisson", psgld.NormalWishart())


# -- the Gibbs sampler ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
@each_model
def test_rows_are_drawn_from_their_exact_distribution(model, form):
    """One factor fixed: P = Λ + Σ y y'/φ and b = Λm + Σ v y/φ of the free components, given the frozen ones."""
    data, V = matrix(form)
    chain = start(data, model)
    chain.advance(3)
    V = V - chain.setup.shift
    other = chain.factors.factor(H)
    move = model.modes[0].free
    frozen = chain.factors.factor(W)[0, ~move]
    drawn = []
    for t in range(4000):
        chain.iteration = t
        chain._draw_rows(W)
        drawn.append(chain.factors.factor(W)[:8])
    drawn = np.array(drawn)
    assert (drawn[..., ~move] == frozen).all()
    normal = chain.hyper.modes[W].normal
    prior = np.diag(chain.hyper.row_rate[move]) if normal is None else normal.precision[np.ix_(move, move)]
    linear = np.zeros(move.sum()) if normal is None else normal.linear[move]
    for i in range(8):
        seen = ~np.isnan(V[i])
        y, residual = other[seen][:, move], V[i, seen] - other[seen][:, ~move] @ frozen
        cov = np.linalg.inv(prior + y.T @ y / chain.hyper.phi)
        mean, x = cov @ (linear + y.T @ residual / chain.hyper.phi), drawn[:, i, move]
        white = (x - mean) @ np.linalg.cholesky(np.linalg.inv(cov))
        assert np.abs(white.mean(0)).max() < 4.5 / np.sqrt(len(x))
        assert np.cov(white.T) == pytest.approx(np.eye(move.sum()), abs=4.5 * np.sqrt(2 / len(x)))


@pytest.mark.parametrize("form", FORMS)
def test_squared_residuals(form):
    data, V = matrix(form)
    chain = start(data, MODELS["normal-wishart, biases"])
    chain.advance(2)
    mu = chain.factors.factor(W) @ chain.factors.factor(H).T + chain.setup.shift
    assert chain._squared_residuals() == pytest.approx(np.nansum((V - mu) ** 2))


@pytest.mark.parametrize("components", [1, 3, 16, 17, 34, 70])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_every_number_of_components(components, dtype):
    """The core's sums, Cholesky factor and solves, with the noise of the core, against NumPy."""
    rng = np.random.default_rng(components)
    rows, cols = 21, 150
    x, other = np.zeros((rows, components), dtype), rng.normal(size=(cols, components)).astype(dtype)
    counts = rng.integers(0, cols, rows)
    index = [np.sort(rng.choice(cols, n, replace=False)).astype(np.int32) for n in counts]
    value = rng.normal(size=counts.sum()).astype(dtype)
    A = rng.normal(size=(components, components))
    precision, linear = A @ A.T + 10 * np.eye(components), rng.normal(size=components)
    begin = np.concatenate([[0], np.cumsum(counts)])
    make = _core.Rows32 if dtype == "float32" else _core.Rows64
    entries = make(begin, np.concatenate(index), value, cols, np.empty(0, dtype), 1.0)
    rest = precision, linear, np.ones(components), 0.7, False, 0, 5, 9
    assert _core.draw_normal_rows(_core.Pool(2), entries, other, x, *rest) == 0
    z = reference.noise(np.arange(rows), components, 0, 5, 9)
    y = other.astype(float)
    for i in range(rows):
        P = precision + y[index[i]].T @ y[index[i]] / 0.7
        b = linear + y[index[i]].T @ value[begin[i] : begin[i + 1]] / 0.7
        expected = np.linalg.solve(P, b) + np.linalg.solve(np.linalg.cholesky(P).T, z[i])
        tolerance = 1e-6 if dtype == "float64" else 1e-4  # the core's normals are floats
        np.testing.assert_allclose(x[i], expected, rtol=tolerance, atol=tolerance)
    out = np.zeros((components, components))
    _core.gram(other, out)
    np.testing.assert_allclose(out, y.T @ y, rtol=1e-5 if dtype == "float32" else 1e-12, atol=1e-4)


@pytest.mark.parametrize("sampler", [psgld.BPMFGibbs(), psgld.PSGLD(blocks=3)], ids=repr)
@pytest.mark.parametrize("name", ["normal-wishart", "normal-wishart, biases"])
def test_same_bits_on_any_number_of_threads(name, sampler):
    data, _ = matrix()
    runs = [
        psgld.sample(
            data, MODELS[name], sampler=sampler, engine=psgld.Threads(n), draws=5, tune=20, thin=1, chains=1
        )
        for n in (1, 2, 3, 7)
    ]
    for other in runs[1:]:
        for array in ("W", "H", "row_rate", "col_rate", "offset", "phi"):
            np.testing.assert_array_equal(getattr(runs[0].draws, array), getattr(other.draws, array))


@pytest.mark.parametrize("sampler", [psgld.BPMFGibbs(), psgld.PSGLD(blocks=3)], ids=repr)
@each_model
def test_going_on_from_a_state(model, sampler):
    data, _ = matrix()
    engine = psgld.Threads(2)
    setup = sampler.prepare(data, model, engine, 30)
    whole, first, second = (setup.chain(11, Probes.of(data, 0), engine) for _ in range(3))
    whole.advance(40)
    first.advance(17)
    second.advance(3)
    second.set_state(first.state())
    assert second.log_posterior() == first.log_posterior()
    second.advance(23)
    for which in (W, H):
        np.testing.assert_array_equal(whole.factors.factor(which), second.factors.factor(which))
    for name, value in whole.hyper.arrays().items():
        np.testing.assert_array_equal(value, second.hyper.arrays()[name])


@each_model
@pytest.mark.parametrize("sampler", [psgld.BPMFGibbs("float64"), psgld.PSGLD(dtype="float64")], ids=repr)
def test_log_posterior(model, sampler):
    """log p(V | W, H, φ) + log p(W, H | m, Λ), from the definitions."""
    data, V = matrix()
    engine = psgld.Threads(1)
    setup = sampler.prepare(data, model, engine, 10)
    chain = setup.chain(3, Probes.of(data, 0), engine)
    chain.advance(20)
    mu = chain.factors.factor(W) @ chain.factors.factor(H).T + setup.shift
    expected = np.nansum(stats.norm.logpdf(V, mu, np.sqrt(chain.hyper.phi)))
    for mode, hyper in zip(model.modes, chain.hyper.modes, strict=True):
        free, normal = mode.free, hyper.normal
        x = chain.factors.factor(mode.axis)[:, free]
        if normal is None:
            mean = np.zeros(model.components)
            if model.bias and mode.axis == H:
                mean[-1] = chain.hyper.offset
            expected += stats.norm.logpdf(x, mean[free], hyper.rate[free] ** -0.5).sum()
        else:
            cov = np.linalg.inv(normal.precision[np.ix_(free, free)])
            expected += stats.multivariate_normal(normal.mean[free], cov).logpdf(x).sum()
    assert chain.log_posterior() == pytest.approx(expected)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (FactorModel(2, "poisson"), "needs the Gaussian.. likelihood.*use PSGLD"),
        (
            FactorModel(2, "gaussian", psgld.Exponential()),
            "needs NormalWishart.. or Normal.. priors, got row_prior",
        ),
    ],
)
def test_models_that_have_no_normal_rows(model, message):
    with pytest.raises(ModelError, match=message):
        psgld.sample(np.ones((4, 4)), model, sampler="bpmf-gibbs")


def test_settings_that_do_not_exist():
    with pytest.raises(ModelError, match='dtype must be "float32" or "float64"'):
        psgld.BPMFGibbs("float16")


def test_a_precision_that_floats_cannot_hold():
    data, _ = matrix()
    chain = start(data, BPMF)
    bad = -np.eye(3)
    chain.hyper = Hyper.from_arrays(chain.hyper.arrays() | {"row_precision": bad, "row_rate": np.diag(bad)})
    with pytest.raises(SamplingError, match=r"not positive definite.*rank"):
        chain._draw_rows(W)


def test_predictions_include_the_mean_of_the_data():
    data, V = matrix()
    post = psgld.sample(data, BPMF, sampler="bpmf-gibbs", draws=100, tune=50)
    i, j = np.nonzero(~np.isnan(V))
    prediction = post.predict(i, j)
    assert np.std(prediction.mean - V[i, j]) < 0.6 < 0.5 * np.std(V[i, j])
    assert abs(np.mean(prediction.mean - V[i, j])) < 0.2
    assert (post.draws.offset == data.mean()).all()
    assert (post.settings["tune"], post.settings["thin"]) == (50, 2)
    assert "BPMFGibbs" in post.summary() and "step size" not in post.summary()


# -- one model, two samplers ---------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", ["normal-wishart", "normal-wishart, biases", "normal, biases"])
def test_psgld_samples_the_same_posterior(name):
    data, V = matrix()
    every = tuple(np.indices(V.shape).reshape(2, -1))

    def moments(sampler, **plan):
        runs = [
            psgld.sample(
                data,
                MODELS[name],
                sampler=sampler,
                engine=psgld.Threads(1),
                chains=1,
                seed=s,
                track=every,
                keep=False,
                **plan,
            )
            for s in range(4)
        ]
        mean, sd = (np.array([getattr(r.tracked, what) for r in runs]) for what in ("mean", "sd"))
        # The chains tell the Monte Carlo error of their average.
        return mean.mean(0), sd.mean(0), mean.std(0, ddof=1) / 2

    mean, sd, error = moments(psgld.BPMFGibbs(), draws=1500, tune=200, thin=1)
    by_psgld, its_sd, its_error = moments(psgld.PSGLD(step_size=0.05), draws=1500, tune=1500, thin=10)
    off = np.sqrt(np.mean(((by_psgld - mean) / sd) ** 2))
    monte_carlo = np.sqrt(np.mean((error**2 + its_error**2) / sd**2))
    assert off < 1.5 * monte_carlo + 0.02
    assert 0.97 < np.mean(its_sd / sd) < 1.03


def test_what_is_predicted_and_recommended_has_the_mean_of_the_data():
    """Without biases the data are centred; everything that comes out has the mean added again."""
    V = np.random.default_rng(0).normal(50.0, 1.0, (20, 12))
    post = psgld.sample(V, psgld.FactorModel(2, "gaussian", psgld.NormalWishart()), draws=20, progress=False)
    best = post.recommend([0, 1], n=3, exclude_seen=False)
    for row in range(2):
        np.testing.assert_allclose(best.score[row], post.predict([row] * 3, best.cols[row]).mean, rtol=1e-5)
    for policy in ("thompson", "ucb"):
        assert np.all(np.abs(post.recommend([0], n=3, policy=policy, exclude_seen=False).score - 50) < 10)
    assert psgld.optimize(V, post.model, progress=False).predict([0], [0])[0] == pytest.approx(50, abs=5)
    assert np.all(np.abs(post.fold_in(V[:2]).predict().mean - 50) < 5)
