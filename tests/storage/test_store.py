"""A posterior on disk as a Zarr store: there and back, in xarray and ArviZ, and damaged in every way."""

from __future__ import annotations

import builtins
import dataclasses
import json
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from chain_cases import CASES, assert_same, dense_counts, ratings
from hypothesis import given, settings
from hypothesis import strategies as st

import psgld
from psgld import FactorModel, Observations
from psgld.cli import main
from psgld.storage.layout import Layout, Spec

sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks import killing

QUICK = {"draws": 6, "tune": 20, "thin": 2, "seed": 1, "progress": False}


def draw(case=dense_counts, **changes):
    V, model, sampler = case()
    return psgld.sample(V, model, sampler=sampler, **{**QUICK, **changes})


def labelled(kind):
    """Three rows of counts, four columns, with labels."""
    rows = {"text": ["a", "", "ü\u0000☃ long"], "number": [-5, 2**40, 7], "none": None}[kind]
    i, j = np.indices((3, 4)).reshape(2, -1)
    v = np.arange(12.0) + 1
    data = Observations.from_coo(
        i, j, v, (3, 4), row_labels=rows, col_labels=None if rows is None else list("wxyz")
    )
    return data, FactorModel(2, "poisson"), psgld.PSGLD(blocks=1)


def assert_whole(one, other):
    assert_same(one, other)
    assert one.model == other.model and one.shape == other.shape and one.settings == other.settings
    for name, column in one.warmup.items():
        if name != "seconds":
            np.testing.assert_array_equal(column, other.warmup[name])
    for name in ("row_labels", "col_labels"):
        a, b = getattr(one, name), getattr(other, name)
        assert (a is None) == (b is None)
        assert a is None or (a.tolist() == b.tolist() and a.dtype.kind == b.dtype.kind)
    assert (one.tracked is None) == (other.tracked is None)
    if one.tracked is not None:
        for name, values in vars(one.tracked).items():
            np.testing.assert_array_equal(values, getattr(other.tracked, name))
    assert (one.seen is None) == (other.seen is None)
    if one.seen is not None:
        assert one.seen.absent == other.seen.absent and one.seen.indices.dtype == np.int32
        np.testing.assert_array_equal(one.seen.indptr, other.seen.indptr)
        np.testing.assert_array_equal(one.seen.indices, other.seen.indices)
    assert one.summary() == other.summary()


@pytest.mark.parametrize("case", CASES)
def test_there_and_back(case, tmp_path):
    post = draw(case, track=([1, 2], [3, 4]), store=tmp_path / "run.zarr")
    post.save(tmp_path / "saved.zarr")
    post.save(tmp_path / "saved.npz")
    for name in ("run.zarr", "saved.zarr", "saved.npz"):
        again = psgld.load(tmp_path / name)
        assert_whole(again, post)
        assert again.draws.W.dtype == post.draws.W.dtype
    again.save(tmp_path / "again.zarr")
    assert_whole(psgld.load(tmp_path / "again.zarr"), post)
    assert not list(tmp_path.glob(".*"))  # nothing is left beside


@pytest.mark.parametrize("name", ["run.zarr", "saved.zarr", "saved.npz"])
def test_what_was_seen_comes_back(name, tmp_path):
    """A posterior that was loaded recommends what the one in memory does."""
    post = draw(ratings, store=tmp_path / "run.zarr")
    assert post.seen is not None and len(post.seen.indices) < post.shape[0] * post.shape[1]
    if name != "run.zarr":
        post.save(tmp_path / name)
    again = psgld.load(tmp_path / name)
    one, other = (p.recommend([3, 5], n=4, exclude_seen=True) for p in (post, again))
    np.testing.assert_array_equal(one.cols, other.cols)
    i = np.repeat([3, 5], 4)
    start, index = again.seen.rows(i)
    for q, col in enumerate(one.cols.ravel()):
        assert col not in index[start[q] : start[q + 1]]
    if name != "run.zarr":
        nothing = dataclasses.replace(post.seen, indptr=0 * post.seen.indptr, indices=post.seen.indices[:0])
        dataclasses.replace(post, seen=nothing).save(tmp_path / f"new-{name}")
        assert_whole(psgld.load(tmp_path / f"new-{name}"), dataclasses.replace(post, seen=nothing))


def test_a_store_of_before_has_nothing_seen(tmp_path):
    draw(ratings, store=tmp_path / "run.zarr")
    edited(tmp_path / "run.zarr", lambda h, r: (h["layout"].pop("seen"), h.pop("absent")))
    post = psgld.load(tmp_path / "run.zarr")
    assert post.seen is None
    with pytest.raises(psgld.DataError, match="which entries were seen is not known"):
        post.recommend([0])


@pytest.mark.parametrize(
    "bad",
    [
        {"indptr": np.array([0, 2, 1, 4])},
        {"indptr": np.array([1, 2, 3, 4])},
        {"indptr": np.array([0, 2, 4])},
        {"indptr": np.array([0.0, 1.0, 2.0, 4.0])},
        {"indices": np.array([0, 1, 2, 4], np.int32)},
        {"indices": np.array([0, 1, 2, -1], np.int32)},
        {"indices": np.array([[0, 1, 2, 3]], np.int32)},
        {"absent": "elsewhere"},
        {"absent": None},
    ],
)
@pytest.mark.parametrize("name", ["run.npz", "run.zarr"])
def test_nonsense_about_what_was_seen(name, bad, tmp_path):
    i, j = np.array([0, 0, 1, 2]), np.array([0, 2, 1, 3])
    data = Observations.from_coo(i, j, np.ones(4) + j, (3, 4))
    post = draw(lambda: (data, FactorModel(2, "gaussian"), psgld.PSGLD(blocks=1)), draws=2)
    post.save(tmp_path / f"good-{name}")
    assert psgld.load(tmp_path / f"good-{name}").seen.indptr.tolist() == [0, 2, 3, 4]
    seen = dataclasses.replace(post.seen, **bad)
    try:
        dataclasses.replace(post, seen=seen).save(tmp_path / name)
    except ValueError:  # Zarr itself refuses an array of another shape
        assert name == "run.zarr"
        return
    if name == "run.zarr" and bad.get("indptr", np.zeros(1, int)).dtype.kind == "f":
        assert loads_or_says(tmp_path / name)  # it was written as integers
        return
    assert not loads_or_says(tmp_path / name)


@pytest.mark.parametrize("kind", ["text", "number", "none"])
def test_labels(kind, tmp_path):
    post = draw(lambda: labelled(kind), store=tmp_path / "run.zarr")
    again = psgld.load(tmp_path / "run.zarr")
    assert_whole(again, post)
    if kind != "none":
        i = post.row_labels.tolist()
        np.testing.assert_array_equal(again.predict(i, "w").mean, post.predict(i, "w").mean)


@pytest.mark.parametrize("case", [dense_counts, ratings])
def test_without_draws_of_the_factors(case, tmp_path):
    post = draw(case, keep=False, track=([1, 2], [3, 4]), store=tmp_path / "run.zarr")
    again = psgld.load(tmp_path / "run.zarr")
    assert_whole(again, post)
    with pytest.raises(psgld.SamplingError, match="keep=False"):
        again.predict([0], [0])


def test_in_xarray(tmp_path):
    """By dimension and label, without warnings, also while a run goes on."""
    xarray = pytest.importorskip("xarray")
    post = draw(ratings, store=tmp_path / "run.zarr", track=([0], [0]))
    tree = xarray.open_datatree(tmp_path / "run.zarr", engine="zarr")
    assert set(tree.children) == {
        "posterior",
        "sample_stats",
        "warmup_sample_stats",
        "tracked",
        "seen",
        "observed",
    }
    assert tree["posterior"].sizes["draw"] == 6 and tree["posterior"].sizes["row"] == 700
    ds = xarray.open_zarr(tmp_path / "run.zarr", group="posterior")
    d = post.draws
    mu = xarray.dot(ds.W, ds.H, dim="component") + ds.row_bias + ds.col_bias + ds.offset
    mu = mu.transpose("chain", "draw", "row", "column").isel(row=3, column=5).values
    np.testing.assert_allclose(mu.ravel(), post.predict([3], [5]).draws[:, 0], rtol=1e-4)
    np.testing.assert_array_equal(ds.H.values, d.H)
    assert ds.W.dims == ("chain", "draw", "row", "component") and ds.phi.dims == ("chain", "draw")
    lp = tree["sample_stats"]["lp"]
    np.testing.assert_array_equal(lp.values, post.sample_stats["lp"])


def test_in_arviz(tmp_path):
    arviz = pytest.importorskip("arviz_base")
    xarray = pytest.importorskip("xarray")
    draw(draws=60, store=tmp_path / "run.zarr")
    tree = xarray.open_datatree(tmp_path / "run.zarr", engine="zarr")
    sizes = arviz.extract(tree, var_names=["W", "phi"]).sizes
    assert sizes["sample"] == 120 and sizes["row"] == 60
    assert arviz.extract(tree, group="sample_stats", var_names="lp").shape == (120,)


def test_labels_are_coordinates(tmp_path):
    xarray = pytest.importorskip("xarray")
    draw(lambda: labelled("text"), store=tmp_path / "run.zarr")
    ds = xarray.open_zarr(tmp_path / "run.zarr", group="posterior")
    assert ds.W.sel(row="a").sizes == {"chain": 2, "draw": 6, "component": 2}


def test_chunks():
    """Small factors: several draws in a chunk. Large ones: a strip of the rows of one draw."""
    dims = ("chain", "draw", "row", "component")
    assert Spec((2, 500, 100, 8), "float32", dims).chunks == (1, 500, 100, 8)
    assert Spec((2, 5000, 100, 8), "float32", dims).chunks == (1, 1024, 100, 8)
    assert Spec((2, 500, 10_000, 64), "float32", dims).chunks == (1, 1, 10_000, 64)
    chain, several, rows, width = Spec((2, 500, 3_000_000, 64), "float32", dims).chunks
    assert (chain, several, width) == (1, 1, 64) and 3_000_000 % rows < rows and rows * 64 * 4 <= 2**22
    specs = Layout(2, 10, 5, 3, None).specs(FactorModel(3, "gaussian", bias=True), (7, 8))
    assert "posterior/W" not in specs and specs["posterior/row_rate"].shape == (2, 10, 5)


def test_a_strip_of_rows(tmp_path, monkeypatch):
    """Rows in several chunks, the last one shorter."""
    monkeypatch.setattr("psgld.storage.layout._CHUNK", 64)
    post = draw(store=tmp_path / "run.zarr")
    assert len(list((tmp_path / "run.zarr/posterior/W/c/0/0").iterdir())) > 3
    assert_whole(psgld.load(tmp_path / "run.zarr"), post)


def test_a_file_is_never_replaced(tmp_path):
    post = draw()
    post.save(tmp_path / "run.zarr")
    with pytest.raises(
        psgld.DataError, match=r"run\.zarr: it already exists; delete it or give another name"
    ):
        post.save(tmp_path / "run.zarr")
    with pytest.raises(psgld.DataError, match="saved after its run and has no checkpoints"):
        draw(store=tmp_path / "run.zarr", resume=True)
    with pytest.raises(psgld.DataError, match="there is no directory"):
        post.save(tmp_path / "no" / "run.zarr")
    with pytest.raises(psgld.DataError, match="no such file"):
        psgld.load(tmp_path / "no.zarr")


def test_without_zarr(tmp_path, monkeypatch):
    usual = builtins.__import__

    def no_zarr(name, *rest, **more):
        if name.split(".")[0] == "zarr":
            raise ImportError(name)
        return usual(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", no_zarr)
    for attempt in (lambda: draw(store=tmp_path / "r.zarr"), lambda: psgld.load(tmp_path)):
        with pytest.raises(psgld.DataError, match=r"pip install 'psgld\[store\]'"):
            attempt()


def test_too_large_for_memory(tmp_path, monkeypatch):
    draw(store=tmp_path / "run.zarr")
    monkeypatch.setattr("psgld.storage.result_io.available_memory", lambda: 1000)
    with pytest.raises(psgld.DataError, match=r"B are free; read parts of it with xarray\.open_zarr"):
        psgld.load(tmp_path / "run.zarr")


# -- damage ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """A store of a run, its files by name, and a store saved after one."""
    folder = tmp_path_factory.mktemp("stored")
    post = draw(lambda: labelled("text"), draws=3, store=folder / "run.zarr", track=(["a"], ["x"]))
    return folder / "run.zarr", post


def restore(store, copy):
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(store, copy)


def loads_or_says(path):
    """Load; return whether that worked. Anything but DataError fails the test."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of overflow and the like
        try:
            psgld.load(path)
        except psgld.DataError as error:
            assert str(path) in str(error) or path.name in str(error)
            assert "\n" not in str(error)
            return False
    return True


@settings(max_examples=100, deadline=None)
@given(
    which=st.floats(0, 1, exclude_max=True),
    at=st.floats(0, 1, exclude_max=True),
    value=st.integers(0, 255),
    how=st.sampled_from(["byte", "cut", "delete", "empty"]),
)
def test_a_damaged_store_is_an_error_or_the_same(tmp_path_factory, stored, which, at, value, how):
    store, post = stored
    copy = tmp_path_factory.getbasetemp() / "damaged.zarr"
    if not copy.exists():
        restore(store, copy)
    files = sorted(p for p in copy.rglob("*") if p.is_file())
    file = files[int(which * len(files))]
    whole = file.read_bytes()
    content = bytearray(whole)
    position = int(at * len(content))
    if how == "byte" and content:
        content[position] = value
    file.unlink()
    if how != "delete":
        file.write_bytes(content[:position] if how == "cut" else b"" if how == "empty" else content)
    try:
        # A chain without a checkpoint is one that has not started: what is left of the others is right.
        if loads_or_says(copy) and "zarr.json" not in file.name:
            assert not killing.differing(psgld.load(copy), post)
    finally:
        file.write_bytes(whole)


def test_every_file_of_draws_counts(tmp_path, stored):
    """A flipped bit, a short file and a missing one are noticed wherever they are."""
    store, _ = stored
    copy = tmp_path / "damaged.zarr"
    restore(store, copy)
    ignored = ("chain", "draw")  # coordinates for xarray, which `load` does not need
    chunks = [
        p for p in copy.rglob("*") if p.is_file() and "c" in p.parts and p.parent.parent.name not in ignored
    ]
    chunks = [p for p in chunks if "tracked/mean" not in str(p) and "tracked/sd" not in str(p)]
    assert len(chunks) > 30
    for chunk in chunks:
        content = chunk.read_bytes()
        for bad in (bytes([content[0] ^ 1]) + content[1:], content[:-1], b"", None):
            chunk.unlink()
            if bad is not None:
                chunk.write_bytes(bad)
            assert not loads_or_says(copy), chunk
            chunk.write_bytes(content)
    assert loads_or_says(copy)


def test_labels_that_promise_billions(tmp_path, stored):
    """A chunk of other numbers, whose checksum is right: Zarr alone would be busy for minutes."""
    store, _ = stored
    copy = tmp_path / "damaged.zarr"
    restore(store, copy)
    shutil.copy(copy / "posterior/phi/c/0/0", copy / "posterior/row/c/0")
    with pytest.raises(psgld.DataError, match=r"posterior/row claims [0-9]+ labels, expected"):
        psgld.load(copy)


def edited(copy, change):
    root = json.loads((copy / "zarr.json").read_text())
    change(root["attributes"]["psgld"], root)
    (copy / "zarr.json").write_text(json.dumps(root))


@pytest.mark.parametrize(
    "change",
    [
        lambda h, r: h.update(format=99),
        lambda h, r: h.update(format="x"),
        lambda h, r: h.update(shape=[10**9, 10**9]),
        lambda h, r: h.update(shape=[2, 4]),
        lambda h, r: h.update(shape="ab"),
        lambda h, r: h["layout"].update(draws=10**12),
        lambda h, r: h["layout"].update(draws=2),
        lambda h, r: h["layout"].update(chains=-1),
        lambda h, r: h["layout"].update(chains=10**6),
        lambda h, r: h["layout"].update(dtype="object"),
        lambda h, r: h["layout"].update(dtype=None),
        lambda h, r: h["layout"].update(pairs=50),
        lambda h, r: h["layout"].update(seen=5),
        lambda h, r: h["layout"].update(seen="x"),
        lambda h, r: h["layout"].update(seen=-1),
        lambda h, r: h["model"].update(rank=3),
        lambda h, r: h["model"].update(rank=-1),
        lambda h, r: h["model"].update(likelihood={"name": "__import__"}),
        lambda h, r: h.pop("model"),
        lambda h, r: h.update(settings=None),
        lambda h, r: h.update(labels=["row", "row", "nonsense"]),
        lambda h, r: h.update(run=None),
        lambda h, r: r.pop("attributes"),
        lambda h, r: r.pop("consolidated_metadata"),
        lambda h, r: r.update(consolidated_metadata={"metadata": 5}),
        lambda h, r: r.update(node_type="array"),
    ],
)
def test_a_tampered_header(tmp_path, stored, change):
    store, _ = stored
    copy = tmp_path / "tampered.zarr"
    restore(store, copy)
    edited(copy, change)
    loads_or_says(copy)


@pytest.mark.parametrize("array", ["posterior/W", "posterior/row"])
@pytest.mark.parametrize(
    "change",
    [
        lambda node: node.update(codecs=[{"name": "numcodecs.pickle", "configuration": {}}]),
        lambda node: node.update(codecs=[{"name": "pickle", "configuration": {}}]),
        lambda node: node.update(codecs=[{"name": "vlen-bytes", "configuration": {}}]),
        lambda node: node["codecs"].append(
            {"name": "zstd", "configuration": {"level": 0, "checksum": False}}
        ),
        lambda node: node["codecs"].insert(0, {"name": "transpose", "configuration": {"order": [0]}}),
        lambda node: node.update(codecs=[]),
        lambda node: node.update(codecs=None),
        lambda node: node.update(zarr_format=2, filters=[{"id": "pickle"}], compressor=None, dtype="|O"),
        lambda node: node.update(storage_transformers=[{"name": "x"}]),
        lambda node: node.update(data_type="object"),
        lambda node: node.update(data_type={"name": "numpy.datetime64", "configuration": {}}),
        lambda node: node["chunk_grid"].update(name="rectangular"),
        lambda node: node["chunk_grid"]["configuration"].update(chunk_shape=[0]),
        lambda node: node["chunk_key_encoding"].update(name="v2"),
        lambda node: node.update(node_type="group"),
        lambda node: node.update(shape=[-1]),
        lambda node: node.update(extension="x"),
        lambda node: node.update(fill_value=2**63),
        lambda node: node.update(fill_value=1),
        lambda node: node.update(fill_value=None),
        lambda node: node.update(fill_value=[]),
        lambda node: node.update(attributes=[]),
        lambda node: node.update(dimension_names=[1]),
        lambda node: node.update(dimension_names=["a"] * 9),
    ],
)
def test_only_arrays_as_we_write_them_are_opened(tmp_path, stored, array, change):
    """Metadata that ask for pickles, or for anything else that we never write, are refused before data are read."""
    store, _ = stored
    copy = tmp_path / "tampered.zarr"
    restore(store, copy)
    node = json.loads((copy / array / "zarr.json").read_text())
    change(node)
    (copy / array / "zarr.json").write_text(json.dumps(node))
    with pytest.raises(psgld.DataError, match=f"{array} is not an array that psgld wrote: "):
        psgld.load(copy)


def test_consolidated_metadata_are_for_other_readers(tmp_path, stored):
    """What they say of arrays, such as a pickle of version 2, is not looked at."""
    store, _ = stored
    copy = tmp_path / "tampered.zarr"
    restore(store, copy)
    evil = {"zarr_format": 2, "node_type": "array", "shape": [3], "chunks": [3], "dtype": "|O", "order": "C"}
    evil |= {"fill_value": None, "compressor": None, "filters": [{"id": "vlen-utf8"}, {"id": "pickle"}]}

    def change(_, root):
        root["consolidated_metadata"]["metadata"] |= {"posterior/W": evil, "posterior/row": evil}

    edited(copy, change)
    (copy / "posterior/row/0").write_bytes(b"not a pickle, and nobody reads it")
    assert np.array_equal(psgld.load(copy).W, psgld.load(store).W)


def test_checkpoints_hold_no_objects(tmp_path, stored):
    store, _ = stored
    copy = tmp_path / "tampered.zarr"
    restore(store, copy)
    np.savez(
        copy / "checkpoints" / "0.npz", kept=np.array([lambda: 0], dtype=object)[:0], marks=1, divergences=0
    )
    assert not loads_or_says(copy)


# -- command line ------------------------------------------------------------------------------------------------


@pytest.fixture
def counts(tmp_path):
    np.save(tmp_path / "V.npy", dense_counts()[0])
    return str(tmp_path / "V.npy")


FIT = ("--rank", "2", "--likelihood", "poisson", "--tune", "20", "--thin", "2", "-q")


def test_command_line(counts, tmp_path, capsys):
    run = str(tmp_path / "run.zarr")
    assert main(["fit", counts, "-o", run, *FIT, "--draws", "5"]) == 0
    assert main(["fit", counts, "-o", run, *FIT, "--draws", "9", "--resume", "--checkpoint-every", "1"]) == 0
    assert main(["fit", counts, "-o", str(tmp_path / "run.npz"), *FIT, "--draws", "9"]) == 0
    assert_same(psgld.load(run), psgld.load(tmp_path / "run.npz"))
    (tmp_path / "pairs.csv").write_text("0,1\n2,3\n")
    assert main(["predict", run, str(tmp_path / "pairs.csv")]) == 0
    assert capsys.readouterr().out.count("\n") == 3
    assert main(["summary", run]) == 0
    assert "2 chains × 9" in capsys.readouterr().out
    assert main(["evaluate", run, counts, "--json"]) == 0


def test_command_line_refuses(counts, tmp_path, capsys):
    run = str(tmp_path / "run.zarr")
    assert main(["fit", counts, "-o", run, *FIT, "--draws", "5", "--store-dtype", "float16"]) == 0
    for argv, words in (
        (["-o", run, "--draws", "5"], "already exists; use --resume to resume its run"),
        (["-o", run, "--draws", "5", "--resume"], "float16 in the store, float32 now"),
        (["-o", str(tmp_path / "x.npz"), "--resume"], "need a store, such as -o run.zarr"),
        (["-o", str(tmp_path / "no" / "x.zarr")], "there is no directory"),
    ):
        assert main(["fit", counts, *FIT, *argv]) == 2
        error = capsys.readouterr().err
        assert words in error and error.count("\n") == 1


def test_command_line_when_the_disk_fails(counts, tmp_path, capsys, monkeypatch):
    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("psgld.storage.zarr.write_arrays", fail)
    (tmp_path / "run.npz").write_text("of someone else")
    command = ["fit", counts, "-o", str(tmp_path / "run.zarr"), *FIT, "--draws", "5", "--resume"]
    assert main(command) == 2
    error = capsys.readouterr().err
    assert "No space left on device; all draws of the run are in" in error and error.count("\n") == 1
    assert psgld.load(tmp_path / "run-2.npz").draws.phi.shape[1] == 5
    assert (tmp_path / "run.npz").read_text() == "of someone else"
    monkeypatch.setattr("psgld.storage.npz.write_arrays", fail)
    assert main(command) == 2
    error = capsys.readouterr().err
    assert "the draws are lost, those since its last checkpoint; repair that, then --resume" in error


def test_command_line_when_the_store_is_deleted(counts, tmp_path, capsys, monkeypatch):
    from psgld.storage.saver import Saver

    store, restore = tmp_path / "run.zarr", Saver.restore

    def deleted(self, recorder, plan):
        shutil.rmtree(store, ignore_errors=True)
        restore(self, recorder, plan)

    monkeypatch.setattr(Saver, "restore", deleted)
    assert main(["fit", counts, "-o", str(store), *FIT, "--draws", "5"]) == 2
    error = capsys.readouterr().err
    assert "the store was deleted or moved" in error and "run.npz" in error and error.count("\n") == 1
    assert psgld.load(tmp_path / "run.npz").draws.phi.shape[1] == 5 and not store.exists()


def test_a_damaged_chunk_is_named(counts, tmp_path, capsys):
    store = tmp_path / "run.zarr"
    command = ["fit", counts, "-o", str(store), *FIT, "--draws", "5"]
    assert main(command) == 0
    chunk = next(file for file in sorted((store / "posterior" / "W" / "c").rglob("*")) if file.is_file())
    chunk.write_bytes(chunk.read_bytes()[:-5])
    name = chunk.relative_to(store).as_posix()
    with pytest.raises(psgld.DataError, match=rf"run\.zarr is not a psgld store, or is damaged: {name}: "):
        psgld.load(store)
    assert main([*command[:-1], "7", "--resume"]) == 2
    assert f"run.zarr is not a psgld store, or is damaged: {name}: " in capsys.readouterr().err


def test_help(capsys):
    with pytest.raises(SystemExit):
        main(["fit", "--help"])
    assert "--resume" in capsys.readouterr().out


def test_zarr_is_only_imported_for_a_store():
    code = "import sys, psgld.cli, psgld.storage; assert 'zarr' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


BUSY = """
import sys, time, numpy as np, psgld
psgld.sample(np.ones((4, 3)), psgld.FactorModel(1, "poisson"), draws=2, tune=2, progress=False, store=sys.argv[1])
psgld.load(sys.argv[1])
from zarr.core import sync
sync.loop[0].call_soon_threadsafe(time.sleep, 1.0)  # as if others had the processor
"""


def test_a_busy_machine_shows_no_traceback_at_the_end(tmp_path):
    """Zarr waits 0.2 s for its thread to end, then closes what it still runs."""
    done = subprocess.run(
        [sys.executable, "-c", BUSY, tmp_path / "run.zarr"], capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
