"""psgld: Bayesian matrix factorisation at the price of SGD.

    V ≈ W H,   W, H ~ p(W, H | V)

Posterior draws for factor models by parallel stochastic gradient Langevin dynamics.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from . import datasets as datasets
from .data.observations import Observations, observations
from .data.partition import Assigned, InOrder, Shuffled
from .data.shards import Shards
from .data.split import split
from .dynamics.metrics import Identity, NonNegative, RealValued
from .dynamics.schedule import Cyclic, Proportional, Reshuffled
from .dynamics.step_size import Constant, Cyclical, Decay, Power
from .engines import Threads
from .errors import DataError, ModelError, PsgldError, PsgldWarning, SamplingError
from .models import (
    Bernoulli,
    CompoundPoisson,
    Exponential,
    FactorModel,
    Gamma,
    GammaPrior,
    Gaussian,
    InverseGaussian,
    NegativeBinomial,
    Normal,
    NormalWishart,
    Ordinal,
    Poisson,
    Tweedie,
)
from .optimize import optimize
from .posterior import Posterior, load
from .posterior.estimate import Estimate
from .posterior.evaluate import Evaluation
from .posterior.predict import Prediction
from .runs.progress import Progress
from .sample import sample
from .samplers import DSGD, DSGLD, LD, PSGLD, SGLD, BPMFGibbs, Gibbs
from .system.version import __version__

if TYPE_CHECKING:
    from .data.anndata import from_anndata
    from .data.shards import shard
    from .engines import JAX, MPI, Reference
    from .model_selection import MarginalLikelihood, compare, marginal_likelihood, select_rank
    from .posterior.comparison import Comparison
    from .posterior.log_likelihood import log_likelihood
    from .posterior.query import Query
    from .posterior.recommend import UCB, Mean, Probability, Thompson
    from .posterior.recommendations import Recommendations
    from .sklearn import BayesianMF, BayesianNMF

__all__ = [
    "DSGD",
    "DSGLD",
    "JAX",
    "LD",
    "MPI",
    "PSGLD",
    "SGLD",
    "UCB",
    "Assigned",
    "BPMFGibbs",
    "BayesianMF",
    "BayesianNMF",
    "Bernoulli",
    "Comparison",
    "CompoundPoisson",
    "Constant",
    "Cyclic",
    "Cyclical",
    "DataError",
    "Decay",
    "Estimate",
    "Evaluation",
    "Exponential",
    "FactorModel",
    "Gamma",
    "GammaPrior",
    "Gaussian",
    "Gibbs",
    "Identity",
    "InOrder",
    "InverseGaussian",
    "MarginalLikelihood",
    "Mean",
    "ModelError",
    "NegativeBinomial",
    "NonNegative",
    "Normal",
    "NormalWishart",
    "Observations",
    "Ordinal",
    "Poisson",
    "Posterior",
    "Power",
    "Prediction",
    "Probability",
    "Progress",
    "Proportional",
    "PsgldError",
    "PsgldWarning",
    "Query",
    "RealValued",
    "Recommendations",
    "Reference",
    "Reshuffled",
    "SamplingError",
    "Shards",
    "Shuffled",
    "Thompson",
    "Threads",
    "Tweedie",
    "__version__",
    "compare",
    "from_anndata",
    "load",
    "log_likelihood",
    "marginal_likelihood",
    "observations",
    "optimize",
    "sample",
    "select_rank",
    "shard",
    "split",
]

_ESTIMATORS = ("BayesianMF", "BayesianNMF")

_LATER = {
    **dict.fromkeys(("JAX", "MPI", "Reference"), ".engines"),
    **dict.fromkeys(("UCB", "Mean", "Probability", "Thompson"), ".posterior.recommend"),
    **dict.fromkeys(
        ("MarginalLikelihood", "compare", "marginal_likelihood", "select_rank"), ".model_selection"
    ),
    "Comparison": ".posterior.comparison",
    "Query": ".posterior.query",
    "Recommendations": ".posterior.recommendations",
    "from_anndata": ".data.anndata",
    "log_likelihood": ".posterior.log_likelihood",
    "shard": ".data.shards",
}
"""Names that most programs do not need, and where they are: imported on first use, so that `import psgld` is quick."""


def __getattr__(name: str) -> Any:
    """Import plots, estimators and names of `_LATER` on first use: the estimators need scikit-learn."""
    if name == "plots":
        return import_module(".posterior.plots", __name__)
    if name in _LATER:
        return getattr(import_module(_LATER[name], __name__), name)
    if name not in _ESTIMATORS:
        raise AttributeError(f"module 'psgld' has no attribute {name!r}")
    try:
        from . import sklearn as estimators
    except ImportError as error:  # not there, or too old
        if (error.name or "").partition(".")[0] != "sklearn":
            raise
        raise ImportError(f"psgld.{name} needs scikit-learn >= 1.6: pip install 'psgld[sklearn]'") from error
    return getattr(estimators, name)


def __dir__() -> list[str]:
    return sorted({*__all__, "datasets", "plots"})
