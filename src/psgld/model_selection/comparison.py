"""`psgld.compare`: which model predicts held-out entries best."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from ..checks import is_integer
from ..data.observations import observations
from ..data.source import Source
from ..data.split import split
from ..errors import DataError, ModelError
from ..models import FactorModel, Likelihood, guess
from ..models import likelihood as as_likelihood
from ..posterior.comparison import Comparison, compare_posteriors
from ..sample import sample

_HELD_OUT = 0.1


def compare(
    models: Any,
    test: Any = None,
    *,
    ranks: Iterable[int] | int | None = None,
    likelihoods: Iterable[Likelihood | str] | None = None,
    model: FactorModel | None = None,
    seed: int = 0,
    **options: Any,
) -> Comparison:
    """Compare models by their log predictive density of entries, with standard errors of the differences.

        elpd = Σ_n log p(v_n | V),   dse² = N Var_n(log p_best(v_n | V) - log p(v_n | V))

    Parameters
    ----------
    models
        Posteriors by name; or data in any form that `sample` takes, to which a model is fitted for each of `ranks`
        and `likelihoods`.
    test
        Held-out entries. By default those that `psgld.split` held out of the data; of other data, a tenth is held out.
        Posteriors of data without held-out entries are compared by leave-one-out densities (PSIS) of the observed
        entries that they keep, or of all, if `test` is the data that they were sampled from.
    ranks
        Numbers of components.
    likelihoods
        Likelihoods, or their names; by default that of `model`, or one chosen from the values. Biases are added to
        models with real-valued factors.
    model
        The model whose rank is varied.
    seed
        Which entries are held out, and the seed of each fit.
    options
        Passed to `sample`.

    Returns
    -------
    Comparison
        `print` shows a table and a recommendation: the simplest model within one standard error of the best.
        `posterior` is the posterior of that model.

    Examples
    --------
    >>> import numpy as np, psgld
    >>> rng = np.random.default_rng(0)
    >>> V = rng.poisson(rng.gamma(2, 1, (60, 2)) @ rng.gamma(2, 1, (2, 40)))
    >>> found = psgld.compare(V, ranks=[1, 2], likelihoods=["poisson"], draws=100, tune=500)
    >>> found.choice
    'rank 2, poisson'
    """
    if isinstance(models, Mapping):
        if ranks is not None or likelihoods is not None or model is not None or options:
            raise ModelError(
                "posteriors are compared as they are; ranks, likelihoods and options are for data"
            )
        return compare_posteriors(models, test)
    if ranks is None and likelihoods is None:
        raise ModelError("give ranks=[…] or likelihoods=[…] to fit to the data, or posteriors by name")
    data, test = held_out(models, test, seed)
    chosen = _models(data, ranks, likelihoods, model)
    fitted = {name: sample(data, each, seed=seed, **options) for name, each in chosen.items()}
    return compare_posteriors(fitted, test)


def held_out(V: Any, test: Any, seed: int) -> tuple[Source, Any]:
    """Return the data to train on, and the entries to test on."""
    data = observations(V)
    if test is not None or data.held_out is not None:
        return data, data.held_out if test is None else test
    return split(data.filled(), _HELD_OUT, seed)


def _models(data: Source, ranks: Any, likelihoods: Any, model: FactorModel | None) -> dict[str, FactorModel]:
    """Return the models of each rank and likelihood by name."""
    if ranks is None and model is None:
        raise ModelError("give ranks, such as ranks=8, for the likelihoods to have")
    numbers = checked_ranks([model.rank] if ranks is None and model is not None else ranks)
    if likelihoods is None:
        base = usual_base(data, model)
        return {f"rank {r}": replace(base, rank=r) for r in numbers}
    if model is not None:
        raise ModelError("likelihoods have priors of their own; give model or likelihoods")
    kinds = [as_likelihood(each) for each in likelihoods]
    return {f"rank {r}, {kind.name}": usual_model(r, kind) for r in numbers for kind in kinds}


def usual_base(data: Source, model: FactorModel | None) -> FactorModel:
    """Return the model whose rank is varied; by default with a likelihood chosen from the values."""
    if model is None:
        return usual_model(1, guess(data.sample_entries(100_000)[2])[0])
    if not isinstance(model, FactorModel):
        raise ModelError(f"model must be FactorModel(rank=…, likelihood=…), got a {type(model).__name__}")
    return model


def usual_model(rank: int, likelihood: Likelihood) -> FactorModel:
    """Return the model with the usual priors; with biases, if factors are real-valued."""
    return FactorModel(rank, likelihood, bias=not likelihood.nonnegative_mean)


def checked_ranks(ranks: Any) -> list[int]:
    """Return the distinct ranks in order; raise DataError unless they are integers >= 1."""
    given = [ranks] if is_integer(ranks) else list(ranks)
    if not given or not all(is_integer(r) and r >= 1 for r in given):
        raise DataError(f"ranks must be integers >= 1, such as [4, 8, 16], got {ranks!r}")
    return sorted({int(r) for r in given})
