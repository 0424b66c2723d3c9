"""The table of `test_core_checks.py`: of each binding a call that is right, and what each of its arguments is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from psgld import _core

I, J, K, S = 12, 9, 3, 2
POOL = _core.Pool(2)


@dataclass
class Case:
    """A call that is right, and which of its arguments are what."""

    call: Callable[..., object]
    given: dict[str, Any]
    indices: dict[str, int] = field(default_factory=dict)
    """Arrays of indices (or numbers): how many there are."""
    bounds: tuple[str, ...] = ()
    """Arrays that rise from 0 to the number of entries."""
    once: tuple[str, ...] = ()
    """Arrays of indices in which none may come twice."""
    sized: tuple[str, ...] = ()
    """Arrays of a given length."""

    def bad(self) -> Iterator[tuple[str, str, Any]]:
        """Yield the name of an argument, what is wrong with it, and the wrong value."""
        for name, size in self.indices.items():
            for value in (-1, size, size + 10**6):
                yield from self._with(name, value)
        for name in self.bounds:
            yield from ((name, how, value) for how, value in bad_bounds(self.given[name]))
        for name in self.once:
            twice = self.given[name].copy()
            twice[0] = twice[-1]
            yield name, "one twice", twice
        for name in (*self.sized, *self.bounds):
            array = self.given[name]
            yield name, "too short", np.ascontiguousarray(array[:-1])
            yield name, "too long", np.concatenate([array, array[-1:]])

    def _with(self, name: str, value: int) -> Iterator[tuple[str, str, Any]]:
        right = self.given[name]
        if np.isscalar(right):
            yield name, f"is {value}", value
            return
        for place in {0, right.size // 2, right.size - 1}:
            if np.iinfo(right.dtype).min <= value <= np.iinfo(right.dtype).max:
                wrong = right.copy()
                wrong.flat[place] = value
                yield name, f"[{place}] = {value}", wrong


def bad_bounds(right: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """Yield bounds that do not rise from 0 to the end."""
    changes = {
        "first - 1": (0, -1), "first + 1": (0, 1), "last - 1": (-1, -1), "last + 1": (-1, 1),
        "last + 10**6": (-1, 10**6), "falls": (len(right) // 2, 10**6), "negative": (len(right) // 2, -(10**6)),
    }  # fmt: skip
    for how, (place, by) in changes.items():
        wrong = right.copy()
        wrong[place] += by
        yield how, wrong


def int64(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def int32(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


# A sparse matrix, rows and columns in two strips.
RNG = np.random.default_rng(0)
MASK = RNG.random((I, J)) < 0.5
MASK[0] = MASK[:, 0] = True
START = np.concatenate([[0], np.cumsum(MASK.sum(1))])
INDEX = np.nonzero(MASK)[1].astype(np.int32)
VALUE = RNG.poisson(2.0, len(INDEX)).astype(np.float64) + 1
SIDES = {
    "order0": RNG.permutation(I),
    "bounds0": int64(0, 5, I),
    "order1": RNG.permutation(J),
    "bounds1": int64(0, 4, J),
}
TURNED = {name: SIDES[name[:-1] + "10"[int(name[-1])]] for name in SIDES}


def sides(swapped: bool) -> dict[str, Any]:
    sizes = (J, I) if swapped else (I, J)
    return {
        "indices": {"order0": sizes[0], "order1": sizes[1]},
        "once": ("order0", "order1"),
        "bounds": ("bounds0", "bounds1"),
    }


def sparse_grid(name: str, swapped: bool, dtype: Any = np.float64) -> Case:
    what = sides(swapped)
    what["indices"] |= {"index": J, "first_strip": 1}
    what["bounds"] += ("start",)
    given = {
        "start": START, "index": INDEX, "value": VALUE.astype(dtype), "weight": np.ones(len(VALUE), dtype),
        "swapped": swapped, "zeros": False, "shift": 0.0, "first_strip": 0,
        "outer_size": J if swapped else I, **(TURNED if swapped else SIDES),
    }  # fmt: skip
    return Case(lambda **a: getattr(_core, name)(*a.values()), given, **what, sized=("value", "weight"))


def dense_grid(name: str, swapped: bool) -> Case:
    what = sides(swapped)
    what["indices"] |= {"first_strip": 1}
    given = {
        "v": RNG.random((I, J)), "weight": np.ones((I, J)), "swapped": swapped, "shift": 0.0, "first_strip": 0,
        "outer_size": J if swapped else I, **(TURNED if swapped else SIDES),
    }  # fmt: skip
    return Case(lambda **a: getattr(_core, name)(*a.values()), given, **what, sized=("v", "weight"))


def block_entries() -> np.ndarray:
    at = [np.split(SIDES[f"order{s}"], SIDES[f"bounds{s}"][1:-1]) for s in (0, 1)]
    return np.array([[MASK[np.ix_(r, c)].sum() for c in at[1]] for r in at[0]])


def new_file(path: Path) -> Any:
    return in_file(
        path,
        True,
        KEY,
        block_entries().ravel(),
        *(MASK.sum(a).astype(float) for a in (1, 0)),
        False,
        *SIDES.values(),
    )


KEY = "0" * 64


def in_file(path: Path, create: bool, *rest: Any) -> Any:
    with open(path, "w+b" if create else "r+b") as file:
        return _core.Grid32(file.fileno(), create, *rest)


def file_grid(path: Path) -> Case:
    what = sides(False)
    what["indices"] |= {"entries": 2**32}
    given = {
        "path": path, "create": True, "key": KEY, "entries": block_entries().ravel(),
        "counts0": MASK.sum(1).astype(float), "counts1": MASK.sum(0).astype(float), "swapped": False, **SIDES,
    }  # fmt: skip
    return Case(lambda **a: in_file(*a.values()), given, **what, sized=("entries", "counts0", "counts1"))


def fill(path: Path) -> Case:
    rows = SIDES["order0"][:5]
    start = np.concatenate([[0], np.cumsum(MASK[rows].sum(1))])
    index = np.concatenate([np.nonzero(MASK[r])[0] for r in rows]).astype(np.int32)
    given = {
        "start": start,
        "index": index,
        "value": np.ones(len(index)),
        "ids": rows,
        "strip": 0,
        "shift": 0.0,
    }

    def call(**a: Any) -> None:
        assert new_file(path).fill(*a.values())

    return Case(call, given, {"index": J, "ids": I, "strip": 2}, ("start",), sized=("value", "ids"))


def chain(name: str = "Chain32", zeros: bool = False) -> Any:
    grid = sparse_grid(name.replace("Chain", "Grid"), False)
    made = getattr(_core, name)(grid.call(**grid.given), K, False, "poisson", 1e-30, zeros, 1.0, False)
    for which, size in ((0, I), (1, J)):
        made.scatter(which, "x", np.ones((size, K), made.array(which, "x").dtype))
    return made


def add_sums() -> Case:
    def call(**a: Any) -> None:
        made = chain()
        made.clear_sums()
        made.add_sums(POOL, *a.values())

    given = {"kind": "score", "part": 1, "first": 0, "last": 2}
    return Case(call, given, {"part": 2, "first": 3, "last": 3})


PLACES = 32  # of two strips of at most 16 rows


def of_chain(name: str, given: dict[str, Any], indices: dict[str, int], **more: Any) -> Case:
    def call(**a: Any) -> object:
        return getattr(chain(), name)(*a.values())

    return Case(call, given, indices, **more)


def stretch(chunks: int = 2) -> dict[str, Any]:
    return {
        "pool": POOL, "t": 1, "parts": int32(0, 1, 0), "steps": np.full(3, 1e-3), "scales": np.ones(3),
        "draws": np.full((3, chunks), 2, np.int32),
    }  # fmt: skip


def draws(name: str, given: dict[str, Any], indices: dict[str, int], **more: Any) -> Case:
    def call(**a: Any) -> object:
        kept = _core.Draws32(
            np.ones((S, I, K), np.float32),
            np.ones((S, J, K), np.float32),
            None,
            None,
            np.zeros(S),
            np.ones(S),
            "poisson",
            np.ones((S, 1)),
            1e-30,
        )
        return getattr(kept, name)(POOL, *a.values())

    return Case(call, given, indices, **more)


PAIRS = {"rows": int64(0, 5, I - 1), "cols": int64(0, 3, J - 1)}
TWO = {"rows": I, "cols": J}
SEEN = {"start": int64(0, 1, 2, 4), "seen": int32(0, 5, 2, J - 1)}
ALLOWED = np.ones(J, bool)


def counts(which: str) -> Case:
    start, index = START, INDEX
    turned = np.concatenate([[0], np.cumsum(MASK.sum(0))]), np.nonzero(MASK.T)[1].astype(np.int32)
    given = {
        "outer": I, "inner": J, "start": start, "index": index, "count": np.ones(len(index), np.int32),
        "outer_start": start, "outer_index": index, "inner_start": turned[0], "inner_index": turned[1],
        "outer_weight": np.ones(len(index)), "inner_weight": np.ones(len(index)), "everywhere": 0.0,
    }  # fmt: skip
    indices = {f"{which}index": I if which == "inner_" else J}
    sized = ("count", "outer_weight", "inner_weight") if not which else ()
    return Case(lambda **a: _core.Counts(*a.values()), given, indices, (f"{which}start",), sized=sized)


def fold_in(dtype: Any) -> Case:
    given = {
        "h": np.ones((S, J, K), dtype), "phi": np.ones(S), "linear": -np.ones((S, K)), "quadratic": np.zeros((S, K)),
        "coupling": np.zeros((S, K, K)), "inverse": np.zeros(S), "real": False,
        "offset": np.zeros((S, J)), "family": "poisson",
        "parameters": np.ones((S, 1)), "floor": 1e-30, "start": START, "index": INDEX, "value": VALUE,
        "weight": np.ones(len(VALUE)), "zeros": False, "zero_weight": 1.0, "sweeps": 1, "seed": 1,
        "out": np.zeros((S, I, K), dtype),
    }  # fmt: skip
    sized = (
        "phi",
        "linear",
        "quadratic",
        "coupling",
        "inverse",
        "offset",
        "parameters",
        "value",
        "weight",
        "out",
    )
    return Case(lambda **a: _core.fold_in(POOL, *a.values()), given, {"index": J}, ("start",), sized=sized)


def records() -> np.ndarray:
    kind = np.dtype([("row", np.int32), ("col", np.int32), ("value", np.float32)])
    return np.array([(0, 0, 1.0), (I - 1, J - 1, 2.0)], kind)


def place_entries() -> Case:
    wide = records()

    def call(row: Any, col: Any, done: int, first: int, cols: Any, values: Any) -> object:
        table = wide.copy()
        table["row"], table["col"] = row, col
        flat = np.frombuffer(table.tobytes(), np.uint8).copy()
        place, index = np.arange(I, dtype=np.int32), np.arange(J, dtype=np.int32)
        rows = np.zeros(2, np.int32)
        return _core.place_entries(flat, True, place, index, first, I, rows, cols, values, done)

    given = {
        "row": wide["row"].copy(), "col": wide["col"].copy(), "done": 0, "first": 0,
        "cols": np.zeros(2, np.int32), "values": np.zeros(2),
    }  # fmt: skip
    limits = {"row": I, "col": J, "done": 1, "first": I + 1}
    return Case(call, given, limits, sized=("cols", "values"))


def group_entries() -> Case:
    given = {
        "strips": np.array([0, 1] * (I // 2), np.uint16), "rows": np.arange(I, dtype=np.int32),
        "cols": np.arange(I, dtype=np.int32) % J, "values": np.ones(I), "blocks": 2,
        "row_counts": np.zeros(I, np.int64), "col_counts": np.zeros(J, np.int64),
    }  # fmt: skip
    limits = {"rows": I, "cols": J, "strips": 2}
    return Case(lambda **a: _core.group_entries(*a.values()), given, limits, sized=("values",))


def canonical_csr(kind: Any) -> Case:
    given = {"rows": PAIRS["rows"].astype(kind), "cols": PAIRS["cols"].astype(kind), "values": np.ones(3)}
    return Case(lambda **a: _core.canonical_csr(*a.values(), I, J), given, TWO, sized=tuple(given))


def inspect_rows() -> Case:
    """A column that is out of range is what it reports; strips that do not exist, it refuses."""
    given = {
        "start": int64(0, 2, 3), "index": np.array([0, 2, 1], np.int32), "value": np.ones(3),
        "strips": np.arange(J).astype(np.uint16) % 2, "counts": np.zeros(2, np.int64),
    }  # fmt: skip
    return Case(lambda **a: _core.inspect_rows(*a.values()), given, {"strips": 2}, sized=("index", "value"))


def dots() -> Case:
    given = {
        "x": np.ones((I, K)),
        "y": np.ones((J, K)),
        "i": PAIRS["rows"],
        "j": PAIRS["cols"],
        "out": np.zeros(3),
    }
    return Case(lambda **a: _core.dots(*a.values()), given, {"i": I, "j": J}, sized=("i", "j", "out"))


def rows_held() -> Case:
    given = {"start": START, "index": INDEX, "value": VALUE, "weight": np.ones(len(VALUE))}

    def call(**a: Any) -> object:
        *rows, weight = a.values()
        held = _core.Rows64(*rows, J, weight, 0.0)
        return _core.sum_residuals(POOL, held, np.ones((J, K)), np.ones((I, K)), False)

    return Case(call, given, {"index": J}, ("start",), sized=("value", "weight"))


def normal_rows() -> Case:
    held = _core.Rows32(START, INDEX, VALUE.astype(np.float32), J, np.empty(0, np.float32), 0.0)
    given = {
        "other": np.ones((J, K), np.float32), "x": np.zeros((I, K), np.float32), "precision": np.eye(K),
        "linear": np.zeros(K), "move": np.ones(K),
    }  # fmt: skip

    def call(**a: Any) -> object:
        return _core.draw_normal_rows(POOL, held, *a.values(), 1.0, False, 0, 1, 1)

    return Case(call, given, sized=tuple(given))


def cases(folder: Path) -> dict[str, Case]:
    quantiles = {"fresh": False, "seed": 1, "p": np.array([0.1, 0.9])}
    watched = {
        "rows": int64(0, 1, PLACES - 1),
        "columns": int64(2, 0, PLACES - 1),
        "v": np.ones(3, np.float32),
        "weights": np.ones(3, np.float32),
    }
    places = {"rows": PLACES, "columns": PLACES}
    three = int64(0, 4, I - 1)
    return {
        "Grid32.__init__": sparse_grid("Grid32", False, np.float32),
        "Grid64.__init__, columns outer": sparse_grid("Grid64", True),
        "Grid32.__init__, dense": dense_grid("Grid32", False),
        "Grid64.__init__, dense, columns outer": dense_grid("Grid64", True),
        "Grid32.__init__, file": file_grid(folder / "blocks"),
        "Grid32.fill": fill(folder / "filled"),
        "Chain32.advance": of_chain(
            "advance", {**stretch(), "first": 0, "last": 2}, {"parts": 2, "last": 3}, sized=("steps", "scales", "draws")
        ),
        "Chain32.advance_marking": of_chain(
            "advance_marking",
            {**stretch(), "marks": int64(1, 3), **watched, "W": np.zeros((2, I, K), np.float32),
             "H": np.zeros((2, J, K), np.float32)},
            {"parts": 2, "marks": 4, **places},
            sized=("steps", "scales", "draws", "rows", "columns", "v", "weights", "W", "H"),
        ),
        "Chain32.accumulate": of_chain("accumulate", {"pool": POOL, "kind": "score", "part": -1}, {}),
        "Chain32.add_sums": add_sums(),
        "Chain32.strip_sums": of_chain("strip_sums", {"which": 0, "strips": int64(0, 1)}, {"which": 2, "strips": 2}),
        "Chain32.strip_grams": of_chain("strip_grams", {"which": 1, "strips": int64(1, 0)}, {"which": 2, "strips": 2}),
        "Chain32.noise": of_chain("noise", {"which": 0, "iteration": 1, "rows": three}, {"which": 2, "rows": I}),
        "Chain32.positions": of_chain("positions", {"which": 0, "rows": three}, {"which": 2, "rows": I}),
        "Chain32.mu": of_chain(
            "mu", {k: watched[k] for k in ("rows", "columns")}, places, sized=("rows", "columns")
        ),
        "Chain32.log_kernel_at": of_chain("log_kernel_at", {"pool": POOL, **watched}, places, sized=tuple(watched)),
        "Chain32.gather": of_chain(
            "gather", {"pool": POOL, "which": 1, "name": "x", "out": np.zeros((J, K), np.float32)}, {"which": 2},
            sized=("out",),
        ),
        "Chain32.scatter": of_chain(
            "scatter", {"which": 1, "name": "x", "x": np.zeros((J, K), np.float32)}, {"which": 2}, sized=("x",)
        ),
        "Counts.__init__": counts(""),
        "Counts.__init__, outer": counts("outer_"),
        "Counts.__init__, inner": counts("inner_"),
        "Rows64.__init__": rows_held(),
        "draw_normal_rows": normal_rows(),
        "Draws32.moments": draws(
            "moments", {**PAIRS, "out": np.zeros((3, 3))}, TWO, sized=("rows", "cols")
        ),
        "Draws32.values": draws(
            "values",
            {**PAIRS, "kind": "new", "seed": 1, "out": np.zeros((S, 3))},
            TWO, sized=("rows", "cols", "out"),
        ),
        "Draws32.quantiles": draws(
            "quantiles", {**PAIRS, **quantiles, "out": np.zeros((2, 3))}, TWO, sized=("rows", "cols", "p", "out")
        ),
        "Draws32.share_above": draws(
            "share_above", {**PAIRS, "threshold": np.ones(3), "out": np.zeros(3)}, TWO,
            sized=("rows", "cols", "threshold", "out"),
        ),
        "Draws32.scores": draws(
            "scores",
            {"rows": three, "kind": "sd", "threshold": 0.0, "mean": np.zeros((3, J), np.float32),
             "second": np.zeros((3, J), np.float32)},
            {"rows": I}, sized=("rows", "mean", "second"),
        ),
        "Draws32.best_by_bound": draws(
            "best_by_bound",
            {"rows": three, "threshold": 1.0, **SEEN, "allowed": ALLOWED, "out": np.zeros((3, 2), np.int64)},
            {"rows": I, "seen": J}, bounds=("start",), sized=("rows", "allowed", "out"),
        ),
        "best": Case(
            lambda **a: _core.best(POOL, *a.values()),
            {"first": np.zeros((3, J)), "second": np.zeros((3, J)), **SEEN, "allowed": ALLOWED,
             "out": np.zeros((3, 2), np.int64)},
            {"seen": J}, ("start",), sized=("first", "second", "allowed", "out"),
        ),
        "fold_in": fold_in(np.float32),
        "fold_in, float64": fold_in(np.float64),
        "dots": dots(),
        "canonical_csr": canonical_csr(np.int32),
        "canonical_csr, int64": canonical_csr(np.int64),
        "group_entries": group_entries(),
        "place_entries": place_entries(),
        "inspect_rows": inspect_rows(),
        "Pool.__init__": Case(lambda threads: _core.Pool(threads), {"threads": 1}, {"threads": 4097}),
    }  # fmt: skip
