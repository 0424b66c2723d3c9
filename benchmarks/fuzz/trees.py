"""Folders of small files that are damaged in place and made whole again: stores and shards, kept in memory."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np

import psgld

METADATA = "zarr.json"
QUICK: dict[str, Any] = {"tune": 6, "thin": 1, "chains": 1, "progress": False, "engine": psgld.Threads(1)}
_SHARDS = {"named": psgld.FactorModel(1, "gaussian"), "counts": psgld.FactorModel(1, "poisson")}


class Tree:
    """The files of a folder by their paths within it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        paths = [path for path in sorted(folder.rglob("*")) if path.name != "lock"]
        self.files = {p.relative_to(folder).as_posix(): p.read_bytes() for p in paths if p.is_file()}
        self._folders = {p.relative_to(folder).as_posix() for p in paths if p.is_dir()}

    @cached_property
    def nodes(self) -> dict[str, Any]:
        """The metadata of all arrays and groups but the first, by their paths."""
        suffix = f"/{METADATA}"
        return {p.removesuffix(suffix): json.loads(c) for p, c in self.files.items() if p.endswith(suffix)}

    @cached_property
    def arrays(self) -> list[str]:
        """The paths of the arrays."""
        return [path for path, node in self.nodes.items() if node["node_type"] == "array"]

    @property
    def root(self) -> Any:
        """The metadata of the folder itself: another copy each time."""
        return json.loads(self.files[METADATA])

    def chunks(self, array: str) -> list[str]:
        """Return the paths of the chunks of an array."""
        return [path for path in self.files if path.startswith(f"{array}/c/")]

    @contextmanager
    def changed(self, changes: Mapping[str, bytes | None]) -> Iterator[Path]:
        """Change files (None: remove them) for a while."""
        try:
            for path, content in changes.items():
                file = self.folder / path
                if content is None:
                    file.unlink(missing_ok=True)
                    continue
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(content)
            yield self.folder
        finally:
            self.restore()

    def drawn(self) -> Any:
        """Return the draws of W from shards that are as they were written."""
        try:
            return sampled(self.folder).W
        finally:
            self.restore()

    def restore(self) -> None:
        """Make the folder what it was, whoever has changed what."""
        there = set()
        for folder, folders, names in os.walk(self.folder):
            within = os.path.relpath(folder, self.folder)
            for name in list(folders):
                if os.path.normpath(os.path.join(within, name)) not in self._folders:
                    shutil.rmtree(os.path.join(folder, name), ignore_errors=True)
                    folders.remove(name)
            for name in names:
                path, file = os.path.normpath(os.path.join(within, name)), os.path.join(folder, name)
                if path not in self.files:
                    os.unlink(file)
                elif _is(file, self.files[path]):
                    there.add(path)
        for path in self.files.keys() - there:
            file = self.folder / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(self.files[path])


def _is(file: str, content: bytes) -> bool:
    with open(file, "rb") as opened:
        return opened.read() == content


@dataclass(frozen=True)
class Run:
    """A store and what was sampled into it."""

    tree: Tree
    V: Any
    model: psgld.FactorModel
    more: Mapping[str, Any]

    def resume(self, draws: int) -> psgld.Posterior:
        """Go on with the store."""
        return psgld.sample(
            self.V, self.model, draws=draws, store=self.tree.folder, resume=True, **QUICK, **self.more
        )


def runs(folder: Path) -> list[Run]:
    """Sample into stores: counts with tracked pairs, ratings with labels and biases, BPMF, a learnt r, 0 and 1."""
    rng = np.random.default_rng(0)
    ratings = psgld.Observations.from_coo(
        [0, 0, 1, 2, 3],
        [0, 2, 1, 0, 2],
        [4.0, 3.0, 5.0, 1.0, 2.0],
        row_labels=list("abcd"),
        col_labels=[4, 7, 9],
    )
    named = psgld.Observations.from_dense(rng.normal(size=(4, 5)), None, list("vwxyz"))
    sorts: list[tuple[Any, psgld.FactorModel, dict[str, Any]]] = [
        (rng.poisson(4.0, (5, 4)), psgld.FactorModel(2, "poisson"), {"track": ([0], [1])}),
        (ratings, psgld.FactorModel(1, "gaussian", bias=True), {}),
        (
            named,
            psgld.FactorModel(1, "gaussian", psgld.NormalWishart()),
            {"store_dtype": "float16"},
        ),
        (rng.negative_binomial(2, 0.3, (5, 4)), psgld.FactorModel(2, "negative-binomial"), {}),
        (rng.random((5, 4)) < 0.4, psgld.FactorModel(1, "bernoulli", bias=True), {}),
        (rng.integers(1, 5, (5, 4)), psgld.FactorModel(1, "ordinal", bias=True), {}),
    ]
    found = []
    for n, (V, model, more) in enumerate(sorts):
        path = folder / f"fuzzed-{n}.zarr"
        psgld.sample(V, model, draws=3, store=path, **QUICK, **more)
        found.append(Run(Tree(path), V, model, more))
    return found


def shards(folder: Path) -> list[Tree]:
    """Write shards: of text and integer labels, and of counts whose zeros are not stored; with blocks of a run."""
    rng = np.random.default_rng(0)
    i, j = np.nonzero(rng.random((7, 6)) < 0.6)
    named = [f"r{k}" for k in i], (2 * j + 3).tolist(), rng.normal(size=len(i))
    psgld.shard(iter([named]), folder / "named", blocks=2)
    counts = rng.poisson(2.0, len(i)) + 1.0
    psgld.shard(iter([(i, j, counts)]), folder / "counts", blocks=3, shape=(7, 6), absent="zero")
    for name in _SHARDS:
        sampled(folder / name)
    return [Tree(folder / name) for name in _SHARDS]


def sampled(path: Path) -> psgld.Posterior:
    """Sample briefly from shards."""
    return psgld.sample(path, _SHARDS[path.name], draws=2, **QUICK)


def with_crc(content: bytes) -> bytes:
    """Return the content of a chunk with its CRC-32C behind it, as Zarr has it."""
    return content + int(google_crc32c.value(content)).to_bytes(4, "little")


def in_json(value: Any) -> bytes:
    """Return metadata as bytes."""
    return json.dumps(value).encode()


def numbers(content: bytes, dtype: str, change: Callable[[np.ndarray], np.ndarray]) -> bytes:
    """Change the numbers in bytes."""
    return np.ascontiguousarray(change(np.frombuffer(content, np.dtype(dtype).newbyteorder("<")))).tobytes()
