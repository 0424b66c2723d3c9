"""Bad input to `sample` and `predict`: one clear line that says what, the value, what is allowed, what to do."""

import numpy as np
import pandas
import pytest
from scipy import sparse

import psgld
from psgld.runs import draws as draws_module

V = np.random.default_rng(0).poisson(4.0, (12, 10)).astype(float)
POISSON = psgld.FactorModel(2, "poisson")


def short(V, model=POISSON, **options):
    return psgld.sample(
        V, model, **({"draws": 5, "tune": 20, "thin": 1, "chains": 1, "progress": False} | options)
    )


@pytest.mark.parametrize(
    ("bad", "error", "message"),
    [
        (np.zeros(5), psgld.DataError, "2-D"),
        (np.zeros((2, 2, 2)), psgld.DataError, "2-D"),
        (np.full((3, 3), np.nan), psgld.DataError, "empty"),
        (np.zeros((0, 3)), psgld.DataError, "empty"),
        (-V, psgld.DataError, r"negative|>= 0"),
        (np.where(V.max() == V, np.inf, V), psgld.DataError, "inf"),
        (sparse.coo_array(([1.0, np.nan], ([0, 1], [0, 1]))), psgld.DataError, r"nan|finite"),
        ("there/is/no/such/file.csv", psgld.DataError, "no such file"),
        (object(), psgld.DataError, "."),
    ],
)
def test_data(bad, error, message):
    with pytest.raises(error, match=f"(?i){message}") as caught:
        short(bad)
    assert "\n" not in str(caught.value)


def test_zeros_for_gamma():
    with pytest.raises(psgld.DataError, match=r"(?s)> 0.*CompoundPoisson"):
        short(np.abs(V) * (V > 4), psgld.FactorModel(2, "gamma"))


@pytest.mark.parametrize("beta", [1.5, 1.001, 3.0])
def test_powers_without_a_distribution(beta):
    with pytest.raises(psgld.ModelError, match=rf"beta.*{beta:g}"):
        psgld.Tweedie(beta)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"draws": 0}, "draws must be an integer >= 1, got 0"),
        ({"tune": -1}, "tune must be an integer >= 0, got -1"),
        ({"thin": 0}, "thin must be an integer >= 1, got 0"),
        ({"thin": 1.5}, "thin must be an integer >= 1, got 1.5"),
        ({"chains": True}, "chains must be an integer >= 1, got True"),
        ({"seed": -3}, "seed must be an integer >= 0.*got -3"),
        ({"model": "poisson"}, "FactorModel"),
        ({"model": None}, "a model or a rank is needed"),
        ({"rank": 3}, "contradicts the model's 2"),
        ({"sampler": psgld.PSGLD(blocks=11)}, "11 blocks cannot be cut from 10 columns; choose blocks <= 10"),
        ({"track": ([99], [0])}, "99"),
        ({"track": [0]}, "track must be a pair"),
        ({"track": ([0, 1], [0])}, "track needs as many rows as columns, got 2 and 1"),
        ({"engine": 2}, r"engine must be Threads\(…\), MPI\(…\), JAX\(…\) or Reference\(\), got 2"),
        ({"sampler": psgld.PSGLD}, r"sampler must be PSGLD\(…\)"),
        ({"progress": "bar"}, "progress must be True"),
        ({"keep": "no"}, "keep must be True or False, got 'no'"),
    ],
)
def test_options(options, message):
    model = options.pop("model", POISSON)
    with pytest.raises(psgld.PsgldError, match=message):
        short(V, model, **options)


@pytest.mark.parametrize("options", [{"draws": 0}, {"model": None}, {"sampler": "none"}, {"start": 0}])
def test_options_are_checked_before_the_data_are_read(options):
    with pytest.raises(psgld.PsgldError, match=next(iter(options))):
        psgld.sample("no.csv", **{"model": POISSON, **options})
    with pytest.raises(psgld.ModelError, match=r"psgld.optimize\(V, rank"):
        psgld.optimize("no.csv")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"blocks": 0}, "blocks must be an integer >= 1, got 0"),
        ({"dtype": "float16"}, 'dtype must be "float32" or "float64"'),
        ({"temperature": -1.0}, "temperature must be >= 0"),
        ({"step_size": -0.1}, "positive number or a function of t"),
        ({"step_size": "large"}, "positive number or a function of t"),
        ({"temperature": "1"}, "temperature must be >= 0"),
        ({"schedule": "cyclic"}, r"schedule must be one of Cyclic\(…\), Reshuffled"),
        ({"partition": "x"}, r"partition must be one of Shuffled"),
        ({"metric": "euclidean"}, "identity, non-negative, real-valued"),
        ({"metric": psgld.Identity}, "must be a metric such as"),
    ],
)
def test_sampler_settings(options, message):
    with pytest.raises(psgld.ModelError, match=message):
        psgld.PSGLD(**options)


def test_metric_and_model_must_agree():
    with pytest.raises(psgld.ModelError, match="real-valued metric is for Gaussian models"):
        short(V, sampler=psgld.PSGLD(metric="real-valued"))
    with pytest.raises(psgld.ModelError, match="needs non-negative factors"):
        short(V, psgld.FactorModel(2, "gaussian"), sampler=psgld.PSGLD(metric="non-negative"))


def test_a_step_size_function_that_goes_wrong():
    with pytest.raises(psgld.ModelError, match="t = 5 is nan"):
        short(V, sampler=psgld.PSGLD(step_size=lambda t: np.where(t == 5, np.nan, 0.1)))
    with pytest.raises(psgld.ModelError, match="one value per t"):
        short(V, sampler=psgld.PSGLD(step_size=lambda t: np.array([0.1, 0.2, 0.3])))


def test_draws_that_do_not_fit_in_memory_are_refused_before_sampling(monkeypatch):
    monkeypatch.setattr(draws_module, "available_memory", lambda: 100_000)
    with pytest.raises(psgld.SamplingError, match=r"need .*B, 100 kB are free.*fewer draws"):
        short(V, draws=1000)
    assert short(V, draws=1000, keep=False, track=([0], [1])).tracked.mean.shape == (1,)


def test_counts_in_a_raw_sparse_matrix_are_warned_about_and_only_then():
    X = sparse.csr_array(V * (V > 3))
    with pytest.warns(
        psgld.PsgldWarning, match=r"absent='zero' in psgld\.observations .*absent='unobserved'"
    ):
        short(X)
    for absent in ("zero", "unobserved"):
        short(psgld.Observations.from_sparse(X, absent=absent))
    short(X, psgld.FactorModel(2, "gaussian"))


def test_a_guessed_likelihood_is_said():
    with pytest.warns(psgld.PsgldWarning, match="Poisson|poisson"):
        assert short(V, None, rank=2).model.likelihood == psgld.Poisson()


def test_implicit_zeros_where_the_family_has_none():
    X = sparse.csr_array(V * (V > 3))
    zero = psgld.Observations.from_sparse(X, absent="zero")
    with pytest.raises(psgld.ModelError, match=r"contradicts Gamma\(phi=None\), which needs v > 0"):
        short(zero, psgld.FactorModel(2, "gamma"))
    # A compound Poisson has zeros: they are written out.
    assert short(zero, psgld.FactorModel(2, "compound-poisson")).settings["entries"] == V.size


def test_predict():
    post = short(V)
    with pytest.raises(psgld.DataError, match=r"unknown row label.*12"):
        post.predict([0, 12], [0, 0])
    with pytest.raises(psgld.DataError, match="unknown column label"):
        post.predict([0], [-1])
    with pytest.raises(psgld.DataError, match="as many rows as columns"):
        post.predict([0, 1], [0, 1, 2])
    with pytest.raises(psgld.DataError, match="level must be between 0 and 1"):
        post.predict([0], [0]).interval(90)
    with pytest.raises(psgld.DataError, match="one value per pair"):
        post.predict([0], [0]).log_density([1.0, 2.0])
    with pytest.raises(psgld.SamplingError, match="no draws of W and H were kept"):
        short(V, keep=False).predict([0], [0])
    without = short(V, keep=False)
    for ask in (without.fold_in, without.transform, without.update, lambda V: without.similar_rows(0)):
        with pytest.raises(psgld.SamplingError, match="no draws of W and H were kept"):
            ask(V)


def test_values_beyond_the_range_of_the_factors():
    model = psgld.FactorModel(2, "gaussian")
    for scale in (1e20, 1e-20):
        with pytest.raises(psgld.DataError, match="dtype='float64'"):
            short(V * scale, model)
        assert np.isfinite(short(V * scale, model, sampler=psgld.PSGLD(dtype="float64")).W).all()


def test_an_error_in_one_chain_ends_the_others(monkeypatch):
    from psgld.samplers.langevin import LangevinChain

    first = []

    def fail(self, n, advance=LangevinChain.advance):
        first.append(self.key) if not first else None
        if self.key == first[0]:
            raise psgld.SamplingError("it broke")
        advance(self, n)

    monkeypatch.setattr(LangevinChain, "advance", fail)
    with pytest.raises(psgld.SamplingError, match="it broke"):
        short(V, chains=2, draws=10**6, keep=False, engine=psgld.Threads(2))


def test_impossible_values_have_no_density():
    assert short(V).predict([0, 1], [0, 1]).log_density([-1.0, 2.0])[0] == -np.inf


def test_warnings_point_at_the_line_of_the_user():
    with pytest.warns(psgld.PsgldWarning, match="no model given") as found:
        psgld.sample(np.ones((4, 3)), rank=1, draws=1, tune=1, progress=False)
    assert found[0].filename == __file__


@pytest.fixture(scope="module")
def posterior():
    return short(V)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda p: p.predict([0], [0]).interval("a"), "level must be between 0 and 1, got 'a'"),
        (lambda p: p.predict([0], [0]).exceeds("a"), "value must be real numbers, got 'a'"),
        (lambda p: p.predict([0], [0]).quantiles(["a"]), r"probabilities must be real numbers, got \['a'\]"),
        (lambda p: p.predict([0, 1], [0, 0]).log_density(["a", "b"]), "values must be real numbers"),
        (
            lambda p: p.predict(pandas.array(["é", pandas.NA], dtype="string"), [1, 1]),
            r"1 null row label\(s\)",
        ),
        (
            lambda p: p.update(V, model=POISSON),
            r"update continues the posterior and its model, got model=…",
        ),
        (lambda p: p.save(3), r"the path must be a str or a pathlib\.Path, got 3"),
        (lambda p: psgld.load(None), r"the path must be a str or a pathlib\.Path, got None"),
        (lambda p: short(V, store=3), r"store must be a str or a pathlib\.Path, got 3"),
        (lambda p: short(V, sampler=psgld.PSGLD(step_size=lambda t: "a")), "must return numbers, got 'a'"),
        (lambda p: psgld.Observations.from_coo([0], [0], [1.0], 3), r"shape must be two integers .* got 3"),
        (
            lambda p: psgld.Observations.from_coo([0], [0], [1.0], (3,)),
            r"shape must be two integers .* got \(3,\)",
        ),
        (lambda p: psgld.Observations.from_coo([0], [0], [1.0], ("a", 2)), r"two integers .* got \('a', 2\)"),
        (lambda p: psgld.Observations.from_coo([-1], [0], [1.0]), "row indices must be >= 0, got -1"),
    ],
)
def test_what_is_of_the_wrong_kind(posterior, call, message):
    with pytest.raises(psgld.PsgldError, match=message) as caught:
        call(posterior)
    assert "\n" not in str(caught.value)


def test_a_step_size_function_may_fail_in_its_own_way():
    def broken(t):
        raise TypeError("mine")

    with pytest.raises(TypeError, match="mine"):
        short(V, sampler=psgld.PSGLD(step_size=broken))
