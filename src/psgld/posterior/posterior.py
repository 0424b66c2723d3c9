"""The posterior: draws, traces, predictions, a summary; kept in a single file without pickles."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..checks import is_integer
from ..data.labels import LabelArray, find_labels
from ..errors import DataError
from ..models.modes import NAMES
from ..storage import read, save
from .arviz import to_arviz
from .diagnostics import Diagnostics, diagnose
from .evaluate import LEVELS, Evaluation, evaluate
from .fold_in import fold_in, transform
from .held_out import entries
from .in_use import components_in_use
from .predict import Floats, Prediction
from .similar import Similar, similar
from .stack import stack
from .summary import summary
from .unknown import COLD_START, check_fallback, with_unknown
from .views import Views
from .warm_start import update

if TYPE_CHECKING:
    from .query import Query
    from .recommend import Policy
    from .recommendations import Recommendations


@final
@dataclass(frozen=True, eq=False, repr=False)
class Posterior(Views):
    """Draws from the posterior of a factor model.

    Attributes
    ----------
    draws : the draws, dims (chain, draw, …).
    model : the sampled model.
    sample_stats : `lp` (log posterior), `step_size`, `diverging`, `iteration`, `seconds` (wall time of the chain),
        each (chain, draw); on request `log_likelihood` of all entries, and `log_posterior`.
    warmup : the same during the burn-in, (chain, mark).
    settings : how it was sampled, serialisable as JSON.
    row_labels, col_labels : the labels of the data, or None.
    tracked : mean and sd of μ at the pairs given as `track`, or None.
    seen : indices of the observed entries of the data; None if all were observed.
    """

    @property
    def W(self) -> NDArray[Any]:
        """Draws of W, (chain, draw, I, K)."""
        return self.draws.modes[0].factor

    @property
    def H(self) -> NDArray[Any]:
        """Draws of H, (chain, draw, K, J)."""
        return self.draws.modes[1].factor.swapaxes(-1, -2)

    @property
    def components_in_use(self) -> int:
        """How many components the data support: those whose share of W H is the same in most draws.

        If it is less than the rank of the model, a smaller rank predicts as well.
        """
        return components_in_use(self)

    def predict(
        self,
        rows: ArrayLike | None = None,
        cols: ArrayLike | None = None,
        seed: int = 0,
        fallback: str | None = None,
    ) -> Prediction:
        """Return the posterior of μ and of a new observation at the pairs (rows[q], cols[q]).

        Give rows and columns as labels if the data has labels, else as indices. A single row is paired with all
        `cols`, a single column with all `rows`. Without `cols`, all columns of each row, row after row; without
        `rows`, all rows. An unknown label is an error; with `fallback="prior"` its factors are drawn from the prior,
        given the hyperparameters and the other factor: what is known of it before its first entry.

        Examples
        --------
        >>> import numpy as np, psgld
        >>> V = np.random.default_rng(0).poisson(4.0, size=(30, 20))
        >>> post = psgld.sample(V, psgld.FactorModel(2, "poisson"), draws=50)
        >>> low, high = post.predict([0, 1], [3, 4]).interval(0.9)
        >>> bool((low <= high).all())
        True
        >>> len(post.predict([0, 1]))
        40
        """
        check_fallback(fallback)
        p, places = self, []
        for axis, wanted in enumerate((rows, cols)):
            if wanted is None:
                at = np.arange(self.shape[axis])
            elif fallback is None:
                at = find_labels(p.labels[axis], wanted, p.shape[axis], NAMES[axis].dim, COLD_START)
            else:
                p, at = with_unknown(p, axis, wanted, seed)
            places.append(at)
        i, j = places
        if rows is None or cols is None:
            i, j = np.repeat(i, len(j)), np.tile(j, len(i))
        elif len(i) != len(j):
            if 1 not in (len(i), len(j)):
                raise DataError(
                    f"as many rows as columns are needed, or one of either; got {len(i)} and {len(j)}"
                )
            i, j = (np.ascontiguousarray(a) for a in np.broadcast_arrays(i, j))
        return Prediction(p.draws, p.model.likelihood, i, j, seed, p.labels)

    def predict_chunks(self, pairs: int = 1_000_000, seed: int = 0) -> Iterator[Prediction]:
        """Yield predictions of the whole matrix, some rows with all their columns at a time: about `pairs` pairs.

        The results do not depend on `pairs`.
        """
        if not is_integer(pairs) or pairs < 1:
            raise DataError(f"pairs must be an integer >= 1, got {pairs!r}")
        step, (rows, cols) = max(1, int(pairs) // self.shape[1]), self.shape
        labels = self.row_labels, self.col_labels
        for first in range(0, rows, step):
            i = np.arange(first, min(first + step, rows))
            at = np.repeat(i, cols), np.tile(np.arange(cols), len(i))
            yield Prediction(self.draws, self.model.likelihood, *at, seed, labels)

    def log_predictive_density(self, test: Any) -> Floats:
        """Return log E[p(v | μ, φ)] of each entry of `test`: a tuple (rows, cols, values), or any data of `sample`.

        If absent entries of the data are zeros, of all cells, row by row. The higher the mean over held-out entries,
        the better the model.
        """
        cells = entries(self, test)
        return Prediction(self.draws, self.model.likelihood, cells.rows, cells.cols).log_density(cells.values)

    def evaluate(
        self,
        test: Any = None,
        levels: Any = LEVELS,
        k: int | None = None,
        relevant: float | None = None,
    ) -> Evaluation:
        """Return RMSE, MAE, log density, CRPS, coverage and calibration over entries, with standard errors.

        Parameters
        ----------
        test
            Entries as in `log_predictive_density`; by default those that `psgld.split` held out of the data. With
            weights, all means are weighted.
        levels
            Levels of the intervals whose coverage is measured.
        k
            Also rank the columns of each row, and return NDCG, recall and hit rate of the first k.
        relevant
            For these: the least value of an entry that should be found; by default all entries.

        Returns
        -------
        Evaluation
            `print` shows a table, `to_dict()` returns numbers.

        Examples
        --------
        >>> import numpy as np, psgld
        >>> V = np.random.default_rng(0).poisson(4.0, size=(30, 20))
        >>> train, test = psgld.split(V, 0.2)
        >>> post = psgld.sample(train, psgld.FactorModel(2, "poisson"), draws=50)
        >>> found = post.evaluate(test)
        >>> found.entries, 1.5 < found.rmse.value < 3.0
        (120, True)
        """
        return evaluate(self, test, levels, k, relevant)

    def stack(self, test: Any, seed: int = 0) -> Posterior:
        """Return a posterior in which chains that have not mixed are weighed by how well they predict `test`.

        Stacking (Yao, Vehtari, Gelman 2022) maximises the mean log density of `test` under the mixture of chains.
        Weights have no such meaning as the mass of a mode: they are the best for predictions.

        Parameters
        ----------
        test
            Entries as in `log_predictive_density`. Held-out entries are best. An entry of the data that was sampled
            is scored by its leave-one-out density (PSIS). Of more than 50,000 entries a random sample is used.
        seed
            For that sample.

        Returns
        -------
        Posterior
            One chain: all draws of the heaviest chain and, in proportion to their weights, of the others. Predictions,
            recommendations and files made from it have the weights in them. `settings["stacking"]` has the weights.

        Examples
        --------
        >>> import numpy as np, psgld
        >>> V = np.random.default_rng(0).poisson(4.0, size=(30, 20)).astype(float)
        >>> held_out = [0, 1, 2], [5, 6, 7], V[[0, 1, 2], [5, 6, 7]]
        >>> V[held_out[:2]] = np.nan
        >>> post = psgld.sample(V, psgld.FactorModel(2, "poisson"), draws=50, chains=2)
        >>> stacked = post.stack(held_out)
        >>> round(sum(stacked.settings["stacking"]["weights"]), 6)
        1.0
        """
        return stack(self, test, seed)

    def recommend(
        self,
        rows: ArrayLike | None = None,
        n: int = 10,
        policy: Policy | str = "mean",
        exclude_seen: Any = True,
        filter: ArrayLike | Callable[[LabelArray], Any] | None = None,
        seed: int = 0,
    ) -> Recommendations:
        """Return the n best columns of each row, with score, mean and sd.

        Parameters
        ----------
        rows
            Labels of rows (or indices, if the data has no labels); all by default.
        policy
            `Mean()`, `UCB(width)`, `Thompson()`, `Probability(threshold)`, or the names "mean", "ucb",
            "thompson". All of them look at μ, not at the noise around it.
        exclude_seen
            Whether to exclude the entries of the data; or other entries to exclude, in any form that `sample` takes.
        filter
            The columns that may be recommended: their labels, one boolean per column, or a function from the labels
            of all columns to booleans.
        seed
            For "thompson": the draw used for a row is a function of the seed and the row.

        Examples
        --------
        >>> import psgld
        >>> from psgld.datasets import ratings
        >>> data = ratings(users=60, items=40, entries=900)
        >>> post = psgld.sample(data.V, psgld.FactorModel(2, "gaussian", bias=True), draws=50)
        >>> post.recommend(["user-1", "user-2"], n=3, policy="ucb").cols.shape
        (2, 3)
        """
        from .recommend import recommend  # here, so that `import psgld` is quick

        return recommend(self, rows, n, policy, exclude_seen, filter, seed)

    def query(
        self,
        n: int = 10,
        candidates: tuple[ArrayLike, ArrayLike] | None = None,
        by: str = "prediction",
        seed: int = 0,
    ) -> Query:
        """Return the n unobserved entries whose values would teach most, for active learning.

        Parameters
        ----------
        candidates
            Pairs (rows, cols) to choose from, as labels if the data has them; by default all entries that were not
            observed, or a random sample of 200,000 cells.
        by
            "prediction": the expected reduction of the variance of the predictions of all candidates; "information":
            ½ log(1 + Var[μ] / noise), the expected information gain about the entry itself; "variance": Var[μ]. Each is
            that given the entries chosen before.
        seed
            For that sample.

        Examples
        --------
        >>> import psgld
        >>> from psgld.datasets import synthetic
        >>> truth = synthetic(30, 20, 2, "gaussian", observed=0.3)
        >>> post = psgld.sample(truth.V, psgld.FactorModel(2, "gaussian"), draws=50)
        >>> len(post.query(5))
        5
        """
        from .query import query  # here, so that `import psgld` is quick

        return query(self, n, candidates, by, seed)

    def similar_rows(self, label: Any, n: int = 10) -> Similar:
        """Return the rows most similar to one: the mean over draws of the cosine between rows of W H."""
        return similar(self, label, n, "rows")

    def similar_cols(self, label: Any, n: int = 10) -> Similar:
        """Return the columns most similar to one: the mean over draws of the cosine between columns of W H."""
        return similar(self, label, n, "cols")

    def fold_in(self, V: Any, side: str = "rows", seed: int = 0, sweeps: int = 20) -> Posterior:
        """Return the posterior of rows (or columns) that were not in the data, w_s ~ p(w | v, H_s) for each draw s.

        Parameters
        ----------
        V
            The entries of the new rows, in any form that `sample` takes. Columns are matched by label, or must be
            as many as before. Absent entries have the same meaning as before, unless `V` says otherwise.
        side
            "rows" or "cols": whether `V` has new rows or new columns.
        sweeps
            Sweeps of slice sampling over the components, for non-negative factors. (Gaussian rows with real-valued
            factors are drawn exactly.)

        Returns
        -------
        Posterior
            A posterior of the new rows (or columns) only; `predict` and `recommend` work on it.
        """
        return fold_in(self, V, side, seed, sweeps)

    def transform(self, V: Any, side: str = "rows") -> NDArray[Any]:
        """Return a vector of K numbers per new row (or column): the deterministic form of `fold_in`.

        The factors of different chains, or of distant draws, cannot be averaged: their components may be permuted.
        So one draw of the other factor is taken, the last of the chain whose `lp` is largest on average; given that
        one, the posterior mean of a Gaussian row, or the mode of another one.
        """
        return transform(self, V, side)

    def update(
        self, V: Any, draws: int | None = None, tune: int | None = None, seed: int = 1, **more: Any
    ) -> Posterior:
        """Return a new posterior for data that has grown, with a warm start from the last draw of each chain.

        `V` is the complete matrix, old and new entries. Rows and columns are matched by label (without labels, new
        ones come last); new ones are folded in first. `tune` is short by default, 50 passes over the data. `more` is
        passed to `sample`. The sampler is that of this posterior, unless another is given. (A sampler with a
        step-size function or with `Assigned` strips must be given again.) Use a seed other than that of this
        posterior. Absent entries of sparse data have the same meaning as before.
        """
        return update(self, V, draws, tune, seed, more)  # type: ignore[no-any-return]

    def diagnose(self) -> Diagnostics:
        """Return R-hat and effective sample sizes of `lp` and of μ at 50 cells, with a verdict."""
        return diagnose(self)

    def to_arviz(self) -> Any:
        """Return what the installed ArviZ takes: `InferenceData` for 0.2x, else an `xarray.DataTree` (arviz-base).

        Groups: posterior, sample_stats, and, at a random sample of at most 1,000 observed entries, observed_data,
        posterior_predictive and log_likelihood, for `az.loo`.
        """
        return to_arviz(self)

    def summary(self) -> str:
        """Return model, settings, estimates and convergence of the run, as text."""
        return summary(self)

    def save(self, path: str | PathLike[str]) -> None:
        """Write everything to one file (`.npz`) or to a Zarr store (`.zarr`); `psgld.load` reads it. No pickles."""
        if rank := self.settings.get("mpi_rank"):
            raise DataError(
                f"rank {rank} has no draws of W and H to save; rank 0 has: if psgld.MPI().rank == 0: post.save(…)"
            )
        save(self, path)

    def __repr__(self) -> str:
        kept = self.draws.phi.shape[1]
        rows, cols = self.shape
        model = f"rank {self.model.rank}, {self.model.likelihood.name}"
        return f"Posterior({self.chains} chains × {kept} draws, {rows} × {cols}, {model})"


def load(path: str | PathLike[str]) -> Posterior:
    """Read a posterior that `Posterior.save` or a run with `store=` wrote, into memory.

    For a run that is not complete, or was killed, it returns the draws up to the last checkpoint, marked as
    interrupted.
    """
    return Posterior(**vars(read(path)))
