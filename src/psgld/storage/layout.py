"""The layout of a store: groups of arrays with named dimensions, as xarray and ArviZ expect them.

posterior             W (chain, draw, row, component), H (chain, draw, column, component), biases, rates, offset, phi;
                      theta (chain, draw, parameter): the parameters of the likelihood other than phi, if any;
                      under a normal–Wishart prior the mean and the precision matrix of the rows;
                      row_shape and col_shape (chain, draw), if they are learnt
sample_stats          lp, step_size, diverging, iteration, seconds (chain, draw); log_likelihood and log_posterior, if
                      they were asked for
warmup_sample_stats   the same along the burn-in
tracked               rows, cols, and mean, sd of μ there (pair)
seen                  indptr, indices: the observed entries of the data, as compressed rows (CSR)
held_out, observed    rows, cols, values, weights: entries held out of the data, and a sample of those in them (entry)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from ..data.cells import FIELDS, Cells
from ..models import FactorModel, NormalWishart
from ..models.modes import Mode
from ..runs.result import CELLS
from ..runs.traces import FULL

POSTERIOR, STATS, WARMUP = "posterior", "sample_stats", "warmup_sample_stats"
TRACKED, SEEN = "tracked", "seen"

_CHUNK = 1 << 22
"""Approximate bytes per chunk: several draws of small factors, or strips of rows of large ones."""

_MOST = 100_000_000
"""The largest number of chains, draws, marks or pairs in a store: for more, its files could not even be listed."""

_DTYPES = (None, "float16", "float32", "float64")
_TRACE = {"iteration": "int64", "lp": "float64", "step_size": "float64", "diverging": "bool"}
_SECONDS, _FULL = {"seconds": "float64"}, dict.fromkeys(FULL, "float64")


@final
@dataclass(frozen=True)
class Spec:
    """Shape, type and dimensions of an array."""

    shape: tuple[int, ...]
    dtype: str
    dims: tuple[str, ...]

    @property
    def chunks(self) -> tuple[int, ...]:
        """The shape of a chunk: one chain, a few draws, all rows or a strip of them."""
        if self.dims[0] != "chain":
            return tuple(max(1, n) for n in self.shape)
        draw = int(np.prod(self.shape[2:], dtype=np.int64)) * np.dtype(self.dtype).itemsize
        several = min(max(1, self.shape[1]), max(1, _CHUNK // max(1, draw)), 1024)
        if draw <= 4 * _CHUNK:
            return (1, several, *self.shape[2:])
        rows = -(-self.shape[2] // -(-draw // _CHUNK))
        return (1, 1, rows, *self.shape[3:])

    @property
    def fill(self) -> Any:
        """The value of draws that are not yet written."""
        return np.nan if self.dtype.startswith("float") else np.dtype(self.dtype).type(0)

    @property
    def nbytes(self) -> int:
        """The size of the array in bytes."""
        return int(np.prod(np.array(self.shape, dtype=object))) * np.dtype(self.dtype).itemsize


@final
@dataclass(frozen=True)
class Layout:
    """The sizes that determine all shapes.

    `dtype` is that of W, H and the biases, or None if they are not kept. `seen` is the number of observed entries, or
    None if all cells are observed or an older version wrote the store. `normals` says whether m and Λ of a
    normal–Wishart prior are kept, `timed` whether `seconds` are: older versions did not keep them. `full` says whether
    the log likelihood of all entries is. `held_out` and `observed` are numbers of entries, or None if there are none.
    """

    chains: int
    draws: int
    marks: int
    pairs: int
    dtype: str | None
    seen: int | None = None
    normals: bool = True
    timed: bool = True
    full: bool = False
    held_out: int | None = None
    observed: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the sizes, serialisable as JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, record: dict[str, Any]) -> Layout:
        """Return the layout that `to_dict` described; raise ValueError or KeyError if it is not valid."""
        sizes = {name: int(record[name]) for name in ("chains", "draws", "marks", "pairs")}
        if min(sizes.values()) < 0 or max(sizes.values()) > _MOST or record["dtype"] not in _DTYPES:
            raise ValueError(f"the layout has invalid sizes: {record}")
        entries = {name: record.get(name) for name in ("seen", *CELLS)}
        for n in entries.values():
            if n is not None and (not isinstance(n, int) or n < 0):
                raise ValueError(f"the layout has invalid sizes: {record}")
        flags = {name: bool(record.get(name, False)) for name in ("normals", "timed", "full")}
        known: dict[str, Any] = {**sizes, "dtype": record["dtype"], **entries, **flags}
        return cls(**known)

    @property
    def trace(self) -> dict[str, str]:
        """The columns of a trace, and their dtypes."""
        return _TRACE | (_SECONDS if self.timed else {}) | (_FULL if self.full else {})

    def _mode_specs(self, n: int, mode: Mode) -> dict[str, Spec]:
        """Return the arrays of the draws of a mode of n rows."""
        at, names, size = (self.chains, self.draws), mode.names, mode.components
        dims = ("chain", "draw", "component_and_bias" if mode.biases else "component")
        found = {names.rate: Spec((*at, size), "float64", dims)}
        if mode.prior.learns_shape:
            found[names.shape] = Spec(at, "float64", dims[:2])
        if self.normals and isinstance(mode.prior, NormalWishart):
            found[names.mean] = found[names.rate]
            found[names.precision] = Spec((*at, size, size), "float64", (*dims, "other_component"))
        if self.dtype is not None:
            rows = ("chain", "draw", names.dim)
            found[names.factor] = Spec((*at, n, mode.rank), self.dtype, (*rows, "component"))
            if mode.biases:
                found[names.bias] = Spec((*at, n), self.dtype, rows)
        return found

    def specs(self, model: FactorModel, shape: tuple[int, int]) -> dict[str, Spec]:
        """Return every array of the groups by its path."""
        per_draw = (self.chains, self.draws)
        specs = {f"{POSTERIOR}/{n}": Spec(per_draw, "float64", ("chain", "draw")) for n in ("offset", "phi")}
        if others := len(model.likelihood.other_parameters):
            specs[f"{POSTERIOR}/theta"] = Spec((*per_draw, others), "float64", ("chain", "draw", "parameter"))
        for n, mode in zip(shape, model.modes, strict=True):
            specs |= {f"{POSTERIOR}/{name}": spec for name, spec in self._mode_specs(n, mode).items()}
        for group, n in ((STATS, self.draws), (WARMUP, self.marks)):
            for name, dtype in self.trace.items():
                specs[f"{group}/{name}"] = Spec((self.chains, n), dtype, ("chain", "draw"))
        if self.pairs:
            for name in ("rows", "cols", "mean", "sd"):
                dtype = "int64" if name in ("rows", "cols") else "float64"
                specs[f"{TRACKED}/{name}"] = Spec((self.pairs,), dtype, ("pair",))
        if self.seen is not None:
            specs[f"{SEEN}/indptr"] = Spec((shape[0] + 1,), "int64", ("start",))
            specs[f"{SEEN}/indices"] = Spec((self.seen,), "int32", ("entry",))
        for group in CELLS:
            if (number := getattr(self, group)) is not None:
                specs |= {f"{group}/{n}": Spec((number,), t, ("entry",)) for n, t in FIELDS.items()}
        return specs


def cell_arrays(kept: Mapping[str, Cells | None]) -> dict[str, NDArray[Any]]:
    """Return the arrays of the entries that a result keeps, by their paths."""
    return {
        f"{group}/{name}": array
        for group, cells in kept.items()
        if cells is not None
        for name, array in cells.arrays().items()
    }
