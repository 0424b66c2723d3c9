"""NumPy's files, read without trust: what their headers promise is looked at before memory is taken."""

import io
import pickle
import zipfile

import numpy as np
import pytest

import psgld
from psgld.errors import DataError
from psgld.system.archive import read_npy, read_npz


def npy(array, **header):
    """Return the bytes of an `.npy` file, with other words in its header."""
    file = io.BytesIO()
    words = {"descr": array.dtype.str, "fortran_order": False, "shape": array.shape} | header
    np.lib.format.write_array_header_1_0(file, words)
    return file.getvalue() + array.tobytes()


@pytest.mark.parametrize(
    "header",
    [
        {"shape": (4,)},
        {"shape": (2,)},
        {"shape": (2**40,)},
        {"shape": (2**62, 4)},
        {"shape": (-3,)},
        {"descr": "<f4"},
        {"descr": "|O"},
        {"descr": [("a", "|O")]},
    ],
)
def test_a_header_that_promises_something_else(header, tmp_path):
    content = npy(np.ones(3), **header)
    (tmp_path / "x.npy").write_bytes(content)
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as file:
        file.writestr("a.npy", content)
    for read, name in ((read_npy, "x.npy"), (read_npz, "x.npz")):
        with pytest.raises(ValueError, match=r"the header of .* says|contains Python objects"):
            read(tmp_path / name)
        with pytest.raises(DataError, match=rf"^{name}: cannot be read: "):
            psgld.observations(tmp_path / name)


def test_no_pickles(tmp_path):
    class Evil:
        def __reduce__(self):
            return (pytest.fail, ("a pickle was read",))

    np.save(tmp_path / "x.npy", np.array([Evil()], object), allow_pickle=True)
    (tmp_path / "y.npy").write_bytes(pickle.dumps(Evil()))
    for name in ("x.npy", "y.npy"):
        with pytest.raises(DataError, match="cannot be read"):
            psgld.observations(tmp_path / name)


@pytest.mark.parametrize("load", (psgld.load, psgld.observations))
def test_a_small_file_that_unpacks_to_more_than_is_free(load, tmp_path, monkeypatch):
    np.savez_compressed(tmp_path / "x.npz", psgld=1, dense=np.zeros((1000, 10_000)))
    assert (tmp_path / "x.npz").stat().st_size < 100_000
    monkeypatch.setattr("psgld.system.archive.available_memory", lambda: 50_000_000)
    with pytest.raises(DataError, match=r"x\.npz needs 80 MB of memory, 50 MB are free"):
        load(tmp_path / "x.npz")


def test_some_of_the_arrays(tmp_path):
    np.savez(tmp_path / "x.npz", a=np.arange(3), b=np.float32(2), c=np.array("text"))
    assert set(read_npz(tmp_path / "x.npz")) == {"a", "b", "c"}
    assert read_npz(tmp_path / "x.npz", ["b"]) == {"b": np.float32(2)}
    with pytest.raises(KeyError):
        read_npz(tmp_path / "x.npz", ["d"])


def test_a_line_without_an_end(tmp_path, monkeypatch):
    import gzip

    (tmp_path / "x.csv.gz").write_bytes(gzip.compress(b"1,2,3\n" + b"0" * 40_000_000))
    with pytest.raises(
        DataError, match=r"x\.csv\.gz: a line has more than 16,777,216 characters; give a table"
    ):
        psgld.observations(tmp_path / "x.csv.gz")
