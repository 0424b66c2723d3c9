"""Shards whose checksums are right and whose content is not; blocks of a run that are not what was written."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import psgld

from .damage import damaged, nonsense, odd_numbers, pickle_that_marks
from .metadata import odd_metadata
from .originals import MARKER, Originals
from .posteriors import one_line
from .trees import METADATA, Tree, in_json, sampled

_MAGNITUDES = (
    0,
    1,
    -1,
    2,
    3,
    2**16,
    2**31 - 1,
    2**40,
    2**63,
    -(2**63),
    1e300,
    -1.5,
    "3",
    None,
    True,
    [],
    "float16",
)


def _manifest(rng: random.Random, tree: Tree) -> dict[str, bytes | None]:
    """Change fields of the manifest: another type, another size."""
    root = tree.root
    manifest = root["attributes"]["psgld"]
    for _ in range(rng.choice((1, 1, 2))):
        name = rng.choice(sorted(manifest))
        if rng.random() < 0.4:
            manifest[name] = nonsense(rng, manifest[name])
        elif name == "shape":
            manifest[name] = [rng.choice((n, n + 1, n - 1, rng.choice(_MAGNITUDES))) for n in (7, 6)]
        elif name == "strips" and manifest[name]:
            rng.choice(manifest[name])["entries"] = rng.choice(_MAGNITUDES)
        else:
            manifest[name] = rng.choice(_MAGNITUDES)
    return {METADATA: in_json(root)}


def _sum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _other_numbers(rng: random.Random, dtype: str) -> Callable[[bytes], bytes]:
    def change(content: bytes) -> bytes:
        if dtype == "uint8":
            return (damaged(rng, content) + bytes(len(content)))[: len(content)]
        return odd_numbers(rng, np.frombuffer(content, dtype)).tobytes()

    return change


def _array(rng: random.Random, tree: Tree) -> dict[str, bytes | None]:
    """Change an array, the labels or a strip, and its SHA-256 in the manifest."""
    root = tree.root
    manifest = root["attributes"]["psgld"]
    name = rng.choice([n for n in tree.arrays if tree.chunks(n)])
    path, dtype = rng.choice(tree.chunks(name)), str(tree.nodes[name]["data_type"])
    content = _other_numbers(rng, dtype)(tree.files[path])
    if name in ("indices", "values"):
        line: Any = manifest["strips"][int(path.split("/")[2])]
        size = line["entries"] * np.dtype(dtype).itemsize
        line["sha256"][name] = _sum(content[:size])
    elif "_labels/" in name:
        side, part = name.split("/")
        manifest[side][part] = _sum(content)
    else:
        manifest["arrays"][name] = _sum(content)
    return {path: content, METADATA: in_json(root)}


def try_shards(rng: random.Random, have: Originals) -> None:
    """Open shards that are changed, read them, and sample from them."""
    tree = rng.choice(have.shards)
    match rng.randrange(5):
        case 0:
            changes = _manifest(rng, tree)
        case 1 | 2:
            changes = _array(rng, tree)
        case _:
            changes = odd_metadata(rng, tree, pickle_that_marks(have.work / MARKER))
    with tree.changed(changes) as path:
        _used(path, sample=rng.random() < 0.5)


def _used(path: Path, sample: bool) -> None:
    asks: list[Callable[[], Any]] = [lambda: psgld.observations(path).load()]
    if sample:
        asks.append(lambda: sampled(path))
    for ask in asks:
        try:
            ask()
        except psgld.PsgldError as error:
            one_line(str(error))


def try_blocks(rng: random.Random, have: Originals) -> None:
    """Sample from shards whose cached blocks are not what was written: the same draws, or an error."""
    tree = rng.choice(have.shards)
    names = [name for name in tree.files if name.startswith("blocks/")]
    path = rng.choice([name for name in names if name.endswith(".bin")] if rng.random() < 0.8 else names)
    whole = tree.files[path]
    content = rng.choice(
        (
            bytes(len(whole)),
            rng.randbytes(len(whole)),
            whole[: rng.randrange(len(whole))],
            whole + bytes(8),
            damaged(rng, whole),
            rng.randbytes(8).join((whole[: (at := 8 * rng.randrange(len(whole) // 8))], whole[at + 8 :])),
        )
    )
    expected = have.drawn[tree]
    with tree.changed({path: content}) as folder:
        try:
            found = sampled(folder).W
        except psgld.PsgldError as error:
            one_line(str(error))
            return
    if not np.array_equal(found, expected):
        raise AssertionError("other draws, without a word, from blocks that were changed")
