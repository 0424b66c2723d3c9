"""Likelihoods, priors and the factor model: what is being sampled."""

from __future__ import annotations

from psgld.models.factor_model import MAX_RANK, FactorModel
from psgld.models.hyperparameters import FactorStats, Hyper, Moments
from psgld.models.likelihoods.dispersion import DispersionMove
from psgld.models.likelihoods.members import (
    LIKELIHOODS,
    CompoundPoisson,
    Gamma,
    Gaussian,
    InverseGaussian,
    Poisson,
    Tweedie,
    guess,
    likelihood,
    likelihood_from_dict,
)
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
    "LIKELIHOODS",
    "MAX_RANK",
    "PRIORS",
    "CompoundPoisson",
    "DispersionMove",
    "Exponential",
    "FactorModel",
    "FactorStats",
    "Gamma",
    "GammaPrior",
    "Gaussian",
    "Hyper",
    "InverseGaussian",
    "Moments",
    "Normal",
    "NormalWishart",
    "Poisson",
    "Prior",
    "RowNormal",
    "Tweedie",
    "guess",
    "likelihood",
    "likelihood_from_dict",
    "prior_from_dict",
]
