"""`psgld.optimize`: data and a model in, a point estimate out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, final

import numpy as np

from .data.observations import observations
from .dynamics.probes import Probes
from .engines import Engine, Threads
from .errors import SamplingError
from .models import FactorModel
from .posterior.estimate import Estimate
from .runs.clock import Clock
from .runs.inputs import Seed, chain_keys, check_count, check_kinds, check_model, chosen_model, ready
from .runs.interrupt import Interrupt
from .runs.loop import run
from .runs.progress import Meter, ProgressOption
from .samplers import DSGD, Marks

_HALVINGS = 3
"""Halvings of the step size in a row that bring nothing: the climb is over."""

_MONITORED = 1_000_000


def optimize(
    V: Any,
    model: FactorModel | None = None,
    *,
    rank: int | None = None,
    sampler: DSGD | None = None,
    priors: bool = True,
    engine: Engine | None = None,
    max_passes: int = 1000,
    tolerance: float = 1e-6,
    seed: Seed = 0,
    progress: ProgressOption = None,
) -> Estimate:
    """Find a mode of the posterior p(W, H | V) by distributed stochastic gradient ascent.

        W, H ← argmax log p(V | W, H) + log p(W) + log p(H)

    The step size starts large, and is halved whenever the objective improves by less than the tolerance.
    Hyperparameters that the model would learn are fixed at their initial values, which suit the scale of the data: at
    a joint mode of factors and rates, components would collapse to zero. Fixed rates or precisions, as in
    `Normal(precision=2.0)`, set the strength of the regularisation. The objective has many modes; another `seed` may
    find another.

    Parameters
    ----------
    V
        An array (NaN = unobserved), a `scipy.sparse` matrix, a DataFrame of (row, column, value), a path, or
        `Observations`.
    model
        A `FactorModel`. If it is None, give `rank`; the likelihood is then chosen from the values, with a warning.
    sampler
        `DSGD(…)`: blocks, metric, step size, schedule.
    priors
        Whether to maximise the posterior (MAP). If False, the likelihood alone.
    engine
        `Threads(n)`; all cores by default.
    max_passes
        Maximum number of passes over the data.
    tolerance
        Smallest improvement per pass that counts, in nats per observed entry.
    seed
        An int, a `SeedSequence` or a `Generator`. The same seed gives the same estimate on any number of threads.
    progress
        True, False, None (a progress bar on a terminal only) or a function that is called with a `Progress`.

    Examples
    --------
    >>> import numpy as np, psgld
    >>> rng = np.random.default_rng(0)
    >>> V = rng.poisson(np.outer(rng.gamma(9.0, size=30), rng.gamma(2.0, size=20)))
    >>> estimate = psgld.optimize(V, psgld.FactorModel(rank=1, likelihood="poisson"))
    >>> estimate.converged, estimate.predict([0, 1], [3, 4]).shape
    (True, (2,))
    """
    check_model(model, rank, "optimize")
    settings = DSGD() if sampler is None else sampler
    if not isinstance(settings, DSGD):
        raise SamplingError(f"sampler must be DSGD(…), got {sampler!r}; psgld.sample takes the others")
    engine = Threads() if engine is None else engine
    check_kinds(engine, progress)
    if engine.distributed:
        raise SamplingError(
            f"optimize runs in one process, on Threads(…), got {engine!r}; psgld.sample(sampler='dsgd') runs on MPI()"
        )
    check_count("max_passes", max_passes, least=1)
    if not 0 <= tolerance < np.inf:
        raise SamplingError(f"tolerance must be >= 0 and finite, got {tolerance!r}")
    data = observations(V)
    model = chosen_model(model, rank, data)
    data = ready(data, model, settings.dtype)
    if settings.step_size is None:  # as a sampler begins; the climb itself halves it
        first = settings.prepare(data, model, engine, 1).step_size
        settings = replace(settings, step_size=float(first(np.zeros(1))[0]))
    setup = replace(settings.prepare(data, model, engine, 0), flat=not priors)
    # All entries of small data, a tenth of large ones: what is gained at some entries may be lost at others.
    monitored = min(data.size, max(_MONITORED, data.size // 10))
    chain = setup.chain(chain_keys(seed, 1)[0], Probes.some(data, monitored))
    climb: Any = _Climb(chain, max_passes, tolerance * data.total_weight)
    meter = Meter(progress, max_passes * setup.cycle)
    with Interrupt() as interrupt:
        try:
            for n in run(chain, climb, climb):
                meter.update(n, climb.lp[-1], len(chain.divergences))
                if interrupt.asked:
                    break
        finally:
            meter.close()
    return _estimate(chain, climb, interrupt.asked and not climb.converged)


@final
class _Climb:
    """When to look (`marks`, as a plan tells it) and what to do then (`record`, as a recorder does)."""

    def __init__(self, chain: Any, max_passes: int, least: float) -> None:
        self.chain, self._max_passes, self._least = chain, max_passes, least
        self.lp = [chain.log_posterior()]
        self.passes = [0]
        self.recorded, self.clock = 0, Clock()
        self._vain = 0  # halvings since the last gain

    @property
    def converged(self) -> bool:
        return self._vain >= _HALVINGS

    def marks(self) -> Iterator[tuple[range, bool]]:
        """Yield the iterations at which the climb is checked: after every pass at first, then every tenth or so."""
        done = 0
        while done < self._max_passes and not self.converged:
            done = min(self._max_passes, done + max(1, min(10, done // 10)))
            mark = done * self.chain.setup.cycle
            yield range(mark, mark + 1), False

    def buffers(self, n: int, keep: bool) -> None:
        """Return None: nothing is kept."""

    def record(self, marks: Marks, keep: bool) -> None:
        """Note the log posterior; halve the step size where too little was gained."""
        self.lp += marks.lp
        self.recorded += len(marks.lp)
        self.passes.append(self.chain.iteration // self.chain.setup.cycle)
        if self.lp[-1] - self.lp[-2] >= self._least * (self.passes[-1] - self.passes[-2]):
            self._vain = 0
        else:
            self._vain += 1
            self.chain.step_factor *= 0.5


def _estimate(chain: Any, climb: Any, interrupted: bool) -> Estimate:
    chain.settle()  # it may have been interrupted between two checks
    setup, hyper = chain.setup, chain.hyper
    (W, row_bias), (H, col_bias) = (
        mode.unpack(chain.factors.factor(mode.axis), hyper.offset) for mode in setup.model.modes
    )
    phi = hyper.phi
    if setup.model.likelihood.conjugate:
        phi = chain.factors.fresh_squared_residuals() / setup.data.total_weight
    likelihood = setup.model.likelihood
    theta = likelihood.joined(phi, hyper.theta.tolist())
    return Estimate(
        W=W,
        H=H.T,
        row_bias=row_bias,
        col_bias=col_bias,
        offset=hyper.offset + setup.shift,
        phi=phi,
        row_rate=hyper.row_rate,
        col_rate=hyper.col_rate,
        model=setup.model,
        lp=np.array(climb.lp),
        passes=np.array(climb.passes),
        converged=climb.converged,
        interrupted=interrupted,
        row_labels=setup.data.row_labels,
        col_labels=setup.data.col_labels,
        parameters=dict(zip(likelihood.parameters, theta, strict=True)),
    )
