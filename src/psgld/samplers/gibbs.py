"""Gibbs sampling of a Poisson factorisation (Cemgil 2009).

    s_ijk | W, H ~ Multinomial(v_ij, w_ik h_kj / μ_ij)
    w_ik | s, H ~ Gamma(a + Σ_j s_ijk, λ + Σ_j h_kj),   h_kj likewise, sums over the observed entries

An entry of weight c counts c times: c v_ij is allocated, which must be a count, and h_kj is added c times.

A sweep draws s, the longer of W and H, the other one, and the learnt rates. Only the two sums of s are kept. The sweep
runs in the core (`gibbs.cpp`, `kernels.cpp`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from .. import _core
from ..data.source import Source
from ..dynamics.probes import Probes
from ..engines import Engine, H, W
from ..errors import DataError, ModelError
from ..models import Exponential, FactorModel, GammaPrior
from ..system import cost
from ..system.record import Recorded
from .base import Distribution, Setup, scale_of
from .plain import PlainChain, PlainFactors
from .settings import check_compiled, check_dtype

_MOST = 2**31 - 1
"""The sums of s are 32-bit integers."""

_ROUNDING = 1e-6
"""Relative error up to which weight × value counts as an integer: weights may be in float32."""


@final
@dataclass(frozen=True)
class Gibbs(Recorded):
    """Settings of the exact sampler for counts, v ~ Poisson(Σ_k w_ik h_kj) with exponential or gamma priors.

    An iteration is a sweep: it allocates every count to components and draws every coefficient. There is no step size.

    Parameters
    ----------
    dtype
        "float32" or "float64".

    Examples
    --------
    >>> import numpy as np, psgld
    >>> V = np.random.default_rng(0).poisson(4.0, size=(30, 20))
    >>> post = psgld.sample(V, psgld.FactorModel(2, "poisson"), sampler=psgld.Gibbs(), draws=50, tune=100)
    >>> post.W.shape
    (2, 50, 30, 2)

    References
    ----------
    Cemgil. Bayesian inference for nonnegative matrix factorisation models. 2009.
    """

    dtype: str = "float32"
    distribution: ClassVar[Distribution | None] = None

    def __post_init__(self) -> None:
        check_dtype(self)

    def cycle(self, data: Source) -> int:
        """Return 1: a sweep reads every entry."""
        return 1

    def default_plan(self, data: Source) -> tuple[int, int]:
        """Return the defaults of tune and thin: few, since a sweep moves further than a Langevin step."""
        return 500, 5

    def prepare(self, data: Source, model: FactorModel, engine: Engine, tune: int) -> GibbsSetup:
        """Raise an error unless the data are counts and the model is Poisson; otherwise convert them for the core."""
        check_compiled(self, engine)
        _check_model(model)
        _check_counts(data.values)
        counts = _weighted_counts(data)
        return GibbsSetup(self, model, data, engine, *scale_of(data, model), _core_counts(data, counts))


@final
@dataclass(frozen=True, eq=False)
class GibbsSetup(Setup):
    """The counts, in the data structure of the core."""

    counts: Any

    @property
    def cycle(self) -> int:
        """A sweep reads every entry."""
        return 1

    @property
    def seconds_per_iteration(self) -> float:
        """An estimate of the time per sweep on one core, in seconds."""
        total = self.data.mean() * self.data.total_weight
        return cost.gibbs_sweep(total, self.data.stored, self.model.components, sum(self.data.shape))

    def chain(self, key: int, probes: Probes, engine: Engine | None = None) -> GibbsChain:
        """Start a chain. The key is its random seed."""
        return GibbsChain(self, key, probes, engine or self.engine)


@final
class GibbsChain(PlainChain):
    """A chain that draws all factors in every sweep."""

    setup: GibbsSetup

    def __init__(self, setup: GibbsSetup, key: int, probes: Probes, engine: Engine) -> None:
        super().__init__(setup, key, _start(setup, key), probes)
        make = _core.Gibbs32 if self.factors.dtype == np.float32 else _core.Gibbs64
        self._core = make(setup.counts, setup.model.components)
        self._pool = _core.Pool(engine.workers)
        self._apply_hyper()

    def advance(self, n: int) -> None:
        """Run n sweeps. Learnt rates and shapes are drawn at the end of each."""
        model = self.setup.model
        learnt = any(mode.prior.learnt for mode in model.modes)
        while n > 0:
            m = 1 if learnt else n
            sides = []
            for which in _order(self.setup.data.shape):
                hyper = self.hyper.modes[which]
                prior: Any = model.modes[which].prior.at_shape(hyper.shape)
                sides += [self.factors.x[which], prior.shape, hyper.rate]
            self._core.advance(self._pool, self.key, self.iteration + 1, m, *sides)
            self._sums = None
            self.iteration += m
            n -= m
            self._draw_hyper(self.iteration)


def _start(setup: GibbsSetup, key: int) -> PlainFactors:
    """Return exponential random factors of the scale of the start hyperparameters."""
    model, start = setup.model, setup.start
    rng = np.random.Generator(np.random.Philox(key=np.array([key, 0], np.uint64)))
    factors = [
        rng.exponential(
            mode.prior.at_shape(hyper.shape).size_at(float(hyper.rate[0])), (n, mode.components)
        ).astype(setup.settings.dtype)
        for n, mode, hyper in zip(setup.data.shape, model.modes, start.modes, strict=True)
    ]
    counts = [setup.data.counts(mode.axis) for mode in model.modes]
    return PlainFactors(factors, model.likelihood, counts, floor=1e-30, logs=model.needs_log_sums)


def _order(shape: tuple[int, int]) -> tuple[int, int]:
    """Return the outer and the inner factor of the core: the longer one comes first."""
    return (W, H) if shape[0] >= shape[1] else (H, W)


def _check_model(model: FactorModel) -> None:
    likelihood = model.likelihood
    if not likelihood.splits:
        raise ModelError(
            f"Gibbs() needs the Poisson likelihood with phi = 1, got {likelihood!r}; use Poisson(), or PSGLD()"
        )
    for mode in model.modes:
        if not isinstance(mode.prior, Exponential | GammaPrior):
            raise ModelError(
                f"Gibbs() needs {mode.names.prior} = Exponential(…) or GammaPrior(…), got {mode.prior!r}; "
                "use one of them, or PSGLD()"
            )


def _check_counts(values: NDArray[Any]) -> None:
    bad = values[(values != np.floor(values)) | (values < 0)]
    if bad.size:
        raise DataError(
            f"Gibbs() needs counts 0, 1, 2, …, but {bad.size} of {values.size} values are not, the first is "
            f"{bad[0]:g}; round them, or use PSGLD(), which takes any value >= 0"
        )


def _weighted_counts(data: Source) -> NDArray[Any]:
    """Return the stored values times their weights; raise DataError unless they are counts."""
    weights = data.entry_weights
    if weights is None:
        return data.values
    counts = weights.astype(np.float64) * data.values
    nearest = np.rint(counts)
    bad = np.abs(counts - nearest) > _ROUNDING * np.maximum(nearest, 1.0)
    if bad.any():
        raise DataError(
            f"Gibbs() allocates weight × value, which must be a count, but {int(bad.sum())} of {len(counts)} products "
            f"are not, the first is {counts[bad][0]:g}; use integer weights, or PSGLD()"
        )
    return nearest


def _seen(data: Source) -> tuple[list[tuple[Any, Any, Any]], float]:
    """Return compressed rows and columns of the entries whose weight is not that of all cells, which is returned too.

    With each of them the difference of the two weights; nothing where it is 1.
    """
    (I, J), weights, none = data.shape, data.entry_weights, np.empty(0)
    if weights is None and data.size == I * J:
        return [(np.empty(0, np.int64), np.empty(0, np.int32), none)] * 2, 1.0
    everywhere = data.zero_weight if data.absent == "zero" else 0.0
    rows = np.repeat(np.arange(I, dtype=np.int32), np.diff(data.indptr))
    extra = np.ones(data.stored) if weights is None else weights.astype(np.float64) - everywhere
    start, index, turned = _sorted(data.indices, rows, extra, J, I)
    if weights is None:
        extra = turned = none
    return [(data.indptr, data.indices, extra), (start, index, turned)], everywhere


def _core_counts(data: Source, values: NDArray[Any]) -> Any:
    """Return the positive counts by row of the longer factor, and the observed entries of both sides."""
    (I, J), swapped = data.shape, _order(data.shape) == (H, W)
    indices = data.indices
    rows = np.repeat(np.arange(I, dtype=np.int32), np.diff(data.indptr))
    seen, everywhere = _seen(data)
    keep = values > 0
    rows, cols, values = rows[keep], indices[keep], values[keep]
    for side, index in (("row", rows), ("column", cols)):
        largest = np.bincount(index, values, minlength=1).max()
        if largest > _MOST:
            raise DataError(
                f"the counts of a {side} add up to {largest:.3g}; Gibbs() allows at most {_MOST:,}; use PSGLD()"
            )
    if swapped:
        rows, cols, (I, J) = cols, rows, (J, I)
        seen.reverse()
    start, index, count = _sorted(rows, cols, values, I, J)
    return _core.Counts(
        I,
        J,
        start,
        index,
        count.astype(np.int32),
        *seen[0][:2],
        *seen[1][:2],
        seen[0][2],
        seen[1][2],
        everywhere,
    )


def _sorted(
    rows: NDArray[np.int32], cols: NDArray[np.int32], values: NDArray[Any], I: int, J: int
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[Any]]:
    """Return the entries as sorted compressed rows (CSR)."""
    start, index, value, *_ = _core.canonical_csr(rows, cols, values, I, J)
    return start, index, value
