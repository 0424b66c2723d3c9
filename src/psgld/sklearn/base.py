"""scikit-learn estimators: X ≈ W H with `fit`, `transform` and `score`, on top of `psgld.sample`.

    transform(X)   w_i given x_i and one draw of H: the mode (non-negative factors) or the mean (real ones)
    predict_pairs  E[x_ij] and the sd of a new x at pairs (i, j) of the training data
    score(X)       mean log E[p(x_ij | the other half of x_i)] over the observed entries

There is no mathematics here: the posterior is that of `sample`, new rows are those of `fold_in`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from numbers import Integral
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse, vstack
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_array, check_random_state
from sklearn.utils.validation import check_is_fitted, check_non_negative, validate_data

from ..checks import is_integer
from ..data.labels import missing_as_nan
from ..data.observations import ABSENT, Observations
from ..engines import Threads
from ..errors import DataError, ModelError
from ..models import FactorModel
from ..posterior.fold_in import draw, point, reference
from ..posterior.new_rows import Entries, Other
from ..posterior.posterior import Posterior
from ..posterior.predict import Floats, Prediction
from ..runs.draws import Draws
from ..sample import sample
from ..system.limits import available_cores
from .names import distinct, is_long_table, listed, row_names, together

_CELLS = 4_000_000
"""Cells of X that are worked on at a time."""

_SCORED = 100
"""Draws, evenly spread, that `score` folds new rows into."""

_SWEEPS = 20


class Factorisation(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """What the two estimators share; they differ in the model."""

    n_components: int
    draws: int | None
    tune: int | None
    thin: int | None
    chains: int
    absent: str
    n_jobs: int | None
    random_state: Any
    verbose: bool

    posterior_: Posterior
    components_: Floats
    n_features_in_: int

    def _model(self) -> FactorModel:
        """Return the model that the parameters describe."""
        raise NotImplementedError

    def fit(self, X: Any, y: Any = None, start: Any = None) -> Self:
        """Sample the posterior of W and H given X, (rows, features), NaN = unobserved; y is ignored.

        `start` is a warm start, as in `psgld.sample`: an `Estimate`, a `Posterior` or a pair (W, H).
        """
        names = row_names(X)
        X = self._checked(X, reset=True)
        data = self._observations(X, names)
        posterior = sample(data, self._model(), seed=self._seed(0), start=start, **self._settings())
        self._finish(posterior, X, 0)
        return self

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Continue with more rows: a warm start from the last draws, with the new rows folded in.

        The result is the posterior of all rows so far. They are stored with the estimator (`fit` does not copy them).
        The burn-in is short, 50 passes over the data, unless `tune` is given. On an unfitted estimator, this is `fit`.
        """
        if not hasattr(self, "posterior_"):
            return self.fit(X)
        names = row_names(X)
        X = self._checked(X, reset=False)
        if self._model() != self.posterior_.model:
            raise ModelError(
                f"partial_fit continues with {self.posterior_.model!r}; call fit to change the model"
            )
        sparse = issparse(X)
        if sparse != issparse(self._rows):
            new, old = ("sparse", "dense") if sparse else ("dense", "sparse")
            raise DataError(f"partial_fit got {new} rows after {old} ones; give the same kind")
        rows = vstack([self._rows, X], format="csr") if sparse else np.concatenate([self._rows, X])
        seed = self._seed(self._updates + 1)
        settings = self._settings()
        names = together(self.posterior_.row_labels, names)
        # Rows are matched by name, or by their order if some have no name of their own.
        before = self.posterior_ if names is not None else replace(self.posterior_, row_labels=None)
        posterior = before.update(self._observations(rows, names), seed=seed, **settings)  # type: ignore[arg-type]
        self._finish(posterior, rows, self._updates + 1)
        return self

    def predict_pairs(self, rows: Any, cols: Any, return_std: bool = False) -> Any:
        """Return E[x_ij] at pairs of rows and features of the training data, and with `return_std` the sd of a new x.

        Rows and features are those of `fit`: names if X was a data frame with names, else indices.
        `posterior_.predict(rows, cols)` has draws and intervals, too.
        """
        check_is_fitted(self)
        p = self.posterior_.predict(rows, cols)
        return (p.mean, p.new_sd) if return_std else p.mean

    def transform(self, X: Any) -> Floats:
        """Return one vector per row of X, given its entries and the reference draw of H; deterministic.

        The factors of different chains, or of distant draws, cannot be averaged: their components may be permuted.
        So one draw of H is used, `components_`: the last draw of the chain with the largest mean log posterior.
        """
        check_is_fitted(self)
        X = self._checked(X, reset=False)
        other = reference(self.posterior_)
        other = replace(other, H=other.H.astype(np.float64))
        parts = [point(other, self._entries(some)) for some in _chunks(X)]
        W = np.concatenate([w for w, _ in parts])
        biases = [b[:, None] for _, b in parts if b is not None]
        return np.hstack([W, np.concatenate(biases)]) if biases else W

    def inverse_transform(self, X: Any) -> Floats:
        """Return X `components_`: the means μ of rows returned by `transform`, (rows, features)."""
        check_is_fitted(self)
        W = check_array(X, dtype=np.float64, input_name="X")
        if W.shape[1] != self._n_features_out:
            raise DataError(
                f"X has {W.shape[1]} columns, transform gives {self._n_features_out}; give as many"
            )
        other = reference(self.posterior_)
        mu = W @ self.components_
        mu = mu if other.bias is None else mu + other.bias[0]
        return self.posterior_.model.likelihood.response(mu, *other.theta)

    def score(self, X: Any, y: Any = None) -> float:
        """Return the mean log predictive density of the observed entries of X, each given the other half of its row.

            score = mean_ij log E[p(x_ij | w, H)],   w ~ p(w | x_i without the half that j is in, H)

        The features are split into two fixed halves. No entry is predicted from itself, so too many components do not
        improve the score: `GridSearchCV` can choose `n_components`. At most 100 evenly spaced draws are used.
        """
        check_is_fitted(self)
        X = self._checked(X, reset=False)
        draws = _some(self.posterior_.draws, _SCORED)
        total, count = 0.0, 0
        for some in _chunks(X):
            for logs in self._held_out(draws, self._entries(some)):
                total, count = total + float(logs.sum()), count + len(logs)
        if count == 0:
            raise DataError(
                f"X has no observed entry among its {X.shape[0]} × {X.shape[1]}; there is nothing to score"
            )
        return total / count

    def _held_out(self, draws: Draws, entries: Entries) -> Iterator[Floats]:
        """Yield the log predictive densities of each half of the columns, given the other half."""
        features = self.n_features_in_
        cells = entries.filled(features) if entries.zeros else entries
        i = np.repeat(np.arange(cells.rows), np.diff(cells.start))
        second = np.random.default_rng(0).permutation(features) % 2 == 1
        other = Other.of(draws, self.posterior_.model, 0)
        for given in (second, ~second):
            W, bias = draw(*_within(other, entries, given), 0, _SWEEPS)
            shape = (*draws.phi.shape, cells.rows)
            bias = None if bias is None else bias.reshape(shape)
            new = draws.with_mode(0, factor=W.reshape(*shape, -1), bias=bias)
            at = ~given[cells.index]
            likelihood = self.posterior_.model.likelihood
            yield Prediction(new, likelihood, i[at], cells.index[at]).log_density(cells.value[at])

    def _finish(self, posterior: Posterior, rows: Any, updates: int) -> None:
        """Keep the posterior, and what `transform` and `partial_fit` need."""
        other = reference(posterior)
        H = other.H[0].T.astype(np.float64)
        self.posterior_ = posterior
        self.components_ = H if other.bias is None else np.vstack([H, np.ones((1, H.shape[1]))])
        self._n_features_out = len(self.components_)
        self._rows, self._updates = rows, updates

    def _checked(self, X: Any, reset: bool) -> Any:
        """Return X as an array or compressed rows, of real numbers that the model allows."""
        if self.absent not in ABSENT:
            raise DataError(f"absent must be 'unobserved' or 'zero', got {self.absent!r}")
        if is_long_table(X):
            raise DataError(
                f"X must be a matrix, (rows, features), got a table of entries with columns {listed(list(X.columns))}; "
                "use psgld.sample, or pivot it: X.pivot(index=…, columns=…, values=…)"
            )
        self._check_column_numbers(X, reset)
        X = validate_data(
            self,
            missing_as_nan(X),
            reset=reset,
            accept_sparse="csr",
            dtype=[np.float64, np.float32],
            ensure_all_finite="allow-nan",
        )
        model = self._model()
        if model.nonnegative and X.shape[0]:
            check_non_negative(X, f"{type(self).__name__}: the model is of values >= 0")
        sparse = issparse(X)
        if sparse and np.isnan(X.data).any():
            X = self._without_nan(X)
        values = X.data if sparse else X[~np.isnan(X)]
        model.check_values(values)
        return X

    def _check_column_numbers(self, X: Any, reset: bool) -> None:
        """Refuse a frame whose columns have other numbers than those of `fit`; scikit-learn compares only names."""
        columns = getattr(X, "columns", None)
        numbers = None if columns is None else distinct(columns)
        if reset:
            numbered = numbers is not None and numbers.dtype.kind == "i"
            self._column_numbers = numbers.tolist() if numbered and numbers is not None else None
        elif columns is not None and self._column_numbers not in (None, list(columns)):
            raise DataError(
                f"the columns of X are {listed(list(columns))}, those of fit were "
                f"{listed(self._column_numbers or [])}; give the same in the same order, or an array"
            )

    def _without_nan(self, X: Any) -> Any:
        """Return sparse rows without the entries that are NaN, if what is absent was not observed either."""
        if self.absent == "zero":
            raise DataError(
                "NaN among sparse data whose absent entries are zeros; use absent='unobserved', or a dense array"
            )
        coo = X.tocoo()
        seen = ~np.isnan(coo.data)
        return csr_array((coo.data[seen], (coo.row[seen], coo.col[seen])), shape=X.shape)

    def _observations(self, X: Any, row_names: NDArray[Any] | None) -> Observations:
        """Return the data, with the names of a data frame, if X was one."""
        columns = getattr(self, "feature_names_in_", None)
        names = (row_names, None if columns is None else distinct(columns))
        sparse = issparse(X)
        if sparse:
            coo = X.tocoo()
            return Observations.from_coo(coo.row, coo.col, coo.data, X.shape, self.absent, "sum", *names)
        return Observations.from_dense(X, *names)

    def _entries(self, X: Any) -> Entries:
        """Return the entries of new rows; rows without any are allowed."""
        sparse = issparse(X)
        if sparse:
            X = X.copy()
            X.sum_duplicates()
            coo = X.tocoo()
            return Entries.of(coo.row, coo.col, coo.data, X.shape[0], self.absent == "zero")
        i, j = np.nonzero(~np.isnan(X))
        return Entries.of(i, j, X[i, j], X.shape[0], False)

    def _settings(self) -> dict[str, Any]:
        return {
            "draws": self.draws,
            "tune": self.tune,
            "thin": self.thin,
            "chains": self.chains,
            "engine": Threads(self._threads()),
            "progress": bool(self.verbose),
        }

    def _threads(self) -> int | None:
        """Return the number of threads; -1 is all cores, -2 all but one, and so on."""
        n = self.n_jobs
        if n is None:
            return None
        if not is_integer(n) or n == 0:
            raise ModelError(f"n_jobs must be None or an integer other than 0, got {n!r}")
        return int(n) if n > 0 else max(1, available_cores() + 1 + int(n))

    def _seed(self, updates: int) -> np.random.SeedSequence:
        """Return the seed of the first fit, which is `sample`'s for the same integer, or of what comes after it."""
        state = self.random_state
        root = None
        if state is not None:
            generator = check_random_state(state)
            root = int(state) if isinstance(state, Integral) else int(generator.randint(2**31 - 1))
        return np.random.SeedSequence(root, spawn_key=(updates,) if updates else ())

    def _rank(self) -> int:
        n = self.n_components
        if not is_integer(n) or n < 1:
            raise ModelError(f"n_components must be an integer >= 1, got {n!r}")
        return int(n)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        return tags


def _chunks(X: Any) -> Iterator[Any]:
    """Yield some rows at a time, as many as fit into little memory."""
    step = max(1, _CELLS // X.shape[1])
    for first in range(0, X.shape[0], step):
        yield X[first : first + step]


def _some(draws: Draws, most: int) -> Draws:
    """Return at most so many draws, evenly spread, the last one of each chain among them."""
    step = -(-draws.phi.size // most)
    return draws.each(lambda array: array[:, ::-step][:, ::-1])


def _within(other: Other, entries: Entries, columns: NDArray[np.bool_]) -> tuple[Other, Entries]:
    """Return the other factor at some columns, and the entries there."""
    if not columns.any():
        none = np.empty(0, np.int64)
        return other, Entries.of(none, none, none, entries.rows, False)
    i = np.repeat(np.arange(entries.rows), np.diff(entries.start))
    at, place = columns[entries.index], np.cumsum(columns) - 1
    cut = replace(
        other,
        H=np.ascontiguousarray(other.H[:, columns]),
        bias=None if other.bias is None else other.bias[:, columns],
    )
    found = Entries.of(i[at], place[entries.index[at]], entries.value[at], entries.rows, entries.zeros)
    return cut, found
