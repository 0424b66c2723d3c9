"""Metadata of Zarr that psgld does not write: every codec, type, grid and version that Zarr may know of."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Mapping
from typing import Any

from .damage import nonsense
from .trees import METADATA, Tree, in_json

_HUGE = (0, 1, -1, 7, 2**16, 2**31 - 1, 2**31, 2**40, 2**62, 2**63, 10**30, 1.5, "3", None, True)
_BYTES: Any = {"name": "bytes", "configuration": {"endian": "little"}}
CODECS: tuple[Any, ...] = (
    *(
        {"name": name}
        for name in ("crc32c", "vlen-utf8", "vlen-bytes", "bytes", "gzip", "zstd", "blosc", "x", "")
    ),
    _BYTES,
    {"name": "bytes", "configuration": {"endian": "big"}},
    {"name": "gzip", "configuration": {"level": 5}},
    {"name": "zstd", "configuration": {"level": 0, "checksum": False}},
    {
        "name": "blosc",
        "configuration": {"typesize": 4, "cname": "lz4", "clevel": 5, "shuffle": "shuffle", "blocksize": 0},
    },
    {
        "name": "blosc",
        "configuration": {"typesize": 0, "cname": "zstd", "clevel": 99, "shuffle": "x", "blocksize": -1},
    },
    {"name": "transpose", "configuration": {"order": [0]}},
    {"name": "transpose", "configuration": {"order": [1, 0]}},
    {"name": "transpose", "configuration": {"order": [9, -1]}},
    *(
        {
            "name": "sharding_indexed",
            "configuration": {"chunk_shape": shape, "codecs": [_BYTES], "index_codecs": index},
        }
        for shape in ([1], [0], [2**40], [1, 1])
        for index in ([_BYTES], [_BYTES, {"name": "crc32c"}], [])
    ),
    *(
        {"name": f"numcodecs.{name}", "configuration": {}}
        for name in (
            *(
                "pickle",
                "json2",
                "msgpack2",
                "zlib",
                "bz2",
                "lzma",
                "lz4",
                "zstd",
                "blosc",
                "shuffle",
                "delta",
            ),
            *(
                "fixedscaleoffset",
                "quantize",
                "packbits",
                "astype",
                "crc32",
                "adler32",
                "fletcher32",
                "zfpy",
                "pcodec",
            ),
        )
    ),
    {"name": "numcodecs.astype", "configuration": {"encode_dtype": "|O", "decode_dtype": "|O"}},
    {"name": "numcodecs.delta", "configuration": {"dtype": "|O"}},
    {"name": "cast_value", "configuration": {"data_type": "float64"}},
    {"name": "scale_offset", "configuration": {"offset": 1, "scale": 0}},
    "crc32c",
    None,
    {},
)
"""Codecs of version 3."""

FILTERS: tuple[Any, ...] = tuple(
    {"id": name}
    for name in (
        *(
            "pickle",
            "vlen-utf8",
            "vlen-bytes",
            "vlen-array",
            "json2",
            "msgpack2",
            "categorize",
            "base64",
            "zlib",
        ),
        *(
            "gzip",
            "bz2",
            "lzma",
            "lz4",
            "zstd",
            "blosc",
            "delta",
            "astype",
            "packbits",
            "shuffle",
            "quantize",
            "x",
        ),
    )
)
"""Filters and compressors of version 2."""

_PICKLE, _TEXT = FILTERS[:2]
_PIPES: tuple[Any, ...] = (None, [_PICKLE], [_TEXT, _PICKLE], [_TEXT], [_PICKLE, _TEXT])
"""Filters by which a pickle could be read."""

TYPES: tuple[Any, ...] = (
    *(
        "float16",
        "float32",
        "float64",
        "int8",
        "int32",
        "int64",
        "uint8",
        "uint64",
        "bool",
        "complex64",
        "complex128",
    ),
    *("string", "bytes", "variable_length_bytes", "object", "|O", "<f4", "r16", "", 7, None),
    {"name": "numpy.datetime64", "configuration": {"unit": "s", "scale_factor": 1}},
    {"name": "fixed_length_utf32", "configuration": {"length_bytes": 2**30}},
    {"name": "null_terminated_bytes", "configuration": {"length_bytes": 4}},
    {"name": "struct", "configuration": {"fields": [["a", "int32"]]}},
    {"name": "structured", "configuration": {"fields": [["a", "object"]]}},
)


def _shape(rng: random.Random, shape: Any) -> Any:
    """Return another shape: sizes by one off, huge, of another type; a dimension more or less."""
    sizes = list(shape) if isinstance(shape, list) else []
    match rng.randrange(5):
        case 0 if sizes:
            at = rng.randrange(len(sizes))
            sizes[at] = sizes[at] + rng.choice((-1, 1)) if isinstance(sizes[at], int) else 0
        case 1:
            sizes.append(rng.choice(_HUGE))
        case 2:
            sizes = sizes[1:]
        case 3:
            return rng.choice(_HUGE)
        case _ if sizes:
            sizes[rng.randrange(len(sizes))] = rng.choice(_HUGE)
    return sizes


def _codecs(rng: random.Random, codecs: list[Any]) -> Any:
    match rng.randrange(4):
        case 0:
            return [rng.choice(CODECS) for _ in range(rng.randrange(4))]
        case 1:
            return [*codecs, rng.choice(CODECS)]
        case 2:
            return [rng.choice(CODECS), *codecs]
        case _:
            return codecs[: rng.randrange(len(codecs) + 1)]


def second_version(rng: random.Random, node: Mapping[str, Any]) -> dict[str, Any]:
    """Return the node as version 2 would have it, with filters and a compressor that may be pickles."""
    kinds = {
        "float32": "<f4",
        "float64": "<f8",
        "float16": "<f2",
        "int64": "<i8",
        "int32": "<i4",
        "bool": "|b1",
    }
    dtype = rng.choice((kinds.get(str(node.get("data_type")), "|O"), "|O", "|O", "<i8", "|u1", "|S8"))
    filters, compressor = rng.choice(_PIPES), rng.choice((None, _PICKLE))
    if rng.random() < 0.4:
        dtype, (filters, compressor) = "|O", rng.choice((([_TEXT, _PICKLE], None), ([_TEXT], _PICKLE)))
    elif rng.random() < 0.4:
        filters, compressor = [rng.choice(FILTERS) for _ in range(rng.randrange(3))], rng.choice(FILTERS)
    shape = node.get("shape", [3])
    return {
        "zarr_format": 2,
        "node_type": "array",
        "shape": shape if rng.random() < 0.8 else _shape(rng, shape),
        "chunks": shape,
        "dtype": dtype,
        "fill_value": None if dtype == "|O" else 0,
        "order": rng.choice("CF"),
        "filters": filters,
        "compressor": compressor,
        "dimension_separator": rng.choice("./"),
        "attributes": {},
    }


def _grid(rng: random.Random, node: dict[str, Any]) -> None:
    grid = node["chunk_grid"]
    if rng.random() < 0.2:
        grid["name"] = rng.choice(("rectilinear", "x", ""))
    grid["configuration"]["chunk_shape"] = _shape(rng, grid["configuration"]["chunk_shape"])


def _extras(rng: random.Random, node: dict[str, Any]) -> None:
    name = rng.choice(
        ("storage_transformers", "must_understand", "extra", "dimension_names", "consolidated_metadata")
    )
    node[name] = rng.choice(
        ([], [{"name": "x"}], {"must_understand": True}, None, ["a"] * 3, "x", {"metadata": {}})
    )


_CHANGES: tuple[Callable[[random.Random, dict[str, Any]], Any], ...] = (
    lambda r, n: n.update(codecs=_codecs(r, n["codecs"])),
    lambda r, n: n.update(codecs=_codecs(r, n["codecs"])),
    lambda r, n: n.update(data_type=r.choice(TYPES)),
    lambda r, n: n.update(shape=_shape(r, n["shape"])),
    _grid,
    lambda r, n: n.update(fill_value=r.choice((None, "NaN", "0x00", [0], {}, 2**70, "x", "AAAA"))),
    lambda r, n: n.update(
        chunk_key_encoding={"name": r.choice(("default", "v2", "x")), "separator": r.choice("/.x")}
    ),
    _extras,
    lambda r, n: n.update(node_type=r.choice(("group", "array", "x", None))),
    lambda r, n: n.update(zarr_format=r.choice((1, 2, 3, 4, "3", None))),
)


def odd_node(rng: random.Random, node: Mapping[str, Any]) -> Any:
    """Return other metadata of an array."""
    if rng.random() < 0.2:
        return nonsense(rng, node)
    changed = copy.deepcopy(dict(node))
    for _ in range(rng.choice((1, 1, 2))):
        if changed.get("node_type") == "array" and "codecs" in changed:
            rng.choice(_CHANGES)(rng, changed)
    return changed


def odd_metadata(rng: random.Random, tree: Tree, pickled: bytes) -> dict[str, bytes | None]:
    """Return files of a store or shards whose metadata are others: of a node, of the folder about it, or of both."""
    second = rng.random() < 0.35
    texts = [name for name in tree.arrays if tree.nodes[name]["data_type"] in ("string", "uint8")]
    array = rng.choice(texts if second and texts and rng.random() < 0.4 else tree.arrays)
    node = tree.nodes[array]
    new = second_version(rng, node) if second else odd_node(rng, node)
    changes: dict[str, bytes | None] = {}
    root = tree.root
    known = root.setdefault(
        "consolidated_metadata", {"kind": "inline", "must_understand": False, "metadata": {}}
    )
    if not known["metadata"]:  # shards have none of their own
        known["metadata"] = copy.deepcopy(tree.nodes)
    where = rng.randrange(3)
    if where < 2:
        known["metadata"][array] = new
        changes[METADATA] = in_json(root)
    if where > 0 and not second:
        changes[f"{array}/{METADATA}"] = in_json(new)
    if where > 0 and second:
        changes[f"{array}/.zarray"] = in_json(
            {k: v for k, v in new.items() if k not in ("node_type", "attributes")}
        )
        changes[f"{array}/{METADATA}"] = None
        if rng.random() < 0.3:
            changes |= {".zgroup": in_json({"zarr_format": 2}), METADATA: None}
    if second or rng.random() < 0.1:
        changes |= _pickles(rng, tree, array, pickled)
    return changes


def _pickles(rng: random.Random, tree: Tree, array: str, pickled: bytes) -> dict[str, bytes | None]:
    """Put a pickle where a chunk of the array would be looked for, by the rules of either version."""
    dims = len(tree.nodes[array].get("shape", [1]))
    names = [f"{array}/{separator.join('0' * dims)}" for separator in "./"]
    if rng.random() < 0.2:
        names += tree.chunks(array)
    return {name: pickled for name in names}
