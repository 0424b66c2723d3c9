"""Creates the store of a run, or reopens it to resume the run."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _core
from ..checks import as_path, is_number
from ..data.seen import Seen
from ..engines import Engine
from ..errors import DataError, SamplingError, in_bytes, warn
from ..runs.chains import Work, started
from ..runs.result import describe, kept_cells
from ..samplers import Sampler
from ..samplers.record import as_text, is_text
from ..system.atomic import DAMAGE
from ..system.lock import owned
from .backend import RunBackend, cannot_write, damaged
from .backends import RUN_BACKENDS, durable, run_backend
from .layout import SEEN, TRACKED, Layout, cell_arrays
from .saver import Saver

STORE_DTYPES = ("float16", "float32", "float64")

_SHOULD_BE_SAME = ("version", "instruction set", "entries of the log posterior")
"""If these differ, a run is resumed with a warning."""


def ownership(path: str | PathLike[str] | None, engine: Engine) -> AbstractContextManager[None]:
    """Return a lock that keeps other runs from writing to the store; of several ranks, rank 0 holds it."""
    return nullcontext() if path is None or engine.rank > 0 else owned(Path(path))


def is_there(path: str | PathLike[str]) -> bool:
    """Return whether there is a store, or anything else, at a path."""
    return Path(path).exists() or run_backend(Path(path)).holds(Path(path))


def open_saver(
    path: str | PathLike[str], work: Work, keys: list[int], resume: bool, every: float, engine: Engine
) -> Saver:
    """Return a saver that writes a run to a store; with `resume`, resume the run of an existing store.

    Rank 0 creates or opens the store; the other ranks write to it as well.
    """
    where = Path(path)
    if engine.ranks > 1 and not run_backend(where).shared:
        raise SamplingError(
            f"{where} is in the memory of one process, but there are {engine.ranks} ranks; give store='run.zarr'"
        )
    there = bool(engine.agree(float(is_there(where))))
    seen = None if there else Seen.of(work.setup.data)  # collective: of shards, each rank has a part
    if engine.rank > 0:
        engine.agree(0.0)  # rank 0 has opened it
        return Saver(run_backend(where).open(where), every, engine)
    saver = _first_saver(where, work, keys, seen, resume, every, engine)
    engine.agree(0.0)
    return saver


def _first_saver(
    where: Path,
    work: Work,
    keys: list[int],
    seen: Seen | None,
    resume: bool,
    every: float,
    engine: Engine,
) -> Saver:
    header, identity = _header(work, keys), _run_identity(work, keys)
    if is_there(where) and not resume:
        raise DataError(
            f"{where} already exists; use resume=True to resume its run, delete it, or give another name"
        )
    try:
        if is_there(where):
            store = _reopen(where, header, identity, work.setup.settings)
        else:
            _check_room(where, header, work)
            store = _new(where, {**header, "run": identity}, work, seen)
        store.begin()
    except OSError as error:
        raise cannot_write(where, error) from error
    return Saver(store, every, engine)


def _new(path: Path, header: dict[str, Any], work: Work, seen: Seen | None) -> RunBackend:
    """Create an empty store."""
    data = work.setup.data
    known: dict[str, NDArray[Any]] = {}
    if work.pairs is not None:
        known |= {f"{TRACKED}/{name}": a for name, a in zip(("rows", "cols"), work.pairs, strict=True)}
    if seen is not None:
        known |= {f"{SEEN}/indptr": seen.indptr, f"{SEEN}/indices": seen.indices}
    known |= cell_arrays(kept_cells(data, work.probes))
    return run_backend(path).create(path, header, {"row": data.row_labels, "column": data.col_labels}, known)


def keys_in(path: str | PathLike[str]) -> list[int]:
    """Return the random keys of the chains of a store."""
    store = run_backend(Path(path)).open(Path(path))
    try:
        return [int(key) for key in store.header["settings"]["keys"]]
    except DAMAGE as error:
        raise damaged(store.path, error) from error


def strips_in(path: str | PathLike[str] | None) -> int | None:
    """Return the number of strips of the run in a store; None if there is no store, or no strips."""
    if path is None or not is_there(path):
        return None
    store = run_backend(Path(path)).open(Path(path))
    try:
        strips = store.header["settings"].get("blocks")
    except DAMAGE as error:
        raise damaged(store.path, error) from error
    return strips if isinstance(strips, int) else None


def starts_in(path: str | PathLike[str] | None) -> dict[str, Any] | None:
    """Return the record of the starts of the run in a store, if each of its chains has a checkpoint; otherwise None."""
    if path is None or not is_there(path):
        return None
    store = run_backend(Path(path)).open(Path(path))
    if any(store.read_checkpoint(chain, ["kept"]) is None for chain in range(store.layout.chains)):
        return None
    try:
        record = store.header["settings"].get("starts")
        return None if record is None else {**record, "number": int(record["number"])}
    except DAMAGE as error:
        raise damaged(store.path, error) from error


def check_options(store: Any, resume: Any, every: Any, dtype: Any) -> None:
    """Raise SamplingError if the options of a store are not valid."""
    number = is_number(every)
    if not number or not every >= 0:
        raise SamplingError(f"checkpoint_every must be a number of seconds >= 0, got {every!r}")
    if dtype is not None and dtype not in STORE_DTYPES:
        raise SamplingError(f"store_dtype must be one of {', '.join(STORE_DTYPES)}, got {dtype!r}")
    if store is None and (resume or dtype is not None):
        raise SamplingError("resume and store_dtype need a store: give store='run.zarr'")
    if store is not None and as_path(store, "store").suffix not in RUN_BACKENDS:
        raise SamplingError(f"the name of a store must end in {durable(RUN_BACKENDS)}, got {str(store)!r}")


def _reopen(path: Path, header: dict[str, Any], identity: dict[str, Any], sampler: Sampler) -> RunBackend:
    """Open the store of a run to be resumed, after checking that it is the same run."""
    store = run_backend(path).open(path, "r+")
    stored = store.header.get("run")
    if stored is None:
        raise DataError(f"{path} was saved after its run and has no checkpoints; it cannot be resumed")
    if not isinstance(stored, dict):
        raise damaged(path, f"its run is {stored!r}, expected a dictionary")
    if isinstance(was := stored.get("sampler"), dict) and is_text(was):
        identity = {**identity, "sampler": _without_blocks(as_text(sampler))}
    differences = list(_differences(stored, identity))
    if differences:
        raise DataError(
            f"{path} belongs to another run: {'; '.join(differences[:3])}; resume with the same data and settings, or "
            "give another name"
        )
    _check_sizes(store, header)
    for name in _SHOULD_BE_SAME:
        if stored.get(name) != identity[name]:
            warn(
                f"{path}: {name} {stored.get(name)} in the store, {identity[name]} now: the run is resumed, but "
                "not bit for bit"
            )
    draws = int(header["layout"]["draws"])
    kept = max((_kept(store, c) for c in range(store.layout.chains)), default=0)
    if kept > draws:
        raise DataError(
            f"{path} already holds {kept} draws per chain, got draws = {draws}; ask for {kept} or more"
        )
    store.resize(draws)
    return store


def _check_sizes(store: RunBackend, header: dict[str, Any]) -> None:
    """Raise DataError unless the arrays of a store have the sizes of its run; the number of draws may differ."""
    sizes = {name: header["layout"][name] for name in ("chains", "marks", "pairs", "dtype")}
    expected = {"shape": tuple(header["shape"]), "model": header["model"], **sizes}
    found = {"shape": store.shape, "model": store.model.to_dict()}
    found |= {name: getattr(store.layout, name) for name in sizes}
    for name, value in expected.items():
        if found[name] != value:
            raise damaged(store.path, f"its {name} is {found[name]}, expected {value}")


def _kept(store: RunBackend, chain: int) -> int:
    state = store.read_checkpoint(chain, ["kept"])
    try:
        return 0 if state is None else int(state["kept"])
    except DAMAGE as error:
        raise damaged(store.path, error) from error


def _header(work: Work, keys: list[int]) -> dict[str, Any]:
    setup, plan, draws = work.setup, work.plan, work.draws
    dtype = (work.precision or str(draws.W.dtype)) if draws.W.shape[1] else None
    pairs = 0 if work.pairs is None else len(work.pairs[0])
    data = setup.data
    cells = kept_cells(data, work.probes)
    layout = Layout(
        len(keys),
        plan.draws,
        plan.tune_marks,
        pairs,
        dtype,
        Seen.number(data),
        held_out=len(cells["held_out"]) if "held_out" in cells else None,
        observed=len(cells["observed"]),
        full=work.full,
    )
    return {
        "model": setup.model.to_dict(),
        "shape": list(data.shape),
        "layout": layout.to_dict(),
        "absent": data.absent,
        "labels": [d for d, x in (("row", data.row_labels), ("column", data.col_labels)) if x is not None],
        "settings": describe(setup, plan, keys, len(work.probes.values)) | started(work),
        "per_iteration": setup.cost_per_iteration,
    }


def _run_identity(work: Work, keys: list[int]) -> dict[str, Any]:
    """Return all that must be equal to resume a run, and all that should be (`_SHOULD_BE_SAME`)."""
    header = _header(work, keys)
    settings = header["settings"]
    begin = None if work.begin is None else (work.begin.draws.W, work.begin.draws.H)
    return {
        "shape": " × ".join(map(str, header["shape"])),
        "data": work.setup.data.fingerprint()[:16],
        "data to all digits": work.setup.data.fingerprint(exact=True)[:16],
        **json.loads(json.dumps(header["model"])),  # as the store has it: lists, not tuples
        "sampler": _without_blocks(settings["sampler"]),
        **{name: settings[name] for name in work.setup.describe() if name != "bytes_an_iteration"},
        "tune": settings["tune"],
        "thin": settings["thin"],
        "chains": len(keys),
        "seed (keys)": ", ".join(settings["keys"]),
        "draws of W and H": header["layout"]["dtype"],
        "track": _digest(work.pairs),
        "log_likelihood": "of all entries" if work.full else None,
        "start": _digest(begin) if work.starts is None else f"the best of {work.starts['number']}",
        "version": settings["version"],
        "instruction set": _core.instruction_set,
        "entries of the log posterior": settings["lp_entries"],
    }


def _without_blocks(record: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of a sampler without `blocks`, which `describe` has: its default depends on the ranks."""
    return {name: value for name, value in record.items() if name != "blocks"}


def _digest(arrays: Any) -> str | None:
    """Return a short hash of arrays."""
    if arrays is None:
        return None
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()[:16]


def _differences(stored: dict[str, Any], now: dict[str, Any], prefix: str = "") -> Iterator[str]:
    """Yield a description of each difference, such as "rank 8 in the store, 16 now"."""
    for name, value in now.items():
        if name in _SHOULD_BE_SAME:
            continue
        if name == "data to all digits" and name not in stored:
            continue  # the store of an older version
        was = stored.get(name)
        if isinstance(value, dict) and isinstance(was, dict):
            yield from _differences(was, value, f"{prefix}{name} ")
        elif was != value:
            yield f"{prefix}{name} {' '.join(str(was).split())[:100]} in the store, {value} now"


def _check_room(path: Path, header: dict[str, Any], work: Work) -> None:
    """Raise DataError, before sampling starts, if the disk has no space for the store."""
    layout = Layout.from_dict(header["layout"])
    specs = layout.specs(work.setup.model, work.setup.data.shape)
    needed = sum(spec.nbytes for spec in specs.values())
    if not path.parent.is_dir():
        raise DataError(f"cannot write {path}: there is no directory {path.parent}; create it first")
    free = shutil.disk_usage(path.parent).free
    if needed > free and run_backend(path).durable:
        raise DataError(
            f"cannot write {path}: it needs {in_bytes(needed)}, {in_bytes(free)} are free; "
            "ask for fewer draws, a smaller rank, or store_dtype='float16'"
        )
