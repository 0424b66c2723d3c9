"""Shards: the same data as in memory, the same chain from disk, faults refused by name."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import io, sparse

import psgld
from psgld import _core
from psgld.cli import main
from psgld.data.shards import spool, store, stream, write
from psgld.data.shards.sides import Dealer, Named

pytestmark = pytest.mark.filterwarnings("ignore:values are not counts:psgld.PsgldWarning")  # of made-up data

pytest.importorskip("zarr")
RUN = {"draws": 4, "tune": 23, "thin": 5, "chains": 1, "progress": False}


def entries(shape=(90, 60), n=1500, seed=0):
    rng = np.random.default_rng(seed)
    rows, cols = np.divmod(rng.choice(shape[0] * shape[1], n, replace=False), shape[1])
    return rows, cols, rng.integers(1, 6, n) + 0.1


def frame(**kwargs):
    rows, cols, values = entries(**kwargs)
    return pd.DataFrame({"row": rows, "col": cols, "value": values})


def assert_same(a, b):
    assert a.shape == b.shape and a.stored == b.stored and a.absent == b.absent
    assert np.array_equal(a.indptr, b.indptr) and np.array_equal(a.indices, b.indices)
    assert np.array_equal(a.values, b.values)
    for name in ("row_labels", "col_labels"):
        one, other = getattr(a, name), getattr(b, name)
        assert (one is None) == (other is None)
        assert one is None or (np.array_equal(one, other) and one.dtype.kind == other.dtype.kind)
    assert np.allclose([a.mean(), a.variance(), a.min(), a.max()], [b.mean(), b.variance(), b.min(), b.max()])
    assert np.array_equal(a.row_counts(), b.row_counts()) and np.array_equal(a.col_counts(), b.col_counts())


def written(folder: Path, kind: str) -> Path:
    table = frame()
    if kind.startswith("text"):
        table["row"] = [f"user {i}" for i in table["row"]]
    if kind.startswith("gaps"):
        table["row"] = 10**12 - 7 * table["row"]
    path = folder / f"data.{kind.split('-')[1]}"
    if path.suffix == ".parquet":
        table.to_parquet(path, index=False)
    elif path.suffix == ".mtx":
        io.mmwrite(path, sparse.coo_array((table["value"], (table["row"], table["col"])), shape=(95, 61)))
    else:
        table.to_csv(path, index=False, sep="\t" if path.suffix == ".tsv" else ",")
    return path


KINDS = [
    "plain-parquet",
    "text-parquet",
    "gaps-parquet",
    "plain-csv",
    "text-tsv",
    "gaps-csv.gz",
    "plain-mtx",
]


@pytest.mark.parametrize("kind", KINDS)
def test_files_give_what_they_give_in_memory(kind, tmp_path, monkeypatch):
    monkeypatch.setattr(write, "_BATCH", 200)
    monkeypatch.setattr(write, "_WINDOW", 40)  # many windows a strip
    monkeypatch.setattr(stream, "_BATCH", 150)
    path = written(tmp_path, kind)
    shards = psgld.shard(path, tmp_path / "shards", 4)
    whole = psgld.Observations.from_file(path)
    assert_same(psgld.Observations.from_shards(tmp_path / "shards"), whole)
    assert_same(psgld.observations(str(tmp_path / "shards")), whole)
    assert_same(shards, whole)
    rows, _, _ = shards.sample_entries(50)
    for mine, other in zip(shards.sample_entries(50), whole.sample_entries(50), strict=True):
        assert np.array_equal(mine, other)
    assert len(rows) == 50
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted([path.name, "shards"])  # no files left over


def test_other_sources(tmp_path):
    data = psgld.Observations.from_frame(frame(), absent="zero")
    shards = psgld.shard(data, tmp_path / "a", 3, absent="zero")
    assert_same(shards.load(), data)
    for mine, other in zip(shards.sample_entries(300), data.sample_entries(300), strict=True):
        assert np.array_equal(mine, other)
    assert_same(psgld.shard(frame(), tmp_path / "b", 3).load(), psgld.observations(frame()))
    rows, cols, values = entries()
    chunks = ((rows[s::7], cols[s::7], values[s::7]) for s in range(7))
    shards = psgld.shard(chunks, tmp_path / "c", 3, shape=(100, 70))
    assert_same(shards.load(), psgld.Observations.from_coo(*entries(), shape=(100, 70)))


def test_any_zarr_store(tmp_path, monkeypatch):
    from zarr.storage import MemoryStore

    monkeypatch.setenv("PSGLD_BLOCKS", str(tmp_path))
    shards = psgld.shard(frame(), MemoryStore(), 3)
    assert_same(shards.load(), psgld.observations(frame()))
    model = psgld.FactorModel(2, "gaussian", bias=True)
    assert np.isfinite(psgld.sample(shards, model, **RUN).W).all()


def test_symmetric_and_pattern_matrices(tmp_path):
    full = sparse.coo_array(([1.0, 2.0, 2.0, 3.0], ([0, 2, 1, 2], [0, 1, 2, 2])), shape=(3, 3))
    io.mmwrite(tmp_path / "s.mtx", full, symmetry="symmetric")
    assert_same(psgld.shard(tmp_path / "s.mtx", tmp_path / "s", 2).load(), psgld.observations(full))
    (tmp_path / "p.mtx").write_text(
        "%%MatrixMarket matrix coordinate pattern general\n% note\n3 3 2\n1 1\n3 2\n"
    )
    assert psgld.shard(tmp_path / "p.mtx", tmp_path / "p", 2).load().values.tolist() == [1.0, 1.0]
    (tmp_path / "l.mtx").write_bytes(
        "%%MatrixMarket matrix coordinate real general\n% by José\n2 2 1\n1 2 3\n".encode("latin-1")
    )
    assert psgld.shard(tmp_path / "l.mtx", tmp_path / "l", 2).load().entries(np.arange(1)) == (0, 1, 3.0)
    (tmp_path / "t.mtx").write_text("%%MatrixMarket matrix coordinate real general\n3 3 2\n1 1 5\n")
    with pytest.raises(psgld.DataError, match="says 2 entries, 1 were found"):
        psgld.shard(tmp_path / "t.mtx", tmp_path / "t", 2)


@pytest.mark.parametrize("policy", ["sum", "mean", "last"])
def test_duplicates(policy, tmp_path):
    table = pd.concat([frame(), frame().iloc[::3].assign(value=0.7)])
    with pytest.raises(psgld.DataError, match=r"duplicate\(s\), for example at row \d+, column \d+"):
        psgld.shard(table, tmp_path / "no", 3)
    assert not (tmp_path / "no").exists()
    shards = psgld.shard(table, tmp_path / "yes", 3, duplicates=policy)
    whole = psgld.Observations.from_frame(table, duplicates=policy)
    assert_same(shards.load(), whole)
    assert shards.block_entries.sum() == whole.stored


@pytest.mark.parametrize("shape", [(90, 60), (60, 90)], ids=["tall", "wide"])
@pytest.mark.parametrize("absent", ["unobserved", "zero"])
@pytest.mark.parametrize("likelihood", ["gaussian", "poisson"])
def test_chain_from_disk_has_the_bits_of_the_one_in_memory(shape, absent, likelihood, tmp_path):
    bias = likelihood == "gaussian"
    if bias and absent == "zero":
        pytest.skip("no bias with implicit zeros")
    shards = psgld.shard(frame(shape=shape), tmp_path / "s", 4, absent=absent)
    model = psgld.FactorModel(3, likelihood, bias=bias)
    memory = psgld.PSGLD(partition=shards.partition)
    expected = psgld.sample(shards.load(), model, sampler=memory, engine=psgld.Threads(1), **RUN)
    for threads in (2, 1):  # the first writes the blocks, the second finds them
        got = psgld.sample(shards, model, engine=psgld.Threads(threads), **RUN)
        assert np.array_equal(got.W, expected.W) and np.array_equal(got.H, expected.H)
        assert np.array_equal(got.sample_stats["lp"], expected.sample_stats["lp"])


def test_float64_chain_from_disk(tmp_path):
    shards = psgld.shard(frame(), tmp_path / "s", 4, absent="unobserved")
    model = psgld.FactorModel(3, "gaussian", bias=True)
    mine = psgld.sample(shards, model, sampler=psgld.PSGLD(dtype="float64"), **RUN)
    memory = psgld.PSGLD(dtype="float64", partition=shards.partition)
    assert np.array_equal(mine.W, psgld.sample(shards.load(), model, sampler=memory, **RUN).W)


def test_a_path_leaves_them_on_disk(tmp_path):
    shards = psgld.shard(frame(), tmp_path / "s", 4, absent="unobserved")
    found = psgld.observations(str(tmp_path / "s"), absent="zero")
    assert isinstance(found, psgld.Shards) and found.absent == "zero" and found.absent_chosen
    model = psgld.FactorModel(3, "poisson")
    mine = psgld.sample(tmp_path / "s", model, **RUN)
    assert mine.settings["blocks"] == 4
    assert np.array_equal(mine.W, psgld.sample(shards, model, **RUN).W)


def test_shards_at_a_url(tmp_path):
    model, absent = psgld.FactorModel(3, "poisson"), {"absent": "unobserved"}
    expected = psgld.sample(psgld.shard(frame(), tmp_path / "s", 4, **absent), model, **RUN)
    for url in ("memory://shards", (tmp_path / "t").as_uri()):
        psgld.shard(frame(), url, 4, **absent)
        assert np.array_equal(psgld.sample(url, model, **RUN).W, expected.W)
    fit = ["fit", (tmp_path / "t").as_uri(), "-o", str(tmp_path / "r.npz"), "--rank", "3", "-q"]
    assert main([*fit, "--draws", "2", "--tune", "5", "--likelihood", "poisson"]) == 0
    assert main([*fit, "--duplicates", "sum"]) == 2
    with pytest.raises(psgld.DataError, match="no shards at memory://nowhere"):
        psgld.observations("memory://nowhere")
    with pytest.raises(psgld.DataError, match=r"cannot open unknown://x: .*pip install"):
        psgld.observations("unknown://x")


def test_blocks_that_were_cut_short_are_written_again(tmp_path):
    shards = psgld.shard(frame(), tmp_path / "s", 4, absent="unobserved")
    model = psgld.FactorModel(3, "poisson")
    first = psgld.sample(shards, model, **RUN)
    (file,) = (tmp_path / "s" / "blocks").glob("*.bin")
    os.truncate(file, 100)
    with pytest.warns(psgld.PsgldWarning, match="cannot be used .the file has another size. and are written"):
        again = psgld.sample(shards, model, **RUN)
    assert np.array_equal(again.W, first.W)


def test_strips(tmp_path):
    shards = psgld.shard(frame(), tmp_path / "s", 4, absent="unobserved")
    whole = shards.load()
    partition = shards.partition
    sizes = np.bincount(partition.rows)
    assert sizes.max() - sizes.min() <= 1
    for b in range(4):
        strip = shards.strip(b)
        assert np.array_equal(strip.rows, np.flatnonzero(partition.rows == b))
        for at, row in enumerate(strip.rows):
            mine, its = slice(*strip.indptr[at : at + 2]), slice(*whole.indptr[row : row + 2])
            assert np.array_equal(strip.indices[mine], whole.indices[its])
            assert np.array_equal(strip.values[mine], whole.values[its])
        counts = np.bincount(partition.cols[strip.indices], minlength=4)
        assert np.array_equal(counts, shards.block_entries[b])
    some = shards.load(range(1, 3))
    mine = np.isin(partition.rows, (1, 2))
    assert np.array_equal(some.row_counts(), np.where(mine, whole.row_counts(), 0))
    assert np.array_equal(some.values, whole.values[np.repeat(mine, whole.row_counts())])
    with pytest.raises(psgld.DataError, match="numbered 0 to 3, got 4"):
        shards.strip(4)


def chunk(folder: Path, part: str, b: int) -> Path:
    return folder / part / "c" / str(b) / "0"


@pytest.mark.parametrize("part", ["indices", "values"])
def test_a_wrong_checksum_is_refused_by_name(part, tmp_path):
    psgld.shard(frame(), tmp_path / "s", 4, absent="unobserved")
    file = chunk(tmp_path / "s", part, 2)
    damaged = bytearray(file.read_bytes())
    damaged[8] ^= 1
    file.write_bytes(damaged)
    shards = psgld.Shards.open(tmp_path / "s")
    with pytest.raises(psgld.DataError, match=f"{part} of strip 2 is missing or has a wrong checksum"):
        psgld.sample(shards, psgld.FactorModel(2, "poisson"), **RUN)
    with pytest.raises(psgld.DataError, match=f"{part} of strip 2"):
        psgld.Observations.from_shards(tmp_path / "s")
    assert shards.strip(1).rows.size  # the others can be read


def test_a_missing_shard_is_refused_on_opening(tmp_path):
    psgld.shard(frame(), tmp_path / "s", 4, absent="unobserved")
    chunk(tmp_path / "s", "values", 3).unlink()
    with pytest.raises(psgld.DataError, match="values of strip 3 is missing"):
        psgld.Shards.open(tmp_path / "s")


def test_manifest(tmp_path):
    path = tmp_path / "s"
    psgld.shard(frame(), path, 4)
    manifest = json.loads((path / "zarr.json").read_text())["attributes"]["psgld"]
    assert manifest["shape"] == [90, 60] and manifest["stored"] == 1500 and manifest["version"] == 1
    assert sum(strip["entries"] for strip in manifest["strips"]) == 1500
    text = (path / "zarr.json").read_text()
    (path / "zarr.json").write_text(text.replace('"version": 1', '"version": 9'))
    with pytest.raises(psgld.DataError, match="format 9, this version of psgld reads 1"):
        psgld.Shards.open(path)
    (path / "zarr.json").write_text(text.replace("psgld-shards", "something"))
    with pytest.raises(psgld.DataError, match="there is no manifest"):
        psgld.Shards.open(path)
    with pytest.raises(psgld.DataError, match="exists; give another path"):
        psgld.shard(frame(), path, 4)
    with pytest.raises(psgld.DataError, match="no shards at"):
        psgld.Shards.open(tmp_path / "nowhere")


def test_what_cannot_be_sharded(tmp_path):
    with pytest.raises(
        psgld.ModelError, match="100 blocks cannot be cut from 60 columns; choose blocks <= 60"
    ):
        psgld.shard(frame(), tmp_path / "a", 100)
    with pytest.raises(psgld.DataError, match="NaN or infinite"):
        psgld.shard(iter([([0], [1], [np.nan])]), tmp_path / "a", 1)
    with pytest.raises(psgld.DataError, match="lie in 0 to 4, got 1 to 5"):
        psgld.shard(iter([([1, 5], [1, 2], [1.0, 2.0])]), tmp_path / "a", 1, shape=(5, 5))
    with pytest.raises(psgld.DataError, match="no such file"):
        psgld.shard(tmp_path / "x.csv", tmp_path / "a", 1)
    assert list(tmp_path.iterdir()) == []


def test_the_partition_is_that_of_the_shards(tmp_path):
    shards = psgld.shard(frame(), tmp_path / "s", 4, absent="unobserved")
    for sampler in (psgld.PSGLD(blocks=3), psgld.PSGLD(partition=psgld.InOrder())):
        with pytest.raises(psgld.ModelError, match="are already in 4 strips"):
            psgld.sample(shards, psgld.FactorModel(2, "poisson"), sampler=sampler, **RUN)


def test_integers_then_strings():
    side = Named()
    assert side.codes(np.array([5, 3, 5])).tolist() == [0, 1, 0]
    assert side.codes(np.array(["x", "3"])).tolist() == [2, 1]
    index, labels = side.finish()
    assert labels.tolist() == ["3", "5", "x"] and index.tolist() == [1, 0, 2]


def test_label_index_grows():
    rng = np.random.default_rng(0)
    labels = np.concatenate([rng.integers(-(2**62), 2**62, 50_000), rng.integers(-5, 2**23, 50_000)])
    index = _core.LabelIndex()
    column = labels[rng.integers(0, len(labels), 200_000)]
    codes = index.encode(column)
    assert np.array_equal(index.labels()[codes], column)
    assert len(index) == len(np.unique(column)) and np.array_equal(index.encode(column), codes)


def test_dealing_does_not_depend_on_how_often_one_asks():
    many, few = Dealer(7, 0), Dealer(7, 0)
    for n in (3, 10, 9000, 20_000):
        many.strips(n)
    assert np.array_equal(many.strips(20_000), few.strips(20_000))
    assert not np.array_equal(few.strips(100), Dealer(7, 1).strips(100))


@pytest.mark.parametrize("value", [4.0, 0.1])  # 0.1 needs 8 bytes
def test_spool_groups_by_strip(value, tmp_path):
    file = spool.Spool(tmp_path / "x")
    strips = np.array([2, 0, 1], np.uint16)
    counts = np.zeros(3, np.int64), np.zeros(8, np.int64)
    for _ in range(2):
        rows, cols = np.array([0, 1, 2, 0], np.int32), np.array([4, 5, 6, 7], np.int32)
        batch = _core.group_entries(strips, rows, cols, np.array([1.0, 2.0, 3.0, value]), 3, *counts)
        file.add(spool.Grouped(*batch))
    assert counts[0].tolist() == [4, 2, 2] and counts[1].tolist() == [0, 0, 0, 0, 2, 2, 2, 2]
    assert file.single == (value == 4.0)
    places, indices = np.array([0, 0, 0], np.int32), np.arange(8, 0, -1, dtype=np.int32)
    got = file.strip(2, 4, np.dtype(np.float64), places, indices, range(1))
    assert [x.tolist() for x in got] == [[0, 0, 0, 0], [4, 1, 4, 1], [1.0, value, 1.0, value]]
    assert [len(x) for x in file.strip(2, 0, np.dtype(np.float64), places, indices, range(1, 2))] == [0, 0, 0]
    file.close()


def test_codes_that_are_not_known_are_refused():
    strips, one = np.zeros(2, np.uint16), np.ones(1, np.int32)
    counts = np.zeros(2, np.int64), np.zeros(1, np.int64)
    with pytest.raises(IndexError, match="column code 1 is out of range"):
        _core.group_entries(strips, one, one, np.ones(1), 1, *counts)
    records, _, single = _core.group_entries(strips, one, 0 * one, np.ones(1), 1, *counts)
    with pytest.raises(IndexError, match="a code is not known"):
        _core.place_entries(records, single, one, one, 0, 2, 0 * one, 0 * one, np.ones(1), 0)
    with pytest.raises(ValueError, match="more entries than were counted"):
        _core.place_entries(
            records, single, strips.astype(np.int32), one, 0, 2, 0 * one, 0 * one, np.ones(1), 1
        )


def test_strips_are_written_whether_they_are_small_or_large(tmp_path, monkeypatch):
    for held in (1, 500, 1 << 20):  # one at a time, some, all
        monkeypatch.setattr(store, "_HELD", held)
        psgld.shard(frame(), tmp_path / str(held), 7, absent="unobserved")
    first, *others = (psgld.Shards.open(tmp_path / str(held)) for held in (1, 500, 1 << 20))
    for other in others:
        assert first.manifest == other.manifest
        assert_same(first.load(), other.load())


_OWN = """
import sys
import psgld
from psgld.dynamics.probes import Probes
shards = psgld.Shards.open(sys.argv[1])
data = shards if sys.argv[2] == "disk" else shards.load()
sampler = psgld.PSGLD() if sys.argv[2] == "disk" else psgld.PSGLD(partition=shards.partition)
setup = sampler.prepare(data, psgld.FactorModel(2, "poisson"), psgld.Threads(1), 0)
chain = setup.chain(0, Probes.of(data, 0))
chain.advance(16)
own = open("/proc/self/status").read().split("RssAnon:")[1].split()[0]
print(1024 * int(own), float(chain.factors.factor(0).sum()))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="RssAnon is known on Linux only")
def test_entries_on_disk_take_no_memory_of_ones_own(tmp_path):
    """In memory an entry takes 8 bytes of compressed rows and 7 of blocks; pages of a file are not one's own."""
    n, shape = 3_000_000, (3000, 2000)
    cells = np.sort(np.random.default_rng(0).choice(shape[0] * shape[1], n, replace=False))
    rows, cols = np.divmod(cells, shape[1])
    parts = (slice(p, p + 10**6) for p in range(0, n, 10**6))
    chunks = ((rows[part], cols[part], np.ones(10**6, np.float32)) for part in parts)
    psgld.shard(chunks, tmp_path / "s", 16, shape=shape, absent="unobserved")
    own, sums = {}, {}
    for kind in ("disk", "memory"):
        argv = [sys.executable, "-c", _OWN, str(tmp_path / "s"), kind]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=100)
        assert done.returncode == 0, done.stderr
        own[kind], sums[kind] = map(float, done.stdout.split())
    assert sums["disk"] == sums["memory"]
    assert own["disk"] < own["memory"] - 0.6 * 15 * n


def test_a_seed_that_is_none(tmp_path):
    """Found by fuzzing: a negative one reached NumPy."""
    with pytest.raises(psgld.ModelError, match="seed must be an integer >= 0, got -1"):
        psgld.shard(np.ones((4, 3)), tmp_path / "s.shards", blocks=1, seed=-1)
