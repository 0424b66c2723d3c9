"""Every answer of a posterior against plain NumPy on its draws, over random models, labels, shapes, data and files.

Data that meet a posterior have their rows and columns in another order than it has, and are matched by label; without
labels, by position. `test_labels_meet.py` is about labels that are not known.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pytest
from plain_numpy import (
    cosines,
    eta,
    exceeds,
    floor,
    interval,
    log_density,
    mu,
    new_row,
    reference_draw,
    scores,
    shortfall,
    theta,
)
from random_case import (
    FORMS,
    LABELS,
    MODELS,
    Case,
    data,
    holes,
    names,
    numbers,
    order_of,
    random_case,
    shown,
    values,
)

import psgld

REAL = tuple(name for name in MODELS if name in ("gaussian", "bpmf") or "biases" in name or "known" in name)
"""Models of real-valued factors, whose new rows have a normal posterior."""

CLOSE = {"rtol": 2e-4, "atol": 2e-5}
POLICIES = [psgld.Mean(), psgld.UCB(1.5), psgld.UCB(-0.7), psgld.Thompson(), psgld.Probability(1.7320508)]


def some(case: Case, side: int, n: int) -> tuple[np.ndarray, list[Any]]:
    """Return positions on a side, with repetitions, and what a user calls them."""
    known = (case.rows, case.cols)[side]
    at = case.rng.integers(len(known), size=n)
    return at, [known[k] for k in at]


def labels_of(labels: Any, n: int) -> list[Any]:
    """Return labels of a posterior; those that are none are the indices."""
    return list(range(n)) if labels is None else labels.tolist()


@pytest.mark.parametrize("seed", numbers(40))
def test_predict(seed, tmp_path):
    case = random_case([1, seed], tmp_path)
    post, n = case.post, 8
    (i, rows), (j, cols) = some(case, 0, n), some(case, 1, n)
    m = mu(post)[:, i, j]
    p = post.predict(rows, cols, seed=seed)
    assert p.row_labels.tolist() == [shown(r) for r in rows] and p.col_labels.tolist() == [
        shown(c) for c in cols
    ]
    np.testing.assert_allclose(p.draws, m, **CLOSE)
    np.testing.assert_allclose(p.mean, m.mean(0), **CLOSE)
    np.testing.assert_allclose(p.sd, m.std(0, ddof=1), rtol=1e-3, atol=1e-4)
    new = post.model.likelihood.variance(floor(post, eta(post)[:, i, j]), *theta(post)) + 0.0 * m
    np.testing.assert_allclose(p.new_sd, np.sqrt(m.var(0, ddof=1) + new.mean(0)), rtol=1e-3, atol=1e-4)
    levels = [0.0, 0.1, 0.5, 1.0]
    np.testing.assert_allclose(p.mean_quantiles(levels), np.quantile(m, levels, axis=0), **CLOSE)
    how = "inverted_cdf" if post.model.likelihood.lattice else "linear"
    exact = np.quantile(p.new_draws(), levels, axis=0, method=how)
    np.testing.assert_allclose(p.quantiles(levels), exact, **CLOSE)
    np.testing.assert_allclose(p.interval(0.8), interval(post, p.new_draws(), p, 0.8), **CLOSE)
    above = exceeds(post, i, j, 1.5)
    above = (p.new_draws() > 1.5).mean(0) if above is None else above
    np.testing.assert_allclose(p.exceeds(1.5), above, rtol=1e-3, atol=1e-5)
    one = post.predict(rows[0])
    assert one.col_labels.tolist() == [shown(c) for c in case.cols]
    np.testing.assert_allclose(one.mean, mu(post)[:, i[0]].mean(0), **CLOSE)


@dataclass
class Part:
    """Some rows and columns of a posterior as a data set of its own."""

    V: Any
    cells: np.ndarray
    """In the order of the posterior, NaN where nothing is stored."""
    i: np.ndarray
    j: np.ndarray
    v: np.ndarray
    """The entries in the order in which they were given."""


def part_of(case: Case, form: str) -> Part:
    """Return entries at some rows and columns, named by label in another order, or all of them by position."""
    by_label = all(case.named) or form == "frame"
    sizes = case.post.shape
    at = [case.rng.permutation(n)[: case.rng.integers(1, n + 1)] for n in sizes]
    at = at if by_label else [np.arange(n) for n in sizes]
    rows, cols = ([known[k] for k in a] for known, a in zip((case.rows, case.cols), at, strict=True))
    cells = holes(case.rng, values(case.rng, case.post.model, (len(at[0]), len(at[1]))))
    V = data(form, cells, rows if by_label else None, cols if by_label else None)
    full = np.full(sizes, np.nan)
    full[np.ix_(*at)] = cells
    i, j = np.nonzero(~np.isnan(full))
    if form == "frame":
        i, j = ([known.index(x) for x in V[c]] for known, c in ((case.rows, "r"), (case.cols, "c")))
    return Part(V, full, np.asarray(i), np.asarray(j), full[i, j])


def form_for(case: Case) -> str:
    """Return a form of data that says of absent entries what the case says."""
    return str(case.rng.choice([f for f in FORMS if f != "zero" or case.zero]))


@pytest.mark.parametrize("seed", numbers(30))
def test_log_predictive_density(seed, tmp_path):
    case = random_case([2, seed], tmp_path)
    part = part_of(case, form_for(case))
    if getattr(part.V, "absent", "") == "zero":
        i, j = (np.ravel(a) for a in np.indices(case.post.shape))
        part = Part(part.V, part.cells, i, j, np.nan_to_num(part.cells).ravel())
    expected = log_density(case.post, part.i, part.j, part.v)
    np.testing.assert_allclose(case.post.log_predictive_density(part.V), expected, rtol=1e-3, atol=1e-4)
    pairs = [case.rows[k] for k in part.i], [case.cols[k] for k in part.j], part.v
    np.testing.assert_allclose(case.post.log_predictive_density(pairs), expected, rtol=1e-3, atol=1e-4)


def chosen_filter(case: Case) -> tuple[Any, np.ndarray]:
    """Return a filter of columns in one of its forms, and which columns it allows."""
    allowed = case.rng.random(case.post.shape[1]) < 0.7
    wanted = [c for c, a in zip(case.cols, allowed, strict=True) if a]
    forms = [None, wanted, allowed, lambda labels: np.isin(labels, [shown(w) for w in wanted])]
    form = forms[case.rng.integers(4)]
    return form, np.ones_like(allowed) if form is None else allowed


def excluded(case: Case) -> tuple[Any, np.ndarray]:
    """Return a value of `exclude_seen`, and which cells it leaves out."""
    kind = case.rng.integers(3)
    if kind == 0 or (kind == 1 and case.stored.all()):
        return False, np.zeros(case.post.shape, bool)
    if kind == 1:
        return True, case.stored
    part = part_of(case, str(case.rng.choice(["dense", "sparse", "frame"])))
    return part.V, ~np.isnan(part.cells)


@pytest.mark.parametrize("seed", numbers(50))
def test_recommend(seed, tmp_path):
    case = random_case([3, seed], tmp_path)
    policy, n = POLICIES[seed % len(POLICIES)], 3
    (filter, allowed), (exclude, out) = chosen_filter(case), excluded(case)
    i, rows = some(case, 0, 4)
    got = case.post.recommend(rows, n, policy, exclude, filter, seed=seed)
    assert got.rows.tolist() == [shown(r) for r in rows]
    best, second = scores(case.post, policy, seed)
    columns = labels_of(case.post.col_labels, case.post.shape[1])
    for q, r in enumerate(i):
        candidates = np.flatnonzero(allowed & ~out[r])
        order = candidates[np.lexsort((-second[r, candidates], -best[r, candidates]))][:n]
        there = ~np.isnan(got.score[q])
        at = [columns.index(c) for c in got.cols[q][there].tolist()]
        assert there.sum() == len(order) and len(set(at)) == len(at) and set(at) <= set(candidates.tolist())
        np.testing.assert_allclose(got.score[q][there], best[r, order], **CLOSE)
        np.testing.assert_allclose(best[r, at], best[r, order], **CLOSE)
        np.testing.assert_allclose(got.mean[q][there], mu(case.post)[:, r, at].mean(0), **CLOSE)
    if case.stored.all():
        with pytest.raises(psgld.DataError, match="exclude_seen=False"):
            case.post.recommend(rows)


@dataclass
class New:
    """New rows (or columns) of a posterior."""

    V: Any
    side: str
    cells: np.ndarray
    """(new, other), NaN where nothing is stored."""
    zeros: bool
    """Absent entries are zeros."""
    labels: list[Any]

    @property
    def observed(self) -> np.ndarray:
        return np.nan_to_num(self.cells) if self.zeros else self.cells

    def plain(self) -> Any:
        """Return the same, all of the other side in its order, without labels."""
        form = "zero" if self.zeros else "sparse"
        return data(form, self.cells if self.side == "rows" else self.cells.T, None, None)


def new_lines(case: Case, n: int = 3, repeat: int = 1) -> New:
    """Return new lines, the other side named by label in another order, or all of it by position."""
    rng, post, form = case.rng, case.post, form_for(case)
    side, old = ("rows", 1) if rng.random() < 0.5 else ("cols", 0)
    known, size = (case.rows, case.cols)[old], post.shape[old]
    by_label = form == "frame" or rng.random() < 0.7
    at = rng.permutation(size)[: rng.integers(1, size + 1)] if by_label else np.arange(size)
    cells = np.repeat(holes(rng, values(rng, post.model, (n, len(at)))), repeat, axis=0)
    own = names(rng, str(rng.choice(LABELS[form == "frame" :])), len(cells))
    other = [known[k] for k in at] if by_label else None
    V = data(form, cells, own, other) if side == "rows" else data(form, cells.T, other, own)
    order = order_of(form, own, len(cells))
    full = np.full((len(cells), size), np.nan)
    full[:, at] = cells[order]
    zeros = case.zero and (form == "zero" or (form == "frame" and post.seen is not None))
    return New(V, side, full, zeros, [shown((own or range(len(cells)))[k]) for k in order])


@pytest.mark.parametrize("seed", numbers(30))
def test_fold_in(seed, tmp_path):
    """Labels, shapes and what was seen; the draws are those of the same entries by position."""
    case = random_case([4, seed], tmp_path)
    post, new = case.post, new_lines(case)
    got, rows = post.fold_in(new.V, new.side, seed=seed, sweeps=2), new.side == "rows"
    assert got.shape == ((len(new.cells), post.shape[1]) if rows else (post.shape[0], len(new.cells)))
    fresh, kept = (got.row_labels, got.col_labels) if rows else (got.col_labels, got.row_labels)
    before = post.col_labels if rows else post.row_labels
    assert labels_of(fresh, len(new.cells)) == new.labels
    assert labels_of(kept, got.shape[rows]) == labels_of(before, got.shape[rows])
    seen = np.zeros(got.shape, bool)
    seen[np.repeat(np.arange(got.shape[0]), np.diff(got.seen.indptr)), got.seen.indices] = True
    np.testing.assert_array_equal(seen if rows else seen.T, ~np.isnan(new.cells))
    np.testing.assert_array_equal(got.H if rows else got.W, post.H if rows else post.W)
    plain = post.fold_in(new.plain(), new.side, seed=seed, sweeps=2)
    np.testing.assert_allclose(mu(got), mu(plain), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(got.predict().draws, mu(got).reshape(len(mu(got)), -1), **CLOSE)


@pytest.mark.parametrize("seed", range(20))
def test_fold_in_of_normal_rows(seed, tmp_path):
    """Every new row comes many times: their mean and covariance in each draw are those of the closed form."""
    repeat = 60
    case = random_case([5, seed], tmp_path, REAL)
    new = new_lines(case, 2, repeat)
    got = case.post.fold_in(new.V, new.side, seed=seed)
    X, bias = (got.draws.W, got.draws.row_bias) if new.side == "rows" else (got.draws.H, got.draws.col_bias)
    X = X if bias is None else np.concatenate([X, bias[..., None]], axis=3)
    X = X.reshape(-1, *X.shape[2:]).astype(float)
    _, group = np.unique(np.nan_to_num(new.cells, nan=-1e9), axis=0, return_inverse=True)
    for g in np.unique(group):
        line = new.observed[group == g][0]
        at = np.flatnonzero(~np.isnan(line))
        for s in range(len(X)):
            mean, cov = new_row(case.post, new.side, s, at, line[at])
            z = np.linalg.solve(np.linalg.cholesky(cov), (X[s, group == g] - mean).T)
            n = z.shape[1]
            assert np.abs(z.mean(axis=1)).max() < 5.5 / np.sqrt(n)
            assert np.abs((z**2).mean() - 1.0) < 6.0 * np.sqrt(2.0 / z.size)


@pytest.mark.parametrize("seed", numbers(30))
def test_transform(seed, tmp_path):
    case = random_case([6, seed], tmp_path)
    new = new_lines(case)
    got = case.post.transform(new.V, new.side)
    assert got.shape == (len(new.cells), case.post.model.rank)
    for w, line in zip(got, new.observed, strict=True):
        at = np.flatnonzero(~np.isnan(line))
        if not case.post.model.likelihood.normal or case.post.model.nonnegative:
            assert (w >= 0).all() or not case.post.model.nonnegative
            assert shortfall(case.post, new.side, w.astype(float), at, line[at]) < 0.02
        else:
            mean, _ = new_row(case.post, new.side, reference_draw(case.post), at, line[at])
            np.testing.assert_allclose(w, mean[: len(w)], rtol=1e-3, atol=1e-4)


@dataclass
class Grown:
    """Data with more rows and columns; where those of before are."""

    V: Any
    cells: np.ndarray
    rows: np.ndarray
    cols: np.ndarray


def grown(case: Case) -> Grown:
    """Return the data of a case with two more rows and one more column: in any order by label, else they come last."""
    both = all(case.named)
    form = "zero" if case.zero else str(case.rng.choice(["dense", "sparse", "frame"][: 3 if both else 2]))
    (rows, row_order), (cols, col_order) = (_more(case, side, extra) for side, extra in ((0, 2), (1, 1)))
    cells = holes(case.rng, values(case.rng, case.post.model, (len(rows), len(cols))))
    cells[: case.post.shape[0], : case.post.shape[1]] = case.cells
    cells = cells[np.ix_(row_order, col_order)]
    given = [[x[k] for k in order] if named else None
             for x, order, named in ((rows, row_order, case.named[0]), (cols, col_order, case.named[1]))]  # fmt: skip
    V = data(form, cells, *given)
    sorted_ = [order_of(form, g, n) for g, n in zip(given, cells.shape, strict=True)]
    row_order, col_order = row_order[sorted_[0]], col_order[sorted_[1]]
    at = [np.argsort(o)[:n] for o, n in zip((row_order, col_order), case.post.shape, strict=True)]
    return Grown(V, cells[np.ix_(*sorted_)], *at)


def _more(case: Case, side: int, extra: int) -> tuple[list[Any], np.ndarray]:
    """Return the labels of a side and of new ones, and an order to give them in."""
    known, n = (case.rows, case.cols)[side], case.post.shape[side]
    kind = type(known[0])
    fresh = (pd.Timestamp(2021, 5, k + 1) if kind is pd.Timestamp else kind(k) for k in range(30))
    new = [k for k in fresh if k not in known][:extra]
    return [*known, *new], case.rng.permutation(n + extra) if case.named[side] else np.arange(n + extra)


@pytest.mark.parametrize("seed", numbers(30))
@pytest.mark.filterwarnings("ignore")
def test_update_and_start(seed, tmp_path):
    """With a step size of nearly nothing, rows and columns that were there are where they were."""
    case = random_case([7, seed], tmp_path)
    post, more = case.post, grown(case)
    still = {"sampler": psgld.PSGLD(step_size=1e-12, blocks=1), "progress": False}
    quick = {"draws": 1, "tune": 0, "thin": 1, **still}
    got = post.update(more.V, **quick) if seed % 2 else psgld.sample(more.V, start=post, **quick)
    assert got.shape == more.cells.shape
    for name, at in (("W", more.rows), ("H", more.cols), ("row_bias", more.rows)):
        if (before := getattr(post.draws, name)) is not None:
            np.testing.assert_allclose(getattr(got.draws, name)[:, 0][:, at], before[:, -1], atol=2e-3)
    assert np.isfinite(got.draws.W).all() and np.isfinite(got.draws.H).all()
    given, known = labels_of(got.row_labels, got.shape[0]), [shown(r) for r in case.rows]
    assert [given[k] for k in more.rows] == known
    stored = ~np.isnan(more.cells)
    if got.seen is None:
        assert stored.all()
    else:
        np.testing.assert_array_equal(np.diff(got.seen.indptr), stored.sum(axis=1))
        np.testing.assert_array_equal(got.seen.indices, np.nonzero(stored)[1])


@pytest.mark.parametrize("seed", numbers(20))
def test_similar(seed, tmp_path):
    case = random_case([8, seed], tmp_path)
    side, known = ("rows", case.rows) if seed % 2 else ("cols", case.cols)
    at = int(case.rng.integers(len(known)))
    got = getattr(case.post, f"similar_{side}")(known[at], n=3)
    mean, sd = cosines(case.post, at, side)
    others = np.delete(np.arange(len(known)), at)
    best = others[np.argsort(-mean[others], kind="stable")][:3]
    np.testing.assert_allclose(got.score, mean[best], **CLOSE)
    found = [[shown(k) for k in known].index(x) for x in got.labels.tolist()]
    np.testing.assert_allclose(mean[found], mean[best], **CLOSE)
    np.testing.assert_allclose(got.sd, sd[found], rtol=1e-2, atol=1e-3)
    assert at not in found
