"""A problem, and the record of a fit to it: scores of held-out entries against time, one line of JSON per point.

This file runs in the environment of each peer: it needs NumPy, and SciPy only for the intervals of samplers.
"""

from __future__ import annotations

import json
import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
_TAIL = 0.05
"""Probability beyond each end of a 90 % interval."""

_FLOOR = 1e-10
"""Means of counts below it, where a count was seen, are scored as this: log 0 would end every comparison."""

TRACED = 40
"""Held-out entries whose means are recorded in every draw, for effective sample sizes."""


class Triples(NamedTuple):
    """Entries: rows, columns, values."""

    rows: Array
    cols: Array
    values: Array


@dataclass(frozen=True)
class Problem:
    """Entries to fit and entries to predict; `about` has rank, threads, seed, and what the kind of problem needs.

    `kind` is "ratings" (absent entries are unknown), "counts" (absent entries are zero, and the test data are a tenth
    of the counts, thinned), "posterior" (a small complete matrix) or "clicks".
    """

    kind: str
    shape: tuple[int, int]
    train: Triples
    test: Triples
    about: dict[str, Any]

    @classmethod
    def load(cls, path: Path) -> Problem:
        """Read what `save` wrote."""
        with np.load(path, allow_pickle=False) as file:
            train, test = (Triples(*(file[f"{part}_{n}"] for n in Triples._fields)) for part in _PARTS)
            rows, cols = (int(n) for n in file["shape"])
            return cls(str(file["kind"]), (rows, cols), train, test, json.loads(str(file["about"])))

    def save(self, path: Path) -> None:
        """Write a plain .npz file."""
        path.parent.mkdir(parents=True, exist_ok=True)
        parts = zip(_PARTS, (self.train, self.test), strict=True)
        arrays = {f"{part}_{n}": getattr(triples, n) for part, triples in parts for n in Triples._fields}
        about = json.dumps(self.about)
        np.savez(path, shape=np.array(self.shape), kind=self.kind, about=about, **arrays)


_PARTS = "train", "test"


class Record:
    """The clock of a fit, and the scores of its predictions. The clock stands still while they are computed."""

    def __init__(self, problem: Problem, out: TextIO) -> None:
        self._problem, self._out = problem, out
        self._seconds, self._cpu = 0.0, 0.0
        self._started = (time.perf_counter(), time.process_time())
        self._draws = _Mixture(problem.test.values)
        self._write(memory_before=peak_memory())

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Stop the clock: the block reads predictions and is no part of the fit."""
        wall, cpu = self._started
        self._seconds += time.perf_counter() - wall
        self._cpu += time.process_time() - cpu
        try:
            yield
        finally:
            self._started = (time.perf_counter(), time.process_time())

    def again(self) -> None:
        """Reset the clock: a peer that reports nothing on the way is fitted anew, for longer."""
        self._seconds, self._cpu = 0.0, 0.0
        self._started = (time.perf_counter(), time.process_time())

    def draw(
        self,
        passes: int,
        mu: Array,
        sd: float | None = None,
        total: float = 0.0,
        keep: bool = True,
        seconds: float | None = None,
    ) -> None:
        """Record a draw: the means of the held-out entries, sd of the noise, sum of the means of all cells.

        Draws of the burn-in (`keep=False`) are scored one by one, all others by the average so far. `seconds` is the
        time of the draw, if the peer recorded it itself and returned all draws at once.
        """
        mixture = self._draws if keep else _Mixture(self._problem.test.values)
        mixture.add(mu, sd, total)
        scores = self._scores(mixture.mean, mixture.total)
        if sd is not None:
            scores |= mixture.scores()
        clock = {} if seconds is None else {"seconds": seconds}
        traced = [float(x) for x in mu[:TRACED]] if keep else None
        self._point(passes, kept=keep, mu=traced, **scores, **clock)

    def estimate(self, passes: int, mu: Array, total: float = 0.0) -> None:
        """Record a point estimate. Its density of ratings is normal, with the sd of the errors on validation data."""
        scores = self._scores(mu, total)
        sd = self._problem.about.get("validation_rmse")
        if sd is not None and self._problem.kind == "ratings":
            scores["log_density"] = float(np.mean(_log_normal(self._problem.test.values, mu, sd)))
        self._point(passes, kept=True, **scores)

    def moments(self, passes: int, mean: Array, sd: Array, last: Array, keep: bool = True) -> None:
        """Record the mean and sd of new observations over the draws so far, and the last draw of the means."""
        scores = self._scores(mean, 0.0)
        if keep:
            values = self._problem.test.values
            scores["log_density"] = float(np.mean(_log_normal(values, mean, sd)))
            scores["coverage"] = float(np.mean(np.abs(values - mean) <= 1.6448536 * sd))
        self._point(passes, kept=keep, mu=[float(x) for x in last[:TRACED]] if keep else None, **scores)

    def hits(self, found: Array) -> None:
        """Record for each user how often the test item was among the best."""
        rate = float(found.mean())
        self._point(0, kept=True, hit_rate=rate, error=float(np.sqrt(rate * (1 - rate) / len(found))))

    def note(self, **values: Any) -> None:
        """Record what is no point of the curve: versions, settings, times of phases."""
        self._write(**values)

    @property
    def seconds(self) -> float:
        """The wall time of the fit so far; to be read aside."""
        return self._seconds

    def _scores(self, mean: Array, total: float) -> dict[str, float]:
        values, about = self._problem.test.values, self._problem.about
        if self._problem.kind == "counts":
            ratio = about["ratio"]
            log = float(np.sum(values * np.log(ratio * np.maximum(mean, _FLOOR))))
            return {"log_density": (log - about["constant"] - ratio * total) / float(values.sum())}
        if self._problem.kind == "ratings":
            low, high = about["range"]
            return {"rmse": float(np.sqrt(np.mean((np.clip(mean, low, high) - values) ** 2)))}
        return {}

    def _point(self, passes: int, **scores: Any) -> None:
        self._write(**({"passes": passes, "seconds": self._seconds, "cpu": self._cpu} | scores))

    def _write(self, **values: Any) -> None:
        found = {name: value for name, value in values.items() if value is not None}
        self._out.write(json.dumps(found) + "\n")
        self._out.flush()


class _Mixture:
    """Averages over draws: means, and density and distribution function of the held-out values."""

    def __init__(self, values: Array) -> None:
        self._values, self._count = values, 0
        self._mean = np.zeros(len(values))
        self._total = 0.0
        self._log = np.full(len(values), -np.inf)
        self._below = np.zeros(len(values))

    def add(self, mu: Array, sd: float | None, total: float) -> None:
        """Add a draw."""
        self._count += 1
        self._mean += mu
        self._total += total
        if sd is not None:
            from scipy.special import ndtr

            self._log = np.logaddexp(self._log, _log_normal(self._values, mu, sd))
            self._below += ndtr((self._values - mu) / sd)

    @property
    def mean(self) -> Array:
        """The average of the means."""
        return np.asarray(self._mean / self._count)

    @property
    def total(self) -> float:
        """The average of the sums of the means of all cells."""
        return self._total / self._count

    def scores(self) -> dict[str, float]:
        """Return the mean log density of the values, and the share of them inside their 90 % intervals."""
        below = self._below / self._count
        return {
            "log_density": float(np.mean(self._log - np.log(self._count))),
            "coverage": float(np.mean((below >= _TAIL) & (below <= 1 - _TAIL))),
        }


def _log_normal(values: Array, mean: Array, sd: Any) -> Array:
    return np.asarray(-0.5 * ((values - mean) / sd) ** 2 - np.log(sd) - 0.5 * np.log(2 * np.pi))


def peak_memory() -> int:
    """Return the peak resident memory of this process in bytes.

    `ru_maxrss` counts what the process was before it became another program, so Linux is asked first.
    """
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
    except (OSError, StopIteration):
        return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
