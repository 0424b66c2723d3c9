"""Several processes on the same store, shards, blocks or file at once: one wins or they share, the others say why."""

import sys
from pathlib import Path

import pytest

pytest.importorskip("zarr")
sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks import together


@pytest.mark.parametrize("target", together.TARGETS)
def test_several_at_once(target):
    """`make torture` has more rounds."""
    for wrong in together.rounds(together.TARGETS[target], 1, seed=list(together.TARGETS).index(target)):
        assert wrong == []


def test_what_is_wrong_is_seen():
    """The check itself: other bits, another exception, something left behind."""
    alone = together.Output(0, "a", "")
    busy = together.Output(
        1, "", "Traceback\npsgld.errors.DataError: x is being written by another run (process 1)"
    )
    check = together.one_wins("is being written by another run", "run.zarr")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(together, "start", lambda *_: None)
        patch.setattr(together, "finish", lambda *_: [alone])
        folder = Path(__file__).parent / "none"
        patch.setattr(Path, "iterdir", lambda _: [Path("run.zarr")])
        assert check(folder, [alone, busy], alone) == []
        assert check(folder, [busy, busy], alone) == ["nobody came to an end"]
        assert len(check(folder, [alone, alone._replace(out="b")], alone)) == 1
        assert len(check(folder, [alone, together.Output(1, "", "KeyError: 'x'")], alone)) == 1
        patch.setattr(Path, "iterdir", lambda _: [Path("run.zarr"), Path(".run.zarr.lock")])
        assert check(folder, [alone], alone) == ["left behind: ['.run.zarr.lock', 'run.zarr']"]
