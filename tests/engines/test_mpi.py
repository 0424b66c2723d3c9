"""The ring on MPI: the same bits as threads on any number of ranks, one strip a message, and ends that are told."""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from benchmarks import killing, killing_ranks
from mpi_case import (
    BLOCKS,
    CASES,
    SHARDED,
    STORED,
    chain_of,
    draw,
    draw_sharded,
    record,
    small_chunks,
    soon,
)  # fmt: skip
from mpi_job import ENVIRONMENT, mpiexec, needs_mpi

import psgld
from psgld import Threads
from psgld.engines.distributed.ring import Ring


@pytest.fixture(autouse=True)
def momentum_soon():
    with soon():
        yield


# -- who has what ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize(("blocks", "ranks"), [(1, 1), (4, 4), (8, 2), (7, 3), (5, 4), (120, 16)])
def test_ring(blocks, ranks, swapped):
    ring = Ring(blocks, ranks, swapped)
    for part in range(blocks):
        held = [ring.held(rank, part) for rank in range(ranks)]
        assert sorted(strip for strips in held for strip in strips) == list(range(blocks))
        assert all(ring.holder(strip, part) == rank for rank in range(ranks) for strip in held[rank])
        then = (part + 1) % blocks
        moves = [ring.move(rank, part, then) for rank in range(ranks)]
        if ranks > 1:  # exactly one strip crosses each boundary
            assert all(len(move.sends) == len(move.receives) == 1 for move in moves)
            assert {move.sends[0][1] - rank for rank, move in enumerate(moves)} <= {
                1,
                -1,
                ranks - 1,
                1 - ranks,
            }
        else:
            assert not moves[0].sends


@pytest.mark.parametrize("swapped", [False, True])
def test_ring_from_any_part_to_any_other(swapped):
    ring = Ring(7, 3, swapped)
    for part in range(7):
        for then in range(7):
            moves = [ring.move(rank, part, then) for rank in range(3)]
            sent = sorted((c, rank, to) for rank, m in enumerate(moves) for c, to in m.sends)
            received = sorted((c, start, rank) for rank, m in enumerate(moves) for c, start in m.receives)
            assert sent == received
            for rank, move in enumerate(moves):
                kept = set(ring.held(rank, part)) - {c for c, _ in move.sends}
                assert kept | {c for c, _ in move.receives} == set(ring.held(rank, then))
                assert move.last - move.first == len(move.sends)  # what leaves is a run


# -- the same chain ----------------------------------------------------------------------------------------

RUNS = [  # ranks, strips, cases: m = 1, 2, 4 strips a rank, and ranks that do not divide B
    (1, "1,4", "dense,ratings", 1),
    (2, "2,4,8", "dense,sparse,ratings,zeros", 1),
    (2, "4", "large,wide,zero-gaussian,identity,identity-momentum,gamma,diverging", 2),
    (3, "3,6,12", "sparse,ratings,wide", 1),
    (3, "4,7", "dense,zeros,weights,weighted-ratings,gamma,negative-binomial,bernoulli,ordinal", 1),
    (4, "4,8,16", "dense,wide,identity-momentum,all-given", 1),
    (4, "6", "sparse,ratings,gamma,diverging", 1),
    (2, "4", "dsgd,dsgd-counts", 2),
    (3, "5", "dsgd,dsgd-counts", 1),
    (1, "4", "hops", 2),
    (2, "2,4", "hops,hops-ratings,hops-wide", 1),
    (3, "4", "hops,hops-ratings,hops-wide,hops-gamma,hops-diverging", 1),
    (4, "4", "hops-ratings,hops-wide", 1),
]


@needs_mpi
@pytest.mark.filterwarnings("ignore:chains diverged:psgld.PsgldWarning")
@pytest.mark.parametrize(("ranks", "blocks", "cases", "threads"), RUNS)
def test_same_bits_as_threads(ranks, blocks, cases, threads, tmp_path):
    mpiexec(ranks, "compare", tmp_path, f"cases={cases}", f"blocks={blocks}", f"threads={threads}")
    for case in cases.split(","):
        for b in map(int, blocks.split(",")):
            expected = record(draw(case, b, Threads(2)))
            assert np.ptp(expected["draws/W"], axis=1).min() > 0  # it moves
            assert (expected["divergences"] > 0) == case.endswith("diverging")
            with np.load(tmp_path / f"{case}-{b}.npz") as found:
                assert set(found.files) == set(expected)
                for name in expected:
                    np.testing.assert_array_equal(found[name], expected[name], err_msg=f"{case} {b} {name}")
            factors = ("draws/W", "draws/H", "draws/row_bias", "draws/col_bias")
            for rank in range(1, ranks):
                with np.load(tmp_path / f"{case}-{b}-rank{rank}.npz") as found:
                    for name in set(expected) - set(factors):
                        np.testing.assert_array_equal(
                            found[name], expected[name], err_msg=f"{case} {b} {name}"
                        )


def test_every_case_is_compared():
    assert set(",".join(cases for _, _, cases, _ in RUNS).split(",")) == set(CASES)


@needs_mpi
@pytest.mark.parametrize(("ranks", "blocks"), [(2, 4), (3, 7)])
def test_a_rank_reads_only_its_own_strips(ranks, blocks, tmp_path):
    for case, make in SHARDED.items():
        psgld.shard(make()[0], tmp_path / f"{case}.shards", blocks, absent=make()[0].absent)
    mpiexec(ranks, "sharded", tmp_path)
    for case in SHARDED:
        expected = record(draw_sharded(case, tmp_path, Threads(2)))
        for rank in range(ranks):
            with np.load(tmp_path / f"{case}-{rank}.npz") as found:
                own = range(blocks * rank // ranks, blocks * (rank + 1) // ranks)
                assert found["opened"].tolist() == list(own), (case, rank)
                for name in expected:
                    if rank == 0 or name not in ("draws/W", "draws/H", "draws/row_bias", "draws/col_bias"):
                        np.testing.assert_array_equal(found[name], expected[name], err_msg=f"{case} {name}")


@needs_mpi
@pytest.mark.parametrize("ranks", [2, 3])
def test_one_strip_a_message(ranks, tmp_path):
    """Bytes that a rank sends in an iteration: one strip, with its momentum and its bound if it has them."""
    mpiexec(ranks, "bytes", tmp_path)
    for case, arrays in {"dense": 3, "sparse": 2, "ratings": 2, "identity": 1}.items():
        for rank in range(ranks):
            with np.load(tmp_path / f"{case}-{rank}.npz") as found:
                sent, rows = found["sent"], found["rows"]
            first = 6 * rank // ranks
            turn = -1 if CASES[case]()[0].shape[1] > CASES[case]()[0].shape[0] else 1
            # At iterations 13, 14, … (parts 0, 1, …) the strip at the end of the rank's run leaves.
            edge = first if turn > 0 else 6 * (rank + 1) // ranks - 1
            leaving = [(edge + turn * part) % 6 for part in range(17)]
            assert sent.tolist() == [rows[c] * 16 * 4 * arrays for c in leaving]


@needs_mpi
@pytest.mark.parametrize("ranks", [2, 3])
def test_a_chain_of_dsgld_takes_all_of_W_and_H_along(ranks, tmp_path):
    """All of W and H are sent whenever the next shard is another rank's, and else nothing."""
    mpiexec(ranks, "hops", tmp_path)
    with np.load(tmp_path / "hops.npz") as found:
        sent, size, where = found["sent"], int(found["size"]), found["parts"] * ranks // 6
    assert size >= (90 + 60) * 16 * 4
    # The first iteration after a refresh of the metric, which every rank took part in, finds the factors everywhere.
    moved = [False, *(where[1:-1] != where[:-2])]
    assert sum(moved) >= ranks
    assert sent.tolist() == [size * m for m in moved]


@needs_mpi
def test_states_of_any_number_of_ranks(tmp_path):
    """A state from threads goes on under MPI, one from MPI goes on under threads and other numbers of ranks."""
    cases = ("ratings", "zeros", "identity-momentum", "gamma", "dsgd", "hops", "hops-ratings")
    for case in cases:
        chain = chain_of(case, BLOCKS, Threads(2))
        chain.advance(14)
        np.savez(tmp_path / f"{case}-before-threads.npz", **chain.state())
    for ranks in (4, 3):
        mpiexec(ranks, "states", tmp_path, f"cases={','.join(cases)}")
        for case in cases:
            os.replace(tmp_path / f"{case}-state.npz", tmp_path / f"{case}-before-{ranks}.npz")
    mpiexec(2, "states", tmp_path, f"cases={','.join(cases)}")
    for case in cases:
        through = chain_of(case, BLOCKS, Threads(2))
        through.advance(14)
        same_state(through.state(), tmp_path / f"{case}-state.npz")
        through.advance(11)
        expected = {**through.state(), "lp": through.log_posterior()}
        for origin in ("threads", "4", "3"):
            same_state(expected, tmp_path / f"{case}-after-{origin}.npz")


def same_state(expected, path):
    with np.load(path) as found:
        for name, value in expected.items():
            np.testing.assert_array_equal(found[name], value, err_msg=f"{path.name} {name}")


# -- ends --------------------------------------------------------------------------------------------------


@pytest.mark.alone  # within ten seconds
@needs_mpi
@pytest.mark.parametrize(
    ("how", "rank", "told"),
    [
        ("throw", 0, r"^psgld: rank 0 of 3 failed: ValueError: no more steps \(mpi_case.py:\d+\)$"),
        ("throw", 2, r"^psgld: rank 2 of 3 failed: ValueError: no more steps \(mpi_case.py:\d+\)$"),
        (
            "leave",
            0,
            r"^psgld: rank [12] of 3 failed: SamplingError: rank 0 has exited \(its script ended or failed\)",
        ),
        (
            "leave",
            2,
            r"^psgld: rank 0 of 3 failed: SamplingError: rank 2 has exited \(its script ended or failed\)",
        ),
        ("user", 0, r"^psgld: rank 0 of 3 failed: DataError: Poisson .* needs v >= 0"),
        ("few-blocks", 0, r"^psgld: rank 0 of 3 failed: ModelError: 3 ranks need .* blocks = 1; choose"),
        (
            "disagree",
            0,
            r"^psgld: rank 0 of 3 failed: SamplingError: the ranks disagree on seed: .* on rank 2; ",
        ),
        ("few-workers", 0, r"^psgld: rank 0 of 3 failed: ModelError: 3 ranks need .* workers = 2; choose"),
        (
            "shard",
            1,
            r"^psgld: rank 1 of 3 failed: DataError: .*values of strip 1 is missing or has a wrong checksum",
        ),
        ("kill", 0, r"^psgld: rank 0 of 3 ended without an error \(process \d+ on \S+\): it was killed"),
        ("kill", 1, r"^psgld: rank 1 of 3 ended without an error \(process \d+ on \S+\): it was killed"),
    ],
)
def test_a_failing_rank_ends_the_job(how, rank, told, tmp_path):
    """One line says which rank and why, and the job ends; also if a rank is killed."""
    if how == "shard":
        psgld.shard(CASES["dense"]()[0], tmp_path / "shards", 4, absent="unobserved")
        values = tmp_path / "shards" / "values" / "c" / "1" / "0"
        values.write_bytes(bytes(100) + values.read_bytes()[100:])
    done = mpiexec(3, "fail", tmp_path, f"how={how}", f"rank={rank}", check=False)
    assert done.returncode != 0
    if how in ("throw", "kill"):
        assert time.time() - (tmp_path / "failed").stat().st_mtime < 10
    assert re.search(told, done.stdout + done.stderr, re.MULTILINE), done.stderr
    assert len(re.findall("^psgld: rank", done.stdout + done.stderr, re.MULTILINE)) == 1
    assert "came to an end" not in done.stderr and "Traceback" not in done.stderr


SPEAKERS = """
import sys, witness
where = witness.start(3)
ranks = [witness.Connection.to(where, rank) for rank in range(3)]
if sys.argv[1] == "asked":
    print(ranks[1].may_report(), ranks[0].may_report(), ranks[2].may_report())
else:
    ranks[0]._socket.close()
    print(sys.stdin.read(1), ranks[1].may_report(), ranks[2].may_report())
"""


@pytest.mark.parametrize(
    ("how", "answers", "lines"), [("asked", "True False False", 0), ("gone", "False False", 1)]
)
def test_one_speaks_for_all(how, answers, lines):
    """Of several that fail one gets the word; none, once the witness has said which rank is gone."""
    folder = Path(psgld.__file__).parent / "engines" / "distributed"
    job = subprocess.Popen(
        [sys.executable, "-c", SPEAKERS, how],
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    said = job.stderr.readline() if lines else ""
    out, rest = job.communicate(timeout=30)
    assert out.split() == answers.split(), rest
    assert said.startswith("psgld: rank 0 of 3 ended without an error") == bool(lines)
    assert rest == ""


@needs_mpi
def test_an_interrupt_of_one_rank_stops_all(tmp_path):
    mpiexec(2, "interrupted", tmp_path)
    found = [dict(np.load(tmp_path / f"{rank}.npz")) for rank in range(2)]
    assert found[0]["draws"] == found[1]["draws"] > 0
    assert all(f["interrupted"] for f in found)


# -- without mpiexec ---------------------------------------------------------------------------------------


@needs_mpi
def test_alone_it_is_one_rank(tmp_path):
    code = "import psgld; e = psgld.MPI(); print(e.rank, e.ranks, e.workers >= 1, e.agree(3.0), e.any(False))"
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **ENVIRONMENT}, capture_output=True, text=True
    )
    assert done.stdout.split() == ["0", "1", "True", "3.0", "False"], done.stderr


def test_without_mpi4py_the_remedy_is_told(monkeypatch):
    from psgld.engines.distributed import mpi

    monkeypatch.setitem(sys.modules, "mpi4py", None)
    mpi.world.cache_clear()
    with pytest.raises(psgld.ModelError, match=r"pip install 'psgld\[mpi\]'"):
        psgld.sample(np.ones((5, 5)), rank=1, engine=psgld.MPI())


def test_threads_of_mpi_are_checked():
    for bad in (0, -1, 1.5, True, 10_000, "2"):
        with pytest.raises(psgld.ModelError, match="threads must be an integer from 1 to 1024, got"):
            psgld.MPI(bad)


# -- the command line, stores and resuming -----------------------------------------------------------------


@pytest.fixture
def ratings_file(tmp_path):
    V = CASES["dense"]()[0]
    np.save(tmp_path / "counts.npy", V)
    return tmp_path / "counts.npy"


def fit(ranks, file, output, *options, blocks=4, **more):
    settings = ["--rank", "3", "--likelihood", "poisson", "--chains", "1", "--tune", "20"]
    settings += [] if blocks is None else ["--blocks", blocks]
    arguments = ["fit", file, "-o", output, *settings, *options]
    return mpiexec(ranks, *arguments, program=("-m", "psgld"), **more)


@needs_mpi
def test_the_command_line_uses_all_ranks(ratings_file, tmp_path):
    done = fit(2, ratings_file, tmp_path / "two.npz", "--draws", "5", "--thin", "3")
    assert done.stderr.count("saved to") == 1
    fit(1, ratings_file, tmp_path / "one.npz", "--draws", "5", "--thin", "3")
    one, two = (psgld.load(tmp_path / f"{n}.npz") for n in ("one", "two"))
    np.testing.assert_array_equal(one.draws.W, two.draws.W)
    np.testing.assert_array_equal(one.sample_stats["lp"], two.sample_stats["lp"])
    done = fit(3, tmp_path / "absent.npy", tmp_path / "run.npz", check=False)
    assert done.returncode != 0
    assert len(re.findall("^psgld: rank 0 of 3 failed: .*absent.npy", done.stderr, re.MULTILINE)) == 1


@needs_mpi
def test_each_rank_writes_its_own_chunks(tmp_path):
    """The store is that of threads, byte for byte, and every rank wrote chunks that nobody else wrote."""
    ranks, (mpi, threads) = 3, (tmp_path / "mpi", tmp_path / "threads")
    mpi.mkdir()
    threads.mkdir()
    mpiexec(ranks, "stores", mpi, f"cases={','.join(STORED)}")
    written = [set(np.load(mpi / f"written-{rank}.npz")["written"].tolist()) for rank in range(ranks)]
    assert not (written[0] & written[1] or written[0] & written[2] or written[1] & written[2])
    for case, options in STORED.items():
        with small_chunks():
            post = draw(case, BLOCKS, Threads(2), store=threads / f"{case}.zarr", **options)
        expected = {
            path.relative_to(threads): path.read_bytes()
            for path in threads.glob(f"{case}.zarr/*/**/*")
            if path.is_file() and path.parent.name != "checkpoints" and "seconds" not in path.parts
        }
        for path, content in expected.items():
            assert (mpi / path).read_bytes() == content, path
        with np.load(mpi / f"{case}.npz") as found:
            for name, values in record(post).items():
                np.testing.assert_array_equal(found[name], values, err_msg=f"{case} {name}")
        for rank in range(ranks):
            of_W = [name for name in written[rank] if f"{case}.zarr/posterior/W/c/" in name]
            assert len(of_W) >= 2 * 3, f"rank {rank} wrote {len(of_W)} chunks of W of {case}"


@needs_mpi
def test_strips_that_were_raised_to_the_ranks_stay(ratings_file, tmp_path):
    """B is left out: more than one strip because of the ranks, and as many when it goes on without them."""
    store = tmp_path / "run.zarr"
    fit(3, ratings_file, store, "--draws", "3", "--thin", "3", blocks=None)
    done = fit(1, ratings_file, store, "--draws", "6", "--thin", "3", "--resume", blocks=None)
    assert "not bit for bit" not in done.stderr
    fit(1, ratings_file, tmp_path / "whole.npz", "--draws", "6", "--thin", "3", blocks=3)
    np.testing.assert_array_equal(psgld.load(store).draws.W, psgld.load(tmp_path / "whole.npz").draws.W)
    done = fit(4, ratings_file, store, "--draws", "9", "--thin", "3", "--resume", blocks=None, check=False)
    assert "4 ranks need at least as many strips, got blocks = 3" in done.stderr


@needs_mpi
def test_killed_ranks_and_resumed_with_others(tmp_path):
    """`python -m benchmarks.killing_ranks` does the same twenty times and with more data."""
    moments = random.Random(5)
    for case in ("counts", "hops"):
        reference = killing.whole_run(case, 1000, tmp_path)
        told, wrong = killing_ranks.trial(case, 1000, reference, tmp_path, moments, "the first checkpoint")
        assert not wrong, f"{told}: {wrong}"
        assert f" {case} " in f" {told} "
