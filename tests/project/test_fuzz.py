"""Bad input of every kind: a clear error or a good answer, never anything else. `make fuzz` tries many more."""

from __future__ import annotations

import shutil
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import psgld

sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks.fuzz import commands, trying
from benchmarks.fuzz.originals import MARKER, Originals
from benchmarks.fuzz.tables import read

INPUTS = {
    "store": 40,
    "store, right checksums": 60,
    "store, checkpoints": 40,
    "shards, right checksums": 60,
    "shards, blocks": 25,
    "command line": 150,
    "Parquet": 200,
}


@pytest.fixture(scope="module")
def have(tmp_path_factory):
    return Originals(tmp_path_factory.mktemp("fuzz") / "files")


@pytest.mark.parametrize("target", trying.TARGETS)
def test_bad_input(target, have):
    """Inputs that are the same in every run, known by their numbers."""
    for number in range(INPUTS.get(target, 300)):
        assert trying.attempt(target, number, have) is None, (target, number)
        for left in have.work.glob("*"):
            shutil.rmtree(left) if left.is_dir() else left.unlink()


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    content=st.one_of(
        st.binary(max_size=80), st.text(max_size=60).map(lambda t: t.encode("utf-8", "replace"))
    ),
    suffix=st.sampled_from([".csv", ".tsv", ".dat", ".txt", ".mtx", ".npy", ".npz", ".parquet", ".csv.gz"]),
)
def test_any_bytes_as_a_table(content, suffix, have):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        read(have, suffix, content)


@settings(max_examples=200, deadline=None)
@given(
    table=st.lists(
        st.tuples(st.text("ab01., -", max_size=4), st.text("ab01., -", max_size=4), st.floats()), max_size=6
    ),
    delimiter=st.sampled_from([",", "\t", ";", "|", "::"]),
)
def test_tables_of_any_labels(table, delimiter, have):
    """They are read, or refused in one line."""
    text = "\n".join(delimiter.join((r, c, repr(v))) for r, c, v in table)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        read(have, ".csv", text.encode())


@settings(max_examples=200, deadline=None)
@given(
    words=st.lists(st.text(max_size=12).filter(lambda w: w not in ("demo", "doctor")), min_size=1, max_size=5)
)
def test_any_words_on_the_command_line(words, capsys_of_all):
    code = capsys_of_all(words)
    assert code in (0, 2)


@pytest.fixture(scope="module")
def capsys_of_all(tmp_path_factory):
    """Run a command line and return its exit code; stderr must be one line."""
    import contextlib
    import io
    import os

    from psgld.cli import main

    def run(words):
        out, err, here = io.StringIO(), io.StringIO(), Path.cwd()
        os.chdir(tmp_path_factory.getbasetemp())
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                code = main(words)
        except SystemExit as stop:
            code = stop.code
        finally:
            os.chdir(here)
        assert code == 0 or err.getvalue().startswith("psgld: error: ")
        assert code == 0 or err.getvalue().count("\n") == 1
        return code

    return run


def test_a_finding_is_found(have, monkeypatch):
    """The oracle itself: other exceptions, several lines, pickles and slow answers are findings."""

    def fail(error):
        def raising(*_, **__):
            raise error

        return raising

    monkeypatch.setattr(psgld, "load", fail(KeyError("x")))
    assert "KeyError" in trying.attempt("posterior, bytes", 0, have)
    monkeypatch.setattr(psgld, "load", fail(psgld.DataError("two\nlines")))
    assert "characters" in trying.attempt("posterior, bytes", 0, have)
    monkeypatch.setattr(psgld, "load", fail(psgld.DataError("one line")))
    assert trying.attempt("posterior, bytes", 0, have) is None
    monkeypatch.setattr(commands, "main", lambda argv: print("Traceback", file=sys.stderr) or 0)
    assert "Traceback" in trying.attempt("command line", 0, have)
    monkeypatch.setattr(psgld, "load", lambda _: (have.work / MARKER).touch())
    assert trying.attempt("posterior, bytes", 0, have) == "a pickle was read"
    monkeypatch.setattr(psgld, "load", fail(MemoryError()))
    assert trying.attempt("posterior, bytes", 0, have) is None
    monkeypatch.setattr(trying, "PATIENCE", 1)
    monkeypatch.setattr(psgld, "load", lambda _: np.linalg.norm([__import__("time").sleep(1.2) or 0]))
    assert "no answer after 1 s" in trying.attempt("posterior, bytes", 0, have)
