"""Posteriors whose bytes, arrays or files are damaged."""

from __future__ import annotations

import io
import json
import random
from pathlib import Path

import numpy as np

import psgld

from .damage import damaged, nonsense, odd_array, or_same
from .originals import Originals


def use(path: Path) -> None:
    """Load a posterior and ask it something: neither may fail but with an error of psgld's."""
    try:
        post = psgld.load(path)
        repr(post)
        post.summary()
        predicted = post.predict(post.row_labels[:1] if post.row_labels is not None else [0])
        predicted.interval(0.9)
        predicted.new_draws()
        predicted.log_density(np.ones(len(predicted)))
        post.recommend(None, 1, exclude_seen=post.seen is not None)
        if post.shape[1] < 100:
            post.fold_in(np.ones((1, post.shape[1])), sweeps=2)
    except psgld.PsgldError as error:
        one_line(str(error))


def one_line(message: str) -> None:
    """An error is one line of a readable length."""
    if "\n" in message or len(message) > 2000:
        raise AssertionError(f"a message of {len(message)} characters: {message[:300]!r}")


def load_file(rng: random.Random, have: Originals) -> None:
    """Load an `.npz` whose bytes are damaged."""
    path = have.work / "bad.npz"
    path.write_bytes(damaged(rng, rng.choice(have.posteriors), rng.choice(have.posteriors)))
    use(path)


def load_arrays(rng: random.Random, have: Originals) -> None:
    """Load an `.npz` that is sound, of arrays that are not what they should be."""
    with np.load(io.BytesIO(rng.choice(have.posteriors))) as file:
        arrays = dict(file)
    header = json.loads(arrays["header"].tobytes())
    for _ in range(rng.choice((1, 1, 2))):
        name, other = rng.choice(sorted(arrays)), rng.choice(sorted(arrays))
        match rng.randrange(5):
            case 0:
                del arrays[name]
            case 1:
                arrays[name], arrays[other] = arrays[other], arrays[name]
            case 2:
                arrays["header"] = np.frombuffer(json.dumps(nonsense(rng, header)).encode(), np.uint8)
            case _:
                with np.errstate(all="ignore"):
                    arrays[name] = or_same(odd_array, rng, arrays[name])
        if not arrays:
            break
    path = have.work / "bad.npz"
    np.savez(path, **arrays)
    use(path)


def load_store(rng: random.Random, have: Originals) -> None:
    """Load a store in which one file is damaged, gone, or another's; or whose header is nonsense."""
    store = rng.choice(have.stores)
    file = rng.choice(have.files[store])
    whole = file.read_bytes()
    match rng.randrange(4):
        case 0 if file.name == "zarr.json":
            new: bytes | None = json.dumps(nonsense(rng, json.loads(whole))).encode()
        case 1:
            new = rng.choice((None, b"", rng.choice(have.files[store]).read_bytes()))
        case _:
            new = damaged(rng, whole)
    try:
        file.unlink()
        if new is not None:
            file.write_bytes(new)
        use(store)
    finally:
        file.write_bytes(whole)
