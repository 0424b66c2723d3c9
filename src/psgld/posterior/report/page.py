"""The page: its template with all sections, style, script and data filled in."""

from __future__ import annotations

import base64
import hashlib
import re
from importlib.resources import files
from typing import Any

import numpy as np

from ...runs.result import Result
from ..components import Component, Components, Loadings
from ..diagnostics import Diagnostics
from ..summary import summary
from . import charts
from .accuracy import Accuracy
from .payload import encode
from .rows import LookUp
from .text import details, esc, label, number, percent, table, titles
from .words import Said

_CARDS, _PLAIN_ROWS, _PLAIN_BEST = 5, 60, 3
"""Components shown in full; rows, and columns per row, in the table for readers without scripts."""

_MARKS = {"good": "✓", "care": "!", "bad": "✕"}
_TONES = {"good": "Ready to use", "care": "Use with care", "bad": "Not ready"}


def page(
    posterior: Result, title: str, said: Said, scores: Accuracy | None, found: Diagnostics | None,
    parts: Components, rows: LookUp,
) -> str:  # fmt: skip
    """Return the page as text."""
    style, script = (_read(name) for name in ("page.css", "page.js"))
    return _filled(
        _read("page.html"),
        {
            "title": esc(_short(title)),
            "policy": _policy(style, script),
            "style": style,
            "script": script,
            "about": _about(posterior),
            "verdict": _verdict(said),
            "tiles": _tiles(posterior, scores, found),
            "accuracy": _accuracy(posterior, scores),
            "components": _components(posterior, parts),
            "lookup_note": _lookup_note(posterior, rows),
            "plain_rows": _plain_rows(rows),
            "diagnostics": _diagnostics(posterior, found),
            "summary": esc(summary(posterior)),
            "data": encode(rows.text, rows.arrays),
            "version": esc(posterior.settings["version"]),
        },
    )


def _read(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8").strip() + "\n"


def _filled(template: str, parts: dict[str, str]) -> str:
    """Replace {{name}} once: what was filled in is not looked at again."""
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], template)


def _policy(style: str, script: str) -> str:
    """Return the content security policy: this style and this script, nothing else, and no request."""

    def source(text: str) -> str:
        return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

    return (
        f"default-src 'none'; script-src {source(script)}; style-src {source(style)}; "
        "base-uri 'none'; form-action 'none'"
    )


def _short(title: str) -> str:
    return title if len(title) <= 120 else title[:119] + "…"


def _about(p: Result) -> str:
    rows, cols = p.shape
    cells = rows * cols
    entries = int(p.settings["entries"])
    words = {
        "poisson": "counts",
        "negative-binomial": "counts",
        "bernoulli": "yes or no",
        "ordinal": "ordered levels",
    }
    kind = words.get(p.model.likelihood.name, "values")
    return (
        f"A table of {rows:,} rows and {cols:,} columns, {entries:,} {kind} observed ({percent(entries / cells, 1)} of "
        f"all cells), explained by {p.model.rank} component{'s' * (p.model.rank != 1)}. "
        "Every prediction comes with an interval that a new observation should lie in."
    )


def _verdict(said: Said) -> str:
    lines = "".join(f"<li>{esc(text)}</li>" for text in said.sentences)
    return (
        f'<div class="verdict {said.tone}"><p class="badge"><span aria-hidden="true">{_MARKS[said.tone]}</span> '
        f"{_TONES[said.tone]}</p><h2>{esc(said.headline)}</h2><ul>{lines}</ul></div>"
    )


def _tiles(p: Result, s: Accuracy | None, found: Diagnostics | None) -> str:
    """Return the key figures."""
    tiles = []
    if s is not None:
        where = "held-out entries" if s.held_out else "training entries"
        tiles.append((number(s.rmse), "typical error", f"mean alone: {number(s.rmse_constant)}"))
        tiles.append(
            (percent(s.held), f"of values inside intervals that promise {percent(s.promised)}", where)
        )
    else:
        v = p.settings.get("fit", {}).get("v")
        if v:
            tiles.append((number(v[0]), "mean of the data", f"standard deviation {number(v[1])}"))
    if found is not None and np.isfinite(found.rhat).any():
        tiles.append(
            (
                f"{np.nanmax(found.rhat):.2f}",
                "largest R-hat",
                "1.00 is perfect, 1.05 is enough for predictions",
            )
        )
    tiles.append(
        (f"{p.draws.phi.size:,}", "draws from the posterior", f"{p.chains} chain{'s' * (p.chains != 1)}")
    )
    cells = "".join(
        f'<div><dt>{esc(name)}</dt><dd>{esc(value)}</dd><dd class="note">{esc(note)}</dd></div>'
        for value, name, note in tiles
    )
    return f'<dl class="tiles">{cells}</dl>'


def _accuracy(p: Result, s: Accuracy | None) -> str:
    if s is None:
        fit = p.settings.get("fit", {})
        note = (
            "<p>No held-out entries were given, and a saved run does not keep the values of its data. So this page "
            "cannot say how well new entries are predicted. "
            "<code>psgld report RUN -o report.html --test test.csv</code> adds that.</p>"
        )
        return note + (f'<div class="charts">{charts.groups(fit)}</div>' if fit.get("rows") else "")
    where = (
        f"Judged on {len(s.values):,} held-out entries"
        if s.held_out
        else f"Judged on {len(s.values):,} entries that the model was trained on, for want of held-out ones: "
        "errors on new entries will be larger"
    )
    sample = f" (a random sample of {s.total:,})" if len(s.values) < s.total else ""
    left = "" if s.loo is None else f" Leave-one-out log density per entry (PSIS): {number(s.loo)}."
    scores = [
        ("root mean square error", number(s.rmse), number(s.rmse_constant)),
        ("mean absolute error", number(s.mae), number(s.mae_constant)),
        ("mean log predictive density", number(s.log_density), ""),
        (f"values inside 90 % intervals (promised {percent(s.promised, 1)})", percent(s.held, 1), ""),
    ]
    both = table("Scores", ("score", "model", "constant"), scores)
    return (
        f"<p>{where}{sample}.{left}</p>"
        f'<div class="charts">{charts.observed(s)}{charts.calibration(s)}{charts.examples(p, s)}</div>{both}'
    )


def _sentence(text: str) -> str:
    text = text.removeprefix("! ")
    return f"{text[:1].upper()}{text[1:]}."


# -- components ----------------------------------------------------------------------------------------------------


def _components(p: Result, parts: Components) -> str:
    cards = "".join(_card(p, one) for one in list(parts)[:_CARDS])
    rest = list(parts)[_CARDS:]
    more = details(
        f"{len(rest)} smaller components",
        f'<div class="cards">{"".join(_card(p, one) for one in rest)}</div>',
    )
    of = (
        "the sum of all predictions"
        if p.model.nonnegative
        else "what rows and columns have in common, beyond their own levels"
    )
    unsure = sum(one.verdict == "unstable" for one in parts)
    varying = sum(one.verdict == "varies" for one in parts)
    warning = (
        f" {varying} of {len(parts)} vary somewhat between parts of the run."
        if varying
        else " All are stable."
    )
    if unsure:
        warning = (
            f" <strong>{unsure} of {len(parts)} are unstable</strong>: they differ between parts of the run, so do "
            "not read meaning into them. Predictions are not affected."
        )
    both = (
        ""
        if p.model.nonnegative
        else " Each has two ends: a row and a column at the same end go together, at opposite ends they do not."
    )
    svg = charts.shares(parts)
    shares = f"<figure>{svg}<figcaption>Share of {of}. Bars: 90 % intervals.</figcaption></figure>"
    return (
        f"<p>A component is a group of rows and columns that go together.{both}{warning}</p>"
        f'<div class="cards">{shares}{cards}</div>{more if rest else ""}'
    )


def _card(p: Result, one: Component) -> str:
    lists = []
    for axis, (name, loadings) in enumerate((("Rows", one.rows), ("Columns", one.cols))):
        ends = [(name, loadings.mean > -np.inf)]
        if not p.model.nonnegative:
            ends = [(f"{name}, one end", loadings.mean >= 0), (f"{name}, other end", loadings.mean < 0)]
        names = titles(p, axis, loadings.index)
        lists += [_loadings(title, names, loadings, at) for title, at in ends if at.any()]
    badge = {"stable": "good", "varies": "care", "unstable": "bad"}[one.verdict]
    head = f'Component {one.number} <span class="chip {badge}">{one.verdict}</span>'
    share = f"{percent(one.share, 1)} (90 %: {percent(one.share_low, 1)} to {percent(one.share_high, 1)})"
    return (
        f'<article class="card" id="component-{one.number}"><h3>{head}</h3>'
        f"<p>Share {share}; stability {one.stability:.2f}</p>"
        f'<div class="lists">{"".join(lists)}</div></article>'
    )


def _loadings(title: str, names: list[str], loadings: Loadings, at: Any) -> str:
    """Return a list of labels with their loadings as bars."""
    mean, low, high = (np.abs(x[at]) for x in (loadings.mean, loadings.low, loadings.high))
    crossing = np.sign(loadings.low[at]) != np.sign(loadings.high[at])
    low, high = np.where(crossing, 0.0, np.minimum(low, high)), np.maximum(low, high)
    scale = 100.0 / max(float(high.max()), 1e-300)
    order = np.argsort(-mean, kind="stable")
    lines = "".join(
        f"<li>{label(name)}{_bar(mean[k] * scale, low[k] * scale, high[k] * scale)}</li>"
        for k, name in zip(order, np.array(names, object)[at][order], strict=True)
    )
    return f"<div><h4>{title}</h4><ol>{lines}</ol></div>"


def _bar(mean: float, low: float, high: float) -> str:
    return (
        '<svg class="load" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect class="rail" width="100" height="8"/><rect class="fill" width="{mean:.1f}" height="8"/>'
        f'<rect class="whisker" x="{low:.1f}" y="3" width="{max(high - low, 0.5):.1f}" height="2"/></svg>'
    )


# -- the look-up ---------------------------------------------------------------------------------------------------


def _lookup_note(p: Result, rows: LookUp) -> str:
    among = "columns without an entry of that row" if rows.text["new"] else "columns"
    which = "" if rows.complete else f" The page holds the {len(rows.text['rows']):,} rows with most entries."
    scale = "" if p.model.likelihood.identity else " Contributions are on the scale of the linear predictor."
    return f"The best {among}, by predicted mean, with 90 % intervals of a new observation.{which}{scale}"


def _plain_rows(rows: LookUp) -> str:
    """Return a table of some rows for readers without scripts."""
    a, lines = rows.arrays, []
    for r, name in enumerate(rows.text["rows"][:_PLAIN_ROWS]):
        cells = [
            f"{label(rows.text['columns'][c])} {number(m)} ({number(lo)} to {number(hi)})"
            for c, m, lo, hi in zip(a["best"][r], a["mean"][r], a["low"][r], a["high"][r], strict=True)
            if c < len(rows.text["columns"])
        ]
        lines.append((label(name), "; ".join(cells[:_PLAIN_BEST])))
    return table("Best columns of some rows, with 90 % intervals", ("row", "best columns"), lines)


# -- diagnostics ---------------------------------------------------------------------------------------------------


def _diagnostics(p: Result, found: Diagnostics | None) -> str:
    if found is None:
        return f'<div class="charts">{charts.traces(p)}</div>'
    order = np.argsort(-np.nan_to_num(found.rhat, nan=-1.0), kind="stable")[:12]
    rows = [
        (label(found.names[k]), f"{found.rhat[k]:.3f}", number(found.ess_bulk[k]), number(found.ess_tail[k]))
        for k in order
    ]
    worst = table("The largest R-hats", ("quantity", "R-hat", "ESS, bulk", "ESS, tail"), rows)
    return f'<p>{esc(_sentence(found.verdict))}</p><div class="charts">{charts.traces(p)}<div>{worst}</div></div>'
