"""Random small posteriors for `test_differential.py`: models, labels, shapes, forms of data and files, by a seed."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import psgld
from psgld.datasets import synthetic
from psgld.models import LIKELIHOODS

COVERED = ("poisson", "gaussian", "gamma", "inverse-gaussian", "compound-poisson")

MODELS = {
    "poisson": ("poisson", None, None, False),
    "poisson, gamma priors": ("poisson", psgld.GammaPrior(2.0), psgld.GammaPrior(1.5), False),
    "gaussian": ("gaussian", None, None, False),
    "gaussian, biases": ("gaussian", None, None, True),
    "gaussian, known": (psgld.Gaussian(0.7), psgld.Normal(1.0), psgld.Normal(2.0), True),
    "gaussian, non-negative": ("gaussian", psgld.Exponential(), None, False),
    "bpmf": ("gaussian", psgld.NormalWishart(), None, False),
    "bpmf, biases": ("gaussian", psgld.NormalWishart(), None, True),
    "gamma": (psgld.Gamma(0.5), None, None, False),
    "inverse-gaussian": (psgld.InverseGaussian(0.5), None, None, False),
    "compound-poisson": (psgld.CompoundPoisson(0.5, phi=0.8), None, None, False),
}
"""Likelihood, priors, biases."""

OTHERS = [name for name in LIKELIHOODS if name not in COVERED]
"""Families of the registry without a model above: they have cases of their own, from `_FIRST` on."""

_FIRST, _EACH = 1000, 3


def numbers(n: int) -> list[int]:
    """Return the numbers of n random cases, and of some of each of the other families."""
    return [*range(n), *range(_FIRST, _FIRST + _EACH * len(OTHERS))]


SHAPES = [(1, 7), (7, 1), (9, 4), (4, 9), (6, 6)]
LABELS = ("none", "plain", "gap", "shuffled", "negative", "text", "digits", "times")
FORMS = ("dense", "sparse", "zero", "frame")
FILES = ("", ".npz", ".zarr")


def names(rng: np.random.Generator, kind: str, n: int) -> list[Any] | None:
    """Return n distinct labels; "none" are none, which `predict` takes as 0 to n - 1."""
    order = rng.permutation(n).tolist()
    match kind:
        case "none":
            return None
        case "plain":
            return list(range(n))
        case "gap":
            return [k + (k >= n // 2) for k in range(n)]
        case "shuffled":
            return order
        case "negative":
            return [10 * k - 15 for k in order]
        case "text":
            return [f"n{k}" for k in order]
        case "digits":
            return [str(3 * k) for k in order]
    return [pd.Timestamp("2020-01-30") + pd.Timedelta(days=k) for k in order]


def shown(label: Any) -> Any:
    """Return a label as psgld gives it back: times as ISO 8601 has them."""
    return label.date().isoformat() if isinstance(label, pd.Timestamp) else label


@dataclass
class Case:
    """A posterior, and the data behind it in the order of its rows and columns."""

    rng: np.random.Generator
    post: psgld.Posterior
    cells: np.ndarray
    """NaN where nothing was stored."""
    rows: list[Any]
    cols: list[Any]
    """Labels as the user gave them, or indices."""
    named: tuple[bool, bool]
    zero: bool

    @property
    def stored(self) -> np.ndarray:
        """Which cells the data had."""
        return ~np.isnan(self.cells)


def data(form: str, cells: np.ndarray, rows: list[Any] | None, cols: list[Any] | None) -> Any:
    """Return the cells that are not NaN in one of the forms that `sample` takes."""
    i, j = np.nonzero(~np.isnan(cells))
    if form == "frame":
        assert rows is not None and cols is not None
        table = {"r": [rows[a] for a in i], "c": [cols[b] for b in j], "v": cells[i, j]}
        return pd.DataFrame(table).sample(frac=1.0, random_state=0)
    if form == "dense":
        return psgld.Observations.from_dense(cells, rows, cols)
    labels = {"row_labels": rows, "col_labels": cols}
    absent = "zero" if form == "zero" else "unobserved"
    return psgld.Observations.from_coo(i, j, cells[i, j], cells.shape, absent, **labels)


def values(rng: np.random.Generator, model: psgld.FactorModel, shape: tuple[int, int]) -> np.ndarray:
    """Return values that the likelihood allows."""
    if model.likelihood.name == "gaussian":
        return 2.0 + rng.normal(size=shape)
    if model.likelihood.name in ("poisson", "compound-poisson"):
        return rng.poisson(3.0, shape).astype(float)
    if model.likelihood.name in COVERED:
        return rng.gamma(2.0, 1.0, shape) + 0.1
    return np.asarray(synthetic(*shape, 2, model.likelihood, seed=rng).V.dense, float)


def holes(rng: np.random.Generator, cells: np.ndarray, share: float = 0.35) -> np.ndarray:
    """Return the cells with some of them NaN; each row and column keeps one."""
    keep = rng.random(cells.shape) > share
    keep[np.arange(len(cells)), rng.integers(cells.shape[1], size=len(cells))] = True
    keep[rng.integers(len(cells), size=cells.shape[1]), np.arange(cells.shape[1])] = True
    return np.where(keep, cells, np.nan)


def random_case(seed: Any, folder: Path, models: Any = tuple(MODELS), forms: Any = FORMS) -> Case:
    """Sample a posterior of random data, and pass it through a file or not."""
    rng = np.random.default_rng(seed)
    chosen = MODELS[models[rng.integers(len(models))]]
    if seed[1] >= _FIRST:
        likelihood = LIKELIHOODS[OTHERS[seed[1] % len(OTHERS)]]()
        chosen = (likelihood.resolved(lambda: np.arange(1.0, 6.0)), None, None, False)
    likelihood, row_prior, col_prior, bias = chosen
    model = psgld.FactorModel(int(rng.integers(1, 4)), likelihood, row_prior, col_prior, bias)
    form = forms[rng.integers(len(forms))]
    if form == "zero" and not model.likelihood.can_occur(np.zeros(1)).all():
        form = "sparse"  # no zeros in these
    kinds = rng.choice(LABELS[form == "frame" :], 2)
    cells = values(rng, model, SHAPES[rng.integers(len(SHAPES))])
    whole = form == "dense" and rng.random() < 0.2
    cells = cells if whole else holes(rng, cells)
    rows, cols = (names(rng, kind, n) for kind, n in zip(kinds, cells.shape, strict=True))
    post = fit(data(form, cells, rows, cols), model)
    if suffix := FILES[rng.integers(len(FILES))]:
        post.save(folder / f"post{suffix}")
        post = psgld.load(folder / f"post{suffix}")
    order = (order_of(form, rows, cells.shape[0]), order_of(form, cols, cells.shape[1]))
    rows, cols, named = list(rows or range(len(cells))), list(cols or range(cells.shape[1])), (rows, cols)
    return Case(
        rng,
        post,
        cells[np.ix_(*order)],
        [rows[k] for k in order[0]],
        [cols[k] for k in order[1]],
        (named[0] is not None, named[1] is not None),
        form == "zero",
    )


def order_of(form: str, labels: list[Any] | None, n: int) -> list[int]:
    """Return the order in which the labels come out: a frame has none of its own, and is sorted."""
    return sorted(range(n), key=lambda k: labels[k]) if form == "frame" and labels else list(range(n))


def fit(V: Any, model: psgld.FactorModel, **more: Any) -> psgld.Posterior:
    """Sample briefly; whether the chains have converged does not matter here."""
    quick = {"draws": 3, "tune": 20, "thin": 2, "progress": False, **more}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return psgld.sample(V, model, **quick)
