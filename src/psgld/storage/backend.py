"""The contract of stores: a whole result there and back (`Backend`), and runs that can be resumed (`RunBackend`).

A new store is one file with a subclass of one of the two and a line in `backends.py`; `tests/storage/test_backend.py`
tries it.
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
    """A kind of place that holds a result."""

    suffix: ClassVar[str]
    """How the names of such places end."""
    durable: ClassVar[bool] = True
    """Whether it outlives the process."""

    @classmethod
    @abstractmethod
    def holds(cls, path: Path) -> bool:
        """Return whether there is something of this kind at the path, whole or damaged."""

    @classmethod
    @abstractmethod
    def save(cls, result: Result, path: Path) -> None:
        """Write a result, all or nothing."""

    @classmethod
    @abstractmethod
    def load(cls, path: Path) -> Result:
        """Read a result; raise DataError if it is damaged. Nothing that is read may run code."""


class RunBackend(Backend):
    """An open store that a run is written to while it goes on: its header, arrays of draws, checkpoints of chains.

    Arrays are known by their paths ("posterior/W"), as `Layout` describes them. The saver appends the new draws of a
    chain, waits until they are written, and then writes the checkpoint, which says how many of them count. So a store
    must keep that order, write each checkpoint all or nothing, and allow draws beyond the checkpoint to be written
    again.
    """

    shared: ClassVar[bool] = True
    """Whether the ranks of an MPI job can write to it together, each its own rows."""

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
        """Make a store, all or nothing, with its labels and the arrays that are known before sampling."""

    @classmethod
    @abstractmethod
    def open(cls, path: Path, mode: str = "r") -> Self:
        """Open a store to read, or to go on writing (mode "r+"); raise DataError if it is none."""

    def begin(self) -> None:
        """Make ready for checkpoints; remove what a killed run left half written."""

    def resize(self, draws: int) -> None:
        """Make room for another number of draws."""
        if draws == self.layout.draws:
            return
        for path, spec in self.specs.items():
            if spec.dims[:2] == ("chain", "draw") and not path.startswith(WARMUP):
                self._resize(path, (spec.shape[0], draws, *spec.shape[2:]))
        self.layout = Layout(**{**self.layout.to_dict(), "draws": draws})
        self.specs = self.layout.specs(self.model, self.shape)
        settings = {**self.header["settings"], "draws": draws}
        self.write_header({**self.header, "layout": self.layout.to_dict(), "settings": settings})

    @abstractmethod
    def _resize(self, path: str, shape: tuple[int, ...]) -> None:
        """Change the shape of an array of draws; what is new is NaN or 0."""

    @abstractmethod
    def write_header(self, header: dict[str, Any]) -> None:
        """Replace the header."""

    # -- arrays ------------------------------------------------------------------------------------------

    def names(self, group: str) -> list[str]:
        """Return the arrays of a group."""
        return [path.split("/")[1] for path in self.specs if path.startswith(f"{group}/")]

    def lot(self, path: str) -> int:
        """Return the number of draws that are written at once: a multiple of it is worth writing early."""
        return 1

    @abstractmethod
    def writing(self) -> AbstractContextManager[Any]:
        """Return a block in which draws are appended; they are in the store when it ends."""

    @abstractmethod
    def append(
        self, block: Any, path: str, chain: int, first: int, values: NDArray[Any], only: slice | None = None
    ) -> None:
        """Write draws (or rows of a trace) of a chain from `first` on, in a `writing` block.

        With `only`, these rows of them: others are another rank's.
        """

    @abstractmethod
    def read(self, path: str, chain: int, n: int, only: slice | None = None) -> NDArray[Any]:
        """Return the first n draws (or rows of a trace) of a chain; with `only`, these rows of them."""

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
        """Compare all arrays with what the header promises."""

    # -- checkpoints -------------------------------------------------------------------------------------

    @abstractmethod
    def write_checkpoint(self, chain: int, state: Mapping[str, Any]) -> None:
        """Replace the checkpoint of a chain, all or nothing."""

    @abstractmethod
    def read_checkpoint(self, chain: int, names: Iterable[str] | None = None) -> dict[str, Any] | None:
        """Return the checkpoint of a chain, or some of it; None if there is none yet."""

    @property
    @abstractmethod
    def present(self) -> bool:
        """Whether the store is still where it was opened: not deleted, moved or replaced."""


def damaged(path: Path, why: object) -> DataError:
    """Return the error for a store that cannot be read."""
    return DataError(f"{path} is not a psgld store, or is damaged: {' '.join(str(why).split())[:300]}")


def cannot_write(path: Path, error: OSError) -> DataError:
    """Return the error for a store that cannot be written."""
    return DataError(f"cannot write {path}: {error.strerror or error}")


def already_there(path: Path) -> DataError:
    """Return the error for a store that would be overwritten."""
    return DataError(f"cannot write {path}: it is already there; delete it or give another name")


def as_stored(values: NDArray[Any]) -> NDArray[Any]:
    """Return draws as they are read: half precision is for the disk only."""
    return values.astype(np.float32) if values.dtype == np.float16 else values
