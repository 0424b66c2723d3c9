"""The contract of stores, over their registry: there and back, resumed to the bit, kept, and damage refused."""

from __future__ import annotations

import json

import numpy as np
import pytest
from chain_cases import assert_same, dense_counts, ratings

import psgld
from psgld.storage import read
from psgld.storage.backend import RunBackend
from psgld.storage.backends import BACKENDS, RUN_BACKENDS
from psgld.storage.result_io import parts, write

pytest.importorskip("zarr")

QUICK = {
    "draws": 8,
    "tune": 10,
    "thin": 3,
    "chains": 2,
    "seed": 5,
    "progress": False,
    "track": ([1, 2], [3, 4]),
}


class Crash(Exception):
    """What stops a run in these tests."""


def draw(case, **changes):
    V, model, sampler = case()
    return psgld.sample(V, model, sampler=sampler, **(QUICK | changes))


def assert_whole(one, other):
    assert_same(one, other)
    assert one.settings == other.settings and one.model == other.model and one.shape == other.shape
    for name, column in one.warmup.items():
        if name != "seconds":
            np.testing.assert_array_equal(column, other.warmup[name], err_msg=name)
    for group in ("tracked", "seen", "held_out", "observed"):
        mine, theirs = getattr(one, group), getattr(other, group)
        assert (mine is None) == (theirs is None)
        for name, value in vars(mine).items() if mine is not None else ():
            np.testing.assert_array_equal(value, getattr(theirs, name), err_msg=name)
    for side in ("row_labels", "col_labels"):
        np.testing.assert_array_equal(getattr(one, side), getattr(other, side))


def test_names():
    assert all(kind.suffix == suffix for suffix, kind in BACKENDS.items())
    assert {".npz", ".zarr", ".memory"} <= set(BACKENDS) and ".npz" not in RUN_BACKENDS


@pytest.mark.parametrize("case", [dense_counts, ratings])
@pytest.mark.parametrize("suffix", BACKENDS)
def test_there_and_back(suffix, case, tmp_path):
    post, path = draw(case), tmp_path / f"run{suffix}"
    assert not BACKENDS[suffix].holds(path)
    with pytest.raises(psgld.DataError, match="no such file"):
        read(path)
    post.save(path)
    assert BACKENDS[suffix].holds(path)
    assert_whole(psgld.load(path), post)


@pytest.mark.parametrize("suffix", BACKENDS)
def test_what_comes_back_is_checked(suffix, tmp_path):
    """Numbers that no chain ever has are refused, wherever they were kept."""
    post, path = draw(dense_counts), tmp_path / f"run{suffix}"
    post.draws.W[1, 3, 0, 0] = np.nan
    post.save(path)
    with pytest.raises(psgld.DataError, match="damaged: W holds numbers that are not finite"):
        psgld.load(path)


@pytest.mark.parametrize("case", [dense_counts, ratings])
@pytest.mark.parametrize("suffix", RUN_BACKENDS)
def test_resume(suffix, case, tmp_path, monkeypatch):
    """Stopped anywhere, then extended: the bits of the run that never stopped."""
    monkeypatch.setattr("psgld.runs.loop._SLICE", 0.0)
    store, stops = tmp_path / f"run{suffix}", iter((9, 35, 50))

    def stop(progress):
        if progress.done >= at:
            raise Crash

    while (at := next(stops, None)) is not None:
        with pytest.raises(Crash):
            draw(case, store=store, resume=True, checkpoint_every=0.0, progress=stop)
    assert_whole(draw(case, store=store, resume=True), draw(case))
    longer = draw(case, draws=13)
    assert_whole(draw(case, draws=13, store=store, resume=True), longer)
    assert_whole(psgld.load(store), longer)
    with pytest.raises(psgld.DataError, match="already exists; use resume=True"):
        draw(case, store=store)
    with pytest.raises(psgld.DataError, match="belongs to another run"):
        draw(case, store=store, resume=True, thin=2)
    with pytest.raises(psgld.DataError, match="it already exists"):
        longer.save(store)


@pytest.mark.parametrize("suffix", RUN_BACKENDS)
def test_half_precision(suffix, tmp_path):
    post = draw(ratings, store=tmp_path / f"run{suffix}", store_dtype="float16")
    assert_whole(psgld.load(tmp_path / f"run{suffix}"), post)


def made(suffix, path) -> tuple[RunBackend, psgld.Posterior]:
    """Return an empty store that says that it is of a run, and the result that it is for."""
    post = draw(dense_counts)
    header, labels, known = parts(post)
    run = {"run": {}, "bytes_an_iteration": 0.0}
    return RUN_BACKENDS[suffix].create(path, {**header, **run}, labels, known), post


@pytest.mark.parametrize("suffix", RUN_BACKENDS)
def test_the_checkpoint_alone_says_which_draws_count(suffix, tmp_path):
    path = tmp_path / f"run{suffix}"
    store, post = made(suffix, path)
    store.begin()
    assert store.present and store.read_checkpoint(0) is None
    write(store, post)
    with pytest.raises(psgld.DataError, match="holds no draws yet"):
        psgld.load(path)
    n = len(post.tracked.rows)
    state = {"kept": 3, "marks": 10, "divergences": 0, "iteration": 19, "other": np.arange(2)}
    state |= {"moments/count": 3, "moments/mean": np.zeros(n), "moments/squares": np.ones(n)}
    for chain in (0, 1):
        store.write_checkpoint(chain, state)
    again = RUN_BACKENDS[suffix].open(path, "r+")
    np.testing.assert_array_equal(again.read_checkpoint(0)["other"], [0, 1])
    assert set(again.read_checkpoint(1, ["kept"])) == {"kept"}
    found = psgld.load(path)
    assert found.interrupted and found.draws.phi.shape == (2, 3)
    np.testing.assert_array_equal(found.draws.W, post.draws.W[:, :3])
    # Draws behind the checkpoint are written again, and a strip of rows by itself.
    with again.writing() as block:
        again.append(block, "posterior/W", 1, 2, post.draws.W[0, 2:4])
    np.testing.assert_array_equal(again.read("posterior/W", 1, 4)[2:], post.draws.W[0, 2:4])
    np.testing.assert_array_equal(again.read("posterior/W", 1, 4, slice(5, 9))[2:], post.draws.W[0, 2:4, 5:9])
    again.write_checkpoint(0, {**state, "kept": 9})
    with pytest.raises(psgld.DataError, match=r"damaged: .*9 draws of 8"):
        psgld.load(path)


@pytest.mark.parametrize("suffix", RUN_BACKENDS)
def test_another_number_of_draws(suffix, tmp_path):
    store, post = made(suffix, tmp_path / f"run{suffix}")
    write(store, post)
    store.resize(20)
    again = RUN_BACKENDS[suffix].open(tmp_path / f"run{suffix}", "r+")
    assert again.layout.draws == 20 and again.header["settings"]["draws"] == 20
    again.check()
    for name in post.draws.arrays():
        if f"posterior/{name}" in again.specs:
            np.testing.assert_array_equal(again.read(f"posterior/{name}", 1, 8), getattr(post.draws, name)[1])


@pytest.mark.parametrize("suffix", [s for s in BACKENDS if BACKENDS[s].durable])
def test_damage_is_refused(suffix, tmp_path):
    """Half of every file is lost, one after the other: an error in one line, or the same draws."""
    post, path = draw(dense_counts, draws=3), tmp_path / f"run{suffix}"
    post.save(path)
    files = [path] if path.is_file() else [f for f in sorted(path.rglob("*")) if f.is_file()]
    refused = 0
    for file in files:
        content = file.read_bytes()
        file.write_bytes(content[: len(content) // 2])
        try:
            found = psgld.load(path)
        except psgld.DataError as error:
            refused += 1
            assert "\n" not in str(error)
        else:
            assert_same(found, post)
        file.write_bytes(content)
    assert refused > len(files) // 4
    assert_whole(psgld.load(path), post)


@pytest.mark.parametrize("suffix", BACKENDS)
def test_settings_are_json(suffix, tmp_path):
    post = draw(dense_counts)
    post.save(tmp_path / f"run{suffix}")
    found = psgld.load(tmp_path / f"run{suffix}").settings
    assert json.loads(json.dumps(found)) == found == post.settings
