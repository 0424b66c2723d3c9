"""`psgld.compare` and `psgld.select_rank`: which model predicts held-out entries best."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .checks import is_integer
from .data.observations import observations
from .data.source import Source
from .data.split import split
from .errors import DataError, ModelError
from .models import FactorModel, Likelihood, guess
from .models import likelihood as as_likelihood
from .posterior.comparison import Comparison, compare_posteriors
from .posterior.posterior import Posterior
from .sample import sample

_HELD_OUT = 0.1

_NEW = 0.05
"""Share of the size of μ that new components of a warm start add."""

_MOST_RANK = 256


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
    data, test = _held_out(models, test, seed)
    chosen = _models(data, ranks, likelihoods, model)
    fitted = {name: sample(data, each, seed=seed, **options) for name, each in chosen.items()}
    return compare_posteriors(fitted, test)


def select_rank(
    V: Any,
    ranks: Iterable[int] | None = None,
    test: Any = None,
    *,
    model: FactorModel | None = None,
    seed: int = 0,
    **options: Any,
) -> Comparison:
    """Find the smallest rank whose predictive density is within one standard error of the best.

    The rank is doubled until the density of held-out entries no longer improves by more than one standard error of
    the difference, and then bisected. The chains of a rank start at the last draw of the rank below it, with small new
    components, and have half the burn-in.

    Parameters
    ----------
    V
        Data in any form that `sample` takes.
    ranks
        Ranks to try, in this order of size, instead; the search stops where the density no longer improves.
    test
        Held-out entries; by default as in `compare`.
    model
        The model whose rank is varied; by default the likelihood is chosen from the values.
    seed
        Which entries are held out, and the seed of each fit.
    options
        Passed to `sample`.

    Returns
    -------
    Comparison
        Of the ranks that were tried; `posterior` is that of the chosen rank, `posterior.model.rank` the rank.

    Examples
    --------
    >>> import numpy as np, psgld
    >>> rng = np.random.default_rng(0)
    >>> V = rng.poisson(rng.gamma(2, 1, (60, 2)) @ rng.gamma(2, 1, (2, 40)))
    >>> found = psgld.select_rank(V, model=psgld.FactorModel(1, "poisson"), draws=100, tune=500)
    >>> found.posterior.model.rank
    2
    """
    data, test = _held_out(V, test, seed)
    search = _Search(data, test, _base(data, model), seed, options)
    if ranks is not None:
        search.climb(_checked_ranks(ranks))
        return search.result()
    most = min(_MOST_RANK, *data.shape)
    search.climb([r for r in (2**n for n in range(9)) if r < most] + [most])
    search.bisect()
    return search.result()


class _Search:
    """Fits of increasing rank, each started at the one below."""

    def __init__(
        self, data: Source, test: Any, model: FactorModel, seed: int, options: dict[str, Any]
    ) -> None:
        self.data, self.test, self.model, self.seed, self.options = data, test, model, seed, options
        self.fitted: dict[int, Posterior] = {}

    def climb(self, ranks: list[int]) -> None:
        """Try ranks until the density does not improve by a standard error."""
        for before, rank in zip([None, *ranks], ranks, strict=False):
            self.fit(rank)
            if before is not None and not self.improves(before, rank):
                return

    def bisect(self) -> None:
        """Find the smallest rank that is as good as the best one."""
        while True:
            chosen = self.result().posterior.model.rank
            low = max((r for r in self.fitted if r < chosen), default=0)
            if chosen - low < 2:
                return
            self.fit((low + chosen) // 2)

    def fit(self, rank: int) -> None:
        """Sample the posterior of a rank, from that of the largest rank below it."""
        model, options = replace(self.model, rank=rank), dict(self.options)
        below = max((r for r in self.fitted if r < rank), default=None)
        if below is not None and "start" not in options:
            before = self.fitted[below]
            options["start"] = grown(before, rank, self.seed)
            if options.get("tune") is None:
                options["tune"] = (
                    before.settings["tune"] if len(self.fitted) > 1 else before.settings["tune"] // 2
                )
        self.fitted[rank] = sample(self.data, model, seed=self.seed, **options)

    def improves(self, before: int, rank: int) -> bool:
        """Return whether the density of a rank is higher by more than a standard error."""
        return self.result([before, rank]).choice == f"rank {rank}"

    def result(self, ranks: list[int] | None = None) -> Comparison:
        """Return the comparison of some ranks, or of all."""
        ranks = sorted(self.fitted) if ranks is None else ranks
        return compare_posteriors({f"rank {r}": self.fitted[r] for r in ranks}, self.test)


def grown(posterior: Posterior, rank: int, seed: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the last draw of W and H with small new components, (I, rank) and (rank, J)."""
    rng = np.random.default_rng([seed, rank])
    W, H = posterior.W[0, -1], posterior.H[0, -1]
    new = rank - W.shape[1]
    size = np.sqrt(_NEW * np.sqrt(np.mean((W @ H) ** 2) / new))
    shapes = (len(W), new), (new, H.shape[1])
    if posterior.model.nonnegative:
        w, h = (size * rng.exponential(size=shape) for shape in shapes)
    else:
        w, h = (size * rng.normal(size=shape) for shape in shapes)
    return np.hstack([W, w]).astype(W.dtype), np.vstack([H, h]).astype(H.dtype)


def _held_out(V: Any, test: Any, seed: int) -> tuple[Source, Any]:
    """Return the data to train on, and the entries to test on."""
    data = observations(V)
    if test is not None or data.held_out is not None:
        return data, data.held_out if test is None else test
    return split(data.filled(), _HELD_OUT, seed)


def _models(data: Source, ranks: Any, likelihoods: Any, model: FactorModel | None) -> dict[str, FactorModel]:
    """Return the models of each rank and likelihood by name."""
    if ranks is None and model is None:
        raise ModelError("give ranks, such as ranks=8, for the likelihoods to have")
    numbers = _checked_ranks([model.rank] if ranks is None and model is not None else ranks)
    if likelihoods is None:
        base = _base(data, model)
        return {f"rank {r}": replace(base, rank=r) for r in numbers}
    if model is not None:
        raise ModelError("likelihoods have priors of their own; give model or likelihoods")
    kinds = [as_likelihood(each) for each in likelihoods]
    return {f"rank {r}, {kind.name}": usual_model(r, kind) for r in numbers for kind in kinds}


def _base(data: Source, model: FactorModel | None) -> FactorModel:
    if model is None:
        return usual_model(1, guess(data.sample_entries(100_000)[2])[0])
    if not isinstance(model, FactorModel):
        raise ModelError(f"model must be FactorModel(rank=…, likelihood=…), got a {type(model).__name__}")
    return model


def usual_model(rank: int, likelihood: Likelihood) -> FactorModel:
    """Return the model with the usual priors; with biases, if factors are real-valued."""
    return FactorModel(rank, likelihood, bias=not likelihood.nonnegative_mean)


def _checked_ranks(ranks: Any) -> list[int]:
    given = [ranks] if is_integer(ranks) else list(ranks)
    if not given or not all(is_integer(r) and r >= 1 for r in given):
        raise DataError(f"ranks must be integers >= 1, such as [4, 8, 16], got {ranks!r}")
    return sorted({int(r) for r in given})
