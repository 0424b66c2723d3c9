"""Stores whose checksums are right and whose content is not."""

from __future__ import annotations

import io
import random
from typing import Any

import numpy as np

import psgld

from .damage import damaged, nonsense, objects_that_mark, odd_array, odd_numbers, or_same, pickle_that_marks
from .metadata import odd_metadata
from .originals import MARKER, Originals
from .posteriors import one_line, use
from .trees import METADATA, Run, Tree, in_json, numbers, with_crc

_RAW = ("float16", "float32", "float64", "int32", "int64")


def chunk(rng: random.Random, tree: Tree) -> dict[str, bytes | None]:
    """Change the numbers or the text of a chunk, and its checksum with them."""
    array = rng.choice([name for name in tree.arrays if tree.chunks(name)])
    path, kind = rng.choice(tree.chunks(array)), tree.nodes[array]["data_type"]
    content = tree.files[path][:-4]
    if kind in _RAW and rng.random() < 0.8:
        return {path: with_crc(numbers(content, kind, lambda a: odd_numbers(rng, a)))}
    return {path: with_crc(damaged(rng, content))}


def header(rng: random.Random, tree: Tree) -> dict[str, bytes | None]:
    """Change a field or two of the header."""
    root = tree.root
    for _ in range(rng.choice((1, 1, 2))):
        root["attributes"]["psgld"] = nonsense(rng, root["attributes"]["psgld"])
    return {METADATA: in_json(root)}


def odd_archive(rng: random.Random, content: bytes, have: Originals) -> bytes:
    """Change arrays of an `.npz`, which is a sound file again."""
    with np.load(io.BytesIO(content)) as file:
        arrays: dict[str, Any] = dict(file)
    for _ in range(rng.choice((1, 1, 2))):
        name, other = rng.choice(sorted(arrays)), rng.choice(sorted(arrays))
        match rng.randrange(10):
            case 0:
                del arrays[name]
            case 1:
                arrays[name] = arrays[other]
            case 2:
                arrays[name] = objects_that_mark(have.work / MARKER)
            case 3 | 4 | 5:
                with np.errstate(all="ignore"):
                    arrays[name] = or_same(odd_array, rng, arrays[name])
            case _:
                arrays[name] = odd_numbers(rng, arrays[name])
        if not arrays:
            break
    out = io.BytesIO()
    np.savez(out, **arrays)
    return out.getvalue()


def checkpoint(rng: random.Random, tree: Tree, have: Originals) -> dict[str, bytes | None]:
    """Change arrays of a checkpoint."""
    path = "checkpoints/0.npz"
    return {path: odd_archive(rng, tree.files[path], have)}


def resumed(run: Run, draws: int) -> None:
    """Go on with a store: draws, or an error of psgld's."""
    try:
        run.resume(draws).predict()
    except psgld.PsgldError as error:
        one_line(str(error))


def try_store(rng: random.Random, have: Originals) -> None:
    """Load a store that is changed somewhere, or go on with it."""
    run = rng.choice(have.runs)
    pickled = pickle_that_marks(have.work / MARKER)
    match rng.randrange(6):
        case 0 | 1:
            changes = chunk(rng, run.tree)
        case 2:
            changes = header(rng, run.tree)
        case _:
            changes = odd_metadata(rng, run.tree, pickled)
    with run.tree.changed(changes) as path:
        if rng.random() < 0.7:
            use(path)
        else:
            resumed(run, rng.choice((3, 4)))


def try_checkpoint(rng: random.Random, have: Originals) -> None:
    """Go on from a checkpoint that is changed, or load the draws that it says count."""
    run = rng.choice(have.runs)
    with run.tree.changed(checkpoint(rng, run.tree, have)) as path:
        if rng.random() < 0.3:
            use(path)
        else:
            resumed(run, rng.choice((3, 4, 5)))
