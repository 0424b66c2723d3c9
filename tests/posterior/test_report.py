"""The page of `post.report`, without a browser: valid HTML, nothing from outside, labels escaped, numbers kept."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
from report_cases import CASES, HOSTILE

import psgld
from psgld.posterior.report.payload import decode, encode
from psgld.posterior.report.rows import BEST
from psgld.posterior.report.text import clean

VOID = {"meta", "input", "br", "hr", "img", "link"}


class Page(HTMLParser):
    """Checks that elements are closed in order; keeps attributes, the text of each element, and all that is shown."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.tags, self.attributes, self.inside = [], [], [], {}
        self.feed(text)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, *pair) for pair in attrs]
        if tag not in VOID:
            self.open.append((tag, dict(attrs)))

    def handle_startendtag(self, tag, attrs):
        self.attributes += [(tag, *pair) for pair in attrs]

    def handle_endtag(self, tag):
        assert self.open and self.open[-1][0] == tag, (tag, self.open[-3:])
        self.open.pop()

    def handle_data(self, data):
        if self.open:
            tag, attrs = self.open[-1]
            self.inside.setdefault((tag, attrs.get("id")), []).append(data)


@pytest.fixture(scope="module", params=CASES)
def made(request, tmp_path_factory):
    post, test, data = CASES[request.param]()
    path = tmp_path_factory.mktemp("report") / "report.html"
    record = post.report(path, test, data)
    return request.param, post, test, path, record


@pytest.fixture(scope="module")
def page(made):
    return Page(made[3].read_text("utf-8"))


def test_html_is_valid(page):
    ids = [value for _, name, value in page.attributes if name == "id"]
    assert len(ids) == len(set(ids)) and page.tags[0] == "html" and page.tags.count("main") == 1
    for _, name, value in page.attributes:
        if name in ("for", "list", "aria-labelledby"):
            assert value in ids
        if name == "href":
            assert value[0] == "#" and value[1:] in ids


def test_nothing_is_loaded_and_nothing_is_evaluated(made, page):
    text = made[3].read_text("utf-8")
    assert not re.search(r"https?:|//\w+\.|url\(|@import|\beval\b|innerHTML|document\.write|Function\(", text)
    assert not [
        a for a in page.attributes if a[1] in ("src", "srcset", "style", "action") or a[1].startswith("on")
    ]
    assert set(page.tags) & {"img", "iframe", "link", "object", "embed", "form", "base"} == set()


def test_policy_allows_this_script_and_style_only(page):
    policy = next(v for tag, name, v in page.attributes if name == "content" and "default-src" in v)
    assert "unsafe" not in policy and policy.startswith("default-src 'none'")
    for element in ("script", "style"):
        digest = hashlib.sha256("".join(page.inside[element, None]).encode()).digest()
        assert f"{element}-src 'sha256-{base64.b64encode(digest).decode()}'" in policy
    assert page.tags.count("script") == 2 and page.tags.count("style") == 1


def test_numbers_are_those_of_the_posterior(made, page):
    kind, post, _, _, record = made
    text, arrays = decode(page.inside["script", "data"][0])
    assert len(text["rows"]) == record["rows"] == post.shape[0]
    names = np.arange(post.shape[1]) if post.col_labels is None else post.col_labels
    word = "column " if post.col_labels is None else ""
    position = {f"{word}{clean(name)}": k for k, name in enumerate(names.tolist())}
    there = arrays["best"] < len(text["columns"])
    cols = np.array([position[text["columns"][c]] for c in arrays["best"][there]])
    rows = np.broadcast_to(np.arange(post.shape[0])[:, None], there.shape)[there]
    row_names = rows if post.row_labels is None else post.row_labels[rows]
    p = post.predict(row_names, names[cols])
    low, high = p.interval(0.9)
    for name, expected in (("mean", p.mean), ("low", low), ("high", high)):
        np.testing.assert_allclose(arrays[name][there], expected, rtol=1e-6, atol=1e-6)
    assert all((np.diff(row[known]) <= 1e-6).all() for row, known in zip(arrays["mean"], there, strict=True))
    assert (there[:, :-1] | ~there[:, 1:]).all()
    assert text["new"] == (kind == "stars")  # most cells of the others are observed
    if text["new"]:
        for i in range(post.shape[0]):
            assert not set(cols[rows == i]) & set(post.seen.rows(np.array([i]))[1].tolist())
    else:
        assert there.all() and there.shape[1] == min(BEST, post.shape[1])


def test_terms_are_contributions(made, page):
    """The named terms are the largest of those that add up to η; with all of them named, they are η."""
    _, post, _, _, _ = made
    text, arrays = decode(page.inside["script", "data"][0])
    if arrays["term"].shape[2] < len(text["terms"]) or not post.model.likelihood.identity:
        pytest.skip("not all terms are named, or μ is not η")
    total = arrays["term_value"].sum(axis=2) + post.draws.offset.mean()
    there = arrays["best"] < len(text["columns"])
    np.testing.assert_allclose(total[there], arrays["mean"][there], rtol=1e-3, atol=1e-3)


def test_hostile_labels_stay_text(made, page):
    kind, _, _, path, _ = made
    if kind != "hostile":
        pytest.skip("of another case")
    shown = path.read_text("utf-8")
    assert (
        "<script>alert" not in shown and "<img" not in shown and "\u202e" not in shown and "\x00" not in shown
    )
    assert "{{" not in shown.replace("{{script}}", "")
    text, _ = decode(page.inside["script", "data"][0])
    assert "<script>alert(1)</script>" in text["rows"] and "abc⟨U+202E⟩dcba⟨U+2066⟩" in text["rows"]
    assert max(map(len, text["rows"])) <= 80
    assert "<script>alert(1)</script>" in "".join(
        "".join(x) for key, x in page.inside.items() if key[0] == "bdi"
    )
    assert all(json.dumps(clean(label)) for label in HOSTILE)


def test_what_is_said(made):
    kind, _, test, path, record = made
    text = path.read_text("utf-8")
    assert record["verdict"] in ("good", "care", "bad") and record["bytes"] == path.stat().st_size < 400_000
    assert ("held-out entries were given" in text) == (test is None)
    assert ("trained on, for want of held-out ones" in text) == (kind == "dense")
    assert ("too few draws" in text) == (kind == "tall") and (kind != "tall" or record["verdict"] == "bad")
    assert (f'id="component-{made[1].model.rank}"' in text) and "noscript" in text


def test_without_what_a_run_records(tmp_path):
    """A posterior of an earlier version has no measured fit."""
    post, _, _ = CASES["clicks"]()
    post = replace(post, settings={k: v for k, v in post.settings.items() if k != "fit"})
    assert post.report(tmp_path / "a.html")["verdict"] == "care"
    assert (
        post.report(tmp_path / "b.html")
        and (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()
    )


def test_training_entries_given_as_held_out_are_noticed(tmp_path):
    post, _, data = CASES["hostile"]()
    record = post.report(tmp_path / "a.html", test=data, title="<b>Mine</b>")
    assert any("used to train the model" in line for line in record["said"])
    assert "<title>&lt;b&gt;Mine&lt;/b&gt;</title>" in (tmp_path / "a.html").read_text("utf-8")


def test_folded_in_rows(tmp_path):
    data = psgld.datasets.ratings(users=30, items=20, entries=250)
    post = psgld.sample(data.V, psgld.FactorModel(2, "gaussian"), draws=20, tune=50, progress=False)
    new = post.fold_in(psgld.Observations.from_chunks([(["new"] * 2, ["item-1", "item-2"], [5.0, 1.0])]))
    assert new.report(tmp_path / "a.html")["rows"] == 1


def test_other_posteriors(tmp_path):
    """Stacked chains have no R-hat; a single draw has no spread."""
    post, test, _ = CASES["hostile"]()
    assert any(
        "weighted sample" in line for line in post.stack(test).report(tmp_path / "a.html", test)["said"]
    )
    one = psgld.sample(np.eye(3), psgld.FactorModel(2, "poisson"), draws=1, tune=2, chains=1, progress=False)
    assert one.report(tmp_path / "b.html", data=np.eye(3))["rows"] == 3


def test_entries_that_were_held_out_are_found(tmp_path):
    V = np.random.default_rng(0).poisson(4.0, (20, 15)).astype(float)
    post = psgld.sample(
        psgld.split(V, 0.2)[0], psgld.FactorModel(2, "poisson"), draws=20, tune=50, progress=False
    )
    assert any("On 60 held-out entries" in line for line in post.report(tmp_path / "a.html")["said"])


def test_errors(tmp_path):
    post, _, _ = CASES["tall"]()
    with pytest.raises(psgld.DataError, match=r"ends in \.html"):
        post.report(tmp_path / "a.pdf")
    with pytest.raises(psgld.DataError, match="at least one"):
        post.report(tmp_path / "a.html", test=([], [], []))
    with pytest.raises(psgld.DataError, match="needs v > 0"):
        post.report(tmp_path / "a.html", test=([0], [0], [-1.0]))


@pytest.mark.parametrize("dtype", ["float32", "uint32", "uint16", "int8"])
def test_payload_there_and_back(dtype):
    arrays = {"a": np.arange(7).astype(dtype).reshape(1, 7), "b": np.empty((0, 3), np.float32)}
    text, found = decode(encode({"x": "</script>", "ü": [1, None]}, arrays))
    assert text == {"x": "</script>", "ü": [1, None]}
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array)
        assert found[name].dtype == array.dtype and found[name].shape == array.shape
