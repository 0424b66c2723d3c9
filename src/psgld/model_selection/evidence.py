"""`psgld.marginal_likelihood`: log p(V) by thermodynamic integration.

    log p(V) = ∫_0^1 E_t[log p(V | W, H)] dt,   E_t under p_t(W, H) ∝ p(V | W, H)^t p(W, H)

An entry of weight t counts t times in the likelihood, so p_t is the posterior of weighted data. The temperatures are
1, 1/2, 1/4, …; each run starts at the last draws of the one before. With u = log t the integrand is t E_t, whose
derivative is t E_t + t² Var_t; the trapezoidal rule is corrected by it (Friel, Hurn, Wyse 2014).
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from ..data.observations import Observations, observations
from ..errors import DataError, ModelError, PsgldWarning, warn
from ..models import FactorModel
from ..posterior.log_likelihood import log_likelihood
from ..posterior.mixing import ess_mean, rhat
from ..posterior.posterior import Posterior
from ..sample import sample
from ..system.table import table

_RATIO = 0.5
_LEAST = 1e-9
_NEGLIGIBLE = 0.5
"""Standard deviation of t log p(V | W, H) below which p_t is so near the prior that two moments of it suffice."""

_MIXED = 1.2
"""R-hat of log p(V | W, H) up to which the estimate is said without a warning."""

Floats = NDArray[np.float64]


@final
@dataclass(frozen=True, eq=False)
class MarginalLikelihood:
    """A marginal likelihood, and the path it was integrated along; `print` shows it.

    Attributes
    ----------
    value, se : log p(V), and its Monte Carlo standard error (not the bias of step sizes).
    temperatures : the powers t of the likelihood, from 1 down.
    mean, sd : mean and standard deviation of log p(V | W, H) under each p_t.
    ess, rhat : effective sample size and R-hat of it.
    posterior : the posterior, t = 1.
    """

    value: float
    se: float
    temperatures: Floats
    mean: Floats
    sd: Floats
    ess: Floats
    rhat: Floats
    posterior: Posterior

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers, serialisable as JSON."""
        path = {name: getattr(self, name).tolist() for name in ("temperatures", "mean", "sd", "ess", "rhat")}
        return {"value": self.value, "se": self.se, **path}

    def __str__(self) -> str:
        columns = {
            name: getattr(self, name).tolist() for name in ("temperatures", "mean", "sd", "ess", "rhat")
        }
        return f"log p(V) = {self.value:.1f} ± {self.se:.1g}\n{table(columns)}"

    __repr__ = __str__


def marginal_likelihood(V: Any, model: FactorModel, *, seed: int = 0, **options: Any) -> MarginalLikelihood:
    """Return log p(V) by thermodynamic integration over powers of the likelihood.

    Its differences between models are log Bayes factors: a second opinion beside held-out densities. It depends on the
    priors, also where predictions do not, so they are best given. Parameters of the likelihood that are learnt, such as
    φ, are fixed at their posterior means. It takes as many runs as there are temperatures, some 15.

    Parameters
    ----------
    V
        Data in any form that `sample` takes, without weights.
    model
        A model without biases: the offset has no proper prior, so that p(V) is not defined.
    seed
        The seed of the first run; the others have the next ones.
    options
        Passed to `sample`.

    Examples
    --------
    >>> import numpy as np, psgld
    >>> rng = np.random.default_rng(0)
    >>> V = rng.poisson(rng.gamma(2, 1, (30, 2)) @ rng.gamma(2, 1, (2, 20)))
    >>> priors = psgld.Exponential(1.0), psgld.Exponential(1.0)
    >>> models = [psgld.FactorModel(rank, "poisson", *priors) for rank in (1, 2)]
    >>> one, two = (psgld.marginal_likelihood(V, m, draws=100, tune=500, thin=10) for m in models)
    >>> bool(two.value > one.value)
    True

    References
    ----------
    Friel, Hurn, Wyse. Improving power posterior estimation of statistical evidence. 2014.
    """
    data = _checked(V, model)
    posterior = sample(data, model, seed=seed, **options)
    fixed = _with_fixed_parameters(posterior)
    path = _Path()
    t, now = 1.0, posterior
    if fixed != model:
        now = _tempered(data, fixed, posterior, t, seed + 1, options)
    path.add(t, log_likelihood(now, data))
    while t * path.sd[-1] > _NEGLIGIBLE and t > _LEAST:
        t *= _RATIO
        now = _tempered(data, fixed, now, t, seed + 1 + len(path.mean), options)
        path.add(t, log_likelihood(now, data))
    if max(path.rhat) > _MIXED:
        warn(
            f"R-hat of log p(V | W, H) is up to {max(path.rhat):.2f} along the temperatures, so that the marginal "
            "likelihood is uncertain by more than its standard error; use more tune and draws"
        )
    return path.result(posterior)


def _checked(V: Any, model: Any) -> Observations:
    """Return the data in memory; raise an error if p(V) is not defined, or not of these data."""
    if not isinstance(model, FactorModel):
        raise ModelError(f"model must be FactorModel(rank=…, likelihood=…), got a {type(model).__name__}")
    if model.bias:
        raise ModelError(
            "bias = True has an offset without a proper prior, so that p(V) is not defined; use bias=False"
        )
    data = observations(V).load()
    assert isinstance(data, Observations)
    if data.entry_weights is not None:
        raise DataError("V has weights, under which p(V) is no density of the values; leave them out")
    return data


def _with_fixed_parameters(posterior: Posterior) -> FactorModel:
    """Return the model with the parameters of its likelihood fixed at their posterior means."""
    likelihood = posterior.model.likelihood
    if not likelihood.learnt:
        return posterior.model
    means = {name: float(draws.mean()) for name, draws in posterior.parameters.items()}
    return posterior.model.with_likelihood(likelihood.fixed(tuple(means[n] for n in likelihood.parameters)))


def _tempered(
    data: Observations, model: FactorModel, before: Posterior, t: float, seed: int, options: dict[str, Any]
) -> Posterior:
    """Sample p_t, from the last draws of the run before."""
    more = {
        name: value for name, value in options.items() if name not in ("start", "starts", "store", "resume")
    }
    more |= {
        "progress": False,
        "start": replace(before, model=model),
        "tune": max(1, before.settings["tune"] // 2),
    }
    if t == 1.0:
        more["tune"] = before.settings["tune"]
    with warnings.catch_warnings():  # a prior need not agree with the data
        warnings.simplefilter("ignore", PsgldWarning)
        return sample(_weighted(data, t), model, seed=seed, **more)


def _weighted(data: Observations, t: float) -> Observations:
    if t == 1.0:
        return data
    like = data.values if data.csr is not None else data.dense
    assert like is not None
    weights = np.full(like.shape, t, like.dtype)
    return observations(data, weights=weights, zero_weight=t if data.absent == "zero" else 1.0)  # type: ignore[return-value]


class _Path:
    """Moments of the log likelihood at each temperature."""

    def __init__(self) -> None:
        self.t: list[float] = []
        self.mean: list[float] = []
        self.sd: list[float] = []
        self.ess: list[float] = []
        self.rhat: list[float] = []

    def add(self, t: float, logs: Floats) -> None:
        """Add a temperature, from log p(V | W, H) of each draw, (chain, draw)."""
        self.t.append(t)
        self.mean.append(float(logs.mean()))
        self.sd.append(float(logs.std(ddof=1)))
        self.ess.append(float(ess_mean(logs)))
        self.rhat.append(float(rhat(logs)))

    def result(self, posterior: Posterior) -> MarginalLikelihood:
        """Integrate over log t between the temperatures, and over t below the last one."""
        t, mean, sd, ess = map(np.array, (self.t, self.mean, self.sd, self.ess))
        h = -math.log(_RATIO)
        inner = np.full(len(t), h)  # the weight of t E_t
        inner[[0, -1]] *= 0.5
        ends = np.zeros(len(t))  # that of its derivative, t E_t + t² Var_t: it cancels at shared ends
        ends[0], ends[-1] = -h * h / 12.0, h * h / 12.0
        if len(t) == 1:
            inner[:], ends[:] = 0.0, 0.0
        of_mean, of_variance = t * (inner + ends), t**2 * ends
        of_mean[-1] += t[-1]
        of_variance[-1] -= 0.5 * t[-1] ** 2
        value = float(of_mean @ mean + of_variance @ sd**2)
        errors = (of_mean * sd) ** 2 / ess + (of_variance * sd**2) ** 2 * 2.0 / ess
        return MarginalLikelihood(
            value, float(np.sqrt(errors.sum())), t, mean, sd, ess, np.array(self.rhat), posterior
        )
