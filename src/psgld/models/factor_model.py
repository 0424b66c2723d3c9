"""The factor model: the likelihood of V given W H, and the priors of W and of H."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from psgld.errors import ModelError
from psgld.models.likelihoods.base import Likelihood
from psgld.models.likelihoods.registry import likelihood as as_likelihood
from psgld.models.likelihoods.registry import likelihood_from_dict
from psgld.models.modes import NAMES, Mode
from psgld.models.priors.families import (
    Exponential,
    GammaPrior,
    Normal,
    NormalWishart,
    Prior,
    prior_from_dict,
)

MAX_RANK = 1000


@dataclass(frozen=True, init=False)
class FactorModel:
    """The factor model v_ij ~ p(· | μ_ij), μ_ij = Σ_k w_ik h_kj, with independent priors on w and h.

    With `bias`, μ_ij = Σ_k w_ik h_kj + a_i + c_j. The biases are two more components, W' = [W, a, 1] and
    H' = [H; 1; c], whose ones are constant. The prior mean of c is the global offset, which is learnt.

    Parameters
    ----------
    rank
        The number of components K, 1 to 1000.
    likelihood
        A likelihood, or its name: "poisson", "gaussian", "gamma", "compound-poisson", "inverse-gaussian",
        "negative-binomial", "bernoulli", "ordinal".
    row_prior, col_prior
        The priors of W and of H; by default `Normal()` for `Gaussian()`, `Bernoulli()` and `Ordinal()`, else
        `GammaPrior()` for counts and `Exponential()` for other values ≥ 0. If one is given, the default of the other is
        of the same kind.
    bias
        Whether each row and each column has a bias; only for real-valued factors.

    Examples
    --------
    >>> FactorModel(rank=8, likelihood="poisson").nonnegative
    True
    >>> FactorModel(rank=8, likelihood="gaussian", bias=True).components
    10
    """

    rank: int
    likelihood: Likelihood
    row_prior: Prior
    col_prior: Prior
    bias: bool

    def __init__(
        self,
        rank: int,
        likelihood: Likelihood | str,
        row_prior: Prior | None = None,
        col_prior: Prior | None = None,
        bias: bool = False,
    ) -> None:
        member = as_likelihood(likelihood)
        default = nonnegative_prior(member) if member.nonnegative_mean else Normal()
        # If one prior is given, the other is of the same kind: W ≥ 0 with a real-valued H is not supported.
        row = _like(col_prior, default) if row_prior is None else row_prior
        col = _like(row_prior, default) if col_prior is None else col_prior
        if not isinstance(bias, bool | np.bool_):
            raise ModelError(f"bias must be True or False, got {bias!r}")
        _check_priors(member, row, col, bool(bias))
        rank = _check_rank(rank)
        for names, prior in zip(NAMES, (row, col), strict=True):
            _check_degrees(names.prior, prior, rank + int(bias))
        values = {
            "rank": rank,
            "likelihood": member,
            "row_prior": row,
            "col_prior": col,
            "bias": bool(bias),
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @cached_property
    def modes(self) -> tuple[Mode, ...]:
        """The modes of V, rows and columns, each with its prior and the layout of its stored components."""
        priors = (self.row_prior, self.col_prior)
        biases = len(priors) if self.bias else 0
        return tuple(Mode(axis, self.rank, prior, biases) for axis, prior in enumerate(priors))

    @property
    def nonnegative(self) -> bool:
        """Whether the factors are non-negative."""
        return self.row_prior.nonnegative

    @property
    def needs_log_sums(self) -> bool:
        """Whether a prior depends on Σ log x."""
        return any(mode.prior.needs_log_sum for mode in self.modes)

    @property
    def centred(self) -> bool:
        """Whether the mean is subtracted from the data: v is normal, and there are biases or normal–Wishart priors."""
        wishart = any(isinstance(mode.prior, NormalWishart) for mode in self.modes)
        return self.likelihood.normal and (self.bias or wishart)

    @property
    def components(self) -> int:
        """The number of stored components: the rank, and two more if there are biases."""
        return self.modes[0].components

    def check_values(self, values: ArrayLike) -> None:
        """Raise DataError if the likelihood does not allow some of the observed values."""
        self.likelihood.check(values)

    def with_likelihood(self, likelihood: Likelihood) -> FactorModel:
        """Return a copy of the model with another likelihood."""
        return FactorModel(self.rank, likelihood, self.row_prior, self.col_prior, self.bias)

    def to_dict(self) -> dict[str, object]:
        """Return the model as a dictionary that is serialisable as JSON."""
        return {
            "rank": self.rank,
            "likelihood": self.likelihood.to_dict(),
            "row_prior": self.row_prior.to_dict(),
            "col_prior": self.col_prior.to_dict(),
            "bias": self.bias,
        }

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> FactorModel:
        """Return the model that `to_dict` described."""
        return cls(
            rank=record["rank"],
            likelihood=likelihood_from_dict(record["likelihood"]),
            row_prior=prior_from_dict(record["row_prior"]),
            col_prior=prior_from_dict(record["col_prior"]),
            bias=record["bias"],
        )


def nonnegative_prior(likelihood: Likelihood) -> Prior:
    """Return the default prior of non-negative factors: of learnt shape for counts.

    Held-out densities of words, images and ratings are higher under a learnt shape. Of positive amounts they are not,
    and where values span many powers of ten, shapes near 0 make chains diverge.
    """
    return GammaPrior() if likelihood.counts else Exponential()


def _like(other: Prior | None, default: Prior) -> Prior:
    """Return the default prior of the same kind as the other factor's, if that was given; else `default`."""
    if not isinstance(other, Prior):
        return default
    if isinstance(other, NormalWishart):
        return NormalWishart(other.beta0, other.nu0)
    if isinstance(other, Exponential):
        return Exponential()
    return GammaPrior() if other.nonnegative else Normal()


def _check_rank(rank: object) -> int:
    allowed = f"rank must be an integer from 1 to {MAX_RANK}, got {rank!r}"
    if isinstance(rank, bool | np.bool_):
        raise ModelError(allowed)
    try:
        number = operator.index(rank)  # type: ignore[arg-type]
    except TypeError:
        raise ModelError(allowed) from None
    if not 1 <= number <= MAX_RANK:
        raise ModelError(allowed)
    return number


def _check_priors(likelihood: Likelihood, row: Prior, col: Prior, bias: bool) -> None:
    """Raise ModelError if the likelihood, the priors and the biases are incompatible."""
    for names, prior in zip(NAMES, (row, col), strict=True):
        side = names.prior
        if not isinstance(prior, Prior):
            raise ModelError(
                f"{side} must be Exponential(), GammaPrior(), Normal() or NormalWishart(), got {prior!r}"
            )
        if likelihood.nonnegative_mean and not prior.nonnegative:
            raise ModelError(
                f"{side} = {prior!r} allows negative means, {likelihood!r} needs means >= 0; "
                "use Exponential() or GammaPrior(), or the Gaussian() likelihood"
            )
        if likelihood.signed and prior.nonnegative:
            raise ModelError(
                f"{side} = {prior!r} keeps Σ_k w_ik h_kj >= 0, {likelihood!r} needs both signs; use Normal()"
            )
    if row.nonnegative != col.nonnegative:
        raise ModelError(
            f"row_prior = {row!r} and col_prior = {col!r} mix a non-negative and a real-valued factor, which "
            "have no common metric; use Normal() for both, or a non-negative prior for both"
        )
    if bias and row.nonnegative:
        raise ModelError(
            f"bias = True needs real-valued factors, got {likelihood!r} with row_prior = {row!r}; "
            "use Gaussian() with Normal() priors, or bias=False"
        )


def _check_degrees(side: str, prior: Prior, least: int) -> None:
    """Raise ModelError if a Wishart prior has fewer degrees of freedom than components."""
    if isinstance(prior, NormalWishart) and prior.nu0 is not None and prior.nu0 < least:
        raise ModelError(
            f"{side}: nu0 must be >= {least}, the number of components (biases included), got {prior.nu0:g}; "
            "leave nu0 out to have it chosen"
        )
