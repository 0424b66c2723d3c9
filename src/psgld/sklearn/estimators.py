"""The two estimators: non-negative factors, and real-valued ones."""

from __future__ import annotations

from typing import Any

from ..models import FactorModel, Likelihood, Normal, nonnegative_prior
from ..models import likelihood as as_likelihood
from .base import Factorisation


class BayesianNMF(Factorisation):
    """Non-negative matrix factorisation with a posterior: x_ij ~ p(· | Σ_k w_ik h_kj), W, H ≥ 0.

    Parameters
    ----------
    n_components
        The number of components K.
    likelihood
        A likelihood of psgld or its name: "poisson", "gaussian", "gamma", "compound-poisson",
        "inverse-gaussian", "negative-binomial".
    draws, tune, thin, chains
        As in `psgld.sample`: draws per chain, iterations of burn-in, iterations per draw, chains. By default `tune`
        and `thin` depend on the size of the data.
    absent
        Meaning of entries that a sparse X does not store: "zero", as in the rest of scikit-learn, or "unobserved",
        as for ratings. In a dense X, NaN is unobserved.
    n_jobs
        Number of threads; None or -1: all cores available to the process. The draws do not depend on it.
    random_state
        An integer (the draws are those of `psgld.sample` with this seed), a `RandomState`, or None.
    verbose
        Whether to show progress.

    Attributes
    ----------
    posterior_ : the `Posterior` of the training rows: predictions with intervals, diagnostics.
    components_ : (K, features), the reference draw of H that `transform` conditions on.
    n_features_in_, feature_names_in_ : as in scikit-learn.

    Notes
    -----
    `sample_weight` is not supported: the model has no weighted likelihood. To exclude a row, drop it; to exclude an
    entry, set it to NaN.

    Examples
    --------
    >>> import numpy as np, psgld
    >>> X = np.random.default_rng(0).poisson(4.0, size=(30, 20))
    >>> nmf = psgld.BayesianNMF(n_components=2, draws=50).fit(X)
    >>> nmf.transform(X[:5]).shape, nmf.components_.shape
    ((5, 2), (2, 20))
    """

    def __init__(
        self,
        n_components: int = 10,
        *,
        likelihood: Likelihood | str = "poisson",
        draws: int | None = None,
        tune: int | None = None,
        thin: int | None = None,
        chains: int = 2,
        absent: str = "zero",
        n_jobs: int | None = None,
        random_state: Any = 0,
        verbose: bool = False,
    ) -> None:
        self.n_components = n_components
        self.likelihood = likelihood
        self.draws = draws
        self.tune = tune
        self.thin = thin
        self.chains = chains
        self.absent = absent
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _model(self) -> FactorModel:
        prior = nonnegative_prior(as_likelihood(self.likelihood))
        return FactorModel(self._rank(), self.likelihood, prior, prior)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        return tags


class BayesianMF(Factorisation):
    """Matrix factorisation with a posterior: x_ij ~ Normal(Σ_k w_ik h_kj + a_i + c_j, φ), W, H, a, c normal.

    With `bias`, `transform` returns one more column, the bias a_i of the row, and `components_` has one more row, of
    ones; `inverse_transform` adds the biases c_j of the features.

    Parameters
    ----------
    n_components
        The number of components K.
    likelihood
        A likelihood of psgld that takes factors of any sign, or its name: "gaussian", "ordinal" for stars, or
        "bernoulli" for x of 0 and 1: then P(x_ij = 1) is the logistic function of what is the mean above.
    bias
        Whether to add row and feature biases.
    draws, tune, thin, chains
        As in `psgld.sample`: draws per chain, iterations of burn-in, iterations per draw, chains. By default `tune`
        and `thin` depend on the size of the data.
    absent
        Meaning of entries that a sparse X does not store: "zero", as in the rest of scikit-learn, or "unobserved",
        as for ratings. In a dense X, NaN is unobserved.
    n_jobs
        Number of threads; None or -1: all cores available to the process. The draws do not depend on it.
    random_state
        An integer (the draws are those of `psgld.sample` with this seed), a `RandomState`, or None.
    verbose
        Whether to show progress.

    Attributes
    ----------
    posterior_ : the `Posterior` of the training rows: predictions with intervals, diagnostics.
    components_ : (K, features), with `bias` (K + 1, features): the reference draw of H that `transform` conditions on.
    n_features_in_, feature_names_in_ : as in scikit-learn.

    Notes
    -----
    No `sample_weight`, as in `BayesianNMF`.

    Examples
    --------
    >>> import numpy as np, psgld
    >>> X = np.random.default_rng(0).normal(size=(30, 20))
    >>> X[0, 3] = np.nan
    >>> mf = psgld.BayesianMF(n_components=2, bias=False, draws=50).fit(X)
    >>> mf.transform(X[:5]).shape
    (5, 2)
    """

    def __init__(
        self,
        n_components: int = 10,
        *,
        likelihood: Likelihood | str = "gaussian",
        bias: bool = True,
        draws: int | None = None,
        tune: int | None = None,
        thin: int | None = None,
        chains: int = 2,
        absent: str = "zero",
        n_jobs: int | None = None,
        random_state: Any = 0,
        verbose: bool = False,
    ) -> None:
        self.n_components = n_components
        self.likelihood = likelihood
        self.bias = bias
        self.draws = draws
        self.tune = tune
        self.thin = thin
        self.chains = chains
        self.absent = absent
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _model(self) -> FactorModel:
        return FactorModel(self._rank(), self.likelihood, Normal(), Normal(), bias=bool(self.bias))
