"""Likelihoods, priors and the factor model."""

from __future__ import annotations

from psgld.models.factor_model import MAX_RANK, FactorModel, nonnegative_prior
from psgld.models.hyperparameters import FactorStats, Hyper, Moments
from psgld.models.likelihoods.base import Likelihood
from psgld.models.likelihoods.bernoulli import Bernoulli
from psgld.models.likelihoods.members import CompoundPoisson, Gamma, Gaussian, InverseGaussian, Poisson
from psgld.models.likelihoods.negative_binomial import NegativeBinomial
from psgld.models.likelihoods.ordinal import Ordinal
from psgld.models.likelihoods.parameter_move import Move, ParameterMove
from psgld.models.likelihoods.registry import FAMILIES, LIKELIHOODS, guess, likelihood, likelihood_from_dict
from psgld.models.likelihoods.tweedie import Tweedie
from psgld.models.priors.families import (
    PRIORS,
    Exponential,
    GammaPrior,
    Normal,
    NormalWishart,
    Prior,
    prior_from_dict,
)
from psgld.models.priors.normal_wishart import RowNormal

__all__ = [
    "FAMILIES",
    "LIKELIHOODS",
    "MAX_RANK",
    "PRIORS",
    "Bernoulli",
    "CompoundPoisson",
    "Exponential",
    "FactorModel",
    "FactorStats",
    "Gamma",
    "GammaPrior",
    "Gaussian",
    "Hyper",
    "InverseGaussian",
    "Likelihood",
    "Moments",
    "Move",
    "NegativeBinomial",
    "Normal",
    "NormalWishart",
    "Ordinal",
    "ParameterMove",
    "Poisson",
    "Prior",
    "RowNormal",
    "Tweedie",
    "guess",
    "likelihood",
    "likelihood_from_dict",
    "nonnegative_prior",
    "prior_from_dict",
]
