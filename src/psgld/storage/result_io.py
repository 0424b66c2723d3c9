"""Writes a complete result to a store, and reads it back; common to all stores of runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from ..data.cells import FIELDS, Cells
from ..data.seen import Seen
from ..errors import DataError, in_bytes
from ..models.modes import NAMES
from ..runs.draws import Draws
from ..runs.moments import RunningMoments
from ..runs.result import CELLS, Result, Tracked, cost_of, usable
from ..runs.traces import FULL
from ..system.limits import available_memory
from .backend import Labels, RunBackend, damaged
from .check import check
from .layout import POSTERIOR, SEEN, STATS, TRACKED, WARMUP, Layout, cell_arrays

_NUMBERS = ("kept", "marks", "divergences", "iteration")


@final
@dataclass(frozen=True, eq=False)
class _Checkpoint:
    """The counts and running moments in the checkpoint of a chain."""

    kept: int
    marks: int
    divergences: int
    iteration: int
    count: int
    mean: NDArray[np.float64]
    squares: NDArray[np.float64]


Parts = tuple[dict[str, Any], Labels, dict[str, NDArray[Any]]]
"""Header, labels, and the arrays that are known before sampling: the arguments of `RunBackend.create`."""


def parts(result: Result) -> Parts:
    """Return header, labels and known arrays of a result, from which its store is created."""
    return _header(result), _labels(result), _known(result)


def write(store: RunBackend, result: Result) -> None:
    """Write all draws and traces of a result to its store."""
    tables = {POSTERIOR: result.draws.arrays(), STATS: result.sample_stats, WARMUP: result.warmup}
    with store.writing() as block:
        for group, table in tables.items():
            for name in store.names(group):
                for chain in range(store.layout.chains):
                    store.append(block, f"{group}/{name}", chain, 0, table[name][chain])


def read(store: RunBackend) -> Result:
    """Read a store into memory; of an unfinished run, the draws up to the last checkpoint."""
    try:
        _check_memory(store)
        store.check()
        return check(_posterior(store))
    except DataError:
        raise
    except Exception as error:  # Zarr, NumPy and JSON raise many types for damaged files
        raise damaged(store.path, error) from error


def _posterior(store: RunBackend) -> Result:
    layout, settings = store.layout, store.header["settings"]
    points = None
    kept, marks = [layout.draws] * layout.chains, layout.marks
    if store.header.get("run") is not None:
        points = [_checkpoint(store, c) for c in range(layout.chains)]
        kept = [p.kept for p in points]
    n, chains = usable(kept)
    if n == 0:
        raise DataError(f"{store.path} holds no draws yet: {_reached(points or [], settings)}")
    if points is not None:
        settings = settings | {
            "divergences": sum(points[c].divergences for c in chains),
            "interrupted": min(kept) < layout.draws,
            **cost_of(_per_iteration(store.header), sum(points[c].iteration for c in chains)),
        }
    return Result(
        _draws(store, chains, n),
        store.model,
        store.shape,
        {name: _stacked(store, f"{STATS}/{name}", chains, n) for name in store.names(STATS)},
        {name: _stacked(store, f"{WARMUP}/{name}", chains, marks) for name in store.names(WARMUP)},
        settings,
        store.labels("row"),
        store.labels("column"),
        _tracked(store, None if points is None else [points[c] for c in chains]),
        _seen(store),
        **{group: _cells(store, group) for group in CELLS},
    )


def _per_iteration(header: dict[str, Any]) -> dict[str, float]:
    """Return the cost per iteration; older versions kept the bytes only."""
    old = {"bytes_moved": header.get("bytes_an_iteration", 0.0)}
    return {name: float(number) for name, number in header.get("per_iteration", old).items()}


def _reached(points: list[_Checkpoint], settings: dict[str, Any]) -> str:
    """Return a message on the progress of a run that has no draws yet."""
    at = max((p.iteration for p in points), default=0)
    if not at:
        return "its run has no checkpoint yet; resuming it starts from the beginning"
    return f"its last checkpoint is at iteration {at:,} of {settings['tune']:,} of burn-in; resume the run to get draws"


def _checkpoint(store: RunBackend, chain: int) -> _Checkpoint:
    nothing = np.zeros(0)
    moments = ["moments/count", "moments/mean", "moments/squares"] if store.layout.pairs else []
    state = store.read_checkpoint(chain, [*_NUMBERS, *moments])
    if state is None:
        return _Checkpoint(0, 0, 0, 0, 0, nothing, nothing)
    kept, marks, divergences, iteration = (int(state[name]) for name in _NUMBERS)
    if not 0 <= kept <= store.layout.draws or (kept and marks != store.layout.marks):
        raise ValueError(f"the checkpoint of chain {chain} has {kept} draws of {store.layout.draws}")
    if not moments:
        return _Checkpoint(kept, marks, divergences, iteration, 0, nothing, nothing)
    return _Checkpoint(kept, marks, divergences, iteration, *(state[name] for name in moments))


def _draws(store: RunBackend, chains: list[int], n: int) -> Draws:
    arrays: dict[str, Any] = {
        name: _stacked(store, f"{POSTERIOR}/{name}", chains, n) for name in store.names(POSTERIOR)
    }
    if store.layout.dtype is None:
        dtype = store.header["settings"]["sampler"].get("dtype", "float32").strip("'")
        for mode, size in zip(store.model.modes, store.shape, strict=True):
            arrays[mode.names.factor] = np.empty((len(chains), 0, size, mode.rank), dtype)
            if mode.biases:
                arrays[mode.names.bias] = np.empty((len(chains), 0, size), dtype)
    return Draws.of(**arrays)


def _stacked(store: RunBackend, path: str, chains: list[int], n: int) -> NDArray[Any]:
    first = store.read(path, chains[0], n)
    out = np.empty((len(chains), *first.shape), first.dtype)
    out[0] = first
    for c in range(1, len(chains)):
        out[c] = store.read(path, chains[c], n)
    return out


def _tracked(store: RunBackend, points: list[_Checkpoint] | None) -> Tracked | None:
    if not store.layout.pairs:
        return None
    rows, cols = (store.read_all(f"{TRACKED}/{name}") for name in ("rows", "cols"))
    if points is None:
        return Tracked(rows, cols, *(store.read_all(f"{TRACKED}/{name}") for name in ("mean", "sd")))
    return Tracked(rows, cols, *RunningMoments.pooled(points))


def _seen(store: RunBackend) -> Seen | None:
    if store.layout.seen is None:
        return None
    start, index = (store.read_all(f"{SEEN}/{name}") for name in ("indptr", "indices"))
    return Seen.checked(start, index, store.header["absent"], store.shape)


def _cells(store: RunBackend, group: str) -> Cells | None:
    if getattr(store.layout, group) is None:
        return None
    return Cells.checked({name: store.read_all(f"{group}/{name}") for name in FIELDS}, store.shape)


def _check_memory(store: RunBackend) -> None:
    needed, free = sum(spec.nbytes for spec in store.specs.values()), available_memory()
    if free is not None and needed > 0.9 * free:
        raise DataError(
            f"{store.path} holds {in_bytes(needed)}, {in_bytes(free)} are free; read parts of it with "
            "xarray.open_zarr(…, group='posterior')"
        )


# -- writing ---------------------------------------------------------------------------------------------------


def _labels(posterior: Result) -> Labels:
    return {names.dim: labels for names, labels in zip(NAMES, posterior.labels, strict=True)}


def _known(posterior: Result) -> dict[str, NDArray[Any]]:
    known = (
        {} if posterior.tracked is None else {f"{TRACKED}/{n}": a for n, a in vars(posterior.tracked).items()}
    )
    if posterior.seen is not None:
        known |= {f"{SEEN}/indptr": posterior.seen.indptr, f"{SEEN}/indices": posterior.seen.indices}
    return known | cell_arrays({group: getattr(posterior, group) for group in CELLS})


def _header(posterior: Result) -> dict[str, Any]:
    draws, tracked, seen = posterior.draws, posterior.tracked, posterior.seen
    chains, n = draws.phi.shape
    layout = Layout(
        chains,
        n,
        posterior.warmup["lp"].shape[1],
        0 if tracked is None else len(tracked.rows),
        str(draws.W.dtype) if draws.W.shape[1] else None,
        None if seen is None else len(seen.indices),
        any(mode.mean is not None for mode in draws.modes),
        "seconds" in posterior.sample_stats,
        FULL[0] in posterior.sample_stats,
        **{group: None if (x := getattr(posterior, group)) is None else len(x) for group in CELLS},
    )
    return {
        "model": posterior.model.to_dict(),
        "shape": list(posterior.shape),
        "layout": layout.to_dict(),
        "labels": [dim for dim, labels in _labels(posterior).items() if labels is not None],
        "settings": posterior.settings,
        "absent": None if seen is None else seen.absent,
    }
