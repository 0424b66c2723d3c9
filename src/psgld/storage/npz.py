"""A posterior in one file: arrays in NumPy's `.npz`, the rest as JSON. Reading a file never executes code from it."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any, ClassVar, final

import numpy as np

from ..data.cells import Cells
from ..data.seen import Seen
from ..errors import DataError
from ..models import FactorModel
from ..models.modes import NAMES
from ..runs.draws import Draws
from ..runs.result import CELLS, Result, Tracked
from ..system.atomic import DAMAGE, read_arrays, write_arrays
from .backend import Backend
from .check import check
from .layout import cell_arrays

_FORMAT = 1


@final
class NpzBackend(Backend):
    """One file, written when a run is complete. A run cannot be resumed from it."""

    suffix: ClassVar[str] = ".npz"

    @classmethod
    def holds(cls, path: Path) -> bool:
        """Return whether there is a file; any file is read as `.npz`."""
        return path.is_file()

    @classmethod
    def save(cls, result: Result, path: Path) -> None:
        """Write a result to a file atomically."""
        _save(result, path)

    @classmethod
    def load(cls, path: Path) -> Result:
        """Read a result that `save` wrote."""
        return _load(path)


def _save(posterior: Result, path: Path) -> None:
    header = {
        "psgld": _FORMAT,
        "model": posterior.model.to_dict(),
        "shape": posterior.shape,
        "settings": posterior.settings,
        "absent": None if posterior.seen is None else posterior.seen.absent,
    }
    arrays: dict[str, Any] = {"header": np.frombuffer(json.dumps(header).encode(), np.uint8)}
    arrays |= {f"draws/{n}": a for n, a in posterior.draws.arrays().items()}
    arrays |= {f"sample_stats/{n}": a for n, a in posterior.sample_stats.items()}
    arrays |= {f"warmup/{n}": a for n, a in posterior.warmup.items()}
    for names, labels in zip(NAMES, posterior.labels, strict=True):
        if labels is not None:
            arrays[names.labels] = labels
    if posterior.tracked is not None:
        arrays |= {f"tracked/{n}": a for n, a in vars(posterior.tracked).items()}
    if posterior.seen is not None:
        arrays |= {"seen/indptr": posterior.seen.indptr, "seen/indices": posterior.seen.indices}
    arrays |= cell_arrays({name: getattr(posterior, name) for name in CELLS})
    try:
        write_arrays(path, arrays)
    except OSError as error:
        raise DataError(f"cannot write {path}: {error.strerror or error}") from error


def _load(source: Path) -> Result:
    if not zipfile.is_zipfile(source):
        raise DataError(f"{source} is not a psgld posterior, or is damaged: it is not an .npz file")
    try:
        arrays = read_arrays(source)
        if "header" not in arrays:
            names = ", ".join(sorted(arrays)[:5])
            raise DataError(
                f"{source} is not a psgld posterior: it holds {names}; use psgld.observations to read data"
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
    return Result(
        Draws.of(**draws),
        model,
        (rows, cols),
        stats,
        group("warmup"),
        header["settings"],
        arrays.get("row_labels"),
        arrays.get("col_labels"),
        Tracked(**tracked) if tracked else None,
        Seen.checked(seen["indptr"], seen["indices"], header["absent"], (rows, cols)) if seen else None,
        **{name: Cells.checked(a, (rows, cols)) if (a := group(name)) else None for name in CELLS},
    )
