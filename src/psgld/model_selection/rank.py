"""`psgld.select_rank`: the smallest rank that predicts held-out entries as well as the best."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..data.source import Source
from ..models import FactorModel
from ..posterior.comparison import Comparison, compare_posteriors
from ..posterior.posterior import Posterior
from ..sample import sample
from .comparison import checked_ranks, held_out, usual_base

_NEW = 0.05
"""Share of the size of μ that new components of a warm start add."""

_MOST_RANK = 256


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
    data, test = held_out(V, test, seed)
    search = _Search(data, test, usual_base(data, model), seed, options)
    if ranks is not None:
        search.climb(checked_ranks(ranks))
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
