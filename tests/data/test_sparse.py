"""Matrices of scipy.sparse: every format gives its entries, and no array of indices is trusted."""

import numpy as np
import pytest
import scipy.sparse as sp

from psgld.data.observations import Observations
from psgld.errors import DataError

FORMATS = ("coo", "csr", "csc", "bsr", "dia", "lil", "dok")
SAVED = FORMATS[:5]


def matrix():
    dense = np.random.default_rng(0).poisson(0.7, (6, 4)).astype(float)
    dense[0, 0] = 3.0
    return dense


@pytest.mark.parametrize("kind", (sp.csr_array, sp.csr_matrix))
@pytest.mark.parametrize("form", FORMATS)
def test_every_format(form, kind, tmp_path):
    X = kind(matrix()).asformat(form)
    V = Observations.from_sparse(X, absent="zero")
    assert np.array_equal(V.filled().dense, matrix())
    if form in SAVED:
        sp.save_npz(tmp_path / "x.npz", X)
        read = Observations.from_file(tmp_path / "x.npz", absent="zero")
        assert read.fingerprint(exact=True) == V.fingerprint(exact=True)


def test_stored_zeros_are_observed_in_every_format():
    X = sp.csr_array(([0.0, 2.0], ([0, 1], [0, 1])), shape=(2, 2))
    assert Observations.from_sparse(X).stored == 2
    for form in ("coo", "csc"):
        assert Observations.from_sparse(X.asformat(form)).stored == 2
    assert Observations.from_sparse(sp.dia_array((np.array([[0.0, 2.0]]), [0]), shape=(2, 2))).stored == 2


def test_diagonals_reach_beyond_the_matrix():
    X = sp.dia_array((np.arange(1.0, 13.0).reshape(2, 6), [-2, 3]), shape=(4, 5))
    V = Observations.from_sparse(X)
    assert np.array_equal(V.filled().values, X.tocsr().data) and V.stored == 4


ARRAYS = {
    "coo": {"data": np.ones(3), "row": np.arange(3), "col": np.arange(3)},
    "csr": {"data": np.ones(3), "indices": np.arange(3), "indptr": np.arange(4)},
    "csc": {"data": np.ones(3), "indices": np.arange(3), "indptr": np.arange(4)},
    "bsr": {"data": np.ones((3, 1, 1)), "indices": np.arange(3), "indptr": np.arange(4)},
    "dia": {"data": np.ones((1, 3)), "offsets": np.array([0])},
}
HOSTILE = {
    "below": lambda a: np.r_[a[:-1], -1],
    "one too many": lambda a: np.r_[a[:-1], 3 if len(a) == 3 else 4],
    "far": lambda a: np.r_[a[:-1], 50_000_000],
    "falling": lambda a: a[::-1],
    "jump": lambda a: np.r_[a[:1], 50_000_000, a[2:]],
    "short": lambda a: a[:-1],
    "long": lambda a: np.r_[a, a[-1]],
    "2-D": lambda a: a[None],
    "floats": lambda a: a + 0.5,
    "text": lambda a: np.array(["x"] * len(a)),
}


@pytest.mark.parametrize("how", HOSTILE)
@pytest.mark.parametrize(
    ("form", "name"), [(form, name) for form, arrays in ARRAYS.items() for name in arrays if name != "data"]
)
def test_hostile_indices_in_a_file(form, name, how, tmp_path):
    """An error of one line; but a permutation, another diagonal and room for more are fine."""
    arrays = {**ARRAYS[form], name: HOSTILE[how](ARRAYS[form][name])}
    np.savez(tmp_path / "x.npz", format=form, shape=np.array([3, 3]), **arrays)
    try:
        V = Observations.from_file(tmp_path / "x.npz")
    except DataError as error:
        assert "\n" not in str(error) and str(error).startswith("x.npz")
    else:
        fine = {"falling": ("row", "col", "indices", "offsets"), "below": ("offsets",), "long": ("indices",)}
        assert name in fine[how]
        assert V.stored == (2 if how == "below" else 3)


@pytest.mark.parametrize("form", ("csr", "csc", "bsr"))
def test_hostile_indices_in_memory(form):
    X = sp.csr_array(np.eye(3)).asformat(form)
    X.indptr[1] = 50_000_000
    with pytest.raises(
        DataError, match="indptr of a sparse matrix must be 4 numbers that increase from 0 to 3"
    ):
        Observations.from_sparse(X)


def test_shapes_that_take_all_memory(tmp_path):
    huge = {"row": np.arange(3), "col": np.arange(3), "shape": np.array([2**31 - 5, 2**31 - 5])}
    np.savez(tmp_path / "x.npz", format="coo", data=np.ones(3), **huge)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("psgld.system.archive.available_memory", lambda: 4 << 30)
        with pytest.raises(
            DataError, match=r"2,147,483,643 × .* of 3 entries needs 17.2 GB of memory, 4.29 GB"
        ):
            Observations.from_file(tmp_path / "x.npz")
