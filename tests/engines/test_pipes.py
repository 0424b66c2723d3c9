"""A communicator over pipes between processes, in one file: the ring runs on it as on MPI, with the bits of threads."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import threading
from collections import defaultdict, deque
from queue import SimpleQueue

import numpy as np
import pytest
from mpi_case import chain_of, draw, record, soon

import psgld
from psgld import Threads
from psgld.engines import Communicator, H, Ranks, W
from psgld.engines.distributed import ranks as said


class Pipes(Communicator):
    """Messages through a pipe to each of the other ranks. What is sent is copied, and written by a thread."""

    def __init__(self, rank, ends):
        self._rank, self._ends = rank, ends  # of the pipes to the other ranks
        self._arrived = defaultdict(deque)  # from a rank, with a tag
        self._queues = {to: SimpleQueue() for to in ends}
        self._writers = [threading.Thread(target=self._write, args=[to], daemon=True) for to in ends]
        for writer in self._writers:
            writer.start()

    rank = property(lambda self: self._rank)
    size = property(lambda self: len(self._ends) + 1)

    def _write(self, to):
        while (message := self._queues[to].get()) is not None:
            self._ends[to].send(message)

    def isend(self, array, to, tag=0):
        assert array.flags.c_contiguous
        self._queues[to].put((tag, array.tobytes()))
        return {"done": True}

    def irecv(self, array, source, tag=0):
        assert array.flags.c_contiguous
        return {"done": False, "into": array, "from": (source, tag)}

    def test(self, requests):
        for source, end in self._ends.items():
            while end.poll():
                tag, content = end.recv()
                self._arrived[source, tag].append(content)
        for request in requests:
            if not request["done"] and (waiting := self._arrived[request["from"]]):
                into = request["into"]
                into[...] = np.frombuffer(waiting.popleft(), into.dtype).reshape(into.shape)
                request["done"] = True
        return all(request["done"] for request in requests)

    def abort(self):
        os._exit(1)

    def close(self):
        for queue in self._queues.values():
            queue.put(None)
        for writer in self._writers:
            writer.join()


def _rank(rank, ends, work, out):
    """Run `work(engine)` on this rank, and write what rank 0 returned."""
    pipes = Pipes(rank, ends)
    found = work(Ranks(pipes, threads=1))
    if rank == 0:
        with open(out, "wb") as file:
            pickle.dump(found, file)
    pipes.close()


def run_on_pipes(number, work, folder):
    """Run `work(engine)` on that many ranks, each a process; return what rank 0 returned, and all exit codes."""
    context = multiprocessing.get_context("spawn")
    ends = [{} for _ in range(number)]
    for a in range(number):
        for b in range(a):
            ends[a][b], ends[b][a] = context.Pipe()
    out = folder / "found.pickle"
    processes = [context.Process(target=_rank, args=(r, ends[r], work, out)) for r in range(number)]
    for process in processes:
        process.start()
    for end in (end for of in ends for end in of.values()):
        end.close()  # those of a rank that ends must not stay open here
    for process in processes:
        process.join(120)
    return (pickle.loads(out.read_bytes()) if out.exists() else None), [p.exitcode for p in processes]


NAMES = ("dense", "sparse", "ratings", "zeros", "wide", "hops", "weights", "weighted-ratings")
CASES = [(case, blocks) for case in NAMES for blocks in (3, 4)]


def all_cases(engine):
    with soon():
        return [record(draw(case, blocks, engine)) for case, blocks in CASES]


@pytest.mark.parametrize("number", [2, 3])
def test_the_ring_on_pipes_has_the_bits_of_threads(number, tmp_path):
    found, codes = run_on_pipes(number, all_cases, tmp_path)
    assert codes == [0] * number
    for (case, blocks), post in zip(CASES, found, strict=True):
        with soon():
            expected = record(draw(case, blocks, Threads(2)))
        assert np.ptp(expected["draws/W"], axis=1).min() > 0  # it moves
        assert set(post) == set(expected)
        for name in expected:
            np.testing.assert_array_equal(post[name], expected[name], err_msg=f"{case} {blocks} {name}")


def words(engine):
    """What all ranks say at once: sums, broadcasts, parts for each, the residuals of a pass, the cores of a machine."""
    comm, r = engine.communicator, engine.rank
    one = np.full(3, 1.0 + r)
    shared = said.exchange(comm, [np.arange(10 * r + to, dtype=np.int64) for to in range(comm.size)])
    assert engine.agree(float(r)) == 0.0 and engine.any(r == 1) and not engine.any(False)
    assert [len(part) for part in shared] == [10 * other + r for other in range(comm.size)]
    assert Ranks(comm).workers >= 1
    return said.total(comm, one), [record["rank"] for record in said.everyones(comm, {"rank": str(r)})]


def test_what_all_say_at_once(tmp_path):
    found, codes = run_on_pipes(3, words, tmp_path)
    assert codes == [0, 0, 0]
    np.testing.assert_array_equal(found[0], 6.0)
    assert found[1] == ["0", "1", "2"]


def fresh(engine):
    """Return Σ(v - μ)² of a pass, and the sums that it must leave alone, before and after."""
    chain = chain_of("ratings", 4, engine)
    chain.advance(13)
    chain.factors.accumulate("weight")
    sums = [[chain.factors.accumulated(which) for which in (W, H)]]
    squares = chain.factors.fresh_squared_residuals()
    sums.append([chain.factors.accumulated(which) for which in (W, H)])
    chain.advance(5)
    return squares, sums, chain.factors.factor(W)


def test_a_pass_for_the_residuals_leaves_all_else_alone(tmp_path):
    (squares, (before, after), w), codes = run_on_pipes(2, fresh, tmp_path)
    assert codes == [0, 0]
    expected = fresh(Threads(1))
    assert squares == expected[0] > 0
    for one, other in zip(before, after, strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(w, expected[2])


def one_fails(engine):
    V = np.random.default_rng(0).poisson(4.0, (30, 20)).astype(float)

    def step(t):
        if engine.rank == 1 and np.max(t) > 200:
            raise RuntimeError("no more steps")
        return 0 * t + 1e-6

    sampler = psgld.PSGLD(3, step_size=step)
    return psgld.sample(
        V, psgld.FactorModel(2, "poisson"), sampler=sampler, engine=engine, draws=10**6, keep=False
    )


def test_a_rank_that_fails_ends_all(tmp_path, capfd):
    found, codes = run_on_pipes(2, one_fails, tmp_path)
    assert found is None and codes == [1, 1]
    assert "psgld: rank 1 of 2 failed: RuntimeError: no more steps (test_pipes.py:" in capfd.readouterr().err
