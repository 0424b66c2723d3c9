"""Streams entries in batches from files and other sources of any size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...checks import unmasked
from ...errors import DataError
from ...system.lines import blocks_of_lines
from ..labels import Coded, FloatArray, real
from ..matrix_market import open_market
from ..observations import Observations, observations
from ..readers import TEXT
from ..source import Source
from ..tables import Column as Name
from ..tables import Triples, choose_columns, frame_triples, is_frame, triples
from ..text import stream_text
from .ahead import ahead
from .sides import Column, Named, Numbered, Side

_BATCH = 1 << 20
"""Entries read at a time."""


class Batch(NamedTuple):
    """Entries with their labels."""

    rows: Column
    cols: Column
    values: FloatArray


class Stream(NamedTuple):
    """The labels of rows and columns, and the entries in batches."""

    rows: Side
    cols: Side
    batches: Iterator[Batch]


def open_stream(source: Any, columns: tuple[Name, Name, Name], shape: tuple[int, int] | None) -> Stream:
    """Return a stream of the entries in `source`; of a file, only the first lines are read."""
    if isinstance(source, str | PathLike):
        path = Path(source)
        if not path.is_file():
            raise DataError(f"no such file: {path}")
        suffix = Path(path.stem if path.suffix == ".gz" else path.name).suffix.lower()
        if suffix == ".mtx":
            return _matrix_market(path)
        if suffix == ".parquet":
            return Stream(*_sides(shape), ahead(_parquet(path, columns)))
        if suffix in TEXT:
            return Stream(*_sides(shape), ahead(Batch(*block) for block in stream_text(path, *columns)))
        source = Observations.from_file(path)
    if isinstance(source, Iterator):
        return Stream(*_sides(shape), _chunks(source, columns))
    if is_frame(source):
        return Stream(*_sides(shape), _chunks([source], columns))
    data = observations(source)
    if data.weighted:
        raise DataError("shards have no weights; sample weighted data in memory")
    sides = (
        Numbered(data.shape[0], "row", data.row_labels),
        Numbered(data.shape[1], "column", data.col_labels),
    )
    return Stream(*sides, _rows(data))


def _sides(shape: tuple[int, int] | None) -> tuple[Side, Side]:
    if shape is None:
        return Named(), Named()
    return Numbered(int(shape[0]), "row"), Numbered(int(shape[1]), "column")


def _rows(data: Source) -> Iterator[Batch]:
    """Yield entries that are in memory in batches."""
    for first in range(0, data.stored, _BATCH):
        yield Batch(*data.entries(np.arange(first, min(first + _BATCH, data.stored))))


def _chunks(chunks: Iterable[Any], columns: tuple[Name, Name, Name]) -> Iterator[Batch]:
    for chunk in chunks:
        if isinstance(chunk, Triples):
            yield Batch(*chunk[:3])
        elif is_frame(chunk):
            yield Batch(*frame_triples(chunk, *columns)[:3])
        elif isinstance(chunk, tuple | list) and len(chunk) == 3:
            yield _loose(*chunk)
        else:
            raise DataError(
                f"a chunk must be (rows, columns, values) or a data frame, got {type(chunk).__name__}"
            )


def _loose(rows: Any, cols: Any, values: Any) -> Batch:
    """Return a batch; integer labels are not encoded, as encoding them here and again later would be slower."""
    rows, cols = unmasked(rows, "row labels"), unmasked(cols, "column labels")
    if rows.dtype.kind != "i" or cols.dtype.kind != "i":
        return Batch(*triples(rows, cols, values)[:3])
    batch = Batch(rows.astype(np.int64, copy=False), cols.astype(np.int64, copy=False), real(values))
    if not rows.shape == cols.shape == batch.values.shape:
        raise DataError(
            "rows, columns and values must be 1-D and of the same length, got shapes "
            f"{rows.shape}, {cols.shape} and {batch.values.shape}"
        )
    return batch


def _parquet(path: Path, columns: tuple[Name, Name, Name]) -> Iterator[Batch]:
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError:
        raise DataError(f"{path.name}: reading Parquet needs pyarrow: pip install pyarrow") from None
    try:
        with parquet.ParquetFile(path, buffer_size=1 << 20, pre_buffer=False) as file:
            names = file.schema_arrow.names
            three = [names[at] for at in choose_columns(names, *columns)]
            for batch in file.iter_batches(_BATCH, columns=three):
                parts = [batch.column(name) for name in three]
                for name, part in zip(three, parts, strict=True):
                    if part.null_count:
                        raise DataError(
                            f"{part.null_count} null(s) in column {name!r}; drop those entries first"
                        )
                values = real(_array(parts[2]))
                yield Batch(_labels(parts[0]), _labels(parts[1]), values)
    except pa.ArrowInvalid as error:
        raise DataError(f"{path.name}: cannot be read: {error}") from error


def _labels(column: Any) -> Column:
    """Return integers unchanged, other labels encoded by pyarrow, which is fast."""
    import pyarrow as pa

    if pa.types.is_signed_integer(column.type) or column.type in (pa.uint8(), pa.uint16(), pa.uint32()):
        return _array(column).astype(np.int64, copy=False)
    from ..labels import encode

    coded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    codes = np.asarray(_array(coded.indices), np.int32)
    inner = encode(coded.dictionary.to_numpy(zero_copy_only=False))
    return Coded(inner.codes[codes], inner.labels)


def _array(column: Any) -> NDArray[Any]:
    """Return a view of a numeric column without nulls; `to_numpy` would import pandas."""
    import pyarrow as pa

    if not len(column) or not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        return np.asarray(column.to_numpy(zero_copy_only=False))
    numbers = np.frombuffer(column.buffers()[1], column.type.to_pandas_dtype())
    return numbers[column.offset : column.offset + len(column)]


def _matrix_market(path: Path) -> Stream:
    """Return the stream of a Matrix Market file; its header has the shape, so the labels are the indices."""
    with open_market(path) as file:
        every = (line for block in blocks_of_lines(file, 1 << 16) for line in block)
        head = next(every, "").lower().split()
        sizes = next((line.split() for line in every if line.strip() and not line.startswith("%")), [])
    if len(head) != 5 or head[:3] != ["%%matrixmarket", "matrix", "coordinate"] or len(sizes) != 3:
        raise DataError(
            f"{path.name}: a Matrix Market file in coordinate format is needed, got the header {' '.join(head)!r}"
        )
    field, symmetry = head[3:]
    if field not in ("real", "integer", "pattern") or symmetry not in (
        "general",
        "symmetric",
        "skew-symmetric",
    ):
        raise DataError(f"{path.name}: {field} {symmetry} matrices cannot be read; real and general ones can")
    rows, cols, entries = map(int, sizes)
    return Stream(
        Numbered(rows, "row"),
        Numbered(cols, "column"),
        _coordinates(path, entries, field == "pattern", {"general": 0, "symmetric": 1}.get(symmetry, -1)),
    )


def _coordinates(path: Path, entries: int, pattern: bool, mirror: int) -> Iterator[Batch]:
    """Yield the entries after the header; `mirror` = ±1 adds the other triangle with that sign."""
    kind = np.dtype([("i", "i8"), ("j", "i8"), *([] if pattern else [("v", "f8")])])
    done = 0
    sizes_read = False
    with open_market(path) as file:
        for block in blocks_of_lines(file):
            lines = [line for line in block if line.strip() and not line.startswith("%")]
            if lines and not sizes_read:
                lines, sizes_read = lines[1:], True
            if not lines:
                continue
            try:
                table = np.loadtxt(lines, kind, None, ndmin=1)
            except ValueError as error:
                raise DataError(f"{path.name}, after entry {done}: {error}") from None
            rows, cols = table["i"] - 1, table["j"] - 1
            values: NDArray[np.float64] = np.ones(len(table)) if pattern else table["v"].copy()
            done += len(table)
            if mirror:
                off = rows != cols
                rows, cols = np.concatenate([rows, cols[off]]), np.concatenate([cols, rows[off]])
                values = np.concatenate([values, mirror * values[off]])
            yield Batch(rows, cols, values)
    if done != entries:
        raise DataError(
            f"{path.name}: the header says {entries} entries, {done} were found; the file may be truncated"
        )
