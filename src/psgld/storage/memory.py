"""A store in the memory of the process, lost when it ends: for experiments, and as a short example of a store."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from copy import deepcopy
from pathlib import Path
from typing import Any, ClassVar, Self, final

import numpy as np
from numpy.typing import NDArray

from ..runs.result import Result
from . import result_io
from .backend import Labels, RunBackend, already_there, as_stored, damaged

_stores: dict[Path, MemoryBackend] = {}
"""All stores of this process."""


@final
class MemoryBackend(RunBackend):
    """Arrays and checkpoints in dictionaries. The absolute path of a store is its name."""

    suffix: ClassVar[str] = ".memory"
    durable: ClassVar[bool] = False
    shared: ClassVar[bool] = False

    @classmethod
    def holds(cls, path: Path) -> bool:
        """Return whether there is a store of this name."""
        return path.absolute() in _stores

    @classmethod
    def save(cls, result: Result, path: Path) -> None:
        """Write a result as a store without checkpoints."""
        result_io.write(cls.create(path, *result_io.parts(result)), result)

    @classmethod
    def load(cls, path: Path) -> Result:
        """Return a result; of an unfinished run, the draws up to the last checkpoint."""
        return result_io.read(cls.open(path))

    @classmethod
    def create(
        cls, path: Path, header: dict[str, Any], labels: Labels, known: Mapping[str, NDArray[Any]]
    ) -> Self:
        """Create a store with its labels and the arrays that are known before sampling."""
        if cls.holds(path):
            raise already_there(path)
        store = cls(path, deepcopy(header))
        store._labels = {dim: None if x is None else x.copy() for dim, x in labels.items()}
        store._checkpoints = {}
        store._arrays = {
            name: np.full(spec.shape, spec.fill, spec.dtype) for name, spec in store.specs.items()
        }
        for name, values in known.items():
            store.write_all(name, values)
        _stores[path.absolute()] = store
        return store

    @classmethod
    def open(cls, path: Path, mode: str = "r") -> Self:
        """Return the store of this name."""
        if not cls.holds(path):
            raise damaged(path, "there is no such store in this process")
        found: Any = _stores[path.absolute()]
        return found  # type: ignore[no-any-return]

    def _resize(self, path: str, shape: tuple[int, ...]) -> None:
        old, spec = self._arrays[path], self.specs[path]
        new = np.full(shape, spec.fill, spec.dtype)
        n = min(old.shape[1], shape[1])
        new[:, :n] = old[:, :n]
        self._arrays[path] = new

    def write_header(self, header: dict[str, Any]) -> None:
        """Replace the header."""
        self.header = deepcopy(header)

    def writing(self) -> AbstractContextManager[None]:
        """Return an empty context: draws are in the store at once."""
        return nullcontext()

    def append(
        self, block: Any, path: str, chain: int, first: int, values: NDArray[Any], only: slice | None = None
    ) -> None:
        """Write draws (or rows of a trace) of a chain from `first` on."""
        place = (chain, slice(first, first + len(values)))
        if only is None:
            self._arrays[path][place] = values
        else:
            self._arrays[path][(*place, only)] = values[:, only]

    def read(self, path: str, chain: int, n: int, only: slice | None = None) -> NDArray[Any]:
        """Return the first n draws (or rows of a trace) of a chain; with `only`, only these rows of the draws."""
        return as_stored(
            self._arrays[path][(chain, slice(n)) if only is None else (chain, slice(n), only)].copy()
        )

    def write_all(self, path: str, values: NDArray[Any]) -> None:
        """Write an array that is not made of draws."""
        self._arrays[path][...] = values

    def read_all(self, path: str) -> NDArray[Any]:
        """Return an array that is not made of draws."""
        return self._arrays[path].copy()

    def labels(self, dim: str) -> NDArray[Any] | None:
        """Return the labels of the rows or the columns."""
        return self._labels.get(dim)

    def write_checkpoint(self, chain: int, state: Mapping[str, Any]) -> None:
        """Replace the checkpoint of a chain."""
        self._checkpoints[chain] = {name: np.array(value) for name, value in state.items()}

    def read_checkpoint(self, chain: int, names: Iterable[str] | None = None) -> dict[str, Any] | None:
        """Return the checkpoint of a chain, or the arrays `names` of it; None if there is none yet."""
        state = self._checkpoints.get(chain)
        if state is None:
            return None
        return {name: state[name].copy() for name in (state if names is None else names)}

    @property
    def present(self) -> bool:
        """Whether the store still exists."""
        return _stores.get(self.path.absolute()) is self

    _arrays: dict[str, NDArray[Any]]
    _labels: Labels
    _checkpoints: dict[int, dict[str, NDArray[Any]]]
