"""A posterior in one file: arrays in NumPy's `.npz`, everything else as JSON. Opening a file cannot run code."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from ..data.seen import Seen
from ..errors import DataError
from ..models import FactorModel
from ..runs.draws import NORMALS, Draws
from ..runs.result import Result, Tracked
from ..system.atomic import DAMAGE, read_arrays, write_arrays
from .check import check

_FORMAT = 1
_DRAWS = ("W", "H", "row_rate", "col_rate", "offset", "phi")
_SOME = ("row_bias", "col_bias", "theta", *NORMALS)
"""Draws that every model has, and those that some have."""


def save(posterior: Result, path: Path) -> None:
    """Write a posterior to a file, all or nothing."""
    header = {
        "psgld": _FORMAT,
        "model": posterior.model.to_dict(),
        "shape": posterior.shape,
        "settings": posterior.settings,
        "absent": None if posterior.seen is None else posterior.seen.absent,
    }
    arrays: dict[str, Any] = {"header": np.frombuffer(json.dumps(header).encode(), np.uint8)}
    arrays |= {f"draws/{n}": a for n, a in vars(posterior.draws).items() if a is not None}
    arrays |= {f"sample_stats/{n}": a for n, a in posterior.sample_stats.items()}
    arrays |= {f"warmup/{n}": a for n, a in posterior.warmup.items()}
    for name in ("row_labels", "col_labels"):
        if (labels := getattr(posterior, name)) is not None:
            arrays[name] = labels
    if posterior.tracked is not None:
        arrays |= {f"tracked/{n}": a for n, a in vars(posterior.tracked).items()}
    if posterior.seen is not None:
        arrays |= {"seen/indptr": posterior.seen.indptr, "seen/indices": posterior.seen.indices}
    try:
        write_arrays(path, arrays)
    except OSError as error:
        raise DataError(f"cannot write {path}: {error.strerror or error}") from error


def load(source: Path) -> Result:
    """Read a posterior that `save` wrote."""
    if not zipfile.is_zipfile(source):
        raise DataError(f"{source} is not a psgld posterior, or is damaged: it is not an .npz file")
    try:
        arrays = read_arrays(source)
        if "header" not in arrays:
            names = ", ".join(sorted(arrays)[:5])
            raise DataError(
                f"{source} is not a psgld posterior: it holds {names}; psgld.observations reads data"
            )
        header = json.loads(arrays.pop("header").tobytes())
        if header["psgld"] > _FORMAT:
            raise DataError(
                f"{source} was written by a newer psgld (format {header['psgld']}); upgrade psgld"
            )
        return check(_rebuild(header, arrays))
    except DataError:
        raise
    except MemoryError as error:
        raise DataError(
            f"{source}: not enough memory to read it ({error}); free some, or read a smaller run"
        ) from error
    except DAMAGE as error:
        why = " ".join(str(error).split())[:300]
        raise DataError(f"{source} is not a psgld posterior, or is damaged: {why}") from error


def _rebuild(header: dict[str, Any], arrays: dict[str, Any]) -> Result:
    def group(name: str) -> dict[str, Any]:
        return {key.removeprefix(f"{name}/"): a for key, a in arrays.items() if key.startswith(f"{name}/")}

    draws, stats, tracked, seen = (group(name) for name in ("draws", "sample_stats", "tracked", "seen"))
    model = FactorModel.from_dict(header["model"])
    rows, cols = (int(n) for n in header["shape"])
    kept: dict[str, Any] = {name: draws[name] for name in _DRAWS} | {name: draws.get(name) for name in _SOME}
    return Result(
        Draws(**kept),
        model,
        (rows, cols),
        stats,
        group("warmup"),
        header["settings"],
        arrays.get("row_labels"),
        arrays.get("col_labels"),
        Tracked(**tracked) if tracked else None,
        Seen.checked(seen["indptr"], seen["indices"], header["absent"], (rows, cols)) if seen else None,
    )
