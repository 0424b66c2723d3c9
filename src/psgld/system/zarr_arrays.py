"""Imports Zarr on demand, shuts it down cleanly, and opens only arrays in the format that psgld writes.

Zarr reads many other kinds of arrays, and some of their filters run code: those of version 2 may be pickles. So the
metadata of an array are validated before Zarr parses them, and its data are read only if the metadata are as expected.
"""

from __future__ import annotations

import atexit
import json
from contextlib import suppress
from typing import Any

from ..errors import DataError

_PATIENCE = 10.0
"""Seconds to wait for Zarr's thread at the end of the process."""


def zarr_library(what: str, otherwise: str = "") -> Any:
    """Return the module zarr; if it is missing, raise a DataError that says what needs it and how to install it."""
    try:
        import zarr
    except ImportError:
        raise DataError(f"{what}: pip install 'psgld[store]'{otherwise}") from None
    # Functions are called in reverse order of registration: this one before that of Zarr, registered on import.
    atexit.unregister(_end_the_loop)
    atexit.register(_end_the_loop)
    return zarr


def _end_the_loop() -> None:
    """Stop the event loop of Zarr's thread, and wait until it has stopped.

    Zarr does so itself at the end of the process, but waits for 0.2 seconds only, then closes the loop even if it is
    running: on a busy machine that prints "Cannot close a running event loop".
    """
    with suppress(ImportError, AttributeError, RuntimeError):  # another version of Zarr, or nothing to stop
        from zarr.core import sync

        loop, thread = sync.loop[0], sync.iothread[0]
        if loop is not None and thread is not None and thread.is_alive():
            loop.call_soon_threadsafe(loop.stop)
            thread.join(_PATIENCE)


_TYPES = ("bool", "uint8", "uint16", "int32", "int64", "float16", "float32", "float64", "string")

_CODECS: tuple[dict[str, Any], ...] = (
    {"name": "bytes"},
    {"name": "bytes", "configuration": {"endian": "little"}},
    {"name": "vlen-utf8"},
    {"name": "vlen-utf8", "configuration": {}},
)
"""Codecs that convert the elements of a chunk to bytes; a checksum may follow."""

_CHECKSUMS: tuple[dict[str, Any], ...] = ({"name": "crc32c"}, {"name": "crc32c", "configuration": {}})

_FILLS: dict[str, tuple[Any, ...]] = {
    "bool": (False,),
    "string": ("",),
    "float": (0, "NaN"),
    "int": (0,),
    "uint": (0,),
}
"""By kind of type: what chunks that are not there may read as."""


def plain_array(group: Any, path: str) -> Any:
    """Return an array of a group if its metadata are in the format that psgld writes; no data are read.

    Raises
    ------
    KeyError
        If the array does not exist.
    ValueError
        If it is in another format: version 2, compressed, filtered, sharded, …
    """
    from zarr import Array
    from zarr.core.sync import sync

    place = group.store_path / path
    content = sync((place / "zarr.json").get())
    if content is None:
        raise KeyError(path)
    metadata = json.loads(content.to_bytes())
    if wrong := _unexpected(metadata):
        raise ValueError(f"{path} is not an array that psgld wrote: {wrong}")
    return Array.from_dict(place, metadata)


def _unexpected(metadata: Any) -> str | None:
    """Return the first unexpected part of the metadata as text, or None."""
    if not isinstance(metadata, dict):
        return "its metadata are not a JSON object"
    shape = metadata.get("shape")
    chunks = _name(metadata.get("chunk_grid"), "regular", "chunk_shape")
    codecs = metadata.get("codecs")
    checks = {
        "zarr_format": metadata.get("zarr_format") == 3,
        "node_type": metadata.get("node_type") == "array",
        "shape": _sizes(shape, least=0),
        "data_type": metadata.get("data_type") in _TYPES,
        "chunk_grid": _sizes(chunks, least=1) and _sizes(shape, least=0) and len(chunks) == len(shape),  # type: ignore[arg-type]
        "chunk_key_encoding": _name(metadata.get("chunk_key_encoding"), "default", "separator") == "/",
        "codecs": isinstance(codecs, list)
        and codecs[:1] in [[codec] for codec in _CODECS]
        and codecs[1:] in [[], *([codec] for codec in _CHECKSUMS)],
        "storage_transformers": metadata.get("storage_transformers", []) == [],
        "fill_value": metadata.get("fill_value")
        in _FILLS.get(str(metadata.get("data_type")).rstrip("0123456789"), ()),
        "attributes": isinstance(metadata.get("attributes", {}), dict),
        "dimension_names": _names(metadata.get("dimension_names"), shape),
    }
    for name, good in checks.items():
        if not good:
            return f"{name} is {str(metadata.get(name))[:100]}"
    more = sorted(set(metadata) - set(checks))
    return f"{more[0]} is not expected" if more else None


def _name(part: Any, name: str, setting: str) -> Any:
    """Return the setting of a part of the metadata, if the part has that name and no other settings; else None."""
    if isinstance(part, dict) and set(part) == {"name", "configuration"} and part["name"] == name:
        settings = part["configuration"]
        return settings[setting] if isinstance(settings, dict) and set(settings) == {setting} else None
    return None


def _names(names: Any, shape: Any) -> bool:
    """Return whether these are valid names of dimensions: none at all, or one or none for each."""
    return names is None or (
        isinstance(names, list)
        and isinstance(shape, list)
        and len(names) == len(shape)
        and all(n is None or isinstance(n, str) for n in names)
    )


def _sizes(numbers: Any, least: int) -> bool:
    """Return whether these are valid sizes of dimensions."""
    return isinstance(numbers, list) and all(
        isinstance(n, int) and not isinstance(n, bool) and least <= n < 2**63 for n in numbers
    )
