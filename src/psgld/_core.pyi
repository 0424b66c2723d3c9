"""Types of the compiled core."""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

_I64: TypeAlias = NDArray[np.int64]
_F64: TypeAlias = NDArray[np.float64]
_Float: TypeAlias = NDArray[np.float32] | NDArray[np.float64]

instruction_set: str

def families() -> dict[str, dict[str, Any]]: ...

class Pool:
    def __init__(self, threads: int) -> None: ...
    @property
    def size(self) -> int: ...

class _Grid:
    def __init__(self, *args: Any) -> None: ...
    def entries(self) -> _I64: ...
    def cut_chunks(self, drawn: float) -> None: ...
    def chunk_entries(self, cells: bool) -> _I64: ...
    def slot_parts(self) -> _I64: ...
    def inner_strips(self) -> _I64: ...
    def inner_counts(self) -> _I64: ...
    def set_inner_counts(self, counts: _I64) -> None: ...
    def fill(
        self,
        start: _I64,
        index: NDArray[np.int32],
        value: _Float,
        ids: _I64,
        strip: int,
        shift: float,
    ) -> bool: ...
    def finish(self) -> None: ...
    @property
    def file_bytes(self) -> int: ...

class Grid32(_Grid): ...
class Grid64(_Grid): ...

class _Chain:
    metric: str
    mirror: bool
    temperature: float
    momentum: float
    phi: float
    key: int
    def __init__(
        self,
        grid: _Grid,
        components: int,
        swapped: bool,
        family: str,
        floor: float,
        zeros: bool,
        close: bool,
    ) -> None: ...
    def set_parameters(self, parameters: _F64) -> None: ...
    def set_prior(self, which: int, inverse: float, linear: _F64, quadratic: _F64) -> None: ...
    def set_coupling(self, which: int, precision: _F64) -> None: ...
    def set_move(self, which: int, move: _F64) -> None: ...
    def set_curvature(self, which: int, curvature: _F64, ridge: _F64) -> None: ...
    def curvature(self, which: int) -> _F64: ...
    def set_bound(self, pool: Pool, which: int, rate: _F64) -> None: ...
    def advance(
        self,
        pool: Pool,
        t: int,
        parts: NDArray[np.int32],
        steps: _F64,
        scales: _F64,
        draws: NDArray[np.int32],
        first: int,
        last: int,
    ) -> None: ...
    def advance_marking(
        self,
        pool: Pool,
        t: int,
        parts: NDArray[np.int32],
        steps: _F64,
        scales: _F64,
        draws: NDArray[np.int32],
        marks: _I64,
        rows: _I64,
        columns: _I64,
        v: _Float,
        W: _Float,
        H: _Float,
    ) -> tuple[_F64, _F64]: ...
    def accumulate(self, pool: Pool, kind: str, part: int) -> None: ...
    def clear_sums(self) -> None: ...
    def add_sums(self, pool: Pool, kind: str, part: int, first: int, last: int) -> None: ...
    def strip_squares(self) -> _F64: ...
    def residuals(self, saved: bool) -> _F64: ...
    def set_residuals(self, saved: bool, residuals: _F64) -> None: ...
    def fresh_squares(self, pool: Pool) -> float: ...
    def strip_grams(self, which: int, strips: _I64) -> _F64: ...
    def sums(self, pool: Pool) -> _F64: ...
    def strip_sums(self, which: int, strips: _I64) -> _F64: ...
    def array(self, which: int, name: str) -> _Float: ...
    def gather(self, pool: Pool, which: int, name: str, out: _Float) -> None: ...
    def scatter(self, which: int, name: str, x: _Float) -> None: ...
    def noise(self, which: int, iteration: int, rows: _I64) -> NDArray[np.float32]: ...
    def positions(self, which: int, rows: _I64) -> _I64: ...
    def mu(self, rows: _I64, cols: _I64) -> _Float: ...
    def log_kernel(self, v: _Float, mu: _Float) -> float: ...
    def log_kernel_at(self, pool: Pool, rows: _I64, columns: _I64, v: _Float) -> float: ...
    def save(self) -> None: ...
    def restore(self) -> None: ...

class Chain32(_Chain): ...
class Chain64(_Chain): ...

class Counts:
    def __init__(
        self,
        outer: int,
        inner: int,
        start: _I64,
        index: NDArray[np.int32],
        count: NDArray[np.int32],
        outer_start: _I64,
        outer_index: NDArray[np.int32],
        inner_start: _I64,
        inner_index: NDArray[np.int32],
    ) -> None: ...

class _Gibbs:
    def __init__(self, data: Counts, components: int) -> None: ...
    def advance(
        self,
        pool: Pool,
        key: int,
        t: int,
        n: int,
        outer: _Float,
        outer_shape: float,
        outer_rate: _F64,
        inner: _Float,
        inner_shape: float,
        inner_rate: _F64,
    ) -> None: ...

class Gibbs32(_Gibbs): ...
class Gibbs64(_Gibbs): ...

class _Draws:
    def __init__(
        self,
        W: _Float,
        H: _Float,
        row_bias: _Float | None,
        col_bias: _Float | None,
        offset: _F64,
        phi: _F64,
        family: str,
        parameters: _F64,
        floor: float,
    ) -> None: ...
    def moments(self, pool: Pool, rows: _I64, cols: _I64, out: _F64) -> None: ...
    def values(
        self,
        pool: Pool,
        rows: _I64,
        cols: _I64,
        kind: str,
        seed: int,
        out: _F64,
    ) -> None: ...
    def quantiles(
        self,
        pool: Pool,
        rows: _I64,
        cols: _I64,
        fresh: bool,
        seed: int,
        probabilities: _F64,
        out: _F64,
    ) -> None: ...
    def share_above(self, pool: Pool, rows: _I64, cols: _I64, threshold: _F64, out: _F64) -> None: ...
    def scores(
        self, pool: Pool, rows: _I64, kind: int, threshold: float, mean: _Float, second: _Float | None
    ) -> None: ...
    def best_by_bound(
        self,
        pool: Pool,
        rows: _I64,
        threshold: float,
        start: _I64,
        seen: NDArray[np.int32],
        allowed: NDArray[np.bool_],
        out: _I64,
    ) -> int: ...

class Draws32(_Draws): ...
class Draws64(_Draws): ...

def best(
    pool: Pool,
    first: _Float,
    second: _Float | None,
    start: _I64,
    seen: NDArray[np.int32],
    allowed: NDArray[np.bool_],
    out: _I64,
) -> None: ...
def fold_in(
    pool: Pool,
    h: _Float,
    phi: _F64,
    linear: _F64,
    quadratic: _F64,
    coupling: _F64,
    inverse: float,
    real: bool,
    offset: _F64,
    family: str,
    parameters: _F64,
    floor: float,
    start: _I64,
    index: NDArray[np.int32],
    value: _F64,
    zeros: bool,
    sweeps: int,
    seed: int,
    out: _Float,
) -> None: ...
def make_pages(pool: Pool, room: _Float) -> None: ...
def add_rows(x: _F64) -> _F64: ...
def dots(x: _Float, y: _Float, i: _I64, j: _I64, out: _Float) -> None: ...

class _Rows:
    def __init__(self, start: _I64, index: NDArray[np.int32], value: _Float, columns: int) -> None: ...

class Rows32(_Rows): ...
class Rows64(_Rows): ...

def draw_normal_rows(
    pool: Pool,
    data: _Rows,
    other: _Float,
    x: _Float,
    precision: _F64,
    linear: _F64,
    move: _F64,
    phi: float,
    shared: bool,
    which: int,
    iteration: int,
    key: int,
) -> int: ...
def sum_residuals(pool: Pool, data: _Rows, other: _Float, x: _Float, zeros: bool) -> float: ...
def gram(x: _Float, out: _F64) -> None: ...
def canonical_csr(
    rows: NDArray[Any], cols: NDArray[Any], values: _Float, n_rows: int, n_cols: int, duplicates: int = 0
) -> tuple[_I64, NDArray[np.int32], _Float, int, int, int]: ...

class LabelIndex:
    def __init__(self) -> None: ...
    def __len__(self) -> int: ...
    def encode(self, labels: _I64) -> NDArray[np.int32]: ...
    def labels(self) -> _I64: ...

def parse_entries(
    text: str, delimiter: str, columns: list[int], width: int
) -> tuple[_I64, _I64, _F64] | None: ...
def group_entries(
    strips: NDArray[np.uint16],
    rows: NDArray[np.int32],
    cols: NDArray[np.int32],
    values: _Float,
    blocks: int,
    row_counts: _I64,
    col_counts: _I64,
) -> tuple[NDArray[np.uint8], _I64, bool]: ...
def place_entries(
    records: NDArray[np.uint8],
    single: bool,
    place: NDArray[np.int32],
    index: NDArray[np.int32],
    first: int,
    last: int,
    rows: NDArray[np.int32],
    cols: NDArray[np.int32],
    values: _Float,
    done: int,
) -> int: ...
def find_non_finite(values: _Float) -> tuple[int, int]: ...
def inspect_rows(
    start: _I64, index: NDArray[np.int32], value: _Float, strips: NDArray[np.uint16], counts: _I64
) -> tuple[int, int, float, float, float, float]: ...
