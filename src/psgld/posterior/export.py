"""Posteriors for other programs: netCDF for ArviZ and R, long tables in CSV and Parquet.

factors   mean and sd of each number of W and H within a chain (components of different chains may be permuted)
draws     every number of W and H in every draw
stats     lp, step size, wall time, φ and offset along the chains
cells     mean and sd of μ at every cell of the matrix
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..data.labels import named
from ..errors import DataError
from ..runs.draws import check_factors
from ..system.atomic import whole_file
from ..system.csv_table import CsvTable
from .posterior import Posterior

Table = dict[str, NDArray[Any]]

SUFFIXES = (".nc", ".csv", ".parquet")
_ENGINES = {"netcdf4": ("netCDF4",), "h5netcdf": ("h5netcdf", "h5py")}
"""Engines of xarray for netCDF, and the modules that they need."""

_SIDES = {"W": 0, "H": 1, "row_bias": 0, "col_bias": 1}


def export(posterior: Posterior, path: Path, what: str | None = None) -> dict[str, Any]:
    """Write a posterior to a file, all or nothing, and return what was written, serialisable as JSON.

    The suffix decides: `.nc` takes all draws and traces, `.csv` and `.parquet` take one of `TABLES`.
    """
    if path.suffix not in SUFFIXES:
        raise DataError(f"{path}: unknown kind of file {path.suffix!r}; allowed are {', '.join(SUFFIXES)}")
    if path.suffix == ".nc":
        if what is not None:
            raise DataError(
                f"{path}: netCDF holds everything; leave out what = {what!r}, or write .csv or .parquet"
            )
        _write_netcdf(posterior, path)
        return {"output": str(path), "bytes": path.stat().st_size}
    what = "factors" if what is None else what
    if what not in TABLES:
        raise DataError(f"what must be one of {', '.join(TABLES)}, got {what!r}")
    write = _write_csv if path.suffix == ".csv" else _write_parquet
    with whole_file(path) as beside:
        lines = write(beside, TABLES[what](posterior))
    return {"output": str(path), "what": what, "lines": lines, "bytes": path.stat().st_size}


# -- tables, in parts that fit into memory -------------------------------------------------------------------------


def _factors(p: Posterior) -> Iterator[Table]:
    for name, labels, array in _arrays(p):
        for chain in range(p.chains):
            x = array[chain]
            mean, sd = x.mean(axis=0, dtype=np.float64), x.std(axis=0, dtype=np.float64)
            yield {
                **_places(name, labels, mean),
                "chain": _same(chain, mean),
                "mean": _flat(mean),
                "sd": _flat(sd),
            }


def _draws(p: Posterior) -> Iterator[Table]:
    for name, labels, array in _arrays(p):
        for chain in range(p.chains):
            for draw, x in enumerate(array[chain]):
                where = {"chain": _same(chain, x), "draw": _same(draw, x)}
                yield {**_places(name, labels, x), **where, "value": _flat(x)}


def _stats(p: Posterior) -> Iterator[Table]:
    index = np.indices(p.draws.phi.shape)
    table: Table = {
        "chain": index[0],
        "draw": index[1],
        **p.sample_stats,
        **p.parameters,
        "offset": p.draws.offset,
    }
    yield {name: column.reshape(-1) for name, column in table.items()}


def _cells(p: Posterior) -> Iterator[Table]:
    for part in p.predict_chunks(100_000):
        rows, cols = named(p.row_labels, part.rows), named(p.col_labels, part.cols)
        yield {"row": rows, "column": cols, "mean": part.mean, "sd": part.sd}


TABLES: dict[str, Callable[[Posterior], Iterator[Table]]] = {
    "factors": _factors,
    "draws": _draws,
    "stats": _stats,
    "cells": _cells,
}
"""Tables by the names that `psgld export --what` takes."""


def _arrays(p: Posterior) -> Iterator[tuple[str, NDArray[Any], NDArray[Any]]]:
    """Yield the factors and the biases: name, labels as text, draws with a last dimension of components."""
    check_factors(p.draws)
    for name, side in _SIDES.items():
        array = getattr(p.draws, name)
        if array is not None:
            labels = named((p.row_labels, p.col_labels)[side], np.arange(p.shape[side])).astype(str)
            yield name, labels, array if array.ndim == 4 else array[..., None]


def _places(name: str, labels: NDArray[Any], x: NDArray[Any]) -> Table:
    """Return which number each one is: the factor, the label of the row or column, the component."""
    components = x.shape[1]
    component = np.tile(np.arange(components), len(labels))
    return {"factor": _same(name, x), "label": np.repeat(labels, components), "component": component}


def _same(value: Any, x: NDArray[Any]) -> NDArray[Any]:
    return np.full(x.size, value)


def _flat(x: NDArray[Any]) -> NDArray[Any]:
    return np.ascontiguousarray(x).reshape(-1)


# -- files ---------------------------------------------------------------------------------------------------------


def _write_csv(path: Path, parts: Iterator[Table]) -> int:
    lines, table = 0, None
    with open(path, "w", encoding="utf-8", newline="") as file:
        for part in parts:
            table = CsvTable(file, part) if table is None else table
            table.write(zip(*(_written(column) for column in part.values()), strict=True))
            lines += len(next(iter(part.values())))
    if table is not None:
        table.close()
    return lines


def _written(column: NDArray[Any]) -> list[Any]:
    """Return numbers in the fewest digits that tell them from others."""
    return [str(x) for x in column] if column.dtype == np.float32 else list(column.tolist())


def _write_parquet(path: Path, parts: Iterator[Table]) -> int:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise DataError("writing Parquet needs pyarrow: pip install 'psgld[export]'; .csv does not") from None
    lines, writer = 0, None
    try:
        for part in parts:
            table = pyarrow.table({name: pyarrow.array(column) for name, column in part.items()})
            writer = parquet.ParquetWriter(path, table.schema) if writer is None else writer
            writer.write_table(table)
            lines += table.num_rows
    finally:
        if writer is not None:
            writer.close()
    return lines


def _write_netcdf(posterior: Posterior, path: Path) -> None:
    engine = next((name for name, needs in _ENGINES.items() if all(map(find_spec, needs))), None)
    if engine is None:
        raise DataError("writing netCDF needs netCDF4, or h5netcdf and h5py: pip install 'psgld[export]'")
    tree = posterior.to_arviz()
    with whole_file(path) as beside:
        tree.to_netcdf(beside, engine=engine)
