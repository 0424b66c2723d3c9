"""A factor model is checked when it is made, and goes to JSON and back."""

from __future__ import annotations

import json

import numpy as np
import pytest

from psgld.errors import DataError, ModelError
from psgld.models import LIKELIHOODS, Exponential, FactorModel, GammaPrior, Gaussian, Normal, Poisson, Tweedie


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_priors_follow_the_likelihood(name):
    model = FactorModel(rank=3, likelihood=name)
    real = name in ("gaussian", "bernoulli", "ordinal")
    counts = LIKELIHOODS[name]().counts
    expected = Normal() if real else GammaPrior() if counts else Exponential()
    assert model.row_prior == model.col_prior == expected
    assert model.nonnegative != real
    assert model.likelihood == LIKELIHOODS[name]()


def test_one_prior_given_decides_the_kind_of_the_other():
    assert FactorModel(3, "gaussian", row_prior=GammaPrior(2.0)).col_prior == GammaPrior()
    assert FactorModel(3, "poisson", col_prior=Exponential(2.0)).row_prior == Exponential()
    assert FactorModel(3, "gaussian", col_prior=Normal(1.0)).row_prior == Normal()


def test_biases_are_two_more_components_each_half_frozen():
    model = FactorModel(3, Gaussian(), bias=True)
    assert model.components == 5
    assert model.modes[0].free.tolist() == [True, True, True, True, False]
    assert model.modes[1].free.tolist() == [True, True, True, False, True]


def test_without_biases_everything_moves():
    model = FactorModel(np.int32(3), Poisson())
    assert model.components == model.rank == 3
    assert type(model.rank) is int
    assert all(mode.free.all() and len(mode.free) == 3 for mode in model.modes)


@pytest.mark.parametrize(
    "model",
    [
        FactorModel(8, "poisson", GammaPrior(0.5), Exponential(2.0)),
        FactorModel(8, Gaussian(0.5), bias=True),
        FactorModel(1, Tweedie(-0.5, 2.0)),
        FactorModel(1000, "gaussian", Exponential(), GammaPrior(2.0)),
    ],
    ids=repr,
)
def test_there_and_back(model):
    assert FactorModel.from_dict(json.loads(json.dumps(model.to_dict()))) == model


@pytest.mark.parametrize("rank", [0, -1, 1001, 2.0, True, "3", None, np.bool_(True)])
def test_rank_is_a_sensible_integer(rank):
    with pytest.raises(ModelError, match="rank must be an integer from 1 to 1000, got"):
        FactorModel(rank, "poisson")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"likelihood": "poisson", "row_prior": Normal()},
            "row_prior = Normal.* needs means >= 0; use Exponential",
        ),
        ({"likelihood": "gamma", "col_prior": Normal()}, "allows negative means"),
        (
            {"likelihood": "gaussian", "row_prior": Normal(), "col_prior": Exponential()},
            "mix a non-negative and",
        ),
        ({"likelihood": "gaussian", "bias": "yes"}, "bias must be True or False, got 'yes'"),
        ({"likelihood": "poisson", "bias": True}, "bias = True needs real-valued factors, got Poisson"),
        (
            {"likelihood": "gaussian", "row_prior": Exponential(), "bias": True},
            "use Gaussian.. with Normal.. priors",
        ),
        ({"likelihood": "poisson", "row_prior": 1.0}, "row_prior must be Exponential"),
        ({"likelihood": "poisson", "col_prior": 0}, "col_prior must be Exponential"),
        ({"likelihood": ["gamma"]}, "unknown likelihood"),
        ({"likelihood": "cauchy"}, "unknown likelihood 'cauchy'"),
    ],
)
def test_combinations_that_do_not_exist(arguments, message):
    with pytest.raises(ModelError, match=message):
        FactorModel(rank=2, **arguments)


def test_values_are_checked_by_the_likelihood():
    FactorModel(2, "poisson").check_values(np.array([0, 3]))
    with pytest.raises(DataError, match="the first is -3"):
        FactorModel(2, "poisson").check_values(np.array([1, -3]))
