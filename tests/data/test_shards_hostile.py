"""Shards and blocks of which nobody knows who wrote them: the right answer or one clear line, whatever they hold.

Checksums are made right again after every change, so that what lies behind them is reached.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import resource
import shutil
import stat
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

import psgld
from psgld.dynamics.probes import Probes
from psgld.engines import block_cache

sys.path.insert(0, str(Path(__file__).parents[2]))
zarr = pytest.importorskip("zarr")

RUN = {"draws": 2, "tune": 8, "chains": 1, "progress": False, "engine": psgld.Threads(1)}
MODEL = psgld.FactorModel(2, "gaussian")


def data():
    rng = np.random.default_rng(0)
    rows, cols = np.nonzero(rng.random((60, 40)) < 0.5)
    return rows, cols, rng.normal(size=len(rows))


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile")
    rows, cols, values = data()
    options = {"shape": (60, 40), "absent": "unobserved"}
    psgld.shard(iter([(rows, cols, values)]), folder / "plain", 3, **options)
    names = np.array([f"user {i}" for i in range(60)])
    psgld.shard(iter([(names[rows], 7 * cols, values)]), folder / "named", 3, absent="unobserved")
    return folder


@pytest.fixture
def shards(original, tmp_path):
    return shutil.copytree(original / "plain", tmp_path / "shards")


@pytest.fixture
def named(original, tmp_path):
    return shutil.copytree(original / "named", tmp_path / "shards")


def sha(array):
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()


class Forged:
    """Shards opened to be changed; all checksums are right again at the end."""

    def __init__(self, path):
        self.group = zarr.open_group(str(path), mode="r+")
        self.manifest = self.group.attrs["psgld"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.group.attrs["psgld"] = self.manifest

    def array(self, name, change):
        array = self.group[name][...]
        change(array)
        self.group[name][...] = array
        if "/" in name:
            side, _, part = name.partition("/")
            self.manifest[side][part] = sha(array)
        else:
            self.manifest["arrays"][name] = sha(array)

    def strip(self, name, change, b=1):
        line = self.manifest["strips"][b]
        array = self.group[name][b, : line["entries"]]
        change(array)
        self.group[name][b, : line["entries"]] = array
        line["sha256"][name] = sha(array)


def put(at, value):
    def change(array):
        array[at] = value

    return change


def refused(path, match):
    for use in (lambda: psgld.sample(path, MODEL, **RUN), lambda: psgld.Observations.from_shards(path)):
        with pytest.raises(psgld.DataError, match=match) as caught:
            use()
        assert str(caught.value).startswith(f"{path}: ") and "shard the data again" in str(caught.value)
        assert "\n" not in str(caught.value)


MANIFEST = {  # key: values that it cannot have
    "shape": [["a", "b"], [60], None, [0, 40], [60, -1], [60.0, 40], [2**31, 40], [10**400, 40], [True, 40]],
    "stored": [0, -1, 1e3, "1224", True, 10**30],
    "blocks": [0, -3, 65536, 3.0, None, [3]],
    "absent": ["banana", None, 0, ["zero"]],
    "absent_chosen": [0, "yes", None],
    "dtype": ["object", "float16", None, ["float32"], "int32"],
    "total": [float("nan"), float("inf"), "1", None, 10**400, True],
    "deviation": [-1.0, float("nan"), None],
    "min": [float("-inf"), None, "0"],
    "max": [float("nan"), {}],
    "arrays": [None, {}, [], {"row_strips": "0" * 64}],
    "row_labels": [[], {"other": "0" * 64}, {"integers": 1}, "text"],
    "col_labels": [0, {"text": "0" * 64}, {"integers": "x"}],
    "strips": [None, {}, [None] * 3, [{"entries": 1}] * 3, [{"entries": -1, "sha256": {}}] * 3],
}


@pytest.mark.parametrize("key", MANIFEST)
def test_keys_of_the_manifest(key, shards):
    whole = Forged(shards).manifest
    for value in MANIFEST[key]:
        Forged(shards).group.attrs["psgld"] = {**whole, key: value}
        with pytest.raises(psgld.DataError, match=rf"'{key}' of the manifest must be .*, got .*; shard the"):
            psgld.Shards.open(shards)
    Forged(shards).group.attrs["psgld"] = {name: value for name, value in whole.items() if name != key}
    refused(shards, f"the manifest has no '{key}'")


CLAIMS = {  # what is changed, how, and what is said
    "stored": ({"stored": 1223}, "strips of the manifest have 1224 entries in total, but 'stored' is 1223"),
    "cells": ({"shape": [5, 4]}, "1224 entries in 5 × 4 cells"),
    "rows": ({"shape": [61, 40]}, "row_strips has 60 elements, expected 61"),
    "columns": ({"shape": [60, 39]}, "col_strips has 40 elements, expected 39"),
    "all rows": ({"shape": [2**31 - 1, 40]}, "row_strips has 60 elements, expected 2147483647"),
    "blocks": ({"blocks": 4}, "4 blocks and 3 strips"),
    "min above max": ({"min": 1.0, "max": 0.0}, "values from 1.0 to 0.0"),
    "narrow": ({"min": -1.0, "max": 1.0}, "strip 0 has values from -.* the manifest says -1.0 to 1.0"),
    "wide": ({"max": 9.0}, "the values have max = .*, the manifest says 9.0"),
    "total": ({"total": 5.0}, "the values have total = .*, the manifest says 5.0"),
    "huge total": ({"total": 1e300}, "the manifest has mean .* and variance .* for values from"),
    "huge deviation": ({"deviation": 1e300}, "the manifest has mean .* and variance 8.* for values from"),
    "deviation": ({"deviation": 1.0}, "the values have deviation = .*, the manifest says 1.0"),
    "dtype": ({"dtype": "float32"}, "values is not an array of float32 with 2 dimension.s."),
}


@pytest.mark.parametrize("claim", CLAIMS)
def test_claims_of_the_manifest(claim, shards):
    change, match = CLAIMS[claim]
    with Forged(shards) as forged:
        forged.manifest.update(change)
    refused(shards, match)


ARRAYS = {
    "row strip": ("row_strips", put(0, 3), "a row is in strip 3 of 3"),
    "column strip": ("col_strips", put(0, 60000), "a column is in strip 60000 of 3"),
    "empty row strip": ("row_strips", lambda a: a.__imod__(2), "a row strip has no rows"),
    "empty column strip": ("col_strips", lambda a: a.__imod__(2), "a column strip has no columns"),
    "row moved": (
        "row_strips",
        lambda a: put(0, (a[0] + 1) % 3)(a),
        "counts of the rows do not add up to those of the blocks",
    ),
    "column moved": (
        "col_strips",
        lambda a: put(0, (a[0] + 1) % 3)(a),
        "counts of the columns do not add up to those of the blo",
    ),
    "row count": ("row_counts", put(0, 41), "rows have .* to 41 entries of 40"),
    "negative row count": ("row_counts", put(0, -5), "rows have -5 to .* entries of 40"),
    "row counts": (
        "row_counts",
        lambda a: a.__iadd__(1),
        "counts of the rows do not add up to those of the blocks",
    ),
    "column count": ("col_counts", put(0, 10**18), "columns have .* to 1000000000000000000 entries of 60"),
    "column counts": (
        "col_counts",
        lambda a: put([0, 1], [a[0] + 1, a[1]])(a),
        "counts of the columns do not add up",
    ),
    "block": ("block_entries", put(0, 10**6), "blocks have .* to 1000000 entries"),
    "huge block": ("block_entries", put(slice(0, 9), 2**62), "blocks have .* entries"),
    "negative block": ("block_entries", put(0, -10), "blocks have -10 to"),
    "blocks": ("block_entries", lambda a: a.__isub__(1), "do not add up to those of the blocks"),
}


@pytest.mark.parametrize("what", ARRAYS)
def test_arrays(what, shards):
    name, change, match = ARRAYS[what]
    with Forged(shards) as forged:
        forged.array(name, change)
    refused(shards, match)


STRIPS = {
    "one too far": ("indices", put(-1, 40), "strip 1 has column 40 of 40"),
    "one too near": ("indices", put(0, -1), "strip 1 has column -1 of 40"),
    "far": ("indices", put(slice(0, 200), 2**31 - 1), "strip 1 has column 2147483647 of 40"),
    "near": ("indices", put(slice(0, 200), -(10**9)), "strip 1 has column -1000000000 of 40"),
    "backwards": ("indices", lambda a: put(slice(None), a[::-1].copy())(a), "strip 1 has column .* after"),
    "twice": ("indices", lambda a: put(1, a[0])(a), "strip 1 has column (.*) after column \\1"),
    "nan": ("values", put(0, np.nan), "strip 1 has the value nan"),
    "infinite": ("values", put(-1, -np.inf), "strip 1 has the value -inf"),
    "large": ("values", put(5, 1e9), "strip 1 has values from .* to 1000000000.0, the manifest says"),
    "other": ("values", lambda a: a.__imul__(0.5), "the values have (min|max|total) = .*, the manifest"),
}


@pytest.mark.parametrize("what", STRIPS)
def test_strips(what, shards):
    name, change, match = STRIPS[what]
    with Forged(shards) as forged:
        forged.strip(name, change)
    refused(shards, match)


def test_an_entry_of_another_block(shards):
    """Another column, in order, and with all checksums right; but not in the same block."""
    with Forged(shards) as forged:
        strips = forged.group["col_strips"][...]

        def move(columns):
            for q in range(len(columns) - 1):
                for other in range(columns[q] + 1, columns[q + 1]):
                    if strips[other] != strips[columns[q]]:
                        columns[q] = other
                        return

        forged.strip("indices", move)
    refused(shards, "the entries of strip 1 do not add up to those of its blocks")


LABELS = {
    "beyond the text": (
        "row_labels/ends",
        lambda a: put(-1, a[-1] + 1)(a),
        "ends of the row labels do not match",
    ),
    "backwards": (
        "row_labels/ends",
        lambda a: put(3, a[5])(a),
        "ends of the row labels do not match their text",
    ),
    "negative": ("row_labels/ends", put(0, -1), "ends of the row labels do not match their text"),
    "the same": ("row_labels/text", put(5, ord("1")), "the row label 'user 1' occurs more than once"),
    "no UTF-8": ("row_labels/text", put(3, 0xFF), "the row labels are not UTF-8"),
    "integers": ("col_labels/integers", put(3, 0), "the col label 0 occurs more than once"),
}


@pytest.mark.parametrize("what", LABELS)
def test_labels(what, named):
    name, change, match = LABELS[what]
    with Forged(named) as forged:
        forged.array(name, change)
    refused(named, match)


@pytest.mark.parametrize("side", ["row", "col"])
def test_too_few_labels(side, named):
    name = f"{side}_labels/{'ends' if side == 'row' else 'integers'}"
    metadata = named / name / "zarr.json"
    node = json.loads(metadata.read_text())
    size = node["shape"][0]
    node["shape"] = node["chunk_grid"]["configuration"]["chunk_shape"] = [size - 1]
    metadata.write_text(json.dumps(node))
    refused(named, f"there are {size - 1} {side} labels, expected {size}")


@pytest.mark.parametrize("name", ["row_counts", "block_entries", "indices", "values"])
def test_arrays_that_are_not_on_disk_take_no_memory(name, shards):
    """Metadata of a few bytes claim a terabyte, in chunks as we write them."""
    metadata = shards / name / "zarr.json"
    node = json.loads(metadata.read_text())
    node["shape"][-1] = node["chunk_grid"]["configuration"]["chunk_shape"][-1] = 1 << 22
    node["shape"][-1] *= 1 << 18
    metadata.write_text(json.dumps(node))
    refused(shards, f"{name}( of strip 0)? is missing")
    shutil.rmtree(shards / name)
    refused(shards, f"{name} is missing")


def test_other_chunks_and_types(shards):
    metadata = shards / "row_counts" / "zarr.json"
    node = json.loads(metadata.read_text())
    metadata.write_text(json.dumps(node | {"data_type": "float64", "fill_value": 0.0}))
    refused(shards, "row_counts is not an array of int64 with 1 dimension.s.")
    node["chunk_grid"]["configuration"]["chunk_shape"] = [1]
    metadata.write_text(json.dumps(node))
    refused(shards, r"row_counts has chunks of \(1,\), expected \(60,\)")


# -- cached blocks -------------------------------------------------------------------------------------------


def fitted(path):
    return psgld.sample(path, MODEL, **RUN).W


def cached(path):
    (file,) = (path / "blocks").iterdir()
    return file


def written_again(path, expected, reason):
    with pytest.warns(psgld.PsgldWarning, match=rf"cannot be used \({reason}\) and are written again"):
        assert np.array_equal(fitted(path), expected)
    assert np.array_equal(fitted(path), expected)  # without a word


@pytest.mark.parametrize("content", ["zeros", "random", "short", "long", "empty", "bits"])
def test_damaged_blocks_are_written_again(content, shards):
    expected = fitted(shards)
    file = cached(shards)
    whole = file.read_bytes()
    rng = np.random.default_rng(0)
    if content == "bits":
        for at in rng.integers(0, len(whole), 20).tolist():
            damaged = bytearray(whole)
            damaged[at] ^= 1 << rng.integers(8)
            file.write_bytes(damaged)
            written_again(shards, expected, ".*")
        return
    size = {"short": len(whole) - 1, "long": len(whole) + 1, "empty": 0}.get(content, len(whole))
    file.write_bytes(bytes(size) if content == "zeros" else rng.bytes(size))
    written_again(shards, expected, ".*")
    assert file.read_bytes() == whole


def digest(content, key):
    """Return the checksum of the core, which a forger can make, too."""
    lanes = [int.from_bytes(key.encode()[i : i + 8], "little") for i in range(0, 64, 8)]
    for words in np.frombuffer(content, "<u8").reshape(-1, 8).tolist():
        for i, word in enumerate(words):
            x = (lanes[i] ^ word) * 0x9E3779B97F4A7C15 & (1 << 64) - 1
            lanes[i] = (x << 29 | x >> 35) & (1 << 64) - 1
    return b"".join(lane.to_bytes(8, "little") for lane in lanes)


FORGED = {  # section of the first block, type, element, value, what is said
    "first start": (0, "u4", 0, 1, "rows that overlap"),
    "start": (0, "u4", 1, 10**6, "rows that overlap"),
    "last start": (0, "u4", -1, 2**32 - 1, "rows that overlap"),
    "value": (1, "f4", 0, np.nan, "a value that is not finite"),
    "last value": (1, "f4", -1, np.inf, "a value that is not finite"),
    "index": (2, "u2", 0, 65535, "an index out of range"),
    "last index": (2, "u2", -1, "columns", "an index out of range"),
    "row": (3, "u1", 0, 255, "an entry of another row"),
    "last row": (3, "u1", -1, 31, "an entry of another row"),
}


@pytest.mark.parametrize("what", FORGED)
def test_no_contents_of_blocks_can_crash(what, shards, monkeypatch):
    """With the right checksum, every index is still looked at."""
    keys = []
    real = psgld.engines.mapped._key
    monkeypatch.setattr(psgld.engines.mapped, "_key", lambda *args: keys.append(real(*args)) or keys[-1])
    expected = fitted(shards)
    file = cached(shards)
    content = bytearray(file.read_bytes())
    assert digest(content[: len(content) - 576], keys[0]) == content[-64:]
    opened = psgld.Shards.open(shards)
    n, rows = int(opened.block_entries[0, 0]), int((opened.partition.rows == 0).sum())
    section, kind, element, value, reason = FORGED[what]
    if value == "columns":
        value = int((opened.partition.cols == 0).sum())
    sizes = [4 * (rows + 1), 4 * n, 2 * n, n]
    start = sum((size + 127) // 64 * 64 for size in sizes[:section])
    place = np.frombuffer(content, kind, sizes[section] // np.dtype(kind).itemsize, start)
    place[element] = value
    content[-64:] = digest(content[: len(content) - 576], keys[0])
    file.write_bytes(content)
    written_again(shards, expected, reason)


def test_blocks_of_other_shards(original, shards, tmp_path):
    """The right size and a right checksum, but of other values: the key is part of it."""
    other = shutil.copytree(original / "plain", tmp_path / "other")
    with Forged(other) as forged:
        forged.manifest["seed"] = 7  # the same data, another manifest
    expected = fitted(shards)
    fitted(other)
    shutil.copy(cached(other), cached(shards))
    written_again(shards, expected, "a wrong checksum")


def test_links_are_not_followed(shards, tmp_path):
    expected = fitted(shards)
    file, precious = cached(shards), tmp_path / "precious"
    precious.write_text("precious")
    file.unlink()
    file.symlink_to(precious)
    written_again(shards, expected, ".*symbolic links.*")
    assert precious.read_text() == "precious" and not file.is_symlink()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    file.unlink()
    file.mkdir()
    with pytest.warns(psgld.PsgldWarning, match="not a regular file"):
        assert np.array_equal(fitted(shards), expected)  # used, though not kept


def test_blocks_of_another_user_are_not_used(shards, monkeypatch):
    expected = fitted(shards)
    real = os.geteuid()
    file = cached(shards)
    monkeypatch.setattr(block_cache.os, "geteuid", lambda: real + 1)
    file.rename(file.with_name(file.name.replace(f"-{real}.bin", f"-{real + 1}.bin")))
    with pytest.warns(psgld.PsgldWarning, match="another user owns it"):
        assert np.array_equal(fitted(shards), expected)


@pytest.mark.parametrize("there", ["nothing", "a link", "open to all", "a file"])
def test_the_folder_among_temporary_files_is_private(there, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    block_cache._of_this_process.cache_clear()
    name, elsewhere = tmp_path / f"psgld-blocks-{os.geteuid()}", tmp_path / "elsewhere"
    if there == "a link":
        elsewhere.mkdir(mode=0o700)
        name.symlink_to(elsewhere)
    elif there == "open to all":
        name.mkdir()
        name.chmod(0o777)
    elif there == "a file":
        name.write_text("")
    with block_cache.block_folder(None) as folder:
        assert (folder.path == name) == (there == "nothing")
        assert (
            stat.S_IMODE(folder.path.lstat().st_mode) == 0o700 and folder.path.lstat().st_uid == os.geteuid()
        )
    block_cache._of_this_process.cache_clear()


def test_files_of_killed_writers_go_and_others_stay(shards):
    blocks = shards / "blocks"
    blocks.mkdir()
    dead, alive, foreign = (blocks / name for name in ("blocks-0-1.part", "blocks-0-2.part", "notes.part"))
    for path in (dead, alive, foreign):
        path.write_bytes(bytes(100))
    with open(alive, "r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        fitted(shards)
        assert not dead.exists() and alive.exists() and foreign.exists()
    fitted(shards)
    assert not alive.exists() and foreign.exists()


def test_blocks_that_are_removed_stay_mapped(shards):
    """Whoever has a file mapped keeps it, whatever becomes of its name."""
    setup = psgld.PSGLD().prepare(psgld.Shards.open(shards), MODEL, psgld.Threads(1), 0)
    cached(shards).unlink()
    cells = Probes.of(psgld.Shards.open(shards), 0)
    factors = []
    for _ in range(2):
        chain = setup.chain(0, cells)
        chain.advance(20)
        factors.append(chain.factors.factor(0))
    assert np.isfinite(factors[0]).all() and np.array_equal(*factors)


def test_a_full_disk_is_one_line(shards):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(
            psgld.DataError, match=r"cannot write the blocks of the shards: .*; set PSGLD_BLOCKS"
        ):
            fitted(shards)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not list((shards / "blocks").iterdir())
    fitted(shards)


def test_a_place_for_blocks_that_cannot_be(shards, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("PSGLD_BLOCKS", str(tmp_path / "file"))
    with pytest.raises(psgld.DataError, match=r"cannot write the blocks of the shards: .*; set PSGLD_BLOCKS"):
        fitted(shards)


# -- names, and several at once ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["s", "es", "values", "a b", "c", "indices", "x::y", "blocks"])
def test_folders_of_any_name(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows, cols, values = data()
    made = psgld.shard(iter([(rows, cols, values)]), name, 3, shape=(60, 40), absent="unobserved")
    assert repr(made).endswith(f"at {name})")
    made.verify()
    assert fitted(name).shape == fitted(tmp_path / name).shape
    labelled = psgld.shard(iter([(["a", "b"], [1, 2], [1.0, 2.0])]), f"below/{name}", blocks=1)
    assert labelled.load().row_labels.tolist() == ["a", "b"]
