"""The interfaces of stores: write and read a complete result (`Backend`), and runs that can be resumed (`RunBackend`).

A new store is one file with a subclass of one of the two and a line in `backends.py`; `tests/storage/test_backend.py`
tests it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from ..errors import DataError
from ..models import FactorModel
from ..runs.result import Result
from .layout import WARMUP, Layout

Labels = dict[str, NDArray[Any] | None]
"""Labels of the rows and of the columns, under "row" and "column"."""


class Backend(ABC):
    """A format in which results are stored."""

    suffix: ClassVar[str]
    """The suffix of its file names."""
    durable: ClassVar[bool] = True
    """Whether stores persist after the process ends."""

    @classmethod
    @abstractmethod
    def holds(cls, path: Path) -> bool:
        """Return whether there is a store of this kind at the path, valid or damaged."""

    @classmethod
    @abstractmethod
    def save(cls, result: Result, path: Path) -> None:
        """Write a result atomically: completely or not at all."""

    @classmethod
    @abstractmethod
    def load(cls, path: Path) -> Result:
        """Read a result; raise DataError if it is damaged. Reading must not execute code from it."""


class RunBackend(Backend):
    """An open store to which a run writes while it samples: header, arrays of draws, checkpoints of chains.

    Arrays have paths such as "posterior/W" (see `Layout`). The saver appends the new draws of a chain, waits until they
    are written, and then writes the checkpoint, which has the number of valid draws. So a store must keep this order,
    write each checkpoint atomically, and allow draws after the checkpoint to be overwritten.
    """

    shared: ClassVar[bool] = True
    """Whether all ranks of an MPI job can write to it, each its own rows."""

    def __init__(self, path: Path, header: dict[str, Any]) -> None:
        self.path, self.header = path, header
        self.layout = Layout.from_dict(header["layout"])
        self.model = FactorModel.from_dict(header["model"])
        self.shape = (int(header["shape"][0]), int(header["shape"][1]))
        self.specs = self.layout.specs(self.model, self.shape)

    # -- making and opening ------------------------------------------------------------------------------

    @classmethod
    @abstractmethod
    def create(
        cls, path: Path, header: dict[str, Any], labels: Labels, known: Mapping[str, NDArray[Any]]
    ) -> Self:
        """Create a store atomically, with its labels and the arrays that are known before sampling."""

    @classmethod
    @abstractmethod
    def open(cls, path: Path, mode: str = "r") -> Self:
        """Open a store for reading, or for writing (mode "r+"); raise DataError if it is not a store."""

    def begin(self) -> None:
        """Prepare for checkpoints; remove incomplete files of a killed run."""

    def resize(self, draws: int) -> None:
        """Change the number of draws."""
        if draws == self.layout.draws:
            return
        for path, spec in self.specs.items():
            if spec.dims[:2] == ("chain", "draw") and not path.startswith(WARMUP):
                self._resize(path, (spec.shape[0], draws, *spec.shape[2:]))
        self.layout = Layout(**{**self.layout.to_dict(), "draws": draws})
        self.specs = self.layout.specs(self.model, self.shape)
        settings = {**self.header["settings"], "draws": draws}
        settings.pop("fit", None)  # of the run before
        self.write_header({**self.header, "layout": self.layout.to_dict(), "settings": settings})

    @abstractmethod
    def _resize(self, path: str, shape: tuple[int, ...]) -> None:
        """Change the shape of an array of draws; new values are NaN or 0."""

    @abstractmethod
    def write_header(self, header: dict[str, Any]) -> None:
        """Replace the header."""

    # -- arrays ------------------------------------------------------------------------------------------

    def names(self, group: str) -> list[str]:
        """Return the names of the arrays of a group."""
        return [path.split("/")[1] for path in self.specs if path.startswith(f"{group}/")]

    def lot(self, path: str) -> int:
        """Return the number of draws per chunk; multiples of it can be written before a checkpoint."""
        return 1

    @abstractmethod
    def writing(self) -> AbstractContextManager[Any]:
        """Return a context for appending draws; they are in the store when it exits."""

    @abstractmethod
    def append(
        self, block: Any, path: str, chain: int, first: int, values: NDArray[Any], only: slice | None = None
    ) -> None:
        """Write draws (or rows of a trace) of a chain from `first` on, in a `writing` context.

        With `only`, write only these rows of the draws; other ranks write theirs.
        """

    @abstractmethod
    def read(self, path: str, chain: int, n: int, only: slice | None = None) -> NDArray[Any]:
        """Return the first n draws (or rows of a trace) of a chain; with `only`, only these rows of the draws."""

    @abstractmethod
    def write_all(self, path: str, values: NDArray[Any]) -> None:
        """Write an array that is not made of draws."""

    @abstractmethod
    def read_all(self, path: str) -> NDArray[Any]:
        """Return an array that is not made of draws."""

    @abstractmethod
    def labels(self, dim: str) -> NDArray[Any] | None:
        """Return the labels of the rows ("row") or of the columns ("column")."""

    def check(self) -> None:
        """Raise DataError unless all arrays match the header."""

    # -- checkpoints -------------------------------------------------------------------------------------

    @abstractmethod
    def write_checkpoint(self, chain: int, state: Mapping[str, Any]) -> None:
        """Replace the checkpoint of a chain atomically."""

    @abstractmethod
    def read_checkpoint(self, chain: int, names: Iterable[str] | None = None) -> dict[str, Any] | None:
        """Return the checkpoint of a chain, or the arrays `names` of it; None if there is none yet."""

    @property
    @abstractmethod
    def present(self) -> bool:
        """Whether the store still exists at its path: not deleted, moved or replaced."""


def damaged(path: Path, why: object) -> DataError:
    """Return the error for a store that cannot be read."""
    return DataError(f"{path} is not a psgld store, or is damaged: {' '.join(str(why).split())[:300]}")


def cannot_write(path: Path, error: OSError) -> DataError:
    """Return the error for a store that cannot be written."""
    return DataError(f"cannot write {path}: {error.strerror or error}")


def already_there(path: Path) -> DataError:
    """Return the error for a store that would be overwritten."""
    return DataError(f"cannot write {path}: it already exists; delete it or give another name")


def as_stored(values: NDArray[Any]) -> NDArray[Any]:
    """Return draws as they are used in memory: float16 is for the disk only."""
    return values.astype(np.float32) if values.dtype == np.float16 else values
