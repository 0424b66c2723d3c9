"""The tables of docs/peers.md, between its markers, from the results in `out/peers/`."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from . import plots
from .results import disturbed, file_of, read, seconds_per_pass, seconds_to

Table = dict[str, Any]
Cell = Callable[[Table], str]


def in_a_line(run: Table) -> str:
    """Return the outcome of a run, for the terminal."""
    name = f"{run['peer']}, {run['variant']}"
    if "failure" in run:
        return f"{name}: {run['failure']}"
    last = run["curve"][-1] if run["curve"] else {}
    scores = (f"{n} {last[n]:.4f}" for n in ("rmse", "log_density", "coverage", "hit_rate") if n in last)
    return f"{name}: {', '.join(scores)}; {last.get('seconds', 0.0):.2f} s; {run.get('settings')}"


def tables(folder: Path, page: Path, names: Iterable[str]) -> dict[str, str]:
    """Return the text of each problem for which there are results, by the name of its marker; draw the plots."""
    found = {}
    for name in names:
        path = file_of(folder, name)
        if results := read(path):
            plot = page.with_suffix("") / f"{path.stem}.png"
            picture = f"\n\n![{name}: held-out score against seconds]({page.stem}/{plot.name})"
            found[path.stem] = section(results) + (picture if plots.curves(results, plot) else "")
    return found


def section(results: Table) -> str:
    """Return what was measured on a problem: a line about it, the table, what could not be run, what was tried."""
    runs = [run for run in results["runs"] if "failure" not in run and run["curve"]]
    columns = _columns(results)
    rows = [[f"{run['peer']}, {run['variant']}", *(cell(run) for cell in columns.values())] for run in runs]
    lines = [_about(results, runs), "", _row(["", *columns]), "|---|" + "---|" * len(columns)]
    lines += [_row(row) for row in rows]
    notes = [f"{_name(r)}: {r['failure']}" for r in results["runs"] if "failure" in r]
    if busy := [r for r in runs if disturbed(r)]:
        which = "" if len(busy) == len(runs) else f": {'; '.join(map(_name, busy))}"
        most = max(r["others"] for r in busy)
        notes.append(f"others used up to {most} cores, so times are not shown{which}")
    notes += [f"{_name(r)}: {r['stopped']}" for r in runs if "stopped" in r]
    notes += [f"{_name(r)}: {_tried(r)}" for r in runs if r.get("tried")]
    return "\n".join([*lines, "", *map(_item, notes)]).strip()


def _item(note: str) -> str:
    return textwrap.fill(note, 118, initial_indent="- ", subsequent_indent="  ", break_long_words=False)


def _about(results: Table, runs: list[Table]) -> str:
    dates = sorted({run["date"] for run in runs})
    others = [run["others"] for run in runs]
    about = results["about"]
    sizes = f"{results['shape'][0]:,} × {results['shape'][1]:,}, {results['train']:,} entries to fit"
    load = f"others used {min(others):.2f} to {max(others):.2f} cores" if others else "no results"
    return (
        f"{sizes}, {results['test']:,} to predict; rank {about['rank']}, {about['threads']} thread(s).\n"
        f"{results['machine']}; {' to '.join(dates[:1] + dates[1:][-1:])}; {load}.\n"
        f"{_versions(runs)}."
    )


def _versions(runs: list[Table]) -> str:
    """Return the packages and their versions; of this project, where it is known, the commit.

    A run that was stopped does not say its version.
    """
    found = {
        f"{run['peer']} {known}": None for run in runs if (known := run.get("revision") or run.get("version"))
    }
    return ", ".join(found)


def _columns(results: Table) -> dict[str, Cell]:
    kind = results["kind"]
    time: dict[str, Cell] = {
        "seconds": _timed(lambda run: _number(run["curve"][-1]["seconds"])),
        "CPU seconds": _timed(lambda run: _number(run["curve"][-1]["cpu"])),
    }
    each: dict[str, Cell] = {
        "ms per pass": _timed(lambda run: _number(_milli(seconds_per_pass(run["curve"]))))
    }
    ess: dict[str, Cell] = {"ESS of μ per second": _timed(lambda run: _number(run.get("ess_per_second")))}
    memory: dict[str, Cell] = {"MB added (peak)": _memory}
    if kind == "ratings":
        bars = results["about"].get("bars", [])
        return (
            {"test RMSE": _last("rmse", 4), "log density": _last("log_density", 4), "in 90 %": _percent}
            | {f"s to {bar:g}": _until(bar) for bar in bars}
            | time | each | ess | memory
        )  # fmt: skip
    if kind == "counts":
        return {"held-out log likelihood per count": _last("log_density", 4)} | time | each | memory
    if kind == "posterior":
        distance = {"RMS distance of μ from NUTS, sd": _distance(results)}
        draws: dict[str, Cell] = {"ESS": lambda run: _number(run.get("ess"))}
        return ess | draws | {"s of warm-up": _timed(_warmup)} | each | distance | memory
    return {"hit rate at 10": _last("hit_rate", 3), "±": _last("error", 3)} | time


def _timed(cell: Cell) -> Cell:
    """Return a cell that shows no time if others kept the machine busy."""
    return lambda run: "–" if disturbed(run) else cell(run)


def _distance(results: Table) -> Cell:
    """Return a cell that compares the posterior means of μ with those of NUTS, in posterior sd."""
    reference = next((run for run in results["runs"] if run["peer"] == "NumPyro" and "mu_mean" in run), None)

    def cell(run: Table) -> str:
        if reference is None or run is reference or "mu_mean" not in run:
            return "–"
        means, others, sds = (np.array(x) for x in (run["mu_mean"], reference["mu_mean"], reference["mu_sd"]))
        return _number(float(np.sqrt(np.mean(((means - others) / sds) ** 2))))

    return cell


def _until(bar: float) -> Cell:
    def cell(run: Table) -> str:
        seconds = seconds_to(run["curve"], bar)
        return "not reached" if seconds is None else _timed(lambda _: _number(seconds))(run)

    return cell


def _last(name: str, digits: int) -> Cell:
    return lambda run: f"{run['curve'][-1][name]:.{digits}f}" if name in run["curve"][-1] else "–"


def _percent(run: Table) -> str:
    share = run["curve"][-1].get("coverage")
    return "–" if share is None else f"{100 * share:.1f} %"


def _memory(run: Table) -> str:
    return _number((run["memory"] - run["memory_before"]) / 1e6) if "memory" in run else "–"


def _warmup(run: Table) -> str:
    burnt = [point["seconds"] for point in run["curve"] if not point["kept"]]
    return _number(run.get("warmup_seconds", burnt[-1] if burnt else None))


def _milli(seconds: float | None) -> float | None:
    return None if seconds is None else 1000 * seconds


def _number(x: float | None) -> str:
    """Return three digits, and no exponent."""
    if x is None:
        return "–"
    return f"{x:,.0f}" if abs(x) >= 99.5 else f"{x:.3g}"


def _tried(run: Table) -> str:
    def one(entry: Table) -> str:
        settings = ", ".join(f"{name} {value}" for name, value in entry["settings"].items())
        (score,) = (value for name, value in entry.items() if name != "settings")
        return f"{settings}: {score:.4f}"

    return "on validation data " + "; ".join(one(entry) for entry in run["tried"])


def _name(run: Table) -> str:
    return f"{run['peer']}, {run['variant']}"


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def write(page: Path, sections: dict[str, str]) -> None:
    """Replace what is between the markers of each section; a page without them gets them at its end."""
    text = page.read_text() if page.exists() else ""
    for name, body in sections.items():
        begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
        block = f"{begin}\n\n{body}\n\n{end}"
        pattern = re.compile(re.escape(begin) + ".*?" + re.escape(end), re.DOTALL)
        text = pattern.sub(lambda _, new=block: new, text) if pattern.search(text) else f"{text}\n{block}\n"
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(text)
