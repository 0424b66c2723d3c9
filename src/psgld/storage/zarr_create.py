"""Creates the arrays of a Zarr store: little-endian numbers with checksums, every chunk written."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .layout import Spec


def create_array(root: Any, path: str, spec: Spec) -> None:
    """Create an array of draws, or one that is known before sampling."""
    from zarr.codecs import BytesCodec, Crc32cCodec

    root.create_array(
        path,
        shape=spec.shape,
        dtype=spec.dtype,
        chunks=spec.chunks,
        dimension_names=spec.dims,
        serializer=BytesCodec(),
        compressors=[Crc32cCodec()],
        fill_value=spec.fill,
        config={"write_empty_chunks": True},
    )


def create_coordinate(root: Any, path: str, values: NDArray[Any]) -> None:
    """Create, or replace, the numbers or labels along a dimension."""
    from zarr.codecs import Crc32cCodec

    text = values.dtype.kind == "U"
    root.create_array(
        path,
        shape=values.shape,
        dtype="string" if text else "int64",
        chunks=(max(1, len(values)),),
        dimension_names=(path.split("/")[1],),
        compressors=[Crc32cCodec()],
        config={"write_empty_chunks": True},
        overwrite=True,
    )[...] = values.astype(_string_type()) if text else values


def _string_type() -> Any:
    types: Any = getattr(np, "dtypes", None)
    return types.StringDType() if hasattr(types, "StringDType") else object
