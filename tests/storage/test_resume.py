"""A run that was stopped goes on as if it never had been: the same bits, whatever stopped it."""

from __future__ import annotations

import errno
import json
import os
import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from chain_cases import CASES, assert_same, dense_counts, large_dense_counts, ratings

import psgld
from psgld import PSGLD, FactorModel, Threads
from psgld.storage import layout, saver
from psgld.storage.saver import Saver
from psgld.system.atomic import read_arrays, write_arrays

sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks import killing

TRACK = ([1, 2], [3, 4])


class Crash(Exception):
    """What stops a run in these tests, without a chance to save anything."""


def crash_after(updates: int):
    left = iter(range(updates))

    def progress(_):
        if next(left, None) is None:
            raise Crash

    return progress


@pytest.fixture
def short_slices(monkeypatch):
    """One iteration between two looks at the outside world, so that a run can be stopped anywhere."""
    monkeypatch.setattr("psgld.runs.loop._SLICE", 0.0)


@pytest.fixture
def prompt(monkeypatch):
    """A chain waits until its checkpoint is written."""
    begin = Saver.save

    def save(self, recorder):
        begin(self, recorder)
        self._pending[recorder.number].result()

    monkeypatch.setattr(Saver, "save", save)


def draw(case, threads=1, **changes):
    V, model, sampler = case()
    settings = {"draws": 8, "tune": 10, "thin": 3, "chains": 2, "seed": 5, "progress": False, "track": TRACK}
    return psgld.sample(V, model, sampler=sampler, engine=Threads(threads), **{**settings, **changes})


def assert_equal(one, other):
    assert_same(one, other)
    for name, column in one.warmup.items():
        if name != "seconds":
            np.testing.assert_array_equal(column, other.warmup[name], err_msg=name)
    for name, values in vars(one.tracked).items():
        np.testing.assert_array_equal(values, getattr(other.tracked, name), err_msg=name)
    assert one.settings == other.settings


def exact():
    return *dense_counts()[:2], psgld.Gibbs()


@pytest.mark.parametrize("case", [c for c in CASES if c is not large_dense_counts] + [exact])
def test_crashes(case, tmp_path, short_slices):
    """Again and again, on other numbers of threads, until it is done."""
    store, whole = tmp_path / "run.zarr", draw(case)
    lengths = random.Random(1)
    for attempt in range(100):
        try:
            stop = crash_after(lengths.randint(2, 30))
            threads = 1 + attempt % 3
            end = draw(case, threads, store=store, resume=True, checkpoint_every=0.0, progress=stop)
            break
        except Crash:
            if store.exists():
                try:
                    found = psgld.load(store)
                except psgld.DataError as error:
                    assert "no draws yet" in str(error)
                else:
                    # A chain may crash when all of them are complete in the store.
                    complete = found.draws.phi.shape == whole.draws.phi.shape
                    assert found.interrupted or complete
                    assert not killing.differing(found, whole)
    assert attempt > 2
    assert_equal(end, whole)
    assert_equal(psgld.load(store), whole)


def test_draws_beyond_the_checkpoint_are_written_again(tmp_path, short_slices, prompt, monkeypatch):
    """Killed after the draws were written, before the checkpoint was."""
    store = tmp_path / "run.zarr"
    with pytest.raises(Crash):
        draw(dense_counts, store=store, checkpoint_every=0.0, progress=crash_after(25))
    with monkeypatch.context() as patch:
        patch.setattr("psgld.storage.zarr.write_arrays", lambda *_: (_ for _ in ()).throw(Crash))
        with pytest.raises(Crash):
            draw(dense_counts, store=store, resume=True, checkpoint_every=0.0)
    whole = draw(dense_counts)
    assert not killing.differing(psgld.load(store), whole)
    assert_equal(draw(dense_counts, store=store, resume=True), whole)


@pytest.mark.parametrize("case", [dense_counts, ratings])
def test_extend(case, tmp_path):
    store = tmp_path / "run.zarr"
    draw(case, draws=5, store=store)
    longer = draw(case, draws=13, store=store, resume=True)
    assert_equal(longer, draw(case, draws=13))
    assert_equal(psgld.load(store), longer)
    assert_equal(draw(case, draws=13, store=store, resume=True), longer)  # nothing left to do
    with pytest.raises(psgld.DataError, match=r"already holds 13 draws per chain, got draws = 7"):
        draw(case, draws=7, store=store, resume=True)


def test_half_precision(tmp_path, short_slices, prompt):
    store, other = tmp_path / "run.zarr", tmp_path / "other.zarr"
    with pytest.raises(Crash):
        draw(ratings, store=store, store_dtype="float16", checkpoint_every=0.0, progress=crash_after(60))
    resumed = draw(ratings, store=store, store_dtype="float16", resume=True)
    whole, exact = draw(ratings, store=other, store_dtype="float16"), draw(ratings)
    assert_equal(resumed, whole)
    assert_equal(psgld.load(store), whole)
    np.testing.assert_array_equal(whole.draws.W, exact.draws.W.astype(np.float16))
    np.testing.assert_array_equal(whole.sample_stats["lp"], exact.sample_stats["lp"])


@pytest.mark.parametrize(
    ("scale", "message"),
    [
        (1e12, r"draws of W reach .*, the largest float16 is 65504; use store_dtype='float32'"),
        (1e-12, r"draws of W are below .*, where float16 loses digits .*store_dtype='float32'"),
    ],
)
def test_beyond_half_precision(tmp_path, scale, message):
    V = scale * np.random.default_rng(0).gamma(2.0, size=(20, 15))
    with pytest.raises(psgld.SamplingError, match=message):
        psgld.sample(
            V, FactorModel(2, "gamma"), tune=5, draws=3, thin=1, progress=False,
            store=tmp_path / "r.zarr", store_dtype="float16",
        )  # fmt: skip


@pytest.mark.filterwarnings("ignore:chains diverged:psgld.PsgldWarning")
def test_after_a_divergence(tmp_path, short_slices, prompt):
    V = np.random.default_rng(2).poisson(6.0, (60, 50)).astype(float)

    def wild():
        return V, FactorModel(3, "poisson"), PSGLD(metric="identity", step_size=1.0, blocks=5)

    store, whole = tmp_path / "run.zarr", draw(wild, tune=60, chains=1)
    for updates in (20, 20, 20):
        with pytest.raises(Crash):
            progress = crash_after(updates)
            draw(wild, tune=60, chains=1, store=store, resume=True, checkpoint_every=0.0, progress=progress)
    assert whole.divergences > 0
    assert_equal(draw(wild, tune=60, chains=1, store=store, resume=True), whole)


def test_no_store_yet_starts_anew(tmp_path):
    assert_equal(draw(dense_counts, store=tmp_path / "run.zarr", resume=True), draw(dense_counts))


def test_a_store_is_never_overwritten(tmp_path):
    draw(dense_counts, store=tmp_path / "run.zarr")
    with pytest.raises(psgld.DataError, match=r"run\.zarr already exists; use resume=True to resume its run"):
        draw(dense_counts, store=tmp_path / "run.zarr")
    (tmp_path / "x.zarr").mkdir()
    with pytest.raises(psgld.DataError, match="not a psgld store, or is damaged"):
        draw(dense_counts, store=tmp_path / "x.zarr", resume=True)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"model": FactorModel(4, "poisson")}, "rank 3 in the store, 4 now"),
        (
            {"model": FactorModel(3, "poisson", psgld.Exponential(1.0))},
            "row_prior rate None in the store, 1.0 now",
        ),
        ({"sampler": PSGLD(blocks=5)}, "blocks 3 in the store, 5 now"),
        (
            {"sampler": PSGLD(blocks=3, dtype="float64")},
            "sampler dtype float32 in the store, float64 now",
        ),
        ({"seed": 6}, r"seed \(keys\) .* in the store, .* now"),
        ({"chains": 3}, "chains 2 in the store, 3 now"),
        ({"tune": 11}, "tune 10 in the store, 11 now"),
        ({"thin": 2}, "thin 3 in the store, 2 now"),
        ({"track": None}, "track .* in the store, None now"),
        ({"keep": False}, "draws of W and H float32 in the store, None now"),
        ({"store_dtype": "float16"}, "draws of W and H float32 in the store, float16 now"),
        ({"V": np.ones((60, 45))}, "data .* in the store, .* now"),
        ({"V": np.ones((50, 45))}, "shape 60 × 45 in the store, 50 × 45 now"),
    ],
)
def test_another_run_is_refused(tmp_path_factory, change, words):
    store = tmp_path_factory.getbasetemp() / "refused.zarr"
    if not store.exists():
        draw(dense_counts, store=store)
    V, model, sampler = dense_counts()
    options = {"V": V, "model": model, "sampler": sampler, "draws": 8, "tune": 10, "thin": 3, "seed": 5}
    options |= {"track": TRACK, "progress": False, "store": store, "resume": True} | change
    with pytest.raises(psgld.DataError, match=f"belongs to another run: .*{words}") as error:
        psgld.sample(**options)
    assert "bytes_an_iteration" not in str(error.value)


def test_a_function_is_known_again(tmp_path):
    """Its address is another in each process, and so no part of what must be the same."""
    store = tmp_path / "run.zarr"
    for resume in (False, True):
        sampler = PSGLD(blocks=3, step_size=lambda t: 0.1 + 0 * t)
        psgld.sample(
            dense_counts()[0], rank=2, model=FactorModel(2, "poisson"), sampler=sampler, draws=3, tune=4, thin=1,
            progress=False, store=store, resume=resume,
        )  # fmt: skip


def test_a_store_of_before_is_resumed(tmp_path):
    """Older versions wrote the settings of the sampler as text, and fewer hyperparameters: the run goes on."""
    store = tmp_path / "run.zarr"
    draw(dense_counts, draws=4, store=store)
    for path in (store / "checkpoints").glob("*.npz"):
        arrays = read_arrays(path)
        old = {n: x for n, x in arrays.items() if n != "seconds" and (np.size(x) or "hyper/" not in n)}
        assert "chain/hyper/theta" in arrays and "chain/hyper/theta" not in old
        write_arrays(path, old)
    metadata = store / "zarr.json"
    root = json.loads(metadata.read_text())
    header = root["attributes"]["psgld"]
    text = {
        "name": "PSGLD", "step_size": "None", "metric": "None", "schedule": "Cyclic()",
        "partition": "Shuffled(seed=0)", "temperature": "1.0", "momentum": "None", "dtype": "'float32'",
    }  # fmt: skip
    header["run"]["sampler"], header["settings"]["sampler"] = text, {**text, "blocks": "3"}
    metadata.write_text(json.dumps(root))
    V, model, _ = dense_counts()
    other = psgld.PSGLD(blocks=3, momentum=0.5)
    with pytest.raises(psgld.DataError, match=r"sampler momentum None in the store, 0\.5 now"):
        psgld.sample(V, model, sampler=other, draws=8, tune=10, thin=3, seed=5, store=store, resume=True)
    whole = draw(dense_counts)
    assert_same(draw(dense_counts, store=store, resume=True), whole)
    assert_same(psgld.load(store), whole)
    with pytest.raises(
        psgld.SamplingError, match="older psgld wrote its settings as text; pass sampler=… again"
    ):
        psgld.load(store).update(V)


def test_a_start_is_part_of_the_run(tmp_path, short_slices, prompt):
    """A run that starts at the end of another goes on too, and only with the same start."""
    first, store = draw(dense_counts), tmp_path / "run.zarr"
    whole = draw(dense_counts, start=first)
    with pytest.raises(Crash):
        draw(dense_counts, start=first, store=store, checkpoint_every=0.0, progress=crash_after(20))
    with pytest.raises(psgld.DataError, match=r"start .* in the store, None now"):
        draw(dense_counts, store=store, resume=True)
    assert_equal(draw(dense_counts, start=first, store=store, resume=True), whole)


def test_a_random_seed_is_taken_from_the_store(tmp_path, short_slices, prompt):
    store = tmp_path / "run.zarr"
    with pytest.raises(Crash):
        draw(dense_counts, seed=None, store=store, checkpoint_every=0.0, progress=crash_after(40))
    end = draw(dense_counts, seed=None, store=store, resume=True)
    assert end.settings["keys"] == psgld.load(store).settings["keys"]
    assert_equal(psgld.load(store), end)


def test_another_version_is_said(tmp_path, monkeypatch):
    draw(dense_counts, draws=2, store=tmp_path / "run.zarr")
    monkeypatch.setattr("psgld.system.version.__version__", "99.0")
    with pytest.warns(
        psgld.PsgldWarning, match=r"version .* in the store, 99\.0 now: the run is resumed, but not bit"
    ):
        draw(dense_counts, draws=3, store=tmp_path / "run.zarr", resume=True)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("chains", 10**7),
        ("marks", 3),
        ("pairs", 7),
        ("dtype", "float16"),
        ("shape", [-1, 45]),
        ("draws", 10**12),
    ],
)
def test_a_header_that_contradicts_its_run(tmp_path, name, value):
    """Said at once: nobody waits for ten million chains, and nothing is resized to such a shape."""
    draw(dense_counts, draws=2, store=tmp_path / "run.zarr")
    metadata = tmp_path / "run.zarr" / "zarr.json"
    root = json.loads(metadata.read_text())
    header = root["attributes"]["psgld"]
    (header if name == "shape" else header["layout"])[name] = value
    metadata.write_text(json.dumps(root))
    with pytest.raises(psgld.DataError, match=r"is not a psgld store, or is damaged: .*(its|sizes)"):
        draw(dense_counts, draws=3, store=tmp_path / "run.zarr", resume=True)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("chain/next_upkeep", 0),
        ("chain/next_upkeep", 10**9),
        ("chain/step_factor", 0.0),
        ("chain/step_factor", np.nan),
        ("chain/scale", -1.0),
        ("chain/upkeeps", -1),
        ("chain/divergences", [10**6]),
        ("moments/count", 0),
    ],
)
def test_a_checkpoint_that_contradicts_itself(tmp_path, name, value):
    draw(dense_counts, draws=2, store=tmp_path / "run.zarr")
    path = psgld.storage.zarr.ZarrBackend.open(tmp_path / "run.zarr").checkpoint(0)
    state = read_arrays(path)
    write_arrays(path, {**state, name: np.asarray(value, np.asarray(state[name]).dtype)})
    with pytest.raises(psgld.DataError, match="is not a psgld store, or is damaged"):
        draw(dense_counts, draws=3, store=tmp_path / "run.zarr", resume=True)


def test_one_writer_at_a_time(tmp_path, short_slices):
    store, said = tmp_path / "run.zarr", []

    def second(progress):
        if progress.done > 30 and not said:
            with pytest.raises(psgld.DataError, match="is being written by another run") as error:
                draw(dense_counts, store=store, resume=True)
            said.append(str(error.value))

    draw(dense_counts, store=store, progress=second)
    assert f"(process {os.getpid()} on " in said[0] and said[0].endswith("; wait for it, or stop it")
    assert [file.name for file in tmp_path.iterdir()] == ["run.zarr"]
    draw(dense_counts, draws=9, store=store, resume=True)  # the lock is gone with the first run


def test_interrupt_and_resume(tmp_path, short_slices):
    """Ctrl-C leaves a checkpoint, also during burn-in."""
    store = tmp_path / "run.zarr"

    def interrupt(at):
        return lambda progress: progress.done == at and signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt, match="stopped during burn-in"):
        draw(dense_counts, store=store, chains=1, progress=interrupt(7))
    with pytest.raises(psgld.DataError, match="no draws yet"):
        psgld.load(store)
    assert (store / "checkpoints" / "0.npz").exists()
    some = draw(dense_counts, store=store, chains=1, resume=True, progress=interrupt(20))
    assert some.interrupted and 0 < some.draws.phi.shape[1] < 8
    found = psgld.load(store)
    assert found.interrupted
    assert_same(found, some)
    assert_equal(draw(dense_counts, store=store, chains=1, resume=True), draw(dense_counts, chains=1))


# -- what a disk can do ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EIO])
def test_a_disk_that_fails_during_the_run(tmp_path, monkeypatch, code, short_slices, prompt):
    """The draws are returned, and it is said that they are not in the store; which keeps what it had."""
    store, whole = tmp_path / "run.zarr", draw(dense_counts)
    with pytest.raises(Crash):
        draw(dense_counts, store=store, checkpoint_every=0.0, progress=crash_after(60))
    before = psgld.load(store)

    def fail(*_):
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as patch:
        patch.setattr("psgld.system.atomic.os.replace", fail)
        words = rf"cannot write .*run\.zarr: {os.strerror(code)}.*the draws returned here are complete"
        with pytest.warns(psgld.PsgldWarning, match=words):
            post = draw(dense_counts, store=store, resume=True)
    assert_same(post, whole)
    assert os.strerror(code) in post.settings["unsaved"]
    post.save(tmp_path / "elsewhere.zarr")
    assert_equal(psgld.load(tmp_path / "elsewhere.zarr"), whole)
    assert_same(psgld.load(store), before)
    assert_equal(draw(dense_counts, store=store, resume=True), whole)


def test_a_disk_that_recovers(tmp_path, monkeypatch, short_slices):
    """A checkpoint that fails is tried again."""
    from psgld.system import atomic as files

    fails, replace = iter(range(1)), os.replace

    def sometimes(*paths):
        if next(fails, None) is not None:
            raise OSError(errno.ENOSPC, "No space left on device")
        replace(*paths)

    store = tmp_path / "run.zarr"
    with pytest.raises(Crash):
        draw(dense_counts, store=store, checkpoint_every=0.0, progress=crash_after(3))
    monkeypatch.setattr(files.os, "replace", sometimes)
    post = draw(dense_counts, store=store, resume=True, checkpoint_every=0.0)
    assert next(fails, None) is None and "unsaved" not in post.settings
    assert_equal(psgld.load(store), post)


@pytest.mark.parametrize("how", ["deleted", "moved", "replaced"])
def test_a_store_that_goes_away(tmp_path, how, short_slices, prompt):
    store = tmp_path / "run.zarr"

    def remove(progress):
        if progress.done == 30 and store.exists():
            store.rename(tmp_path / "elsewhere")
            if how == "deleted":
                shutil.rmtree(tmp_path / "elsewhere")
            if how == "replaced":
                shutil.copytree(tmp_path / "elsewhere", store)

    with pytest.warns(psgld.PsgldWarning, match="the store was deleted or moved during the run"):
        post = draw(dense_counts, store=store, checkpoint_every=0.0, progress=remove)
    assert_same(post, draw(dense_counts))
    assert (store / "zarr.json").exists() == (
        how == "replaced"
    )  # nothing that looks like a store in its place


@pytest.fixture
def mounted(tmp_path):
    """A folder on a file system of its own, of 4 MB; only root can make one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True) if shutil.which("mount") else None
    if done is None or done.returncode:
        pytest.skip("cannot mount a file system here: " + (done.stderr.strip() if done else "no mount"))
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_draws_that_are_written_ahead_do_not_count(tmp_path, short_slices, monkeypatch):
    """Full chunks are on disk before the checkpoint that counts them; a killed run writes them again."""
    monkeypatch.setattr(saver, "_AHEAD", 1)
    monkeypatch.setattr(layout, "_CHUNK", 2000)
    store, whole = tmp_path / "run.zarr", draw(dense_counts, draws=30, chains=1)
    written = []
    write = saver.Saver._write_early

    def watched(self, number, rows):
        write(self, number, rows)
        written.append(dict(self._ahead))

    monkeypatch.setattr(saver.Saver, "_write_early", watched)
    with pytest.raises(Crash):
        draw(dense_counts, draws=30, chains=1, store=store, progress=crash_after(60))
    assert written and written[-1][0, "W"] > 0
    assert list(store.glob("posterior/W/c/0/*")) and not list(store.rglob("*.partial"))
    with pytest.raises(psgld.DataError, match="no draws yet"):
        psgld.load(store)
    assert_equal(draw(dense_counts, draws=30, chains=1, store=store, resume=True), whole)
    assert_equal(psgld.load(store), whole)


def test_a_disk_that_is_full_ahead_of_the_checkpoint(mounted, short_slices, monkeypatch):
    """The run goes on; the checkpoint says what is wrong, and writes all when there is room again."""
    monkeypatch.setattr(saver, "_AHEAD", 1)
    monkeypatch.setattr(layout, "_CHUNK", 2000)
    store, other = mounted / "run.zarr", mounted / "other"

    def fill(progress):
        if progress.done == 20 and not other.exists():
            with pytest.raises(OSError, match="No space left"), open(other, "wb") as file:
                file.write(bytes(8_000_000))

    with pytest.warns(psgld.PsgldWarning, match="No space left on device"):
        post = draw(ratings, draws=30, store=store, chains=1, progress=fill)
    whole = draw(ratings, draws=30, chains=1)
    assert_same(post, whole)
    other.unlink()
    assert_equal(draw(ratings, draws=30, store=store, chains=1, resume=True), whole)


def test_a_full_disk(mounted, short_slices):
    """A real one: there is room for the draws when the run starts, then someone takes it."""
    store, other = mounted / "run.zarr", mounted / "other"

    def fill(progress):
        if progress.done == 40 and not other.exists():
            with pytest.raises(OSError, match="No space left"), open(other, "wb") as file:
                file.write(bytes(8_000_000))

    with pytest.warns(psgld.PsgldWarning, match="No space left on device"):
        post = draw(ratings, draws=30, store=store, chains=1, checkpoint_every=0.0, progress=fill)
    whole = draw(ratings, draws=30, chains=1)
    assert_same(post, whole)
    other.unlink()
    assert_equal(draw(ratings, draws=30, store=store, chains=1, resume=True), whole)
    with pytest.raises(psgld.DataError, match=r"it needs .* MB, .* MB are free; ask for fewer draws"):
        draw(ratings, draws=3000, store=mounted / "big.zarr")


def test_a_read_only_folder(mounted):
    draw(dense_counts, store=mounted / "old.zarr")
    subprocess.run(["mount", "-o", "remount,ro", str(mounted)], check=True)
    for name in ("run.zarr", "old.zarr"):
        with pytest.raises(psgld.DataError, match=r"cannot write .*\.zarr: Read-only file system"):
            draw(dense_counts, store=mounted / name, resume=True)
    assert psgld.load(mounted / "old.zarr").draws.phi.shape == (2, 8)


def test_no_folder(tmp_path):
    with pytest.raises(psgld.DataError, match="there is no directory"):
        draw(dense_counts, store=tmp_path / "no" / "run.zarr")


@pytest.mark.slow
def test_kill_9(tmp_path):
    """At random moments; `make torture` does it more often."""
    for case, kills in (("counts", 3), ("ratings", 2)):
        wrong = [w for w in killing.killed(case, 800, kills, tmp_path, random.Random(7)) if w]
        assert not wrong


# -- options -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"store": "run.npz"}, r"the name of a store must end in \.zarr, got 'run\.npz'"),
        ({"resume": True}, "resume and store_dtype need a store"),
        (
            {"store": "r.zarr", "store_dtype": "int8"},
            "store_dtype must be one of float16, float32, float64, got",
        ),
        ({"store": "r.zarr", "checkpoint_every": -1}, "checkpoint_every must be a number of seconds >= 0"),
        ({"store": "r.zarr", "checkpoint_every": "1"}, "checkpoint_every must be a number of seconds >= 0"),
    ],
)
def test_options(options, words):
    with pytest.raises(psgld.SamplingError, match=words):
        draw(dense_counts, **options)
