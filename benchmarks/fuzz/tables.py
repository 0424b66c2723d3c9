"""Tables of entries: text, Parquet, Matrix Market, NumPy."""

from __future__ import annotations

import gzip
import random

import numpy as np

import psgld

from .damage import ODD, damaged
from .originals import Originals
from .posteriors import one_line


def read(have: Originals, suffix: str, content: bytes, weight: str | int | None = None) -> None:
    """Read a file of these bytes: its entries and weights, or an error of one line."""
    path = have.work / f"bad{suffix}"
    path.write_bytes(content)
    try:
        data = psgld.Observations.from_file(path, weight=weight)
        data.entries(np.arange(data.stored))
        weights = data.entry_weights
        assert weights is None or (weights > 0).all()
    except psgld.PsgldError as error:
        one_line(str(error))


def read_damaged(rng: random.Random, have: Originals, *suffixes: str) -> None:
    """Read a file whose bytes are damaged, or random."""
    suffix = rng.choice(suffixes)
    whole = have.tables[suffix]
    content = damaged(rng, whole) if rng.random() < 0.85 else rng.randbytes(rng.randrange(200))
    read(have, suffix, content, rng.choice((None, None, "times", 3)))


def read_text(rng: random.Random, have: Originals) -> None:
    """Read delimited text of odd fields, with odd lines."""
    suffix = rng.choice((".csv", ".tsv", ".dat", ".txt", ".data", ".csv.gz"))
    delimiter = rng.choice((",", "\t", ";", "|", "::", " ", "  ", ", "))
    width, fields = rng.choice((1, 2, 3, 3, 3, 4)), (*ODD, "a", "b", "3", "4.5", "12", "7")
    lines = []
    for _ in range(rng.randrange(7)):
        n = width if rng.random() < 0.9 else rng.randrange(5)
        lines.append(delimiter.join(rng.choice(fields) for _ in range(n)))
    text = rng.choice(("\n", "\n", "\r\n", "\r", "\n\n")).join(lines)
    content = text.encode(rng.choice(("utf-8", "utf-8", "utf-8-sig", "utf-16", "latin-1")), "replace")
    read(have, suffix, gzip.compress(content) if suffix == ".csv.gz" else content, rng.choice((None, 3)))


def read_market(rng: random.Random, have: Originals) -> None:
    """Read a Matrix Market file of odd words."""
    kinds = (("matrix", "vector"), ("coordinate", "array"), ("real", "integer", "complex", "pattern"))
    head = ["%%MatrixMarket", *map(rng.choice, kinds), rng.choice(("general", "symmetric", "hermitian", "x"))]
    lines = [" ".join(head), *("% a comment" for _ in range(rng.randrange(2)))]
    number = lambda: rng.choice((*ODD[:20], "1", "2", "3", "3", "4"))  # noqa: E731
    lines += [" ".join(number() for _ in range(rng.choice((2, 3, 3, 3, 4)))) for _ in range(rng.randrange(6))]
    read(have, ".mtx", "\n".join(lines).encode())
