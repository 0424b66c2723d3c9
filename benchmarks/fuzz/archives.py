"""Files `.npz` that are sound, of arrays that are not: sparse matrices, data that were saved, posteriors; zip bombs."""

from __future__ import annotations

import io
import random
import struct
import zlib
from functools import cache
from typing import Any

import numpy as np

import psgld

from .originals import Originals
from .posteriors import one_line, use
from .stores import odd_archive

_BLOCK = 1 << 20
_GIGABYTE = 1 << 30


def try_archive(rng: random.Random, have: Originals) -> None:
    """Read data from an `.npz` of changed arrays, and sample from them if they are small."""
    path = have.work / "bad.npz"
    content = rng.choice(have.archives)
    path.write_bytes(bomb(rng, content) if rng.random() < 0.02 else odd_archive(rng, content, have))
    try:
        data = psgld.observations(path)
        data.entries(np.arange(data.stored))
        data.fingerprint()
        if rng.random() < 0.2 and data.shape[0] * data.shape[1] < 10_000:
            psgld.sample(
                data, psgld.FactorModel(1, "gaussian"), draws=1, tune=3, thin=1, chains=1, progress=False
            )
    except psgld.PsgldError as error:
        one_line(str(error))


def try_posterior(rng: random.Random, have: Originals) -> None:
    """Load a posterior from an `.npz` of changed numbers, objects, or far more zeros than the file is large."""
    path = have.work / "bad.npz"
    content = rng.choice(have.posteriors)
    path.write_bytes(bomb(rng, content) if rng.random() < 0.02 else odd_archive(rng, content, have))
    use(path)


# -- zip bombs: a member of zeros that a run of the same few bytes expands to ----------------------------------------


def bomb(rng: random.Random, content: bytes) -> bytes:
    """Return an `.npz` in which one array is gigabytes of zeros, checksums and sizes right."""
    with np.load(io.BytesIO(content)) as file:
        arrays: dict[str, Any] = dict(file)
    name = rng.choice(sorted(arrays))
    dtype, count = rng.choice(("<f8", "<i4", "|b1", "<U16")), rng.choice((2, 3, 4))
    shape = (count * _GIGABYTE // np.dtype(dtype).itemsize,)
    members = [_zeros(name, dtype, shape, count)]
    for other, array in arrays.items():
        if other != name:
            out = io.BytesIO()
            np.lib.format.write_array(out, array, allow_pickle=False)
            members.append(
                (f"{other}.npy", out.getvalue(), zlib.crc32(out.getvalue()), len(out.getvalue()), 0)
            )
    return _zip(members)


_Member = tuple[str, bytes, int, int, int]
"""Name, bytes in the file, CRC-32 and size of what they expand to, method."""


def _zeros(name: str, dtype: str, shape: tuple[int, ...], gigabytes: int) -> _Member:
    head = io.BytesIO()
    np.lib.format.write_array_header_2_0(head, {"descr": dtype, "fortran_order": False, "shape": shape})
    pack = zlib.compressobj(9, zlib.DEFLATED, -15)
    first = pack.compress(head.getvalue()) + pack.flush(zlib.Z_FULL_FLUSH)
    again = pack.compress(bytes(_BLOCK)) + pack.flush(zlib.Z_FULL_FLUSH)
    times = gigabytes * (_GIGABYTE // _BLOCK)
    packed = first + again * times + pack.flush(zlib.Z_FINISH)
    crc = _crc_of_zeros(zlib.crc32(head.getvalue()), gigabytes)
    return f"{name}.npy", packed, crc, len(head.getvalue()) + gigabytes * _GIGABYTE, 8


def _crc_of_zeros(crc: int, gigabytes: int) -> int:
    """Go on with a CRC-32 over gigabytes of zeros: a linear map of its 32 bits, for each gigabyte the same."""
    columns, constant = _gigabyte_of_zeros()
    for _ in range(gigabytes):
        new = constant
        for bit in range(32):
            if crc >> bit & 1:
                new ^= columns[bit]
        crc = new
    return crc


@cache
def _gigabyte_of_zeros() -> tuple[list[int], int]:
    """Return what a gigabyte of zeros makes of each bit of a CRC-32, and of none, by doubling."""
    constant = zlib.crc32(bytes(_BLOCK), 0)
    columns = [zlib.crc32(bytes(_BLOCK), 1 << bit) ^ constant for bit in range(32)]

    def apply(crc: int) -> int:
        new = constant
        for bit in range(32):
            if crc >> bit & 1:
                new ^= columns[bit]
        return new

    for _ in range((_GIGABYTE // _BLOCK).bit_length() - 1):
        twice = apply(constant)
        columns, constant = [apply(column) ^ constant for column in columns], twice
    return columns, constant


def _zip(members: list[_Member]) -> bytes:
    """Write a zip file with 64-bit sizes of members that are compressed already."""
    out, entries = io.BytesIO(), []
    for name, packed, crc, size, method in members:
        wide = struct.pack("<HHQQ", 1, 16, size, len(packed))
        common = struct.pack(
            "<HHHHHIIIHH", 45, 0, method, 0, 33, crc, 2**32 - 1, 2**32 - 1, len(name), len(wide)
        )
        at = out.tell()
        out.write(b"PK\3\4" + common + name.encode() + wide + packed)
        wide = struct.pack("<HHQQQ", 1, 24, size, len(packed), at)
        common = struct.pack(
            "<HHHHHIIIHH", 45, 0, method, 0, 33, crc, 2**32 - 1, 2**32 - 1, len(name), len(wide)
        )
        entries.append(
            b"PK\1\2"
            + struct.pack("<H", 45)
            + common
            + struct.pack("<HHHII", 0, 0, 0, 0, 2**32 - 1)
            + name.encode()
            + wide
        )
    start, directory = out.tell(), b"".join(entries)
    out.write(directory)
    end64 = out.tell()
    n = len(members)
    out.write(b"PK\6\6" + struct.pack("<QHHIIQQQQ", 44, 45, 45, 0, 0, n, n, len(directory), start))
    out.write(b"PK\6\7" + struct.pack("<IQI", 0, end64, 1))
    out.write(b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, n, n, len(directory), 2**32 - 1, 0))
    return out.getvalue()
