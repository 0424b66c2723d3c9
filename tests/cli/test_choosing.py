"""From a CSV to a decision: split, fit --holdout, evaluate, compare."""

import json

import numpy as np
import pytest

import psgld
from psgld.cli import main
from psgld.datasets import ratings

QUICK = ["--draws", "10", "--chains", "1", "-q"]


@pytest.fixture
def work(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data = ratings(users=40, items=30, entries=500, rank=1).V
    rows, cols, values = data.entries(np.arange(data.stored))
    lines = (
        f"{data.row_labels[i]},{data.col_labels[j]},{v:g}" for i, j, v in zip(rows, cols, values, strict=True)
    )
    (tmp_path / "all.csv").write_text("user,item,rating\n" + "\n".join(lines) + "\n")
    return tmp_path


def said(capsys, *argv):
    """What a command prints, as JSON."""
    assert main([*argv, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("suffix", ["csv", "npz"])
def test_split(work, capsys, suffix):
    names = f"train.{suffix}", f"test.{suffix}"
    assert said(capsys, "split", "all.csv", *names, "--fraction", "0.2") == {"train": 360, "test": 90}
    train, test = map(psgld.observations, names)
    whole = psgld.observations("all.csv")
    assert train.stored + test.stored == whole.stored
    assert train.mean() * 360 + test.mean() * 90 == pytest.approx(whole.mean() * 450)
    assert main(["split", "all.csv", "all.csv", "test.csv"]) == 2
    assert main(["split", "all.csv", "train.txt", "test.csv"]) == 2
    assert main(["split", "all.csv", "one.csv", "one.csv"]) == 2
    assert "TRAIN and TEST are both one.csv" in capsys.readouterr().err


@pytest.mark.parametrize("run", ["run.npz", "run.zarr"])
def test_fit_evaluate_compare(work, capsys, run):
    fit = [
        "fit",
        "all.csv",
        "-o",
        run,
        "--rank",
        "2",
        "--holdout",
        "0.2",
        "--tune",
        "60",
        "--thin",
        "2",
        *QUICK,
    ]
    assert main(fit) == 0
    found = said(capsys, "evaluate", run, "-k", "3", "--relevant", "4", "--level", "0.5", "--level", "0.9")
    post = psgld.load(run)
    assert found == post.evaluate(levels=(0.5, 0.9), k=3, relevant=4).to_dict()
    assert found["entries"] == 90 and found["seen"] == 0
    assert main(["fit", "all.csv", "-o", "other.npz", *fit[4:]]) == 0
    same = said(capsys, "compare", run, "other.npz")
    assert same["entries"] == 90 and same["names"][0] in (run, "other.npz")
    if run.endswith("zarr"):
        assert main([*fit, "--resume"]) == 0
        assert main([*fit, "--resume", "--holdout", "0.3"]) == 2
        assert "belongs to another run: data" in capsys.readouterr().err


def test_compare_ranks(work, capsys):
    found = said(
        capsys, "compare", "all.csv", "--ranks", "1,2", "--likelihoods", "gaussian", "-o", "best.npz", *QUICK
    )
    assert found["entries"] == 45 and set(found["names"]) == {"rank 1, gaussian", "rank 2, gaussian"}
    assert f"rank {psgld.load('best.npz').model.rank}, gaussian" == found["choice"]
    assert main(["compare", "best.npz"]) == 2 and "two runs or more" in capsys.readouterr().err
    assert main(["compare", "all.csv", "best.npz", "--ranks", "1"]) == 2
    for wrong in (["--ranks", "0"], ["--likelihoods", "normal"]):
        with pytest.raises(SystemExit):
            main(["compare", "all.csv", *wrong])
