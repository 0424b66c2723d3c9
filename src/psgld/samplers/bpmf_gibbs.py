"""Gibbs sampling of Gaussian factor models: BPMF (Salakhutdinov & Mnih 2008), and the default Gaussian model.

    w_i | H, m, Λ, φ ~ N(P⁻¹ b, P⁻¹),   P = Λ + Σ_j c_ij h_j h_jᵀ / φ,   b = Λm + Σ_j c_ij v_ij h_j / φ

with sums over the observed columns j of row i, of weight c_ij, 1 by default. H is drawn in the same way, then the
hyperparameters given W and H. One iteration is one sweep. The core draws the rows (`normal_rows.hpp`), each with its
own Cholesky factor.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from .. import _core
from ..data.source import Source
from ..dynamics.probes import Probes
from ..engines import Engine, H, W
from ..errors import ModelError, SamplingError
from ..models import FactorModel
from ..models.priors.normal import NormalFormulas
from ..system import cost
from ..system.record import Recorded
from .base import Distribution, Setup, scale_of
from .plain import PlainChain, PlainFactors
from .settings import check_compiled, check_dtype

Entries: TypeAlias = _core.Rows32 | _core.Rows64
"""The data as compressed rows (CSR), checked by the core."""


@final
@dataclass(frozen=True)
class BPMFGibbs(Recorded):
    """Settings of the sampler: exact, for Gaussian likelihoods with `NormalWishart` or `Normal` priors.

    Parameters
    ----------
    dtype
        "float32" or "float64": the floating-point type of factors and Cholesky factors.

    Examples
    --------
    >>> import numpy as np, psgld
    >>> V = np.random.default_rng(0).normal(size=(30, 20))
    >>> model = psgld.FactorModel(2, "gaussian", psgld.NormalWishart())
    >>> psgld.sample(V, model, sampler=psgld.BPMFGibbs(), draws=50).W.shape
    (2, 50, 30, 2)
    """

    dtype: str = "float32"
    distribution: ClassVar[Distribution | None] = None

    def __post_init__(self) -> None:
        check_dtype(self)

    def cycle(self, data: Source) -> int:
        """Return 1: every iteration reads every entry."""
        return 1

    def default_plan(self, data: Source) -> tuple[int, int]:
        """Return the defaults of tune and thin: few, since a sweep draws every row from its full conditional."""
        return 200, 2

    def prepare(self, data: Source, model: FactorModel, engine: Engine, tune: int) -> BPMFSetup:
        """Raise ModelError unless the rows are conjugate; otherwise return the data by rows and by columns."""
        check_compiled(self, engine)
        _check(model)
        scale = scale_of(data, model)
        values = data.values.astype(np.float64) - scale[0]
        rows = np.repeat(np.arange(data.shape[0], dtype=np.int32), np.diff(data.indptr))
        columns = np.ascontiguousarray(data.indices, np.int32)
        dtype, size = np.dtype(self.dtype), data.shape[::-1]
        turned = _core.canonical_csr(columns, rows, values, *size)
        make: Any = _core.Rows32 if dtype == np.float32 else _core.Rows64
        weights = [np.empty(0, dtype)] * 2
        if (given := data.entry_weights) is not None:
            weights = [given.astype(dtype), _core.canonical_csr(columns, rows, given, *size)[2].astype(dtype)]
        zero_weight = data.zero_weight if data.absent == "zero" else 0.0
        start = np.ascontiguousarray(data.indptr, np.int64)
        entries = (
            make(start, columns, values.astype(dtype), size[0], weights[0], zero_weight),
            make(*turned[:2], turned[2].astype(dtype), size[1], weights[1], zero_weight),
        )
        return BPMFSetup(self, model, data, engine, *scale, entries)


def _check(model: FactorModel) -> None:
    """Raise ModelError unless the rows are normal given the other factor."""
    if not model.likelihood.normal:
        raise ModelError(
            f"BPMFGibbs needs the Gaussian() likelihood, whose rows are normal given the other factor, got "
            f"{model.likelihood!r}; use PSGLD()"
        )
    for mode in model.modes:
        if not isinstance(mode.prior, NormalFormulas):
            raise ModelError(
                f"BPMFGibbs needs NormalWishart() or Normal() priors, got {mode.names.prior} = {mode.prior!r}; "
                "use PSGLD()"
            )


@final
@dataclass(frozen=True, eq=False)
class BPMFSetup(Setup):
    """The entries by rows and by columns."""

    entries: tuple[Entries, Entries]

    @property
    def cycle(self) -> int:
        """The number of iterations in which every entry is read once."""
        return 1

    @property
    def complete(self) -> bool:
        """Whether every entry is observed once: then all rows of a factor have the same precision."""
        return not self.data.weighted and self.data.size == self.data.shape[0] * self.data.shape[1]

    @property
    def entries_per_iteration(self) -> float:
        """The number of entries that are read per sweep: each for its row of W, and for its row of H."""
        return 2.0 * self.data.stored

    @property
    def seconds_per_iteration(self) -> float:
        """An estimate of the time per sweep on one core, in seconds."""
        rows = sum(self.data.shape)
        return cost.normal_sweep(self.data.stored, self.model.components, rows, self.complete)

    def chain(self, key: int, probes: Probes, engine: Engine | None = None) -> BPMFChain:
        """Start a chain. The key is its random seed."""
        return BPMFChain(self, key, probes, engine or self.engine)


@final
class BPMFChain(PlainChain):
    """A chain that draws its factors row by row."""

    setup: BPMFSetup

    def __init__(self, setup: BPMFSetup, key: int, probes: Probes, engine: Engine) -> None:
        data, model = setup.data, setup.model
        counts = [data.counts(mode.axis) for mode in model.modes]
        factors = PlainFactors(_start(setup, key), model.likelihood, counts, floor=-np.inf)
        super().__init__(setup, key, factors, probes)
        self._pool = _core.Pool(engine.workers)
        self._move = tuple(mode.free.astype(float) for mode in model.modes)
        self._apply_hyper()

    def advance(self, n: int) -> None:
        """Run n sweeps: W given H, H given W, the hyperparameters given both."""
        for _ in range(n):
            self.iteration += 1
            self._sums = None
            for which in (W, H):
                self._draw_rows(which)
            self._draw_hyper(self.iteration)

    def _draw_rows(self, which: int) -> None:
        x, other = self.factors.x[which], self.factors.x[1 - which]
        _, linear, quadratic = self._coefficients(which)
        precision = np.diag(quadratic * self._move[which])
        normal = self.hyper.modes[which].normal
        if normal is not None:
            precision += normal.off_diagonal
        complete, data = self.setup.complete, self.setup.data
        if complete or data.absent == "zero":
            precision += data.zero_weight * self.factors.gram(1 - which) / self.hyper.phi
        failures = _core.draw_normal_rows(
            self._pool, self.setup.entries[which], other, x, precision, linear, self._move[which],
            self.hyper.phi, complete, which, self.iteration, self.key,
        )  # fmt: skip
        if failures:
            raise SamplingError(
                f"{failures} rows of {'WH'[which]} have a precision that is not positive definite in "
                f"{self.factors.dtype} (iteration {self.iteration}); use BPMFGibbs(dtype='float64'), or a lower rank"
            )

    def _squared_residuals(self) -> float:
        zeros = self.setup.data.absent == "zero"
        total = _core.sum_residuals(
            self._pool, self.setup.entries[W], self.factors.x[H], self.factors.x[W], zeros
        )
        if zeros:  # Σμ² over all entries
            squares = float(np.sum(self.factors.gram(W) * self.factors.gram(H)))
            total += self.setup.data.zero_weight * squares
        return total


def _start(setup: BPMFSetup, key: int) -> list[NDArray[Any]]:
    """Return random factors of the scale of their priors; biases at their means, fixed components at 1."""
    model, start = setup.model, setup.start
    rng = np.random.Generator(np.random.Philox(key=np.array([key, 0], np.uint64), counter=[0, 0, 0, 1]))
    factors = []
    for rows, mode, hyper in zip(setup.data.shape, model.modes, start.modes, strict=True):
        size = np.array([mode.prior.size_at(float(r)) for r in hyper.rate])
        x = rng.standard_normal((rows, model.components)) * size
        mode.start_biases(x, start.offset)
        factors.append(np.ascontiguousarray(x, setup.settings.dtype))
    return factors
