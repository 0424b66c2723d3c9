"""Reads entries from delimited text, Parquet, Matrix Market, NumPy and SciPy files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from ..errors import DataError
from ..system.archive import check_memory, read_npy, read_npz
from .matrix_market import read_market
from .sparse import saved_entries
from .tables import Column, Triples, choose_columns, column_of, frame_triples
from .text import read_text

TEXT = (".csv", ".tsv", ".txt", ".dat", ".data")
ALLOWED = (*TEXT, ".parquet", ".mtx", ".npy", ".npz")

_ENTRY = 16
"""The least bytes per entry in memory: two encoded labels and a value."""


def read_file(path: Path, row: Column, col: Column, value: Column, weight: Column = None) -> Any:
    """Return the content of a file: an array, a sparse matrix, a mapping of saved arrays, or an iterable of triples."""
    if path.is_dir():
        raise DataError(f"{path} is a directory; give the path of a file")
    if not path.exists():
        raise DataError(f"no such file: {path}")
    suffix = Path(path.stem if path.suffix == ".gz" else path.name).suffix.lower()
    if suffix not in ALLOWED or (path.suffix == ".gz" and suffix not in (*TEXT, ".mtx")):
        raise DataError(
            f"{path.name}: unknown kind of file {suffix!r}; allowed are {', '.join(ALLOWED)}, "
            f"and gzipped text and .mtx (.gz)"
        )
    with _reading(path):
        if suffix == ".parquet":
            return _read_parquet(path, row, col, value, weight)
        if suffix in TEXT:
            return read_text(path, row, col, value, weight)
        if weight is not None:
            raise DataError(
                f"{path.name} has no columns, so none of weights; give weights= in psgld.observations"
            )
        if suffix == ".mtx":
            return read_market(path)
        if suffix == ".npy":
            return read_npy(path)
        return _read_npz(path)


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Put the name of the file into errors about its entries."""
    try:
        yield
    except DataError as error:
        if path.name in str(error):
            raise
        raise DataError(f"{path.name}: {error}") from None


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Turn all errors raised while a file is read into a DataError that names the file."""
    try:
        with naming(path):
            yield
    except DataError:
        raise
    except UnicodeDecodeError as error:
        raise DataError(f"{path.name}: not UTF-8 text: {error.reason}") from None
    except Exception as error:  # any exception of NumPy, SciPy or pyarrow on a damaged file
        why = " ".join(str(error).split())[:300] or type(error).__name__
        raise DataError(f"{path.name}: cannot be read: {why}") from error


def _read_npz(path: Path) -> Any:
    arrays = read_npz(path)
    if "psgld" in arrays:
        return arrays
    if "format" not in arrays:
        names = ", ".join(list(arrays)[:5])
        raise DataError(f"{path.name}: neither saved by psgld nor by scipy.sparse.save_npz; it holds {names}")
    return saved_entries(arrays)


def _open_parquet(path: Path) -> Any:
    try:
        from pyarrow import parquet
    except ImportError:
        raise DataError(f"{path.name}: reading Parquet needs pyarrow: pip install pyarrow") from None
    return parquet.ParquetFile(path)


def read_parquet_labels(path: Path, choose: Callable[[list[str]], tuple[int, int]]) -> list[NDArray[Any]]:
    """Read two columns of labels; `choose` returns their positions, given the names of all columns."""
    with _reading(path), _open_parquet(path) as file:
        names = file.schema_arrow.names
        check_memory(file.metadata.num_rows * _ENTRY, path.name)
        table = file.read()
        read = [(names[at], *column_of(table, at)) for at in choose(names)]
        for name, _, nulls in read:
            if nulls:
                raise DataError(f"{path.name}: {nulls} null(s) in column {name!r}; drop those pairs first")
        return [column for _, column, _ in read]


def _read_parquet(path: Path, row: Column, col: Column, value: Column, weight: Column) -> Iterable[Triples]:
    with _open_parquet(path) as file:
        names = file.schema_arrow.names
        chosen = [names[at] for at in choose_columns(names, row, col, value, weight)]
        check_memory(file.metadata.num_rows * _ENTRY, path.name)
        return [frame_triples(batch, *chosen) for batch in file.iter_batches(1 << 20, columns=chosen)]
