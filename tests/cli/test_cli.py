"""The command line, from the outside: what it prints, writes and returns."""

import contextlib
import csv
import dataclasses
import datetime
import gzip
import json
import os
import pty
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas
import pytest

import psgld
from psgld.cli import completion, main, make_parser, plot
from psgld.cli.completion import subparsers
from psgld.datasets import ratings, synthetic
from psgld.models import LIKELIHOODS
from psgld.posterior.export import TABLES, export
from psgld.samplers import SAMPLERS

QUICK = ["--rank", "2", "--draws", "10", "--tune", "60", "--thin", "2", "--chains", "1"]


def write(path, header, *columns):
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        if header:
            writer.writerow(header)
        writer.writerows(zip(*columns, strict=True))
    return str(path)


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """A directory with ratings, held-out ratings, and a posterior."""
    out = tmp_path_factory.mktemp("cli")
    data = ratings(users=60, items=40, entries=900, rank=2)
    rows, cols, values = data.V.entries(np.arange(data.V.stored))
    labels = data.V.row_labels[rows], data.V.col_labels[cols]
    write(out / "train.csv", ["user", "item", "rating"], *labels, values)
    known = np.isin(data.test[0], labels[0]) & np.isin(data.test[1], labels[1])
    write(out / "test.csv", ["user", "item", "rating"], *(column[known] for column in data.test))
    assert (
        main(["fit", str(out / "train.csv"), "-o", str(out / "run.npz"), *QUICK, "--chains", "2", "-q"]) == 0
    )
    return out


def fails(capsys, argv, *words):
    """The command ends with code 2 and one line on stderr that has these words."""
    try:
        code = main([str(word) for word in argv])
    except SystemExit as stop:
        code = stop.code
    out, err = capsys.readouterr()
    assert code == 2 and out == ""
    err = "".join(line for line in err.splitlines(True) if not line.startswith("psgld: note: "))
    assert err.startswith("psgld: error: ") and err.count("\n") == 1
    for word in words:
        assert word in err
    return err


# -- fit


@pytest.mark.parametrize("name", SAMPLERS)
def test_fit_with_every_sampler(work, tmp_path, name, capsys):
    """Settings that a sampler has are taken, others refused in one line."""
    kind = "poisson" if name == "gibbs" else "gaussian"
    argv = ["fit", str(work / "train.csv"), "-o", str(tmp_path / "run.npz"), *QUICK, "--sampler", name, "-q"]
    argv += ["--likelihood", kind]
    assert main(argv) == 0
    assert psgld.load(tmp_path / "run.npz").settings["sampler"]["name"] == SAMPLERS[name].__name__
    known = {field.name for field in dataclasses.fields(SAMPLERS[name])}
    values = {"blocks": 2, "step_size": 0.01, "size": 0.25, "workers": 2, "exchange": 5}
    assert known & set(values) or "gibbs" in name
    for setting, value in values.items():
        option = ["--" + setting.replace("_", "-"), str(value)]
        if setting in known:
            assert main([*argv, *option]) == 0
            record = psgld.load(tmp_path / "run.npz").settings["sampler"]
            assert record[setting] == value
        else:
            fails(capsys, [*argv, *option], f"--sampler {name} has no {option[0]}")


def test_fit_says_what_it_guesses_and_saves(work, tmp_path, capsys):
    run = tmp_path / "run.npz"
    assert main(["fit", str(work / "train.csv"), "-o", str(run), *QUICK]) == 0
    out, err = capsys.readouterr()
    assert "note: ordinal likelihood, because the values look like ratings" in err
    assert f"saved to {run}" in err and "Warning" not in err
    post = psgld.load(run)
    assert out.strip() == post.summary()
    assert post.model.bias and post.model.rank == 2 and post.row_labels[0].startswith("user-")


def test_fit_is_sample(work, tmp_path):
    run = tmp_path / "run.npz"
    options = ["--seed", "7", "--blocks", "3", "--threads", "1", "--no-bias", "--step-size", "0.001"]
    options += ["--metric", "identity", "--dtype", "float64", "--likelihood", "gaussian"]
    assert main(["fit", str(work / "train.csv"), "-o", str(run), *QUICK, *options, "-q"]) == 0
    same = psgld.sample(
        psgld.Observations.from_file(work / "train.csv"),
        psgld.FactorModel(2, "gaussian"),
        sampler=psgld.PSGLD(blocks=3, step_size=0.001, metric="identity", dtype="float64"),
        draws=10,
        tune=60,
        thin=2,
        chains=1,
        seed=7,
    )
    np.testing.assert_array_equal(psgld.load(run).W, same.W)


def test_fit_json(work, tmp_path, capsys):
    run = tmp_path / "run.npz"
    assert main(["fit", str(work / "train.csv"), "-o", str(run), *QUICK, "--json", "-q"]) == 0
    out, err = capsys.readouterr()
    record = json.loads(out)
    assert err == "" and record["draws"] == 10 and record["model"]["likelihood"]["name"] == "ordinal"
    assert record["interrupted"] is False and record["output"] == str(run)


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_fit_dense(likelihood, tmp_path):
    np.save(tmp_path / "V.npy", synthetic(12, 10, 2, likelihood).V.dense)
    options = ["--likelihood", likelihood, *QUICK, "-q"]
    assert main(["fit", str(tmp_path / "V.npy"), "-o", str(tmp_path / "run.npz"), *options]) == 0
    model = psgld.load(tmp_path / "run.npz").model
    assert model.likelihood.name == likelihood and not (model.bias and model.nonnegative)


def test_fit_columns_absent_duplicates(tmp_path, capsys):
    file = write(tmp_path / "t.csv", ["n", "word", "doc"], [1, 4, 2, 3], ["a", "a", "b", "a"], [7, 7, 9, 8])
    argv = ["fit", file, "-o", tmp_path / "r.npz", *QUICK, "--value", "n", "--row", "doc", "--col", "1"]
    argv += ["--absent", "zero", "--likelihood", "poisson"]
    fails(
        capsys,
        argv,
        "1 duplicate(s), for example at row 7, column 'a'; choose --duplicates sum, mean or last to merge",
    )
    assert main([str(word) for word in [*argv, "--duplicates", "sum", "-q"]]) == 0
    post = psgld.load(tmp_path / "r.npz")
    assert post.shape == (3, 2) and post.settings["entries"] == 6


def test_warnings_are_notes(tmp_path, capsys):
    file = write(tmp_path / "t.csv", None, [0, 1, 2, 2], [0, 1, 0, 1], [3, 0, 1, 9])
    argv = ["fit", file, "-o", str(tmp_path / "r.npz"), *QUICK, "--likelihood", "poisson"]
    assert main(argv) == 0
    err = capsys.readouterr().err.splitlines()
    assert err[0].startswith("psgld: note: sparse data under a count likelihood") and len(err) == 2
    assert err[0].endswith("set --absent zero if they are zeros, or --absent unobserved if not")
    assert main([*argv, "-q"]) == 0
    assert capsys.readouterr() == ("", "")


def test_fit_errors(work, tmp_path, capsys):
    run, train = tmp_path / "run.npz", work / "train.csv"
    fails(capsys, ["fit", tmp_path / "no.csv", "-o", run, *QUICK], "no such file", "no.csv")
    fails(capsys, ["fit", train, "-o", run, *QUICK, "--likelihood", "normal"], "'normal'", "inverse-gaussian")
    fails(capsys, ["fit", train, "-o", run, *QUICK, "--value", "stars"], "no column 'stars'")
    fails(capsys, ["fit", train, "-o", run, *QUICK, "--bias", "--likelihood", "poisson"], "bias")
    fails(capsys, ["fit", train, *QUICK], "-o/--output")
    assert not run.exists()


@pytest.mark.parametrize(
    ("option", "value", "allowed"),
    [
        ("--rank", "0", "an integer from 1 to 1000"),
        ("--rank", "x", "an integer from 1 to 1000"),
        ("--rank", "1001", "an integer from 1 to 1000"),
        ("--draws", "0", "an integer >= 1"),
        ("--tune", "-1", "an integer >= 0"),
        ("--thin", "1.5", "an integer >= 1"),
        ("--chains", "0", "an integer >= 1"),
        ("--seed", "-1", "an integer >= 0"),
        ("--threads", "0", "an integer >= 1"),
        ("--blocks", "0", "an integer >= 1"),
        ("--step-size", "0", "a number > 0"),
        ("--step-size", "nan", "a number > 0"),
        ("--checkpoint-every", "-1", "a number of seconds >= 0"),
    ],
)
def test_numbers_are_checked_before_anything_is_read(option, value, allowed, capsys):
    argv = ["fit", "no.csv", "-o", "run.npz", *QUICK, option, value]
    fails(capsys, argv, f"argument {option}: must be {allowed}, got '{value}'", "psgld fit --help")


def test_a_bad_line_is_named(tmp_path, capsys):
    file = write(tmp_path / "bad.csv", ["u", "i", "v"], ["a", "b", "c"], ["x", "y", "z"], [1, "many", 3])
    fails(capsys, ["fit", file, "-o", tmp_path / "r.npz", *QUICK], "bad.csv, line 3", "'many'")


@pytest.mark.parametrize("where", ["missing/run.npz", "file/run.npz", "", "/proc/run.npz"])
def test_output_is_checked_first(where, work, tmp_path, capsys, monkeypatch):
    if where.startswith("/proc") and not sys.platform.startswith("linux"):
        pytest.skip("no /proc")
    monkeypatch.setattr("psgld.data.construct.read_file", lambda *_: pytest.fail("read before the check"))
    (tmp_path / "file").touch()
    fails(capsys, ["fit", work / "train.csv", "-o", tmp_path / where, *QUICK], "cannot write")


def test_what_is_read_is_not_written_over(work, tmp_path, capsys):
    """Nor is CSV written under the name of something else."""
    copy, run = tmp_path / "train.npz", tmp_path / "run.npz"
    copy.write_bytes((work / "train.csv").read_bytes())
    run.write_bytes((work / "run.npz").read_bytes())
    before = copy.read_bytes(), run.read_bytes()
    fails(capsys, ["fit", copy, "-o", tmp_path / "." / "train.npz", *QUICK], "the command reads it")
    fails(capsys, ["predict", run, work / "test.csv", "-o", run], "ends in .csv")
    fails(capsys, ["export", run, "-o", run], "the command reads it")
    pairs = tmp_path / "pairs.csv"
    pairs.write_text("user,item\n")
    fails(capsys, ["predict", run, pairs, "-o", pairs], "the command reads it")
    fails(capsys, ["recommend", run, "-o", tmp_path / "best.json"], "ends in .csv")
    fails(capsys, ["fit", work / "train.csv", "-o", tmp_path / "run.csv", *QUICK], "ends in .npz or .zarr")
    assert (copy.read_bytes(), run.read_bytes()) == before
    assert {path.name for path in tmp_path.iterdir()} == {"train.npz", "run.npz", "pairs.csv"}


def test_options_of_others_are_refused(work, tmp_path, capsys):
    run, swapped = work / "run.npz", tmp_path / "swapped.csv"
    fails(capsys, ["recommend", run, "--threshold", 3], "--threshold is of --policy probability")
    fails(capsys, ["recommend", run, "--policy", "mean", "--width", 3], "--width is of --policy ucb")
    fails(capsys, ["recommend", run, "--json", "-o", tmp_path / "x.csv"], "not allowed with")
    lines = [line.split(",") for line in (work / "train.csv").read_text().splitlines()]
    swapped.write_text("\n".join(",".join([b, a, c]) for a, b, c in lines))
    fails(capsys, ["recommend", run, "--seen", swapped], "none of the", "swapped?")


def test_a_full_disk_is_foreseen(work, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=10))
    fails(
        capsys,
        ["fit", work / "train.csv", "-o", tmp_path / "r.npz", *QUICK, "-q"],
        "kB, 10 B are free",
    )
    words = "10 B are free; ask for fewer draws, a smaller rank, or --store-dtype float16"
    fails(capsys, ["fit", work / "train.csv", "-o", tmp_path / "r.zarr", *QUICK, "-q"], words)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (MemoryError(), "not enough memory"),
        (PermissionError(13, "Permission denied", "x.npz"), "x.npz: Permission denied"),
        (psgld.DataError("several\nlines"), "several lines"),
    ],
)
def test_other_failures_are_one_line(error, words, work, tmp_path, capsys, monkeypatch):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr(psgld.Posterior, "save", fail)
    fails(capsys, ["fit", work / "train.csv", "-o", tmp_path / "r.npz", *QUICK, "-q"], words)


def test_a_second_ctrl_c_says_what_is_lost(work, tmp_path, capsys, monkeypatch):
    def insist(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(psgld.Posterior, "save", insist)
    assert main(["fit", str(work / "train.csv"), "-o", str(tmp_path / "r.npz"), *QUICK, "-q"]) == 130
    assert capsys.readouterr().err == "psgld: interrupted; nothing was saved\n"


# -- predict


def table(text):
    return list(csv.DictReader(text.splitlines()))


def test_predict(work, tmp_path, capsys):
    users, items = ["user-1", "user-2", "user-1"], ["item-3", "item-1", "item-3"]
    pairs = write(tmp_path / "pairs.csv", ["user", "item"], users, items)
    assert main(["predict", str(work / "run.npz"), pairs, "--level", "0.5"]) == 0
    out, err = capsys.readouterr()
    got = table(out)
    assert err == "" and list(got[0]) == ["row", "column", "mean", "sd", "low", "high"]
    assert [line["row"] for line in got] == users and [line["column"] for line in got] == items
    prediction = psgld.load(work / "run.npz").predict(users, items)
    low, high = prediction.interval(0.5)
    for name, expected in zip(
        ("mean", "sd", "low", "high"), (prediction.mean, prediction.sd, low, high), strict=True
    ):
        np.testing.assert_allclose([float(line[name]) for line in got], expected, rtol=1e-5)


@pytest.mark.parametrize(
    "text",
    [
        "user-1,item-3\nuser-2,item-1\n",
        "row,column\nuser-1,item-3\n\nuser-2,item-1",
        "item_id\trow\tx\nitem-3\tuser-1\t5\nitem-1\tuser-2\t\n",
        "userId::itemId::rating\nuser-1::item-3::5\nuser-2::item-1::4\n",
        "user-1 item-3\nuser-2   item-1\n",
        '"user-1";"item-3"\n"user-2";"item-1"\n',
    ],
)
def test_forms_of_pairs(text, work, tmp_path, capsys):
    (tmp_path / "pairs.txt").write_text(text)
    options = ["--row", "row", "--col", "item_id"] if "item_id" in text else []
    assert main(["predict", str(work / "run.npz"), str(tmp_path / "pairs.txt"), *options]) == 0
    out, err = capsys.readouterr()
    assert err == "" and [(line["row"], line["column"]) for line in table(out)] == [
        ("user-1", "item-3"),
        ("user-2", "item-1"),
    ]


def test_predict_as_json(work, tmp_path, capsys):
    pairs = write(tmp_path / "pairs.csv", ["user", "item"], ["user-1", "user-2"], ["item-3", "item-1"])
    assert main(["predict", str(work / "run.npz"), pairs, "--json"]) == 0
    got = json.loads(capsys.readouterr().out)
    prediction = psgld.load(work / "run.npz").predict(["user-1", "user-2"], ["item-3", "item-1"])
    assert got["level"] == 0.9 and got["predictions"]["column"] == ["item-3", "item-1"]
    np.testing.assert_array_equal(got["predictions"]["mean"], prediction.mean)
    np.testing.assert_array_equal(got["predictions"]["high"], prediction.interval(0.9)[1])


def test_pairs_from_parquet(work, tmp_path, capsys):
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path, run = tmp_path / "pairs.parquet", work / "run.npz"
    columns = {"x": [1.0, 2.0], "user": ["user-1", "user-2"], "item": ["item-3", "item-1"]}
    parquet.write_table(pa.table(columns), path)
    assert main(["predict", str(run), str(path), "--row", "user", "--col", "item"]) == 0
    assert [line["column"] for line in table(capsys.readouterr().out)] == ["item-3", "item-1"]
    fails(capsys, ["predict", run, path], "2 unknown row label(s): 1, 2;")
    parquet.write_table(pa.table({"user": ["user-1", None], "item": ["item-3", "item-1"]}), path)
    fails(capsys, ["predict", run, path], "1 null(s) in column 'user'")
    parquet.write_table(pa.table({"user": [1, 2], "item": [1.0, float("nan")]}), path)
    fails(capsys, ["predict", run, path], "pairs.parquet: 1 null column label(s)")
    parquet.write_table(pa.table({"user": ["user-1"]}), path)
    fails(capsys, ["predict", run, path], "a row and a column are needed, got ['user']")
    parquet.write_table(pa.table(columns).slice(0, 0), path)
    fails(capsys, ["predict", run, path], "no pairs")
    days = [datetime.datetime(2020, 1, day) for day in (1, 2, 3)]
    parquet.write_table(pa.table({"row": days, "col": [1.0, 2.0, 3.0], "value": [1.0, 2.0, 3.0]}), path)
    post = psgld.sample(path, psgld.FactorModel(1, "gaussian"), draws=2, tune=10)
    post.save(tmp_path / "days.npz")
    assert main(["predict", str(tmp_path / "days.npz"), str(path)]) == 0
    assert table(capsys.readouterr().out)[1]["row"] == "2020-01-02"
    path.write_bytes(b"PAR1 and no more")
    fails(capsys, ["predict", run, path], "pairs.parquet: cannot be read")


def test_predict_to_a_file_from_held_out_entries(work, tmp_path, capsys):
    target = tmp_path / "predictions.csv"
    assert main(["predict", str(work / "run.npz"), str(work / "test.csv"), "-o", str(target)]) == 0
    assert capsys.readouterr() == ("", "")
    assert len(table(target.read_text())) == len((work / "test.csv").read_text().splitlines()) - 1


def test_integer_labels(tmp_path, capsys):
    rows, cols = np.divmod(np.arange(40), 8)
    file = write(tmp_path / "t.csv", None, rows + 101, cols, rows + cols + 1.5)
    assert main(["fit", file, "-o", str(tmp_path / "r.npz"), *QUICK, "-q"]) == 0
    pairs = write(tmp_path / "p.csv", None, [101, 105], [0, 7])
    assert main(["predict", str(tmp_path / "r.npz"), pairs]) == 0
    assert [line["row"] for line in table(capsys.readouterr().out)] == ["101", "105"]
    pairs = write(tmp_path / "p.csv", None, [0, 105], [0, 7])
    fails(capsys, ["predict", tmp_path / "r.npz", pairs], "1 unknown row label(s): '0'")


def test_unknown_labels(work, tmp_path, capsys):
    run = work / "run.npz"
    pairs = write(
        tmp_path / "p.csv", ["user", "item"], ["user-1", "bob", "user-2"], ["item-3", "item-1", "soap"]
    )
    fails(capsys, ["predict", run, pairs], "'bob'", "'soap'", "--skip-unknown")
    assert main(["predict", str(run), pairs, "--skip-unknown"]) == 0
    out, err = capsys.readouterr()
    assert len(table(out)) == 1 and "2 of 3 pairs left out" in err
    pairs = write(tmp_path / "p.csv", ["user", "item"], ["bob"], ["item-1"])
    fails(capsys, ["predict", run, pairs, "--skip-unknown"], "none of the 1 pairs")


def test_a_surprising_header_is_mentioned(work, tmp_path, capsys):
    pairs = write(tmp_path / "p.csv", None, ["user-777", "user-1"], ["item-777", "item-3"])
    assert main(["predict", str(work / "run.npz"), pairs]) == 0
    assert "line 1: taken as a header" in capsys.readouterr().err


def test_predict_errors(work, tmp_path, capsys):
    run, pairs = work / "run.npz", tmp_path / "p.csv"
    fails(capsys, ["predict", run, pairs], "no such file", "p.csv")
    pairs.write_text("\n")
    fails(capsys, ["predict", run, pairs], "empty")
    pairs.write_text("user,item\n")
    fails(capsys, ["predict", run, pairs], "no pairs")
    pairs.write_text("user,item\nuser-1,item-3\nuser-2,\n")
    fails(capsys, ["predict", run, pairs], "p.csv, line 3")
    pairs.write_text("user\nuser-1\n")
    fails(capsys, ["predict", run, pairs], "a row and a column are needed")
    pairs.write_bytes(b"user-1,\xff\xfe\n")
    fails(capsys, ["predict", run, pairs], "not UTF-8")
    packed = tmp_path / "p.csv.gz"
    whole = gzip.compress(b"user-1,item-3\n" * 1000)
    for content in (b"user-1,item-3\n", whole[:-9], whole[:20] + b"\xff\x00" + whole[22:]):
        packed.write_bytes(content)
        fails(capsys, ["predict", run, packed], "p.csv.gz: cannot be read")
    pairs.write_text('"' + 200_000 * "x" + "\n")
    fails(capsys, ["predict", run, pairs], "p.csv: cannot be read")
    fails(capsys, ["predict", run, tmp_path], "is a directory or a pipe")
    pairs.write_text("user-1,item-3\n")
    fails(capsys, ["predict", run, pairs, "--level", "90"], "between 0 and 1", "'90'")
    fails(capsys, ["predict", run, pairs, "--col", "thing"], "no column 'thing'")
    fails(capsys, ["predict", run, pairs, "-o", tmp_path / "no" / "x.csv"], "cannot write")


def test_damaged_runs(work, tmp_path, capsys):
    whole = (work / "run.npz").read_bytes()
    for content in (whole[: len(whole) // 2], b"", b"hello", whole[:-30]):
        (tmp_path / "run.npz").write_bytes(content)
        fails(capsys, ["summary", tmp_path / "run.npz"], "not a psgld posterior, or is damaged")
    fails(capsys, ["summary", tmp_path / "no.npz"], "no such file")


# -- recommend


def test_recommend_is_the_method(work, capsys, tmp_path):
    run = str(work / "run.npz")
    post, seen = psgld.load(run), psgld.Observations.from_file(work / "train.csv")
    users = post.row_labels[[4, 2]].tolist()
    assert (
        main(["recommend", run, *users, "--seen", str(work / "train.csv"), "-n", "3", "--policy", "ucb"]) == 0
    )
    lines = list(csv.reader(capsys.readouterr().out.splitlines()))
    found = post.recommend(users, 3, "ucb", exclude_seen=seen)
    header = ["row", "rank", "column", "score", "mean", "sd", "low", "high"]
    assert lines[0] == header and len(lines) == 7
    assert [line[2] for line in lines[1:]] == found.cols.ravel().tolist()
    assert float(lines[1][3]) == pytest.approx(found.score[0, 0], rel=1e-5)
    assert main(["recommend", run, *users, "-n", "3", "--policy", "ucb"]) == 0  # the run knows what was seen
    assert list(csv.reader(capsys.readouterr().out.splitlines())) == lines
    out = tmp_path / "best.csv"
    assert main(["recommend", run, "--all", "--policy", "thompson", "-o", str(out)]) == 0
    assert len(out.read_text().splitlines()) == 1 + 10 * post.shape[0]
    options = ["--all", "--json", "-n", "1", "--policy", "probability", "--threshold", "3"]
    assert main(["recommend", run, users[0], *options]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["policy"] == "probability" and 0 <= record["recommendations"]["score"][0] <= 1


def test_recommend_refusals(work, capsys):
    run = work / "run.npz"
    fails(capsys, ["recommend", run, "nobody", "--all"], "nobody")
    fails(capsys, ["recommend", run, "--all", "--policy", "probability"], "--threshold")
    fails(capsys, ["recommend", run, "--all", "-n", "0"], "-n: must be")
    fails(capsys, ["recommend", run, "--policy", "best"], "choose from")


# -- evaluate, summary, doctor, demo


def test_evaluate(work, capsys):
    argv = ["evaluate", str(work / "run.npz"), str(work / "test.csv")]
    assert main([*argv, "--json", "--level", "0.8"]) == 0
    scores = json.loads(capsys.readouterr().out)
    test = table((work / "test.csv").read_text())
    values = np.array([float(line["rating"]) for line in test])
    prediction = psgld.load(work / "run.npz").predict([t["user"] for t in test], [t["item"] for t in test])
    assert scores["entries"] == len(values) and scores["coverage"][0]["level"] == 0.8
    assert scores["rmse"] == pytest.approx(np.sqrt(np.mean((values - prediction.mean) ** 2)))
    assert scores["mae"] == pytest.approx(np.mean(np.abs(values - prediction.mean)))
    assert scores["log_density"] == pytest.approx(prediction.log_density(values).mean())
    assert (
        scores["baseline_rmse"] == pytest.approx(values.std()) and 0.5 < scores["coverage"][0]["share"] <= 1
    )
    assert main(argv) == 0
    assert "RMSE" in capsys.readouterr().out


def test_evaluate_errors(work, tmp_path, capsys):
    test = write(tmp_path / "t.csv", None, ["user-1", "bob"], ["item-3", "item-3"], [4, 5])
    fails(capsys, ["evaluate", work / "run.npz", test], "'bob'")
    assert main(["evaluate", str(work / "run.npz"), test, "--skip-unknown", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["entries"] == 1
    twice = write(tmp_path / "t.csv", None, ["user-1", "user-1"], ["item-3", "item-3"], [4, 5])
    assert main(["evaluate", str(work / "run.npz"), twice, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["entries"] == 2
    Path(test).write_text("user,item,rating\n")
    fails(capsys, ["evaluate", work / "run.npz", test], "t.csv: there are no entries in it")


def test_report(work, tmp_path, capsys):
    run, page = str(work / "run.npz"), str(tmp_path / "report.html")
    assert main(["report", run, "-o", page, "--test", str(work / "test.csv"), "--title", "Stars & more"]) == 0
    said = capsys.readouterr()
    assert "held-out entries" in said.out and "saved to" in said.err
    assert "<h1>Stars &amp; more</h1>" in (tmp_path / "report.html").read_text("utf-8")
    assert main(["report", run, "-o", page, "--data", str(work / "train.csv"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == psgld.load(run).shape[0]
    fails(capsys, ["report", run, "-o", str(tmp_path / "report.pdf")], "ends in .html")
    fails(capsys, ["report", run, "-o", run], "the command reads it")


@pytest.mark.parametrize("what", ["overview", "dictionary", "coverage"])
def test_plot(what, work, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    test = ["--test", str(work / "test.csv")]
    assert main(["plot", str(work / "run.npz"), "-o", str(tmp_path / "a.png"), "--what", what, *test]) == 0
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_plot_refusals(work, tmp_path, capsys):
    run = str(work / "run.npz")
    fails(capsys, ["plot", run, "-o", str(tmp_path / "a.png"), "--what", "observed"], "--test FILE")
    fails(capsys, ["plot", run, "-o", str(tmp_path / "a.gif")], "ends in .png")


def test_plot_offers_every_plot():
    plots = pytest.importorskip("psgld.posterior.plots")
    assert {*plot._PLOTS} == {*plots.__all__} - {"least_level", "comparison"}


def test_summary(work, capsys):
    assert main(["summary", str(work / "run.npz")]) == 0
    assert "rank-2" in capsys.readouterr().out
    assert main(["summary", str(work / "run.npz"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["chains"] == 2


def test_doctor(capsys):
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    assert "self-check    ok" in out and "million entries per second" in out
    assert main(["doctor", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["check"]["ok"] and report["cores"] >= 1 and report["instruction_set"]
    assert set(report["required"]) == {"numpy", "scipy", "tqdm"}


def test_doctor_names_what_is_missing(capsys, monkeypatch):
    monkeypatch.setattr("psgld.tools.doctor.installed", lambda name: None)
    monkeypatch.setattr("psgld.tools.doctor.check", lambda: {"ok": False, "problem": "broken"})
    assert main(["doctor"]) == 1
    out = capsys.readouterr().out
    assert "not installed (optional, for plots)" in out and "FAILED: broken" in out


def test_demo(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    out = tmp_path / "tour"
    assert main(["demo", "--small", "-o", str(out)]) == 0
    text = capsys.readouterr().out
    assert {"demo.npz", "demo.png", "train.csv", "test.csv"} == {path.name for path in out.iterdir()}
    assert "RMSE" in text and "90%" in text
    commands = [line.split()[1:] for line in text.splitlines() if line.strip().startswith("psgld ")]
    assert [words[0] for words in commands] == ["summary", "evaluate", "predict", "fit"]
    for words in commands:
        words = [*words[: words.index("|")], "--skip-unknown"] if "|" in words else words
        assert main(words) == 0, words
    capsys.readouterr()
    fails(capsys, ["demo", "--small", "-o", out / "demo.npz"], "demo.npz")


def test_demo_without_matplotlib(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert main(["demo", "--small", "-o", str(tmp_path)]) == 0
    assert "matplotlib is not installed" in capsys.readouterr().out
    assert (tmp_path / "demo.npz").exists() and not (tmp_path / "demo.png").exists()


# -- help, version, pipes


COMMANDS = subparsers(make_parser())


@pytest.mark.parametrize("command", COMMANDS)
def test_each_help_ends_with_an_example(command, capsys):
    """One that its own parser takes."""
    with pytest.raises(SystemExit) as stop:
        main([command, "--help"])
    text = capsys.readouterr().out
    assert stop.value.code == 0 and text.count("Example:\n") == 1
    examples = re.findall(rf"psgld {command}[^\n)\"|]*", text.split("Example:\n")[1])
    assert examples
    for example in examples:
        args = make_parser().parse_args(example.partition(";")[0].split()[1:])
        assert args.command == command
    assert text.rstrip().endswith(COMMANDS[command].epilog.splitlines()[-1].strip())


def test_the_help_of_all_ends_with_an_example(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    text = capsys.readouterr().out
    assert "Example" in text and text.rstrip().endswith("psgld demo")
    assert set(COMMANDS) <= set(re.findall(r"^ +([\w-]+)  ", text, re.MULTILINE))


# -- export


def exported(path):
    if path.suffix == ".csv":
        return pandas.read_csv(path, keep_default_na=False, float_precision="round_trip")
    return pandas.read_parquet(path)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_export_factors_and_draws(suffix, work, tmp_path, capsys):
    post = psgld.load(work / "run.npz")
    path = tmp_path / f"factors{suffix}"
    assert main(["export", str(work / "run.npz"), "-o", str(path), "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    table = exported(path)
    numbers = 2 * (2 + 1) * sum(post.shape)  # chains × (components and bias) × (rows and columns)
    assert record["what"] == "factors" and record["lines"] == len(table) == numbers
    assert record["bytes"] == path.stat().st_size
    assert list(table) == ["factor", "label", "component", "chain", "mean", "sd"]
    one = table[
        (table.factor == "H") & (table.label == "item-7") & (table.component == 1) & (table.chain == 0)
    ]
    at = post.col_labels.tolist().index("item-7")
    assert one["mean"].item() == pytest.approx(post.H[0, :, 1, at].mean(dtype=float), rel=1e-6)
    assert one["sd"].item() == pytest.approx(post.H[0, :, 1, at].std(dtype=float), rel=1e-6)
    path = tmp_path / f"draws{suffix}"
    assert main(["export", str(work / "run.npz"), "-o", str(path), "--what", "draws"]) == 0
    assert "saved to" in capsys.readouterr().err
    draws = exported(path)
    assert len(draws) == 10 * numbers
    W = draws[draws.factor == "W"].sort_values(["chain", "draw"], kind="stable")["value"].to_numpy(np.float32)
    np.testing.assert_array_equal(W.reshape(post.W.shape), post.W)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_export_stats_and_cells(suffix, work, tmp_path):
    post = psgld.load(work / "run.npz")
    for what in ("stats", "cells"):
        assert (
            main(["export", str(work / "run.npz"), "-o", str(tmp_path / f"{what}{suffix}"), "--what", what])
            == 0
        )
    stats, cells = (exported(tmp_path / f"{what}{suffix}") for what in ("stats", "cells"))
    np.testing.assert_array_equal(stats.lp.to_numpy().reshape(2, 10), post.sample_stats["lp"])
    for name, drawn in post.parameters.items():
        np.testing.assert_array_equal(stats[name].to_numpy().reshape(2, 10), drawn)
    assert stats.draw.tolist() == list(range(10)) * 2
    p = post.predict(cells["row"].to_numpy(str), cells["column"].to_numpy(str))
    assert len(cells) == post.shape[0] * post.shape[1]
    np.testing.assert_allclose(cells["mean"], p.mean, rtol=1e-12)
    np.testing.assert_allclose(cells["sd"], p.sd, rtol=1e-9)


def test_export_netcdf(work, tmp_path, capsys):
    xarray = pytest.importorskip("xarray")
    path = tmp_path / "run.nc"
    assert main(["export", str(work / "run.npz"), "-o", str(path)]) == 0
    capsys.readouterr()
    post = psgld.load(work / "run.npz")
    with xarray.open_datatree(path) as tree:
        assert set(tree.children) >= {"posterior", "sample_stats"}
        np.testing.assert_array_equal(tree["posterior"]["W"].values, post.W)
        assert tree["posterior"]["row"].values.tolist() == post.row_labels.tolist()
        np.testing.assert_array_equal(tree["sample_stats"]["diverging"], post.sample_stats["diverging"])
    fails(capsys, ["export", work / "run.npz", "-o", path, "--what", "draws"], "netCDF holds everything")
    assert [p.name for p in tmp_path.iterdir()] == ["run.nc"]


def test_export_refusals(work, tmp_path, capsys, monkeypatch):
    run = work / "run.npz"
    fails(capsys, ["export", run, "-o", tmp_path / "x.xlsx"], "'.xlsx'", ".nc, .csv, .parquet")
    fails(capsys, ["export", run, "-o", tmp_path / "no" / "x.csv"], "there is no directory")
    fails(capsys, ["export", run, "-o", tmp_path / "x.csv", "--what", "all"], "choose from")
    fails(capsys, ["export", tmp_path / "no.npz", "-o", tmp_path / "x.csv"], "no such file")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    fails(capsys, ["export", run, "-o", tmp_path / "x.parquet"], "needs pyarrow", "psgld[export]")
    monkeypatch.setattr("psgld.posterior.export.find_spec", lambda _: None)
    fails(capsys, ["export", run, "-o", tmp_path / "x.nc"], "needs netCDF4, or h5netcdf")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(psgld.DataError, match="what must be one of"):
        export(psgld.load(run), tmp_path / "x.csv", "all")


def test_export_offers_every_table():
    action = next(a for a in COMMANDS["export"]._actions if a.dest == "what")
    assert tuple(action.choices) == tuple(TABLES)


# -- completion


def completed(*words):
    """Return what bash offers for the last word."""
    lines = [completion.script(make_parser()), f"COMP_WORDS=({' '.join(repr(w) for w in ('psgld', *words))})"]
    lines += [f"COMP_CWORD={len(words)}", "_psgld", 'echo "${COMPREPLY[@]}"']
    done = subprocess.run(["bash", "-c", "\n".join(lines)], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return done.stdout.split()


def test_completion_in_bash():
    assert completed("rec") == ["recommend"]
    assert completed("fit", "x.csv", "--li") == ["--likelihood"]
    assert completed("fit", "x.csv", "--likelihood", "po") == ["poisson"]
    assert completed("export", "run.npz", "--what", "") == list(TABLES)
    assert completed("completion", "") == ["bash", "zsh", "fish"]
    assert completed("fit", "") == [] and completed("fit", "-o", "-") == []  # files, by the shell itself
    for command, parser in COMMANDS.items():
        options = {option for action in parser._actions for option in action.option_strings}
        assert set(completed(command, "-")) == options
    assert set(completed("")) >= set(COMMANDS)


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
def test_completion_in_zsh(tmp_path, capsys):
    """In a shell on a terminal of its own, with the key that completes; psgld notes what it was given."""
    assert main(["completion", "zsh"]) == 0
    noting = 'psgld() { print -r -- "$*" >> $HOME/given }\n'
    (tmp_path / ".zshrc").write_text(capsys.readouterr().out + noting)
    lines = {
        "psgld dem\t": "demo",
        "psgld recommend --pol\t": "recommend --policy",
        "psgld fit data --sam\tbpm\t": "fit data --sampler bpmf-gibbs",
        "psgld completion fi\t": "completion fish",
    }
    own, terminal = pty.openpty()
    given = {**os.environ, "ZDOTDIR": str(tmp_path), "HOME": str(tmp_path), "TERM": "dumb"}
    with subprocess.Popen(
        ["zsh", "-i"], stdin=terminal, stdout=terminal, stderr=terminal, env=given, start_new_session=True
    ) as shell:
        os.close(terminal)
        for typed in (*lines, "exit"):
            os.write(own, f"{typed}\n".encode())
        seen = b""
        with contextlib.suppress(OSError):  # the end of the terminal
            while piece := os.read(own, 65536):
                seen += piece
        shell.wait(timeout=60)
    os.close(own)
    found = [line.rstrip() for line in (tmp_path / "given").read_text().splitlines()]
    assert found == [*lines.values()], seen.decode(errors="replace")


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed")
def test_completion_in_fish(tmp_path, capsys):
    assert main(["completion", "fish"]) == 0
    (tmp_path / "script").write_text(capsys.readouterr().out)

    def offered(line: str) -> list[str]:
        argv = ["fish", "--no-config", "-c", f"source {tmp_path}/script; complete -C '{line}'"]
        done = subprocess.run(
            argv, capture_output=True, text=True, check=True, env={**os.environ, "HOME": str(tmp_path)}
        )
        return [words.split("\t")[0] for words in done.stdout.splitlines()]

    assert offered("psgld dem") == ["demo"]
    assert offered("psgld recommend --pol") == ["--policy"]
    assert offered("psgld fit data --sampler bpm") == ["bpmf-gibbs"]
    assert set(offered("psgld completion ")) >= {"bash", "zsh", "fish"}


def test_completion_prints_the_script(capsys):
    assert main(["completion", "bash"]) == 0
    bash = capsys.readouterr().out
    assert main(["completion", "zsh"]) == 0
    zsh = capsys.readouterr().out
    assert zsh.endswith(bash) and "bashcompinit" in zsh and bash == completion.script(make_parser())
    fails(capsys, ["completion", "tcsh"], "choose from")


def test_version_and_no_command(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["--version"])
    assert stop.value.code == 0 and capsys.readouterr().out.strip() == f"psgld {psgld.__version__}"
    assert main([]) == 2
    assert "psgld demo" in capsys.readouterr().out


def test_unknown_command(capsys):
    fails(capsys, ["fti"], "fti")


def test_a_closed_pipe_is_no_error(work):
    pairs = work / "many.csv"
    pairs.write_text("user-1,item-3\n" * 20_000)
    script = f"{sys.executable} -m psgld predict {work / 'run.npz'} {pairs} | head -n 1"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=60)
    assert done.stdout == "row,column,mean,sd,low,high\n" and done.stderr == ""


@pytest.mark.parametrize("closed", ["2>&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_closed_streams(tmp_path, closed):
    """Files that are opened must not be taken for the stream that a shell has closed."""
    (tmp_path / "v.csv").write_text("\n".join(f"{i},{j},{i + j + 1}" for i in range(6) for j in range(5)))
    fit = "fit v.csv -o run.npz --likelihood gaussian --rank 2 --draws 3 --tune 10 --chains 1 --threads 1"
    command = f"{sys.executable} -m psgld {fit} {closed}"
    ran = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert psgld.load(tmp_path / "run.npz").W.shape == (1, 3, 6, 2)
    bad = f"{sys.executable} -m psgld fit no.csv -o x.npz --rank 2 {closed}"
    assert subprocess.run(["bash", "-c", bad], cwd=tmp_path).returncode == 2


def test_formulas_in_labels(tmp_path, capsys):
    """A label that a spreadsheet would run gets an apostrophe, in every CSV; numbers keep their sign."""
    evil = ["=cmd|'/C calc'!A0", "@sum(1)", "+1+1", "-x", "-3", "plain"]
    rows = [(u, f, 3.0 + n % 2) for n, u in enumerate(evil) for f in ("a", "b", "=c")]
    V = psgld.Observations.from_chunks([tuple(zip(*rows, strict=True))])
    quick = {"draws": 3, "tune": 10, "chains": 1, "progress": False}
    psgld.sample(V, psgld.FactorModel(2, "gaussian"), **quick).save(tmp_path / "run.npz")
    (tmp_path / "pairs.csv").write_text("row,column\n" + "\n".join(f'"{u}",a' for u in evil))
    run, out = str(tmp_path / "run.npz"), tmp_path / "out.csv"
    for command in (
        ["predict", run, str(tmp_path / "pairs.csv"), "-o", str(out)],
        ["recommend", run, "--all", "-o", str(out)],
        ["export", run, "-o", str(out), "--what", "cells"],
    ):
        assert main(command) == 0
        assert "that a spreadsheet would run as formulas" in capsys.readouterr().err
        cells = [cell for line in csv.reader(out.read_text().splitlines()) for cell in line]
        assert "'=cmd|'/C calc'!A0" in cells and "plain" in cells and "-3" in cells
        assert not [c for c in cells if c[:1] in ("=", "@") or c in ("+1+1", "-x")]


# -- new rows, more data


def test_fold_in_and_update(work, tmp_path, capsys):
    """A user who was not there: folded in, recommended to, predicted from the prior, then sampled with the rest."""
    new = write(
        tmp_path / "new.csv",
        ["user", "item", "rating"],
        ["zoe"] * 3,
        ["item-1", "item-2", "item-5"],
        [5, 4, 1],
    )
    assert main(["fold-in", str(work / "run.npz"), new, "-o", str(tmp_path / "zoe.npz")]) == 0
    assert capsys.readouterr().err == f"psgld: saved to {tmp_path / 'zoe.npz'}: 1 row(s)\n"
    assert main(["recommend", str(tmp_path / "zoe.npz"), "zoe", "-n", "2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "row,rank,column,score,mean,sd,low,high" and len(lines) == 3
    fails(capsys, ["recommend", work / "run.npz", "zoe"], "unknown row", "psgld fold-in")
    pairs = write(tmp_path / "pairs.csv", ["row", "column"], ["zoe", "user-1"], ["item-1", "item-1"])
    assert main(["predict", str(work / "run.npz"), pairs, "--fallback", "prior"]) == 0
    assert [line.split(",")[0] for line in capsys.readouterr().out.splitlines()] == ["row", "zoe", "user-1"]
    every = tmp_path / "all.csv"
    every.write_text((work / "train.csv").read_text() + "zoe,item-1,5\n")
    more = ["--draws", "5", "--tune", "20", "-q"]
    assert main(["update", str(work / "run.npz"), str(every), "-o", str(tmp_path / "run.npz"), *more]) == 0
    assert "zoe" in psgld.load(tmp_path / "run.npz").row_labels
    fails(capsys, ["update", work / "run.npz", new, "-o", tmp_path / "x.npz"], "are not in V")
    for command in ("update", "fold-in"):
        fails(capsys, [command, work / "run.npz", new, "-o", work / "run.npz"], "cannot write", "reads it")
        fails(capsys, [command, work / "run.npz", new, "-o", tmp_path / "x.txt"], "cannot write", ".npz")
