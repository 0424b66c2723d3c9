"""The summary of a run, as text."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import SamplingError
from ..models.modes import NAMES
from ..runs.result import Result
from .diagnostics import diagnose

_WORDS = {"phi": "dispersion φ"}


def summary(posterior: Result) -> str:
    """Return what was sampled, how, and how it went, in a few lines."""
    p, s = posterior, posterior.settings
    rows, cols = p.shape
    lp = p.sample_stats["lp"]
    lines = [
        f"Posterior of a rank-{p.model.rank} factorisation of a {rows:,} × {cols:,} matrix",
        f"  likelihood     {p.model.likelihood!r}",
        f"  priors         rows {p.model.row_prior!r}, columns {p.model.col_prior!r}"
        + (", with biases" if p.model.bias else ""),
        f"  observed       {s['entries']:,} entries",
        f"  sampler        {_sampler(s)}",
        f"  draws          {_plural(p.chains, 'chain')} × {lp.shape[1]}, {s['thin']} iterations apart, "
        f"after {s['tune']}",
        *(f"  {_WORDS.get(name, name):14} {_interval(x)}" for name, x in p.parameters.items()),
        *(
            f"  {f'shape of {names.factor}':14} {_interval(own.shape)}"
            for names, own in zip(NAMES, p.draws.modes, strict=True)
            if own.shape is not None
        ),
    ]
    if found := s.get("starts"):
        lines.append(
            f"  starts         all chains began at the best of {found['number']} short chains: the posterior around "
            "the best mode found; other modes, and their weight, are not known"
        )
    if found := s.get("stacking"):
        shares = ", ".join(f"{w:.2f}" for w in found["weights"])
        lines.append(
            f"  stacked        chains weighed {shares} by the density of {found['entries']:,} entries"
        )
    if p.model.bias:
        lines.append(f"  offset         {_interval(p.draws.offset)}")
    if "folded_in" in s:
        lines.append(f"  folded in      the {s['folded_in']}, given the draws of everything else")
        return "\n".join([*lines, *(f"  {note}" for note in _notes(p, lp))])
    if fit := s.get("fit"):
        lines.append(f"  fit            {_fit(fit)}")
    lines.append(
        f"  log posterior  {lp.mean():,.6g} ± {lp.std():.3g}"
        + (f" (likelihood from {s['lp_entries']:,} entries)" if s["lp_entries"] < s["entries"] else "")
    )
    step = float(p.sample_stats["step_size"][:, -1].mean())
    if step == step:  # NaN: the sampler has none
        lines.append(f"  step size      {step:.4g} at the end")
    lines += [f"  {note}" for note in _notes(p, lp)]
    return "\n".join(lines)


def _fit(fit: dict[str, Any]) -> str:
    """Return what the model says of the monitored entries beside what the data say."""
    (v, v_sd), (mu, mu_sd) = fit["v"], fit["mu"]
    words = f"μ {mu:.4g} ± {mu_sd:.3g}, data {v:.4g} ± {v_sd:.3g}; log likelihood {fit['log_likelihood']:.4g}"
    if baselines := fit.get("baselines"):
        best = max(baselines.values())
        words += f" per entry, {best:.4g} by means of rows and columns"
    return words


def _sampler(settings: dict[str, Any]) -> str:
    """Return the sampler and what was chosen for it, as far as it has such settings."""
    words = [settings["sampler"]["name"]]
    if "blocks" in settings:
        words.append(_plural(settings["blocks"], "block"))
    if "metric" in settings:
        words.append(f"{settings['metric']} metric")
    return ", ".join(words)


def _notes(p: Result, lp: Any) -> list[str]:
    """Return what deserves attention, in plain words, and whether the chains have converged."""
    notes = []
    if p.divergences:
        notes.append(
            f"! chains diverged {_plural(p.divergences, 'time')}; they were reset and their step size halved"
        )
    if p.interrupted:
        notes.append("! sampling was interrupted: these are the draws made until then")
    if lp.shape[1] < 20:
        return [*notes, "too few draws to tell whether the chains have converged"]
    try:
        return [*notes, diagnose(p).verdict]
    except SamplingError as error:
        return [*notes, f"({error})"]


def _interval(x: Any) -> str:
    low, high = np.quantile(x, [0.05, 0.95])
    return f"{x.mean():.4g}" if low == high else f"{x.mean():.4g} (90 %: {low:.4g} to {high:.4g})"


def _plural(n: int, what: str) -> str:
    return f"{n} {what}" if n == 1 else f"{n} {what}s"
