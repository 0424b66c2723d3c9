"""Ctrl-C: the draws so far are kept, and it does not take long."""

import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import psgld
from psgld.runs.interrupt import like_ctrl_c

PATIENCE = 4.0  # seconds until `sample` is over; one is the aim, the rest is for busy machines
pytestmark = pytest.mark.alone

SAMPLE = """
import sys, time, numpy as np, psgld
V = np.random.default_rng(0).poisson(4.0, size=(40, 30))
tune, chains = int(sys.argv[1]), int(sys.argv[2])

def watch(progress):
    if progress.done > int(sys.argv[3]):
        print("ready", flush=True)

try:
    post = psgld.sample(V, psgld.FactorModel(2, "poisson"), draws=200_000, tune=tune, thin=50, chains=chains,
                        progress=watch, engine=psgld.Threads(2))
except KeyboardInterrupt as stop:
    print("over", time.monotonic())
    print("stopped", stop)
else:
    print("over", time.monotonic())
    print("kept", post.interrupted, post.W.shape[1], np.isfinite(post.W).all(), post.chains,
          post.W.shape[1] == post.sample_stats["lp"].shape[1])
"""

FIT = """
import sys, time
import psgld.cli
module = sys.modules["psgld.sample"]
usual = module.sample

def sample(*args, **options):
    options["progress"] = lambda progress: progress.done > 1000 and print("ready", flush=True)  # after some draws
    try:
        return usual(*args, **options)
    finally:
        print("over", time.monotonic())

module.sample = sample
sys.exit(psgld.cli.main(sys.argv[1:]))
"""


def interrupt(script, *argv, by=signal.SIGINT):
    """Run a script, send a signal when it is ready; return (code, rest of stdout, stderr, seconds until "over").

    What comes after, a summary and the modules that it loads, takes as long as it does without an interrupt.
    """
    command = [sys.executable, "-c", script, *map(str, argv)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline().strip() == "ready", process.stderr.read()
        start = time.monotonic()  # the clock of the machine: the process reads the same
        process.send_signal(by)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    _, over, out = out.replace("ready\n", "").partition("over ")
    over, _, out = out.partition("\n")
    # Draws that were cut short may be said to be slow: that is a line of its own, tested in test_verdict.py.
    err = "".join(line for line in err.splitlines(keepends=True) if "verdict: " not in line)
    return process.returncode, out, err, float(over) - start


@pytest.mark.parametrize("chains", [1, 2])
def test_draws_so_far_are_kept(chains):
    code, out, err, seconds = interrupt(SAMPLE, 1000, chains, 50_000)
    words = out.split()
    assert code == 0 and err == "" and seconds < PATIENCE
    assert words[:2] == ["kept", "True"] and 0 < int(words[2]) < 200_000 and words[3] == "True"
    assert 1 <= int(words[4]) <= chains and words[5] == "True"


def test_during_burn_in_there_is_nothing_to_keep():
    code, out, err, seconds = interrupt(SAMPLE, 10**9, 1, 0)
    assert code == 0 and err == "" and seconds < PATIENCE
    assert out.startswith("stopped") and "burn-in" in out


@pytest.fixture
def counts(tmp_path):
    np.save(tmp_path / "V.npy", np.random.default_rng(0).poisson(4.0, size=(40, 30)).astype(float))
    return tmp_path / "V.npy"


def fit(counts, run, tune, **by):
    options = ["--rank", 2, "--likelihood", "poisson", "--draws", 200_000, "--tune", tune, "--chains", 1]
    return interrupt(FIT, "fit", counts, "-o", run, *options, "--thin", 50, **by)


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM])
def test_the_command_saves_and_returns_130(counts, tmp_path, by):
    code, out, err, seconds = fit(counts, tmp_path / "run.npz", tune=0, by=by)
    assert code == 130 and seconds < PATIENCE
    assert err.count("\n") == 1 and err.startswith("psgld: interrupted: 1 chain(s) × ")
    post = psgld.load(tmp_path / "run.npz")
    assert post.interrupted and 0 < post.W.shape[1] < 200_000 and "interrupted" in out


def test_the_command_during_burn_in(counts, tmp_path):
    code, out, err, seconds = fit(counts, tmp_path / "run.npz", tune=10**9)
    assert code == 130 and seconds < PATIENCE and out == ""
    assert err.count("\n") == 1 and "nothing was saved" in err and not (tmp_path / "run.npz").exists()


def test_a_store_when_sigterm_comes_in_the_burn_in(counts, tmp_path):
    pytest.importorskip("zarr")
    code, _, err, _ = fit(counts, tmp_path / "run.zarr", tune=10**9, by=signal.SIGTERM)
    assert code == 130 and err.count("\n") == 1 and "--resume resumes the run" in err
    reached = r"no draws yet: its last checkpoint is at iteration [0-9,]+ of 1,000,000,000 of burn-in"
    with pytest.raises(psgld.DataError, match=reached):
        psgld.load(tmp_path / "run.zarr")


@pytest.mark.parametrize("ctrl_c", [signal.default_int_handler, signal.SIG_IGN])
def test_sigterm_is_ctrl_c_also_in_the_background(ctrl_c):
    """A shell that is no terminal's has what it starts in the background ignore SIGINT."""
    before = signal.signal(signal.SIGINT, ctrl_c)
    try:
        with like_ctrl_c():
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGTERM)
            signal.raise_signal(signal.SIGTERM)  # a second one does not insist
    finally:
        signal.signal(signal.SIGINT, before)
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_sigterm_is_left_to_those_who_handle_it():
    def mine(number, frame):
        pass

    signal.signal(signal.SIGTERM, mine)
    try:
        with like_ctrl_c():
            assert signal.getsignal(signal.SIGTERM) is mine
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def test_the_old_handler_comes_back():
    before = signal.getsignal(signal.SIGINT)
    V = np.random.default_rng(0).poisson(4.0, size=(6, 5))
    psgld.sample(V, psgld.FactorModel(1, "poisson"), draws=2, tune=2, progress=False)
    assert signal.getsignal(signal.SIGINT) is before


def test_sigint_that_a_shell_ignores_stays_ignored(tmp_path):
    """`nohup`, and `psgld fit … &` in a script: Ctrl-C is for what runs in the foreground."""
    code = (
        "import os, signal, numpy as np, psgld\n"
        "V = np.random.default_rng(0).poisson(4.0, (20, 15))\n"
        "hit = lambda p: os.kill(os.getpid(), signal.SIGINT)\n"
        "post = psgld.sample(V, psgld.FactorModel(2, 'poisson'), draws=20, tune=50, chains=1, progress=hit)\n"
        "print(post.interrupted, post.W.shape[1])"
    )
    ran = subprocess.run(
        ["sh", "-c", 'trap "" INT; exec "$@"', "sh", sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert (ran.stdout.strip(), ran.returncode) == ("False 20", 0), ran.stderr
