"""Good files, made once, that the bad ones are made from."""

from __future__ import annotations

import gzip
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

import psgld

from .trees import Run, Tree, runs, shards

MARKER = "PICKLE-WAS-READ"
"""The file that a pickle makes, among those of an input, if anybody reads it."""


class Originals:
    """Good files, made once in a folder: posteriors, stores, tables. `work` is for the bad ones."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.work = folder, folder / "work"
        self.work.mkdir(parents=True)
        quick: dict[str, Any] = {"draws": 3, "tune": 10, "thin": 1, "chains": 2, "progress": False}
        rng = np.random.default_rng(0)
        counts = psgld.sample(
            rng.poisson(4.0, (6, 5)), psgld.FactorModel(2, "poisson"), track=([0], [1]), **quick
        )
        i, j = np.nonzero(rng.random((7, 6)) < 0.6)
        values = 3.0 + rng.normal(size=len(i))
        data = psgld.Observations.from_coo(i, j, values, (7, 6), row_labels=list("abcdefg"))
        ratings = psgld.sample(
            data, psgld.FactorModel(2, "gaussian", bias=True), store=folder / "run.zarr", **quick
        )
        bursts = psgld.sample(
            rng.negative_binomial(2, 0.3, (6, 5)), psgld.FactorModel(2, "negative-binomial"), **quick
        )
        clicks = psgld.sample(rng.random((6, 5)) < 0.4, psgld.FactorModel(1, "bernoulli"), **quick)
        stars = psgld.sample(rng.integers(1, 5, (6, 5)), psgld.FactorModel(1, "ordinal"), **quick)
        named = {"counts": counts, "ratings": ratings, "bursts": bursts, "clicks": clicks, "stars": stars}
        for name, posterior in named.items():
            posterior.save(folder / f"{name}.npz")
        counts.save(folder / "counts.zarr")
        bursts.save(folder / "bursts.zarr")
        self.posteriors = [(folder / f"{name}.npz").read_bytes() for name in named]
        self.stores = [folder / name for name in ("run.zarr", "counts.zarr", "bursts.zarr")]
        self.files = {store: sorted(p for p in store.rglob("*") if p.is_file()) for store in self.stores}
        self.tables = _tables(folder)
        self.argument_files = sorted(str(p) for p in folder.iterdir() if p != self.work)

    @cached_property
    def runs(self) -> list[Run]:
        """Stores of runs that can be resumed."""
        return runs(self._new("runs"))

    @cached_property
    def shards(self) -> list[Tree]:
        """Shards, and the blocks of a run beside them."""
        return shards(self._new("shards"))

    @cached_property
    def drawn(self) -> dict[Tree, Any]:
        """The draws of W from the shards as they were written."""
        return {tree: tree.drawn() for tree in self.shards}

    @cached_property
    def archives(self) -> list[bytes]:
        """Files `.npz` of data: sparse matrices of every format, and what `Observations.save` writes."""
        return archives(self._new("archives"))

    def _new(self, name: str) -> Path:
        (self.folder / name).mkdir()
        return self.folder / name


def _tables(folder: Path) -> dict[str, bytes]:
    """Write one table in every form that is read; return them by suffix."""
    import pyarrow
    import scipy.io
    import scipy.sparse
    from pyarrow import parquet

    rows, cols = ["ann", "bob", "ann", "cy"], ["x", "x", "y", "z"]
    values, weights = [1.0, 2.5, 4.0, 3.0], [1.0, 0.5, 2.0, 3.0]
    lines = [f"{r},{c},{v},{w}" for r, c, v, w in zip(rows, cols, values, weights, strict=True)]
    text = "\n".join(["user,item,rating,times", *lines, ""])
    files = {
        ".csv": text.encode(),
        ".tsv": text.replace(",", "\t").encode(),
        ".dat": text.replace(",", "::").encode(),
        ".txt": "\n".join(f"{n} {n % 3} {n + 1}" for n in range(9)).encode(),
        ".csv.gz": gzip.compress(text.encode()),
    }
    sparse = scipy.sparse.coo_matrix((values, ([0, 1, 0, 2], [0, 0, 1, 2])))
    scipy.io.mmwrite(folder / "t.mtx", sparse)
    scipy.sparse.save_npz(folder / "t.npz", sparse.tocsr())
    np.save(folder / "t.npy", np.array([[1.0, np.nan], [2.0, 3.0], [0.5, 1.0]]))
    table = pyarrow.table({"user": rows, "item": cols, "rating": values, "times": weights})
    parquet.write_table(table, folder / "t.parquet")
    for suffix, content in files.items():
        (folder / f"t{suffix}").write_bytes(content)
    return files | {s: (folder / f"t{s}").read_bytes() for s in (".mtx", ".npz", ".npy", ".parquet")}


def archives(folder: Path) -> list[bytes]:
    """Write data as SciPy and psgld do, sparse and dense, with labels and without."""
    import scipy.sparse

    X = scipy.sparse.random(6, 4, 0.5, rng=np.random.default_rng(0)) + scipy.sparse.eye(6, 4)
    for form in ("csr", "csc", "bsr", "coo", "dia"):
        scipy.sparse.save_npz(folder / f"{form}.npz", X.asformat(form), compressed=False)
    sparse = psgld.Observations.from_coo([0, 1, 2], [0, 2, 1], [1.0, 2.0, 3.0], row_labels=list("abc"))
    sparse.save(folder / "sparse.npz")
    psgld.observations(sparse, "zero", weights=[1.0, 2.0, 0.5], zero_weight=0.25).save(
        folder / "weighted.npz"
    )
    psgld.Observations.from_dense([[1.0, np.nan], [2.0, 3.0]], col_labels=[5, 3]).save(folder / "dense.npz")
    return [path.read_bytes() for path in sorted(folder.iterdir())]
