"""The experiments run, in tiny sizes, and are resumed; their numbers are not tests."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from experiments import curves, ratings, sound
from experiments.__main__ import FIGURES, main
from experiments.folder import Folder


@pytest.mark.parametrize("name", FIGURES)
def test_writes_a_figure(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["--quick", "-o", str(tmp_path), name])
    record = json.loads((tmp_path / f"{name}.json").read_text(encoding="utf-8"))
    assert record["quick"] and record["numbers"] and record["settings"] and record["machine"]["processor"]
    assert record["paragraph"].startswith("The paper") and "We " in record["paragraph"]
    assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    pieces = {file: file.read_bytes() for file in (tmp_path / "pieces").iterdir()}
    main(["--quick", "-o", str(tmp_path), name])
    assert f"{name}: done before" in capsys.readouterr().out
    main(["--quick", "-o", str(tmp_path), name, "--again"])
    assert {file: file.read_bytes() for file in (tmp_path / "pieces").iterdir()} == pieces


def test_an_unknown_figure_is_one_clear_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["nonsense"])
    assert "no figure nonsense; there are parts, mixing" in capsys.readouterr().err


def test_a_piece_is_made_again_if_its_settings_change(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    assert folder.piece("a", {"n": 1}, lambda: {"x": np.arange(2)}) == {"x": [0, 1]}
    assert folder.piece("a", {"n": 1}, lambda: {"x": 7}) == {"x": [0, 1]}
    assert folder.piece("a", {"n": 2}, lambda: {"x": 7}) == {"x": 7}


def test_time_to_a_level() -> None:
    """The first of three points at or above it."""
    found = {"log_likelihood": [-9, 1, -9, 1, 2, 3], "seconds": [1, 2, 3, 4, 5, 6]}
    assert curves.seconds_to(found, 0) == 4
    assert curves.seconds_to(found, 2) is None
    assert curves.seconds_to({"failed": "why"}, 0) is None


def test_the_notes_of_the_excerpt_are_in_its_spectrogram() -> None:
    V = sound.magnitudes(sound.excerpt())
    assert V.shape == (sound.SIZE, sound.SIZE) and (V > 0).all()
    first = V[:, : int(0.4 * sound.RATE / sound.HOP)].sum(axis=1)
    peak = first.argmax() * sound.RATE / sound.WINDOW
    assert peak == pytest.approx(
        440 * 2 ** ((sound.EXCERPT[0].pitch - 69) / 12), abs=sound.RATE / sound.WINDOW
    )


def test_notes_and_templates_are_paired_one_to_one() -> None:
    """Both notes are most like the first template."""
    np.testing.assert_array_equal(sound.matched(np.array([[0.9, 0.8, 0.0], [0.95, 0.1, 0.2]])), [0.8, 0.95])
    np.testing.assert_array_equal(sound.matched(np.array([[0.9], [0.95]])), [-1.0, 0.95])


def test_movielens_is_used_where_it_is(tmp_path: Path) -> None:
    (tmp_path / "ml-100k").mkdir()
    (tmp_path / "ml-100k" / "u.data").write_text("1\t2\t3\t0\n4\t5\t1\t0\n")
    name, V = ratings.data_of(Folder(tmp_path, data=tmp_path))
    assert name == "MovieLens-100K" and V.stored == 2
    assert ratings.data_of(Folder(tmp_path))[0].startswith("synthetic ratings, 943 × 1,682")
