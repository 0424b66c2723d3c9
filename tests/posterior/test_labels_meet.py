"""Where two data sets meet, labels are compared as labels: one contract, held by every place where they do.

A label that the posterior does not know is an error that names it, also where the labels happen to be 0 to n - 1.
Data without labels are matched by position, and must have the size that there was.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
from plain_numpy import log_density, mu, scores
from random_case import LABELS, Case, data, fit, holes, names, random_case, shown, values

import psgld
from psgld.cli import main

PLACES = {
    "fold_in rows": (1, lambda post, V: post.fold_in(V)),
    "fold_in cols": (0, lambda post, V: post.fold_in(V, "cols")),
    "transform rows": (1, lambda post, V: post.transform(V)),
    "transform cols": (0, lambda post, V: post.transform(V, "cols")),
    "exclude_seen, columns": (1, lambda post, V: post.recommend(n=1, exclude_seen=V)),
    "exclude_seen, rows": (0, lambda post, V: post.recommend(n=1, exclude_seen=V)),
    "log_predictive_density, columns": (1, lambda post, V: post.log_predictive_density(V)),
    "log_predictive_density, rows": (0, lambda post, V: post.log_predictive_density(V)),
}
"""Which side is matched (0: rows), and how."""


@cache
def sampled(kind: str, form: str) -> tuple[Any, ...]:
    """Return a posterior of seven rows and columns whose labels are of a kind, its data, and the labels."""
    rng = np.random.default_rng(LABELS.index(kind))
    cells = 2.0 + rng.normal(size=(7, 7))
    rows, cols = names(rng, kind, 7), names(rng, kind, 7)
    post = fit(data(form, cells, rows, cols), psgld.FactorModel(2, "gaussian", bias=True))
    rows, cols = rows or list(range(7)), cols or list(range(7))
    return (post, cells, sorted(rows), sorted(cols)) if form == "frame" else (post, cells, rows, cols)


def posterior(kind: str, form: str) -> Case:
    """Return such a posterior with random numbers of its own."""
    return Case(np.random.default_rng(1), *sampled(kind, form), (kind != "none",) * 2, False)


def stranger(case: Case, side: int) -> tuple[list[int], int]:
    """Return labels 0, 1, 2, … up to the first that the posterior does not know, and that label."""
    known = {str(shown(label)) for label in (case.rows, case.cols)[side]}
    first = next(k for k in range(20) if str(k) not in known)
    return list(range(first + 1)), first


@pytest.mark.parametrize("form", ["dense", "sparse", "frame"])
@pytest.mark.parametrize("kind", LABELS)
@pytest.mark.parametrize("place", PLACES)
def test_an_unknown_label_is_named(place, kind, form):
    case = posterior(kind, "dense" if kind == "none" else "frame")
    side, ask = PLACES[place]
    labels, unknown = stranger(case, side)
    other = [(case.rows, case.cols)[1 - side][k] for k in (4, 2)]
    if place.startswith(("fold_in", "transform")):
        other = ["new", "newer"]
    cells = values(case.rng, case.post.model, (2, len(labels)))
    V = data(form, cells, other, labels) if side else data(form, cells.T, labels, other)
    with pytest.raises(psgld.DataError, match=rf"\b{unknown}\b"):
        ask(case.post, V)


@pytest.mark.parametrize("form", ["dense", "sparse", "frame"])
@pytest.mark.parametrize("place", PLACES)
def test_known_labels_in_order_are_found_as_labels(place, form):
    """Labels 0, 1, 2 of seven that are in another order: positions would give another answer."""
    case = posterior("shuffled", "dense")
    side, ask = PLACES[place]
    at = [(case.rows, case.cols)[side].index(k) for k in range(3)]
    assert at != [0, 1, 2]
    cells, other = values(case.rng, case.post.model, (7, 3)), (case.rows, case.cols)[1 - side]
    V = data(form, cells, other, [0, 1, 2]) if side else data(form, cells.T, [0, 1, 2], other)
    full = np.full((7, 7), np.nan)
    full[:, at] = cells
    plain = psgld.Observations.from_dense(full if side else full.T)
    got, expected = ask(case.post, V), ask(case.post, plain)
    # The new rows of a frame come out sorted.
    order = np.argsort(other) if form == "frame" else np.arange(7)
    if place.startswith("fold_in"):
        found, wanted = (p.seen.indices if side else p.seen.indptr for p in (got, expected))
        np.testing.assert_array_equal(found, wanted)
    elif place.startswith("transform"):
        np.testing.assert_allclose(got, expected[order], rtol=1e-4, atol=1e-5)
    elif place.startswith("exclude"):
        assert got.cols.tolist() == expected.cols.tolist()
    else:
        np.testing.assert_allclose(np.sort(got), np.sort(expected), rtol=1e-4)


@pytest.mark.parametrize("kind", LABELS)
@pytest.mark.parametrize("ask", ["exclude_seen", "log_predictive_density", "start"])
def test_a_side_without_labels_is_matched_by_position_or_refused(ask, kind):
    """Data with labels of their rows only: the columns are not called 0 to n - 1 for that."""
    case = posterior(kind, "dense")
    cells = holes(case.rng, case.cells)
    rows = case.rows if case.named[0] else None
    V = psgld.Observations.from_dense(cells[::-1], None if rows is None else rows[::-1])
    V, by = (V, cells) if rows is not None else (psgld.Observations.from_dense(cells), cells)
    try:
        if ask == "start":
            sampler = psgld.PSGLD(step_size=1e-12, blocks=1)
            got = psgld.sample(V, start=case.post, draws=1, tune=0, thin=1, sampler=sampler, progress=False)
            np.testing.assert_allclose(got.draws.H[:, 0], case.post.draws.H[:, -1], atol=2e-3)
        elif ask == "exclude_seen":
            got = case.post.recommend(n=7, exclude_seen=V)
            assert (~np.isnan(got.score)).sum(axis=1).tolist() == np.isnan(by).sum(axis=1).tolist()
            left = [sorted(map(str, r[~np.isnan(s)])) for r, s in zip(got.cols, got.score, strict=True)]
            wanted = [sorted(str(shown(case.cols[j])) for j in np.flatnonzero(np.isnan(line))) for line in by]
            assert left == wanted
        else:
            i, j = np.nonzero(~np.isnan(by))
            expected = log_density(case.post, i, j, by[i, j])
            np.testing.assert_allclose(case.post.log_predictive_density(V), expected, rtol=1e-3)
    except psgld.DataError as error:
        assert "\n" not in str(error)


@pytest.mark.parametrize("estimator", [psgld.BayesianMF, psgld.BayesianNMF])
@pytest.mark.parametrize("columns", [list("abcdefg"), [0, 1, 2, 3, 5, 6, 7]])
def test_estimators_refuse_columns_of_other_names(estimator, columns):
    """The names of a data frame are those of `fit`, or it is an error, or they are put in order."""
    X = pd.DataFrame(np.random.default_rng(0).poisson(4.0, (9, 7)).astype(float), columns=columns)
    fitted = estimator(2, draws=3, tune=20, random_state=0).fit(X)
    other = ["a", "b", "c", "d", "h", "f", "g"] if columns[0] == "a" else list(range(7))
    with pytest.raises((ValueError, psgld.DataError), match=r"\b(h|4)\b"):
        fitted.transform(X.set_axis(other, axis=1))
    turned = X[columns[::-1]]
    with suppress(ValueError, psgld.DataError):
        np.testing.assert_allclose(fitted.transform(turned), fitted.transform(X), rtol=1e-6)


# -- the command line ------------------------------------------------------------------------------------------------


def run(capsys, *words):
    """Run a command and return its JSON."""
    code = main([*map(str, words), "--json"])
    out, err = capsys.readouterr()
    assert code == 0, err
    return json.loads(out)


def table(path, rows, cols, *values):
    """Write labels (and values) as CSV."""
    columns = {"row": map(shown, rows), "column": map(shown, cols)} | {
        f"value{k}": v for k, v in enumerate(values)
    }
    pd.DataFrame({name: list(column) for name, column in columns.items()}).to_csv(path, index=False)
    return path


@pytest.mark.parametrize("seed", range(20))
def test_commands(seed, tmp_path, capsys):
    case = random_case([9, seed], tmp_path)
    post, file = case.post, tmp_path / f"run{('.npz', '.zarr')[seed % 2]}"
    post.save(file)
    i, j = case.rng.integers(post.shape[0], size=9), case.rng.integers(post.shape[1], size=9)
    rows, cols = [case.rows[k] for k in i], [case.cols[k] for k in j]
    v = values(case.rng, post.model, (9,))
    m = mu(post)[:, i, j].mean(0)
    new = post.predict(rows, cols).new_draws()

    p = run(capsys, "predict", file, table(tmp_path / "pairs.csv", rows, cols), "--level", 0.8)["predictions"]
    assert [str(x) for x in p["row"]] == [str(shown(r)) for r in rows]
    np.testing.assert_allclose(p["mean"], m, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(
        [p["low"], p["high"]], np.quantile(new, [0.1, 0.9], axis=0), rtol=1e-3, atol=1e-4
    )

    s = run(capsys, "evaluate", file, table(tmp_path / "test.csv", rows, cols, v), "--level", 0.8)
    low, high = np.quantile(new, [0.1, 0.9], axis=0)
    assert s["entries"] == 9 and s["coverage"][0]["share"] == pytest.approx(((low <= v) & (v <= high)).mean())
    assert s["rmse"] == pytest.approx(np.sqrt(((v - m) ** 2).mean()), rel=1e-3)
    assert s["mae"] == pytest.approx(np.abs(v - m).mean(), rel=1e-3)
    assert s["log_density"] == pytest.approx(log_density(post, i, j, v).mean(), rel=1e-3, abs=1e-4)
    assert s["baseline_mae"] == pytest.approx(np.abs(v - v.mean()).mean())

    seen = table(tmp_path / "seen.csv", rows, cols, v)
    r = run(capsys, "recommend", file, "-n", 2, "--policy", "ucb", "--width", 0.5, "--seen", seen)
    best = scores(post, psgld.UCB(0.5), 0)[0].copy()
    best[i, j] = -np.inf
    expected = -np.sort(-best, axis=1)[:, :2]
    np.testing.assert_allclose(
        r["recommendations"]["score"], expected[np.isfinite(expected)], rtol=1e-3, atol=1e-4
    )


@pytest.mark.parametrize("kind", LABELS)
def test_commands_name_unknown_labels(kind, tmp_path, capsys):
    case = posterior(kind, "dense" if kind == "none" else "frame")
    case.post.save(tmp_path / "run.npz")
    labels, unknown = stranger(case, 1)
    rows = [case.rows[0]] * len(labels)
    for command in ("predict", "evaluate"):
        test = table(tmp_path / "test.csv", rows, labels, np.ones(len(labels)))
        assert main([command, str(tmp_path / "run.npz"), str(test)]) == 2
        assert re.search(rf"\b{unknown}\b", capsys.readouterr().err)
