"""Reads the ratings of MovieLens from the files that GroupLens distributes. Nothing is downloaded."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from contextlib import ExitStack
from os import PathLike
from pathlib import Path
from typing import IO, Any

import numpy as np

from ..errors import DataError
from ..system.atomic import DAMAGE
from .observations import Observations

FILES = {
    "100k": ("ml-100k.zip", "ml-100k/u.data", b"\t"),
    "1m": ("ml-1m.zip", "ml-1m/ratings.dat", b"::"),
    "10m": ("ml-10m.zip", "ml-10M100K/ratings.dat", b"::"),
}
"""Of each set the archive, the file of ratings in it, and what separates the fields: user, movie, rating, time."""

_ADDRESS = "https://grouplens.org/datasets/movielens/"

_PIECE = 1 << 24
"""Bytes that are read at once."""


def movielens(name: str, folder: str | PathLike[str]) -> Observations:
    """Read the ratings of MovieLens-100K, -1M or -10M from a folder, with the numbers of users and movies as labels.

    The licence of these data does not permit to ship them: get them from https://grouplens.org/datasets/movielens/ .

    Parameters
    ----------
    name
        "100k", "1m" or "10m".
    folder
        Where the archive is (`ml-100k.zip`, `ml-1m.zip`, `ml-10m.zip`), or where it was unpacked (`ml-100k/u.data`,
        `ml-1m/ratings.dat`, `ml-10M100K/ratings.dat`).
    """
    if name not in FILES:
        raise DataError(f"no MovieLens set {name!r}; there are {', '.join(map(repr, FILES))}")
    place = Path(folder)
    archive, member, _ = FILES[name]
    if not any((place / file).is_file() for file in (archive, member)):
        raise DataError(
            f"{place} has neither {archive} nor {member}; get {archive} from {_ADDRESS} and put it there"
        )
    try:
        return Observations.from_chunks(_parts(place, *FILES[name]))
    except DAMAGE as error:
        why = " ".join(str(error).split())[:200]
        raise DataError(
            f"{place} has a damaged MovieLens-{name}: {why}; get {archive} again from {_ADDRESS}"
        ) from error


def _parts(place: Path, archive: str, member: str, separator: bytes) -> Iterator[tuple[Any, Any, Any]]:
    """Yield users, movies and ratings, some lines at a time."""
    with ExitStack() as stack:
        if (place / member).is_file():
            file: IO[bytes] = stack.enter_context(open(place / member, "rb"))
        else:
            file = stack.enter_context(stack.enter_context(zipfile.ZipFile(place / archive)).open(member))
        while lines := file.readlines(_PIECE):
            yield _fields(lines, separator)


def _fields(lines: list[bytes], separator: bytes) -> tuple[Any, Any, Any]:
    """Return users, movies and ratings; raise ValueError unless each line has four numbers."""
    numbers = np.array(b" ".join(lines).replace(separator, b" ").split(), np.float64)
    if len(numbers) != 4 * len(lines):
        raise ValueError("its lines are not user, movie, rating, time")
    users, movies, stars, _ = numbers.reshape(-1, 4).T
    return users.astype(np.int64), movies.astype(np.int64), stars.astype(np.float32)
