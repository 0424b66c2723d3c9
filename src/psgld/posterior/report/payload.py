"""Arrays and text of a page in one block of base64: no character of the data can end the element that holds it.

bytes = length of the header (4, little endian) | header, JSON in UTF-8 | arrays, each from a multiple of 4 on
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

TYPES = {"float32": "<f4", "uint32": "<u4", "uint16": "<u2", "int8": "<i1"}
"""Types of arrays, by the names that the page knows."""


def encode(text: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> str:
    """Return text, serialisable as JSON, and arrays in base64."""
    places, body = {}, b""
    for name, array in arrays.items():
        raw = np.ascontiguousarray(array, TYPES[array.dtype.name]).tobytes()
        places[name] = [array.dtype.name, len(body), list(array.shape)]
        body += raw + b"\0" * (-len(raw) % 4)
    header = json.dumps({"text": text, "arrays": places}, ensure_ascii=True).encode()
    header += b" " * (-len(header) % 4)
    return base64.b64encode(len(header).to_bytes(4, "little") + header + body).decode()


def decode(block: str) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return what `encode` was given."""
    raw = base64.b64decode(block)
    first = 4 + int.from_bytes(raw[:4], "little")
    header = json.loads(raw[4:first])
    arrays = {
        name: np.frombuffer(raw, TYPES[kind], int(np.prod(shape)), first + at).reshape(shape)
        for name, (kind, at, shape) in header["arrays"].items()
    }
    return header["text"], arrays
